"""http: any search service that takes a query as JSON and returns ids as JSON."""

from __future__ import annotations

import http.client
import json
import re
import string
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from recallatk.adapters.attached import Attached, json_object, shortened
from recallatk.core import Knob
from recallatk.errors import UsageError
from recallatk.redaction import redact_text, without_secrets
from recallatk.references import expanded, expanded_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.batch import QueryBatch
    from recallatk.filters import Filter

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FILTER = re.compile(r"(?<!\$)\$(filter\b|\{filter\})")
_BUSY = (429, 503)
_RETRIES = 5
_FIRST_PAUSE_SECONDS = 0.1


def rendered(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill a JSON template: `"$name"` becomes the value; within a longer text, its JSON."""
    if isinstance(template, dict):
        return {name: rendered(part, values) for name, part in template.items()}
    if isinstance(template, list):
        return [rendered(part, values) for part in template]
    if not isinstance(template, str) or "$" not in template:
        return template
    if template[:1] == "$" and template[1:] in values:
        return values[template[1:]]
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if f"${name}" in template or f"${{{name}}}" in template
    }
    return string.Template(template).substitute(texts)


class Http(Attached):
    """HTTP service with one request per query over one persistent connection.

    In `body`, "$vector", "$k" and "$name" for each search parameter stand for their values, also within a
    text; "$$" is a dollar sign. "$filter" is the filter of the query as JSON, or null; a body without it
    takes no filters. `${NAME}` in `url`, `headers`, `body` and `parameters` expands to an environment
    variable, except in messages. `ids` is a JMESPath to the list of ids. The tests run Chroma's service;
    the following examples come from the documentation of others:

    Elasticsearch, url `https://host:9200/INDEX/_search`, ids `hits.hits[]._id`:
        {"knn": {"field": "FIELD", "query_vector": "$vector", "k": "$k", "num_candidates": "$candidates"},
         "size": "$k", "_source": false}
    OpenSearch, the same url and ids:
        {"query": {"knn": {"FIELD": {"vector": "$vector", "k": "$k"}}}, "size": "$k", "_source": false}
    Weaviate, url `https://host/v1/graphql`, ids `data.Get.CLASS[]._additional.id`:
        {"query": "{ Get { CLASS(limit: $k, nearVector: {vector: $vector}) { _additional { id } } } }"}
    Typesense, url `https://host/multi_search`, ids `results[0].hits[].document.id`:
        {"searches": [{"collection": "NAME", "q": "*", "per_page": "$k",
                       "vector_query": "FIELD:($vector, k:$k)"}]}

    On status 429 and 503 the request is retried a few times, after Retry-After; the wait counts as latency.
    """

    name = "http"
    build_knobs = (
        Knob("url", default="", help="URL of the search endpoint; ${NAME} is taken from the environment"),
        Knob("method", default="POST", choices=("POST", "GET", "PUT")),
        Knob("headers", default="{}", help="headers as a JSON object; ${NAME} is taken from the environment"),
        Knob(
            "body",
            default='{"vector": "$vector", "k": "$k"}',
            help="request body as a JSON template; ${NAME} is taken from the environment",
        ),
        Knob("ids", default="ids", help="JMESPath to the list of ids in the response"),
        Knob("timeout", default=30.0, low=0.01, high=3600.0, help="seconds to wait for a response"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._connection: http.client.HTTPConnection | None = None
        self._template: dict[str, Any] = {}
        self._body: dict[str, Any] | None = None
        self._status = 0
        self._retries = 0
        self._server: str | None = None

    @classmethod
    def can_filter(cls, build: Mapping[str, Any]) -> bool:
        """Whether the body has a "$filter"."""
        return _FILTER.search(str(build.get("body", ""))) is not None

    @classmethod
    def reaches(cls, **parameters: Any) -> str:
        """The service."""
        return "the service"

    def connect(self, parameters: dict[str, Any]) -> None:
        """Read the templates and open the connection."""
        self._method, self._timeout = parameters["method"], float(parameters["timeout"])
        self._headers = self._read_headers(parameters["headers"])
        self._template = json_object(self.name, "body", parameters["body"])
        self.takes_filters = self.can_filter(parameters)
        self._ids, self._ids_text = _compiled(self.name, parameters["ids"]), parameters["ids"]
        self._connection = self._opened(parameters["url"])
        try:
            self._connection.connect()
        except OSError as problem:
            self._connection.close()
            raise self.failed(f"it cannot be reached: {problem}") from None

    def _opened(self, url: str) -> http.client.HTTPConnection:
        filled = expanded(url, "url", self.name)
        try:
            parts = urlsplit(filled)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{self.name}: url. Accepted: http://host/path or https://host/path")
        if parts.username is not None:
            raise UsageError(
                f"{self.name}: url contains a user name. Put credentials into headers, from the environment"
            )
        # Query strings often contain keys.
        self.target = without_secrets(url)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if re.search(r"[^!-~]", self._path):
            raise UsageError(f"{self.name}: url has characters that must be percent-encoded (%XX)")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname, port, timeout=self._timeout)

    def _read_headers(self, text: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        given = expanded(json_object(self.name, "headers", text), "headers", self.name)
        for name, value in given.items():
            filled = str(value)
            if not (filled.isprintable() and filled.isascii() and _HEADER_NAME.fullmatch(name)):
                raise UsageError(f"{self.name}: the header {shortened(name)!r} is not a valid HTTP header")
            headers[name] = filled
        return headers

    def configure(self, **parameters: Any) -> None:
        """Set the parameters of the body, and send one query as a check."""
        self._retries = 0
        self._body = None
        super().configure(**parameters)

    def ask(self, batch: QueryBatch, k: int) -> list[list[object]]:
        """Send one request at a time."""
        filters = batch.filters or [None] * batch.count
        asked = zip(batch.vectors.tolist(), filters, strict=True)
        return [self._answer(query, k, condition) for query, condition in asked]

    def _answer(self, query: list[float], k: int, condition: Filter | None) -> list[object]:
        if self._body is None:
            own = {*self.passed, "vector", "k", "filter"}
            self._body = expanded_template(self._template, "body", f"{self.name}: body", own)
        try:
            sent = None if condition is None else condition.to_json()
            body = rendered(self._body, {**self.passed, "vector": query, "k": k, "filter": sent})
        except KeyError as problem:
            name = problem.args[0]
            raise UsageError(
                f"{self.name}: body uses ${name}, and parameters do not. State {name} under search "
                f"in a bench file, or --search {name}=VALUE for a probe"
            ) from None
        except ValueError as problem:
            raise UsageError(f"{self.name}: body: {problem}. Write a literal dollar as $$") from None
        text = self._text_of(json.dumps(body).encode())
        try:
            said = json.loads(text)
        except ValueError:
            raise self.failed(f"the response is not JSON: {self._shown(text)}") from None
        ids = self._ids.search(said)
        if not isinstance(ids, list):
            raise self.failed(f"{self._ids_text!r} finds no list of ids in the response: {self._shown(text)}")
        return ids

    def _text_of(self, body: bytes) -> bytes:
        """The body of a successful response."""
        for attempt in range(_RETRIES + 1):
            response, text = self._exchange(body)
            self._status = response.status
            self._server = response.getheader("Server") or self._server
            if 200 <= response.status < 300:
                return text
            if response.status not in _BUSY or attempt == _RETRIES:
                break
            pause = _pause(response.getheader("Retry-After"), attempt)
            if pause > self._timeout:
                raise self.failed(f"status {response.status}, and asks to wait {pause:,.0f} s")
            self._retries += 1
            time.sleep(pause)
        raise self.failed(f"status {self._status}: {self._shown(text)}")

    def _exchange(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection
        if connection is None:
            raise self.failed("the connection is closed")
        # A service may close an idle connection; the next request is the first to notice.
        for fresh in (connection.sock is None, True):
            try:
                connection.request(self._method, self._path, body, self._headers)
                response = connection.getresponse()
                return response, response.read()
            except TimeoutError:
                connection.close()
                raise self.failed(f"no answer within {self._timeout:g} s") from None
            except (OSError, http.client.HTTPException) as problem:
                connection.close()
                dropped = isinstance(problem, ConnectionError)
                if fresh or not dropped:
                    reason = shortened(f"{type(problem).__name__}: {problem}")
                    raise self.failed(f"the request failed: {reason}") from None
        raise self.failed("the request failed")

    def _shown(self, text: bytes) -> str:
        return shortened(text.decode("utf-8", "replace")) or "nothing"

    def call(self) -> str:
        """One request and its response."""
        return "HTTP round trip"

    def said(self) -> str:
        """The last status, and the number of busy responses."""
        busy = f", {self._retries:,} requests retried because it was busy" if self._retries else ""
        return f"last status {self._status}{busy}"

    def version(self) -> str | None:
        """The Server header of the service."""
        return None if self._server is None else redact_text(self._server)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _compiled(engine: str, text: str) -> Any:
    import jmespath

    try:
        return jmespath.compile(text)
    except jmespath.exceptions.JMESPathError as problem:
        reason = shortened(str(problem))
        raise UsageError(f"{engine}: ids = {text!r} is not a JMESPath: {reason}") from problem


def _pause(retry_after: str | None, attempt: int) -> float:
    """Seconds to wait: Retry-After in seconds or as a date, else exponential backoff."""
    if retry_after is None:
        return float(_FIRST_PAUSE_SECONDS * 2**attempt)
    if retry_after.strip().isdecimal():
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return float(_FIRST_PAUSE_SECONDS * 2**attempt)
