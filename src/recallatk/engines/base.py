"""What an engine is: build once, configure and search as often as you like; only `search` is timed."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.errors import EngineError, UsageError, choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Corpus, Knob, Metric


class Engine:
    """One kind of index. Subclasses write `build` and `search`, and declare their knobs."""

    name: ClassVar[str]
    metrics: ClassVar[frozenset[Metric]]
    build_knobs: ClassVar[tuple[Knob, ...]] = ()
    search_knobs: ClassVar[tuple[Knob, ...]] = ()

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Make the index of all corpus rows; return when it is ready to be searched."""
        raise NotImplementedError

    def configure(self, **parameters: int) -> None:
        """Set what the next searches use; not timed."""

    def search(self, queries: NDArray[Any], k: int) -> NDArray[np.int64]:
        """The rows that the index holds nearest, best first; -1 at the end where there are no more."""
        raise NotImplementedError

    def exercised(self) -> str:
        """Evidence that the index answered, or an EngineError that says why it did not."""
        raise EngineError(f"{self.name} shows no evidence that its index answered")

    def size_bytes(self) -> int | None:
        """How large the index is when stored; None when it cannot tell."""
        return None

    def version(self) -> str | None:
        """The version of the library behind the engine; None when it cannot tell."""
        return None

    def set_threads(self, count: int) -> None:
        """Use so many threads from now on."""

    def close(self) -> None:
        """Let go of everything; may be called twice."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_metric(engine: type[Engine], metric: Metric) -> None:
    """Refuse a metric that the engine cannot search by."""
    if metric not in engine.metrics:
        raise EngineError(
            f"{engine.name} cannot search by {metric}; it can by {choices(sorted(engine.metrics))}"
        )


def resolved(engine: str, knobs: tuple[Knob, ...], given: dict[str, Any]) -> dict[str, int]:
    """Every knob with its given or default value; unknown names and values out of range are refused."""
    known = {knob.name: knob for knob in knobs}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{engine} has no parameter {name!r}. Accepted: {choices(known) or 'none'}")
        knob = known[name]
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or not knob.low <= value <= knob.high:
            raise UsageError(
                f"{engine}: {name} = {value!r}. Accepted: whole numbers from {knob.low} to {knob.high}"
            )
    return {name: int(given.get(name, knob.default)) for name, knob in known.items()}
