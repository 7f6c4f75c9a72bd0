"""Services and functions as collections: whatever takes a query and returns ids, with a corpus beside it."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from recallatk.adapters.attached import answered_id
from recallatk.adapters.batch import QueryBatch
from recallatk.adapters.callable import Callable as FunctionEngine
from recallatk.adapters.collection import Answer, Collection, CollectionTarget, Discovery
from recallatk.adapters.http import Http
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError, UsageError, kind_of, unknown
from recallatk.redaction import without_secrets

if TYPE_CHECKING:
    import collections.abc as abc
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.attached import Attached
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Corpus
    from recallatk.filters import Filter

_EFFORT = re.compile(r"([A-Za-z_]\w*):(\d+)\.\.(\d+)")
_SHARED = ("metric", "corpus", "effort")
_REQUEST = ("method", "headers", "body", "ids")
_NOT_LISTED = "cannot list its rows"


class AttachedCollection(Collection):
    """An engine that only asks: its rows, its index and whether it writes are its owner's business."""

    engine: Attached

    def __init__(self, engine: Attached, target: CollectionTarget, index: str) -> None:
        self.engine, self.target, self._index = engine, target, index
        self.corpus = target.options.get("corpus")
        self._knobs = _effort_knobs(target)
        self._metric = None if "metric" not in target.options else Metric(target.options["metric"])

    def bind(self, corpus: Corpus) -> None:
        """Take the corpus as the rows that nothing else can list."""
        self.corpus = corpus

    def discovery(self) -> Discovery:
        """What the target itself states; such an engine reports nothing."""
        return Discovery(
            target=self.target.text,
            engine=self.engine.name,
            rows=None,
            dimension=None,
            metric=self._metric,
            index=self._index,
            settings=dict(self.engine.passed),
        )

    def knobs(self) -> tuple[Knob, ...]:
        """The effort parameter that the target names."""
        return self._knobs

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set the parameters that are sent with every query."""
        if settings:
            raise UsageError(f"{self.title} takes no --set. Use --search for its parameters")
        self.engine.configure(**search)

    def without_effort(self) -> str:
        """How to name the parameter that nothing but the user knows."""
        return "it does not say which parameter is the effort. Add effort=ef:10..500 to the target"

    def refusal(self, condition: Filter) -> str | None:
        """None if it takes filters."""
        return None if self.engine.takes_filters else super().refusal(condition)

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One call."""
        batch = QueryBatch(vector[None, :], [condition])
        start = time.perf_counter()
        lists = self.engine.ask(batch, k)
        seconds = time.perf_counter() - start
        if len(lists) != 1:
            raise self.engine.failed(f"it answered one query with {len(lists):,} lists of ids")
        try:
            ids = [answered_id(each) for each in list(lists[0])[:k] if each is not None and each != -1]
        except TypeError as problem:
            raise self.engine.failed(str(problem)) from None
        return Answer(ids, seconds, None)

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Nothing: such an engine answers, and lists no rows."""
        raise UsageError(f"{self.target.text} {_NOT_LISTED}. Use real queries: --queries FILE")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Nothing: the corpus file is the only source of vectors."""
        raise UsageError(
            f"{self.target.text} {_NOT_LISTED}, so there is nothing to compare with. Name what it was made "
            "from: --corpus FILE"
        )

    def close(self) -> None:
        """Disconnect."""
        self.engine.close()


class HttpCollection(AttachedCollection):
    """A search service: the URL is the endpoint, and a configuration file has the request."""

    schemes = ("http", "https")
    options = ("config", *_REQUEST, *_SHARED)

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> Collection:
        """Connect; no query is sent."""
        stated = {**_configuration(target), **target.options}
        stated.pop("config", None)
        request = {name: stated[name] for name in _REQUEST if name in stated}
        parameters: dict[str, Any] = {each.name: each.default for each in Http.build_knobs}
        engine = Http()
        engine.connect({**parameters, **request, "url": target.url, "timeout": limits.seconds})
        # With what a next command needs; headers and bodies may hold secrets.
        own = {name: each for name, each in target.options.items() if name not in ("headers", "body")}
        shown = without_secrets(target.url)
        shown += f"?{urlencode(own, quote_via=quote, safe='/:.[]')}" if own and "?" not in shown else ""
        rest = {name: stated[name] for name in _SHARED if name in stated}
        return cls(engine, CollectionTarget(shown, target.scheme, target.url, rest), "behind a service")


class FunctionCollection(AttachedCollection):
    """A function `search(queries, k, **parameters)`, as for the engine `callable`."""

    schemes = ("function",)
    options = _SHARED

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> Collection:
        """Import the function; it is not called."""
        engine = FunctionEngine()
        engine.connect({"function": target.place})
        return cls(engine, target, "behind a function")

    @classmethod
    def of(
        cls,
        function: abc.Callable[..., Any],
        *,
        metric: str,
        corpus: Any = None,
        effort: str | None = None,
    ) -> FunctionCollection:
        """A function of this program as a collection.

        Args:
            function: `search(queries, k, **parameters)` that returns lists of ids.
            metric: cosine, ip or l2.
            corpus: what the index behind it was made from, in any form.
            effort: its effort parameter and range, such as `ef:10..500`.
        """
        engine = FunctionEngine.of(function)()
        engine.connect({})
        options = {"metric": metric} | ({} if effort is None else {"effort": effort})
        made = cls(engine, CollectionTarget(engine.name, "function", "", options), "behind a function")
        made.corpus = corpus
        return made


def _configuration(target: CollectionTarget) -> dict[str, str]:
    """The request of a service, from the file that the target names."""
    if "config" not in target.options:
        return {}
    path = Path(target.options["config"]).expanduser()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist. config= names a TOML file with body and ids") from None
    except (OSError, ValueError) as problem:
        raise EngineError(f"{path} cannot be read: {problem}") from None
    accepted = [*_REQUEST, *_SHARED]
    for name, value in found.items():
        if name not in accepted:
            raise UsageError(f"{path}: {unknown('name', name, accepted)}")
        if not isinstance(value, str):
            raise UsageError(f"{path}: {name} is {kind_of(value)}. Accepted: a text")
    return found


def _effort_knobs(target: CollectionTarget) -> tuple[Knob, ...]:
    text = target.options.get("effort")
    if text is None:
        return ()
    parts = _EFFORT.fullmatch(text)
    if parts is None or int(parts[2]) < 1 or int(parts[2]) > int(parts[3]):
        raise UsageError(f"effort={text}. Accepted: NAME:LOW..HIGH, such as ef:10..500")
    low, high = int(parts[2]), int(parts[3])
    return (Knob(parts[1], default=low, low=low, high=high, effort=True, help="stated by the target"),)
