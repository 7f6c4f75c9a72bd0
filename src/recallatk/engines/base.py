"""What an engine is: build once, configure and search as often as you like; only `search` is timed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.errors import EngineError, MissingExtraError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Corpus, Knob, Metric
    from recallatk.core.trials import KnobValue
    from recallatk.filters import Filter

    Filters = Sequence[Filter | None] | None


@dataclass(frozen=True)
class Abilities:
    """What an engine can do; what it cannot is said, and never emulated."""

    filters: bool = False
    """It takes filters into account while it searches."""
    updates: bool = False
    """Rows can be inserted and deleted after the build."""
    batch: bool = True
    """It takes many queries in one call."""
    threads: bool = False
    """`set_threads` has an effect."""
    deterministic: bool = False
    """The same data gives the same index, with one thread."""
    saves: bool = False
    """An index can be saved and loaded."""
    exact_search: bool = False
    """It has an exact mode of its own."""
    attaches: bool = False
    """It measures what exists already and builds nothing."""
    clients: bool = False
    """Several threads may search at once, each through its own `client()`."""
    forks: bool = False
    """A forked copy of this process may search on (on Linux), so that clients can be processes."""


@dataclass(frozen=True)
class Constraint:
    """What must hold among parameters, and with `k`, `rows` and `dimension` where these are known."""

    text: str
    names: tuple[str, ...]
    holds: Callable[..., bool]
    """Called with the values of `names`."""


class Engine:
    """One kind of index. Subclasses write `build` and `search`, and declare what they have."""

    name: ClassVar[str]
    family: ClassVar[str] = "other"
    """Engines of one family share a library or a server."""
    distribution: ClassVar[str | None] = None
    """The package on PyPI whose library it drives; imported only when it is used."""
    extra: ClassVar[str | None] = None
    """The extra of this project that brings the package, where it does not come along."""
    metrics: ClassVar[frozenset[Metric]]
    abilities: ClassVar[Abilities] = Abilities()
    build_knobs: ClassVar[tuple[Knob, ...]] = ()
    search_knobs: ClassVar[tuple[Knob, ...]] = ()
    constraints: ClassVar[tuple[Constraint, ...]] = ()
    secret_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that it, or its library, reads a key, a password or a connection string from."""

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """What a build with these parameters starts or contacts that is the user's; None: nothing.

        A dry run leaves it alone.
        """
        return "what it attaches to" if cls.abilities.attaches else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Make the index of all corpus rows anew; return when it is ready to be searched."""
        raise NotImplementedError

    def configure(self, **parameters: Any) -> None:
        """Set what the next searches use; not timed."""

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The rows that the index holds nearest, best first; -1 at the end where there are no more.

        Args:
            queries: (queries, dimension), as they are stored.
            k: how many rows to return for each, at the most.
            filters: what each query may return, for engines that are able to filter.
        """
        raise NotImplementedError

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The same by the engine's own exact mode."""
        raise self.unable("search exactly")

    def exercised(self) -> str:
        """Evidence that the index answers, or an EngineError that says why it does not.

        Once it is built, this is the state of the index or the plan of a search; after searches, what these
        did since the last `configure`.
        """
        raise EngineError(f"{self.name} shows no evidence that its index answered")

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add rows, numbered on from the last."""
        raise self.unable("insert rows")

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out; the others keep their numbers."""
        raise self.unable("delete rows")

    def save(self, folder: Path) -> None:
        """Write the index into an empty folder."""
        raise self.unable("save an index")

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read the index that `save` wrote, of the same corpus and parameters."""
        raise self.unable("load an index")

    def size_bytes(self) -> int | None:
        """How large the index is when stored; None when it cannot tell."""
        return None

    def version(self) -> str | None:
        """The version of the library or server behind the engine; None when it cannot tell."""
        found = installed_version(type(self))
        return None if found is None else f"{self.distribution} {found}"

    def set_threads(self, count: int) -> None:
        """Use so many threads from now on."""

    def call(self) -> str:
        """What one timed search is, in words; asked once the index is built, as the next two are."""
        return "library call"

    def in_process(self) -> bool:
        """Whether the index lives in the memory of this process, which then tells its size."""
        return True

    def memory_bytes(self) -> int | None:
        """What the index holds in memory by the engine's own account; None when it does not say."""
        return None

    def client(self) -> Engine:
        """Another client of the index, built and configured as it is; asked for where it will search.

        That is in a thread of its own, or in a forked copy of the process, with one thread set. Closing it
        closes what is its own; where it is the engine itself, nothing is to be closed.
        """
        if not self.abilities.clients:
            raise self.unable("serve several clients at once")
        return self

    def close(self) -> None:
        """Let go of everything; may be called twice."""

    def unable(self, what: str) -> EngineError:
        """The error that says what it cannot do."""
        return EngineError(f"{self.name} cannot {what}")

    def unbuilt(self) -> EngineError:
        """The error that says that there is no index."""
        return EngineError(f"{self.name}: nothing is built")

    def refuse_filters(self, filters: Filters) -> None:
        """Refuse filters that it could only emulate."""
        if filters is not None and any(each is not None for each in filters):
            raise self.unable("filter while it searches")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def installed_version(engine: type[Engine]) -> str | None:
    """The version of the engine's library; None when it is not installed or has none."""
    from importlib import metadata

    try:
        return None if engine.distribution is None else metadata.version(engine.distribution)
    except metadata.PackageNotFoundError:
        return None


def require_installed(engine: type[Engine]) -> None:
    """Refuse an engine whose library is missing, with the line that installs it."""
    if engine.distribution is None or installed_version(engine) is not None:
        return
    if engine.extra is not None:
        raise MissingExtraError(f"the engine {engine.name}", engine.extra)
    raise UsageError(f"{engine.distribution} is not installed. Install it: pip install {engine.distribution}")


@contextmanager
def importing(engine: type[Engine]) -> Iterator[None]:
    """Turn the absence of a module that the engine imports into the line that installs it."""
    try:
        yield
    except ModuleNotFoundError as problem:
        what = f"{problem.name}, which the engine {engine.name} needs,"
        if engine.extra is not None:
            raise MissingExtraError(what, engine.extra) from problem
        line = f"pip install {engine.distribution or problem.name}"
        raise UsageError(f"{what} is not installed. Install it: {line}") from problem


def require_metric(engine: type[Engine], metric: Metric) -> None:
    """Refuse a metric that the engine cannot search by."""
    if metric not in engine.metrics:
        raise EngineError(
            f"{engine.name} cannot search by {metric}; it can by {choices(sorted(engine.metrics))}"
        )


def resolved(engine: str, knobs: tuple[Knob, ...], given: Mapping[str, Any]) -> dict[str, KnobValue]:
    """Every knob with its given or default value; unknown names and values out of range are refused."""
    known = {knob.name: knob for knob in knobs}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{engine} has no parameter {name!r}. Accepted: {choices(known) or 'none'}")
        if not known[name].accepts(value):
            raise UsageError(f"{engine}: {name} = {value!r}. Accepted: {known[name].accepted}")
    return {name: knob.plain(given.get(name, knob.default)) for name, knob in known.items()}


def require_constraints(engine: type[Engine], **known: Any) -> None:
    """Refuse parameters that cannot be together; what needs a value that is not known yet is passed over."""
    for constraint in engine.constraints:
        values = {name: known[name] for name in constraint.names if name in known}
        if len(values) == len(constraint.names) and not constraint.holds(**values):
            listed = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise UsageError(f"{engine.name} needs {constraint.text}, and has {listed}")
