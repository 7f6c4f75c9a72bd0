"""http: the contract over a service, its bodies and secrets, and services that fail or are busy."""

import json
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from attached_targets import QUERIES, attached, searcher, three_rows

from recallatk import parse_filter
from recallatk.adapters import QueryBatch
from recallatk.adapters.http import Http
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract


class Service(ThreadingHTTPServer):
    """A search service with one index for each path, which can be slow, busy or broken."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.indexes, self.failures, self.requests, self.connections = {}, [], [], set()
        self.delay = 0.0
        self.drops = False
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes, and the second would wait for the first to be acknowledged.
    disable_nagle_algorithm = True

    def version_string(self):
        return "Little/1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        self.server.connections.add(self.client_address)
        time.sleep(self.server.delay)
        status, headers, said = 200, {}, None
        if self.server.failures:
            status, headers, said = self.server.failures.pop(0)
        if said is None:
            (ids,) = self.server.indexes[self.path]([body["vector"]], body["k"])
            said = json.dumps({"hits": [{"_id": each} for each in ids]})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said.encode())))
        self.end_headers()
        self.wfile.write(said.encode())
        self.close_connection = self.server.drops

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def shared_service():
    with Service() as server:
        # It looks this often whether it shall end.
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        ServedHttp.server = server
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def service(shared_service):
    shared_service.failures, shared_service.delay, shared_service.drops = [], 0.0, False
    shared_service.requests.clear()
    shared_service.connections.clear()
    yield shared_service
    shared_service.delay = 0.0


class ServedHttp(Http):
    """The service has an index of whatever the test builds."""

    server = None

    def attach(self, corpus, metric, **parameters):
        path = f"/index-{len(self.server.indexes)}"
        self.server.indexes[path] = searcher(corpus, metric)
        super().attach(corpus, metric, **{**parameters, "url": self.server.url + path})


@pytest.mark.usefixtures("service")
class TestHttp(EngineContract):
    engine = ServedHttp
    build: ClassVar = {"ids": "hits[]._id"}


@pytest.fixture
def asking(service):
    """Attaches to the service's index of three rows."""
    dataset = three_rows(["a", "b", "c"])
    service.indexes["/three"] = searcher(dataset.corpus, dataset.metric)
    made = []

    def ask(search=None, **build):
        build = {"url": f"{service.url}/three", "ids": "hits[]._id", "timeout": 5.0, **build}
        made.append(attached(Http, dataset, build, search))
        return made[-1]

    yield ask
    for engine in made:
        engine.close()


def test_one_connection_serves_all_queries(service, asking):
    engine = asking()
    assert engine.search(QueryBatch(QUERIES), 1).tolist() == [[0], [1], [2]]
    for _ in range(20):
        engine.search(QueryBatch(QUERIES[:1]), 2)
    assert len(service.requests) == 24
    assert len(service.connections) == 1
    assert engine.exercised() == (
        f"23 queries answered by {service.url}/three, last status 200; its index use is unknown"
    )
    assert engine.version() == "Little/1"


def test_a_connection_that_the_service_closed_is_opened_again(service, asking):
    service.drops = True
    engine = asking()
    assert engine.search(QueryBatch(QUERIES), 1).tolist() == [[0], [1], [2]]
    assert len(service.connections) == 4


def test_parameters_of_any_name_fill_the_body(service, asking):
    engine = asking({"ef": 40}, body='{"vector": "$vector", "k": "$k", "ef": "$ef"}')
    engine.search(QueryBatch(QUERIES[:1]), 2)
    assert service.requests[-1][2] == {"vector": [1.0, 0.0, 0.0], "k": 2, "ef": 40}


def test_a_body_with_a_place_for_filters_gets_them_as_json(service, asking):
    body = '{"vector": "$vector", "k": "$k", "where": "$filter"}'
    assert Http.can_filter({"body": body})
    assert not Http.can_filter({"body": '{"vector": "$vector", "price": "$$filter"}'})
    engine, chosen = asking(body=body), parse_filter("category = 'x'")
    engine.search(QueryBatch(QUERIES[:2], [chosen, None]), 1)
    assert [each[2]["where"] for each in service.requests[-2:]] == [chosen.to_json(), None]
    with pytest.raises(EngineError, match="http cannot filter during search"):
        asking().search(QueryBatch(QUERIES[:1], [chosen]), 1)


def test_the_body_is_what_the_template_says(service, asking):
    engine = asking(
        {"parameters": '{"ef": 40, "flags": ["x"], "where": "é"}'},
        body=json.dumps(
            {
                "vector": "$vector",
                "k": "$k",
                "deep": [{"ef": "$ef", "flags": "$flags"}],
                "text": "v:($vector, k:${k}, $where) costs 3 $$",
                "same": 1.5,
            }
        ),
    )
    engine.search(QueryBatch(QUERIES[:1]), 2)
    assert service.requests[-1][2] == {
        "vector": [1.0, 0.0, 0.0],
        "k": 2,
        "deep": [{"ef": 40, "flags": ["x"]}],
        "text": "v:([1.0, 0.0, 0.0], k:2, é) costs 3 $",
        "same": 1.5,
    }


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"body": '{"vector": "$vectr"}'}, r"body uses \$vectr, and parameters do not"),
        ({"body": '{"vector": "5 $"}'}, r"Write a literal dollar as \$\$"),
        ({"body": "{"}, "body is not JSON"),
        ({"body": "[]"}, "Accepted: a JSON object"),
        ({"ids": "hits["}, "is not a JMESPath"),
        ({"url": ""}, "Accepted: http://host/path"),
        ({"url": "ftp://host/"}, "Accepted: http://host/path"),
        ({"url": "http://host:port/"}, "Accepted: http://host/path"),
        ({"url": "http://me:hush@localhost/"}, "the user in the URL may contain a secret"),
        ({"url": "http://me@localhost/"}, "contains a user name"),
        ({"url": "http://localhost/a b"}, "%XX"),
        ({"headers": '{"X": "a\\nb"}'}, "is not a valid HTTP header"),
        ({"headers": '{"X Y": "a"}'}, "is not a valid HTTP header"),
        ({"headers": '{"Authorization": "Bearer hush"}'}, "Take it from the environment"),
        ({"url": "http://localhost/?api_key=hush"}, "api_key in the URL may contain a secret"),
        ({"headers": '{"X": "${RECALLATK_NO_SUCH}"}'}, "variable RECALLATK_NO_SUCH is not set"),
        ({"method": "DELETE"}, "Accepted: POST, GET, PUT"),
    ],
)
def test_parameters_that_cannot_be_are_refused(asking, build, said):
    with pytest.raises(UsageError, match=said) as caught:
        asking(**build)
    assert "hush" not in str(caught.value)


def test_secrets_come_from_the_environment_and_are_never_shown(service, asking, monkeypatch):
    monkeypatch.setenv("MY_KEY", 'hush "hush"/key')
    service.indexes["/three?key=k%20k"] = service.indexes["/three"]
    monkeypatch.setenv("MY_QUERY", "k%20k")
    engine = asking(
        url=f"{service.url}/three?key=${{MY_QUERY}}", headers='{"Authorization": "Bearer ${MY_KEY}"}'
    )
    engine.search(QueryBatch(QUERIES[:1]), 1)
    path, headers, _ = service.requests[-1]
    assert path == "/three?key=k%20k"
    assert headers["Authorization"] == 'Bearer hush "hush"/key'
    assert "k%20k" not in engine.exercised()
    echo = "x" * 150 + json.dumps(headers) + headers["Authorization"] + path
    for status in (401, 200):
        service.failures = [(status, {}, echo)]
        with pytest.raises(EngineError) as caught:
            engine.search(QueryBatch(QUERIES[:1]), 1)
        shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
        assert "hush" not in str(caught.value)
        assert "k%20k" not in shown


def test_the_body_and_its_parameters_take_what_is_no_parameter_from_the_environment(
    service, asking, monkeypatch
):
    monkeypatch.setenv("MY_KEY", 'hush "hush" $5')
    monkeypatch.setenv("MY_TENANT", "we-are-many")
    engine = asking(
        {"parameters": '{"ef": 40, "login": {"token": "${MY_KEY}"}}'},
        body='{"vector": "$vector", "k": "$k", "api_key": "${MY_KEY}", "text": "${ef} $$ ${MY_TENANT}", '
        '"login": "$login", "kept": "$${MY_KEY}"}',
    )
    client = engine.client()
    client.search(QueryBatch(QUERIES[:1]), 1)
    client.close()
    for body in (service.requests[0][2], service.requests[-1][2]):
        assert body["api_key"] == body["login"]["token"] == 'hush "hush" $5'
        assert body["text"] == "40 $ we-are-many"
        assert body["kept"] == "${MY_KEY}"
    service.failures = [(400, {}, json.dumps(body))]
    with pytest.raises(EngineError) as caught:
        engine.search(QueryBatch(QUERIES[:1]), 1)
    assert "hush" not in str(caught.value)
    with pytest.raises(
        UsageError, match=r"http: body: the environment variable RECALLATK_NO_SUCH is not set"
    ):
        asking(body='{"vector": "${RECALLATK_NO_SUCH}"}')


def test_a_failure_says_its_status_and_the_beginning_of_its_body(service, asking):
    engine = asking()
    service.failures = [(404, {}, "no index\n  three " + "x" * 1000)]
    with pytest.raises(EngineError, match=r"http: http://.*/three: status 404: no index three x") as caught:
        engine.search(QueryBatch(QUERIES[:1]), 1)
    assert len(str(caught.value)) < 300
    assert engine.search(QueryBatch(QUERIES[:1]), 1).tolist() == [[0]]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("<html>", "is not JSON: <html>"),
        ('{"found": []}', r"'hits\[\]\._id' finds no list of ids in the response: \{\"found\": \[\]\}"),
        ("", "is not JSON: nothing"),
    ],
)
def test_answers_without_ids_are_refused(service, asking, said, reason):
    engine = asking()
    service.failures = [(200, {}, said)]
    with pytest.raises(EngineError, match=reason):
        engine.search(QueryBatch(QUERIES[:1]), 1)


def test_an_empty_answer_is_a_short_one(service, asking):
    engine = asking()
    service.failures = [(200, {}, '{"hits": []}')]
    assert engine.search(QueryBatch(QUERIES[:1]), 2).tolist() == [[-1, -1]]


def test_a_busy_service_is_asked_again_when_it_says(service, asking):
    engine = asking()
    date = formatdate(time.time() - 60, usegmt=True)
    service.failures = [
        (429, {"Retry-After": "0"}, ""),
        (503, {"Retry-After": date}, ""),
        (503, {"Retry-After": "soon"}, ""),
    ]
    assert engine.search(QueryBatch(QUERIES[:1]), 1).tolist() == [[0]]
    assert "3 requests retried because it was busy" in engine.exercised()
    assert len(service.connections) == 1


def test_a_service_that_stays_busy_is_given_up(service, asking):
    engine = asking()
    service.failures = [(429, {"Retry-After": "0"}, "too many")] * 50
    with pytest.raises(EngineError, match="status 429: too many"):
        engine.search(QueryBatch(QUERIES[:1]), 1)
    assert len(service.requests) == 1 + 6
    service.failures = [(503, {"Retry-After": "3600"}, "")]
    with pytest.raises(EngineError, match="status 503, and asks to wait 3,600 s"):
        engine.search(QueryBatch(QUERIES[:1]), 1)


def test_a_service_that_is_silent_is_given_up_and_can_be_asked_again(service, asking):
    engine = asking(timeout=0.5)
    service.delay = 1.0
    with pytest.raises(EngineError, match=r"no answer within 0\.5 s"):
        engine.search(QueryBatch(QUERIES[:1]), 1)
    service.delay = 0.0
    assert engine.search(QueryBatch(QUERIES[1:2]), 1).tolist() == [[1]]


def test_a_service_that_is_not_there_is_an_error_when_attaching(asking):
    with pytest.raises(EngineError, match=r"http: http://127\.0\.0\.1:9/x: it cannot be reached: "):
        asking(url="http://127.0.0.1:9/x")


def test_a_client_has_a_connection_of_its_own_and_tells_the_same(service, asking):
    engine = asking({"parameters": '{"ef": 7}'}, body='{"vector": "$vector", "k": "$k", "ef": "$ef"}')
    client = engine.client()
    assert client.search(QueryBatch(QUERIES), 1).tolist() == [[0], [1], [2]]
    assert service.requests[-1][2]["ef"] == 7
    assert len(service.connections) == 2
    assert client.exercised().startswith("3 queries answered by ")
    client.close()
    assert engine.search(QueryBatch(QUERIES), 1).tolist() == [[0], [1], [2]]
    assert len(service.connections) == 2
    assert engine.call() == "HTTP round trip"
    assert not engine.in_process()
