"""The engine contract: build once, configure and search as often as you like; only `search` is timed."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from recallatk.adapters.inputs import Inputs, missing_inputs
from recallatk.adapters.installation import installed_version
from recallatk.adapters.names_elsewhere import PARAMETERS
from recallatk.adapters.snippet import json_snippet
from recallatk.errors import EngineError, FilterError, UsageError, choices, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.adapters.memory_model import Content
    from recallatk.adapters.snippet import Setting
    from recallatk.core import Corpus, Dataset, Knob, Metric
    from recallatk.core.stages import StageTrace
    from recallatk.core.trials import KnobValue
    from recallatk.filters import Filter


@dataclass(frozen=True)
class Abilities:
    """Optional abilities of an engine; it refuses all others and emulates none."""

    filters: bool = False
    """Applies filters during the search."""
    updates: bool = False
    """Rows can be inserted and deleted after the build."""
    reads_during_writes: bool = False
    """A `client()` may search while another thread inserts or deletes."""
    batch: bool = True
    """Takes many queries in one call."""
    threads: bool = False
    """`set_threads` has an effect."""
    deterministic: bool = False
    """With one thread, the same data give the same index."""
    exact_search: bool = False
    """Has its own exact mode."""
    attaches: bool = False
    """Measures an existing index and builds nothing."""
    clients: bool = False
    """Several threads may search at once, each through its own `client()`."""
    forks: bool = False
    """Forked processes may search (on Linux), so that clients can be processes."""


@dataclass(frozen=True)
class Constraint:
    """Condition on parameters and, once known, on `k`, `rows` and `dimension`."""

    text: str
    names: tuple[str, ...]
    holds: Callable[..., bool]
    """Called with the values of `names`."""


class FilterCounts(NamedTuple):
    """Work of the filter in the search of one query."""

    returned: int
    """Rows that the index returned to the filter."""
    removed: int
    """Rows among them that the filter removed."""


class Engine:
    """Base class of engines: one kind of index with its parameters and abilities.

    Subclasses write `build` and `nearest`, give evidence in `exercised`, and declare further abilities.
    """

    name: ClassVar[str]
    family: ClassVar[str] = "other"
    """Engines of one family share a library or a server."""
    distribution: ClassVar[str | None] = None
    """PyPI package of its library, which is imported on first use."""
    extra: ClassVar[str | None] = None
    """Extra of this project that installs the package; None if it is always installed."""
    metrics: ClassVar[frozenset[Metric]]
    abilities: ClassVar[Abilities] = Abilities()
    build_knobs: ClassVar[tuple[Knob, ...]] = ()
    search_knobs: ClassVar[tuple[Knob, ...]] = ()
    free_search: ClassVar[bool] = False
    """Settings may state search parameters of any name, besides the declared knobs."""
    stated_build_knobs: ClassVar[tuple[Knob, ...]] = ()
    stated_search_knobs: ClassVar[tuple[Knob, ...]] = ()
    """Knobs that a trial records only if its settings state them."""
    deprecated_search: ClassVar[frozenset[str]] = frozenset()
    """Search knobs of an earlier version, which settings may still state."""
    constraints: ClassVar[tuple[Constraint, ...]] = ()
    list_knob: ClassVar[str | None] = None
    """Build knob for the number of lists; suggested grids scale it with the rows."""
    quantized: ClassVar[bool] = False
    """Every build compares codes instead of whole vectors."""
    whole_vectors: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    """Build knob for the storage type, and its values that keep whole vectors."""
    column_indexes: ClassVar[bool | None] = None
    """Whether it indexes the columns of filters; None if it has no such indexes."""
    secret_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables from which it or its library reads a key, a password or a connection string."""
    search_choices: ClassVar[Mapping[str, tuple[KnobValue, ...]]] = MappingProxyType({})
    """Values of search parameters without an effort that a tuning tries each."""
    inputs: ClassVar[Inputs] = Inputs()
    declaration: ClassVar[Mapping[str, Any] | None] = None
    """The JSON form of an engine that no package registers, from which another process can make it."""

    rows = 0
    """Rows numbered so far; an insert continues from here."""
    threads = 1
    searched = 0
    """Queries answered since the last `configure`."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Search parameters of the last `configure`."""

    # Before a build

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The user's program, service or server that a build would start or contact; None if there is none.

        A dry run skips such builds.
        """
        return "the index that it attaches to" if cls.abilities.attaches else None

    @classmethod
    def can_filter(cls, build: Mapping[str, Any]) -> bool:
        """Whether an index of this build can filter."""
        return cls.abilities.filters

    @classmethod
    def unaccepted(cls, name: str) -> str | None:
        """Reason to refuse a free search parameter of this name; None if accepted or not known yet."""
        return None

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Refuse data that do not match an existing index; engines that build accept any data."""

    @classmethod
    def prepared(cls, queries: NDArray[Any], metric: Metric) -> NDArray[Any]:
        """Query vectors in the form that searches need, prepared before the clock starts."""
        return queries

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code to paste that builds the index and searches it with this setting; JSON by default."""
        return json_snippet(setting)

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
        """The memory model: bytes that an index of this build holds; None without a model."""
        return None

    @classmethod
    def codes(cls, build: Mapping[str, Any]) -> str | None:
        """Description of the quantization of a build; None if it compares whole vectors."""
        name, whole = cls.whole_vectors or ("", ())
        if name in build and build[name] not in whole:
            return f"{name}={build[name]}"
        return cls.name if cls.quantized else None

    # Building and searching

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Build the index of all corpus rows from scratch; return when it is ready."""
        raise NotImplementedError

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Attach to an existing index instead of building one; must not change it.

        The corpus maps the ids of the index to rows. Needs `abilities.attaches`.
        """
        raise self.unable("attach to an existing index")

    def configure(self, **parameters: Any) -> None:
        """Set the parameters of the next searches and reset their count; not timed."""
        self.settings, self.searched = parameters, 0

    def search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Row numbers nearest to each query, best first: (queries, k), -1 at the end where there are no more.

        This is the timed call. It refuses filters that the engine cannot apply, and counts the queries.
        """
        if batch.filters is not None:
            self.refuse_filters(batch)
        rows = self.nearest(batch, k)
        # Keep += free of calls, so that it stays atomic under the GIL when clients are threads.
        self.searched += batch.count
        try:
            short = rows.shape[1] < k
        except (AttributeError, IndexError):
            return rows  # not a matrix: the caller refuses it with a message
        return np.pad(rows, ((0, 0), (0, k - rows.shape[1])), constant_values=-1) if short else rows

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows in at most k columns; must not change queries or corpus."""
        raise NotImplementedError

    def refusal(self, condition: Filter) -> str | None:
        """Reason why the built index cannot apply this filter natively; None if it can.

        Asked once per distinct filter, before the clock starts. Queries whose filter is refused are not sent.
        """
        try:
            self.compiled(condition)
        except (EngineError, FilterError) as problem:
            return str(problem)
        return None

    def compiled(self, condition: Filter) -> object:
        """The filter in the engine's own form, or an EngineError or FilterError if it has none.

        Must not search or wait for a server. An engine with `abilities.filters` takes all filters by default.
        """
        if not self.abilities.filters:
            raise self.unable("filter during search")
        return condition

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Search with the engine's own exact mode over the original vectors; keeps the settings.

        Needs `abilities.exact_search`.
        """
        raise self.unable("search exactly")

    def exercised(self) -> str:
        """Evidence that the index answers, or an EngineError that says why it does not.

        After a build, this is the state of the index or the plan of a search; after searches, what these
        did since the last `configure`.
        """
        raise EngineError(f"{self.name} gives no evidence that its index answered")

    def begin_trace(self) -> None:
        """Start to record what each stage of a search does; engines without stages record nothing."""

    def end_trace(self) -> StageTrace | None:
        """What the stages did since `begin_trace`; None if the engine has none, or recorded no call."""
        return None

    def scans(self) -> bool:
        """Whether a search with the current settings compares every row, or its code, with the query."""
        return False

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Whether the index has each of these rows, found out without a search; None if it cannot tell."""
        return None

    def visits(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Whether the search of one query visits the part of the index with each row; None if unknown."""
        return None

    def filter_counts(self, batch: QueryBatch, k: int) -> FilterCounts | None:
        """Rows that the index returned for one filtered query, and how many of them the filter removed.

        The engine searches once more with the current settings and counts; the answer is not used. None if it
        cannot count, if it filters before or during the index search, or if the index did not answer.
        """
        return None

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows, numbered after the last row; later searches find them.

        Numbers of deleted rows are never reused. Needs `abilities.updates`.

        Args:
            vectors: (rows, dimension).
            metadata: one row for each vector, of the corpus columns; columns that are missing are null.
                Engines that cannot filter ignore it.
        """
        raise self.unable("insert rows")

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Remove rows from later searches; the others keep their numbers. Needs `abilities.updates`."""
        raise self.unable("delete rows")

    def maintain(self) -> None:
        """Run maintenance after updates, such as vacuum, optimize or merge; rows keep their numbers.

        Does nothing by default. Returns when maintenance is done.
        """

    def size_bytes(self) -> int | None:
        """Bytes of the stored index; None if unknown."""
        return None

    def version(self) -> str | None:
        """Version of the library or server; None if unknown."""
        found = installed_version(type(self))
        return None if found is None else f"{self.distribution} {found}"

    def set_threads(self, count: int) -> None:
        """Use this many threads from now on."""
        self.threads = count

    def call(self) -> str:
        """Description of one timed search; like the next two, called after the build."""
        return "library call"

    def in_process(self) -> bool:
        """Whether the index is in the memory of this process, so that its size can be measured."""
        return True

    def memory_bytes(self) -> int | None:
        """Index memory in bytes as the engine reports it; None if it does not."""
        return None

    def client(self) -> Engine:
        """Another client of this index with the same configuration.

        Called in the thread or forked process that will search with it, limited to one search thread. Closing
        a client releases only its own resources; do not close it if it is the engine itself.
        """
        if not self.abilities.clients:
            raise self.unable("serve several clients at once")
        return self

    def close(self) -> None:
        """Release everything; may be called twice."""

    # Helpers for adapters

    def unable(self, what: str) -> EngineError:
        """The error for an ability that the engine lacks."""
        return EngineError(f"{self.name} cannot {what}")

    def unbuilt(self) -> EngineError:
        """The error for a missing index."""
        return EngineError(f"{self.name}: no index is built")

    def refuse_filters(self, batch: QueryBatch) -> None:
        """Refuse filters that the engine could only emulate."""
        if batch.filters is not None and not self.abilities.filters:
            raise self.unable("filter during search")

    def next_numbers(self, count: int) -> NDArray[np.int64]:
        """Row numbers for an insert; the caller adds their count to `rows` after inserting."""
        return np.arange(self.rows, self.rows + count)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Library(Engine):
    """Base class for an index that a library holds in this process."""

    index: Any = None

    def exercised(self) -> str:
        """Content of the index and, after searches, their work."""
        if self.index is None:
            raise self.unbuilt()
        done = self.work() if self.searched else ""
        return f"{self.held()}; {done}" if done else self.held()

    def held(self) -> str:
        """Content of the index, in words."""
        raise NotImplementedError

    def work(self) -> str:
        """Work of the searches since the last `configure`, in words; may be empty."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the index."""
        self.index, self.rows, self.searched = None, 0, 0


def require_metric(engine: type[Engine], metric: Metric) -> None:
    """Refuse a metric that the engine cannot search by."""
    if metric not in engine.metrics:
        raise EngineError(
            f"{engine.name} does not support the metric {metric}. Accepted: {choices(sorted(engine.metrics))}"
        )


def require_filters(
    engine: type[Engine], filtered: str | None, build: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Refuse an engine that could only emulate filters.

    Args:
        engine: its class.
        filtered: the part of the settings that has filters; None if no part has.
        build: build parameters stated by the settings.
    """
    if filtered is not None and not engine.can_filter(build):
        raise EngineError(f"{engine.name} cannot filter during search, and {filtered}")


def require_able(engine: type[Engine], dataset: Dataset, *, every_query: bool = False) -> None:
    """Refuse an engine that does not support the metric, or the filter of any query of these data.

    Args:
        engine: its class.
        dataset: the data.
        every_query: refuse an engine that cannot answer all queries; a run leaves some out and counts them.
    """
    require_metric(engine, dataset.metric)
    queries = dataset.queries
    filtered = queries.filtered if every_query else queries.all_filtered
    require_filters(engine, "these queries have filters" if filtered else None)
    for said in missing_inputs(engine, dataset):
        raise EngineError(said)
    engine.require_data(dataset.corpus, dataset.metric)


def resolved(engine: str, knobs: tuple[Knob, ...], given: Mapping[str, Any]) -> dict[str, KnobValue]:
    """Every knob with its given or default value; unknown names and values out of range are refused."""
    known = {knob.name: knob for knob in knobs}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{engine}: {unknown('parameter', name, known, PARAMETERS)}")
        if not known[name].accepts(value):
            raise UsageError(f"{engine}: {name} = {value!r}. Accepted: {known[name].accepted}")
    return {name: knob.plain(given.get(name, knob.default)) for name, knob in known.items()}


def resolved_search(engine: type[Engine], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every search parameter of a setting: knobs resolved as in `resolved`, free ones unchanged."""
    knobs = (*engine.search_knobs, *(each for each in engine.stated_search_knobs if each.name in given))
    known = {each.name for each in knobs}
    free = {name: value for name, value in given.items() if engine.free_search and name not in known}
    declared = {name: value for name, value in given.items() if name not in free}
    return resolved(engine.name, knobs, declared) | free


def require_constraints(engine: type[Engine], **known: Any) -> None:
    """Refuse parameters that violate a constraint; skip constraints on values not known yet."""
    for constraint in engine.constraints:
        values = {name: known[name] for name in constraint.names if name in known}
        if len(values) == len(constraint.names) and not constraint.holds(**values):
            listed = ", ".join(f"{name} = {value}" for name, value in values.items())
            lower = ". Lower the largest k (at, --at), or raise the other" if "k" in values else ""
            raise UsageError(f"{engine.name} needs {constraint.text}, but has {listed}{lower}")
