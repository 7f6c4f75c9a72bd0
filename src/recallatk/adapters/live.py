"""The base of engines for index objects that the caller holds: searched in this process, never rebuilt."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow.compute as pc

from recallatk.adapters.allowed_rows import AllowedRows
from recallatk.adapters.attached import RowsById
from recallatk.adapters.base import Abilities, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.database import told
from recallatk.adapters.label_rows import LabelRows
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError, MismatchError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.filters import Filter

# Sample size that shows whether an index holds unit vectors, and still fits one read.
SAMPLE = 256
# Storage as float16 or bfloat16 changes a norm by less than this.
_UNIT_TOLERANCE = 0.01
# In the wrong order, half of the vectors are nearer to their own row; in the right order, nearly all.
_FEWEST_COMPARED, _FEWEST_NEARER = 8, 0.75
_SMALLEST = 1e-300


@dataclass(frozen=True)
class IndexFacts:
    """Properties that an index object reports; None for those it does not report."""

    metric: Metric | None
    dimension: int | None
    rows: int | None
    labels: NDArray[np.int64] | None = None
    """Labels of all rows; None if labels are row numbers by construction."""


class LiveIndex(Library):
    """An index object that the caller holds.

    Subclasses write `facts`, `ask` and `title`, and where the object has settings `current` and `change`.
    `of` makes the engine class of one object. Search parameters are set on the object, and `close`
    restores them.
    """

    metrics = frozenset(Metric)
    abilities = Abilities(attaches=True, clients=True)
    index: Any
    held_object: ClassVar[Any] = None
    own_knobs: ClassVar[tuple[Knob, ...]] = ()
    """Parameters stored on the object; their current values are the defaults."""
    call_knobs: ClassVar[tuple[Knob, ...]] = ()
    """Parameters passed with each call, only if a setting states them."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Parameter aliases, each with the name of its knob."""
    unit = False
    """Whether to normalize queries, because an inner-product index is searched by cosine."""

    def __init__(self) -> None:
        self.index = self.held_object
        self._before: dict[str, Any] | None = None
        self._labels: LabelRows | None = None
        self._allowed: AllowedRows | None = None
        # Keep all of them: rebuilding one would fall into a timed search.
        self._made: dict[str, Any] = {}

    @classmethod
    def of(cls, held: Any, names: Collection[str] = ()) -> type[LiveIndex]:
        """The engine class of one object.

        Args:
            held: the index object.
            names: search parameters that the settings state.
        """
        bare: type[LiveIndex] = type(cls.__name__, (cls,), {"held_object": held, "name": cls.__name__})
        probe = bare()
        bare.name = probe.title()
        called = {knob: alias for alias, knob in cls.aliases.items() if alias in names}
        own = probe.own()
        knobs = [replace(each, default=each.plain(probe.current(each.name))) for each in own]
        known = {*(each.name for each in (*own, *cls.call_knobs)), *cls.aliases}
        # A name that nobody knows is refused with all that are accepted.
        stated = known if set(names) - known else set(names)
        knobs += [each for each in cls.call_knobs if {each.name, called.get(each.name)} & stated]
        bare.search_knobs = tuple(replace(each, name=called.get(each.name, each.name)) for each in knobs)
        bare.canonical = {called.get(each.name, each.name): each.name for each in knobs}
        return bare

    canonical: ClassVar[Mapping[str, str]] = {}
    """Each parameter name that settings use, with the name of its knob."""

    # Declared by each kind of object

    def title(self) -> str:
        """The kind of object, as its users write it."""
        raise NotImplementedError

    def facts(self) -> IndexFacts:
        """Properties that the object reports; an EngineError if it cannot be searched yet."""
        raise NotImplementedError

    def own(self) -> tuple[Knob, ...]:
        """The parameters that this object holds."""
        return self.own_knobs

    def current(self, name: str) -> Any:
        """The value of a parameter on the object."""
        raise NotImplementedError

    def change(self, name: str, value: Any) -> None:
        """Set a parameter on the object."""
        raise NotImplementedError

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any] | None:
        """Stored vectors of these labels; None if the index cannot return them."""
        return None

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Labels returned by the object, best first, padded with -1."""
        raise NotImplementedError

    def translated(self, condition: Filter) -> Any:
        """The filter as the library takes it; needs `abilities.filters`."""
        raise self.unable("filter during search")

    def scanned(self) -> str | None:
        """The rows that every search scans for lack of an index, with the reason; None: none are known."""
        return None

    # The engine contract

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Refuse data that do not match the object: metric, dimension, row count, labels."""
        engine = cls()
        facts = engine.facts()
        if not facts.rows:
            raise EngineError(f"{cls.name} is empty. Add the corpus to it first")
        if facts.dimension not in (None, corpus.dimension):
            raise MismatchError(
                f"dimension mismatch: {cls.name} has {facts.dimension} dimensions, "
                f"the corpus {corpus.dimension}"
            )
        if facts.rows != corpus.rows:
            raise MismatchError(
                f"row count mismatch: {cls.name} holds {counted(facts.rows, 'row', 'rows')}, "
                f"the corpus {corpus.rows:,}. Use the corpus that the index was built from"
            )
        engine.require_metric(facts, corpus, metric)
        engine.require_order(facts, corpus, metric)

    def require_metric(self, facts: IndexFacts, corpus: Corpus, metric: Metric) -> None:
        """Refuse a metric mismatch; inner product is accepted for cosine if all vectors have unit length."""
        if facts.metric in (None, metric):
            return
        mismatch = f"metric mismatch: {self.name} uses {facts.metric}, the dataset {metric}"
        if (facts.metric, metric) != (Metric.IP, Metric.COSINE):
            raise MismatchError(f"{mismatch}. Measure with metric={str(facts.metric)!r}")
        vectors, whose = self._sample(facts), "indexed"
        if vectors is None:
            vectors, whose = corpus.vectors.read(0, min(SAMPLE, corpus.rows)), "corpus"
        norms = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
        if np.abs(norms - 1).max() > _UNIT_TOLERANCE:
            raise MismatchError(
                f"{mismatch}. Inner product equals cosine only on unit vectors, and the {whose} vectors have "
                f"norms from {norms.min():.3g} to {norms.max():.3g}. Normalize them before they are indexed, "
                "or measure with metric='ip'"
            )

    def require_order(self, facts: IndexFacts, corpus: Corpus, metric: Metric) -> None:
        """Refuse an index whose stored vectors differ from the corpus rows of their labels."""
        labels, stored = self.read_labels(facts, corpus), self._sample(facts)
        if stored is None or np.shape(stored)[1:] != (corpus.dimension,) or len(stored) < _FEWEST_COMPARED:
            return
        taken = (np.arange(facts.rows or 0) if facts.labels is None else facts.labels)[: len(stored)]
        rows = taken if labels is None else labels.rows(taken)
        own, other = (_distances(stored, each, corpus, metric) for each in (rows, np.roll(rows, 1)))
        # Quantization distorts vectors, but most stay nearer to their own row than to another.
        if (own <= other).mean() < _FEWEST_NEARER:
            raise MismatchError(
                f"row order mismatch: the vectors in {self.name} are not those of the corpus rows with the "
                "same numbers. Pass the corpus in the order in which it was indexed, or index it with its ids"
            )

    def _sample(self, facts: IndexFacts) -> NDArray[Any] | None:
        labels = np.arange(facts.rows or 0) if facts.labels is None else facts.labels
        return self.stored(labels[:SAMPLE])

    def read_labels(self, facts: IndexFacts, corpus: Corpus) -> LabelRows | None:
        """The corpus row of every label; None if labels are row numbers."""
        if facts.labels is None:
            return None
        return LabelRows(facts.labels, corpus, self.name, self._sample(facts))

    @classmethod
    def prepared(cls, queries: NDArray[Any], metric: Metric) -> NDArray[Any]:
        """Queries, normalized if an inner-product index is searched by cosine."""
        unit = metric is Metric.COSINE and cls().facts().metric is Metric.IP
        return float32_matrix(queries, unit=unit)

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Attach to the object; nothing is built."""
        self.attach(corpus, metric, **parameters)

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Check the object against the corpus, and save its parameters."""
        self.require_data(corpus, metric)
        self.index = self.held_object
        facts = self.facts()
        self.rows = corpus.rows
        self._labels = self.read_labels(facts, corpus)
        self._allowed, self._made = AllowedRows(corpus), {}
        self._before = {each.name: self.current(each.name) for each in self.own()}

    def configure(self, **parameters: Any) -> None:
        """Set the object's parameters, and store those that are passed with each call."""
        if self.index is None:
            raise self.unbuilt()
        own = {each.name for each in self.own()}
        named = {self.canonical[name]: value for name, value in parameters.items()}
        super().configure(**named)
        for name, value in named.items():
            if name in own:
                self.change(name, value)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The corpus rows of the labels that the object returns."""
        found = self.ask(batch, k)
        return found if self._labels is None else self._labels.rows(found)

    @property
    def labels_are_ids(self) -> bool:
        """Whether labels are ids of the corpus; else they are its row numbers."""
        return self._labels is not None and self._labels.are_ids

    def compiled(self, condition: Filter) -> Any:
        """The filter as the library takes it, made once."""
        if condition.key not in self._made:
            self._made[condition.key] = self.translated(condition)
        return self._made[condition.key]

    def allowed_labels(self, condition: Filter) -> NDArray[np.int64]:
        """The labels of all rows that pass a filter, evaluated on the corpus metadata."""
        if self._allowed is None:
            raise self.unbuilt()
        mask = self._allowed.mask(condition)
        return np.flatnonzero(mask) if self._labels is None else self._labels.labels(mask)

    def held(self) -> str:
        """The object and its rows."""
        return f"{self.name} of {self.rows:,} rows, as passed by the caller"

    def work(self) -> str:
        """The number of queries, and the rows that each of them scanned."""
        scanned = self.scanned()
        how = "" if scanned is None else f", scanning {scanned}"
        return f"{counted(self.searched, 'query', 'queries')} answered{how}"

    def call(self) -> str:
        """One call in this process."""
        return "library call in this process"

    def close(self) -> None:
        """Restore the parameters; the object itself stays open."""
        before, self._before = self._before, None
        for name, value in (before or {}).items():
            # A parameter that cannot be restored must not stop the others.
            with suppress(EngineError):
                self.change(name, value)
        super().close()


class LiveCollection(LiveIndex):
    """A database collection; its ids are the corpus ids, or row numbers if the corpus has no ids.

    Subclasses write `lists` and `some_ids` in place of `ask`.
    """

    ids: RowsById | None = None

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def lists(self, batch: QueryBatch, k: int) -> Sequence[Sequence[object]]:
        """The ids that the collection returns for each query, best first."""
        raise NotImplementedError

    def some_ids(self, corpus: Corpus) -> list[Any]:
        """Some ids of the collection."""
        raise NotImplementedError

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Refuse ids missing from the corpus, in addition to the checks of every object."""
        super().require_data(corpus, metric)
        known, found = RowsById(corpus), cls().some_ids(corpus)
        unknown = [each for each in found if known.row(each) == known.unknown]
        if unknown:
            raise MismatchError(
                f"id mismatch: of {len(found):,} ids in {cls.name} the corpus has "
                f"{len(found) - len(unknown):,}. The collection has {unknown[0]!r}, the corpus ids such as "
                f"{known.example()!r}"
            )

    def require_order(self, facts: IndexFacts, corpus: Corpus, metric: Metric) -> None:
        """Do nothing: collections are matched by id."""

    def metadata_of(self, found: Any) -> Mapping[str, Any]:
        """The metadata of one id."""
        raise NotImplementedError

    def require_columns(self, condition: Filter, corpus: Corpus) -> None:
        """Refuse a filter on columns that only the corpus has: it would let no row pass."""
        for name in sorted((condition.columns() - self._seen) & set(corpus.metadata_names)):
            known = np.flatnonzero(~pc.is_null(corpus.metadata[name], nan_is_null=True).to_numpy())
            if len(known):
                row = int(known[0])
                self._require_column(name, row if corpus.id_column is None else corpus.ids[row].as_py())
            # Asked once per column: a run may have thousands of filters.
            self._seen.add(name)

    def _require_column(self, name: str, found: Any) -> None:
        with told(self.name):
            stored = self.metadata_of(found)
        if name not in stored:
            raise EngineError(
                f"{self.name} has no {name!r} for {found!r} to filter by, and the corpus has. It has "
                f"{', '.join(stored) or 'no metadata'}"
            )

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Check the collection and store the corpus ids."""
        super().attach(corpus, metric, **parameters)
        self.ids = RowsById(corpus)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The corpus rows of the ids that the collection returns."""
        if self.ids is None:
            raise self.unbuilt()
        with told(self.name):
            return self.ids.matrix(self.lists(batch, k), k)

    def in_process(self) -> bool:
        """False: a database keeps its index in files or on a server."""
        return False


def _distances(
    stored: NDArray[Any], rows: NDArray[np.int64], corpus: Corpus, metric: Metric
) -> NDArray[np.float64]:
    """Distance of each stored vector to a corpus row; normalized first unless the metric is l2."""
    ours = np.concatenate([corpus.vectors.read(int(row), int(row) + 1) for row in rows]).astype(np.float64)
    theirs = np.asarray(stored, np.float64)
    if metric is not Metric.L2:
        ours, theirs = (
            each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), _SMALLEST)
            for each in (ours, theirs)
        )
    distances: NDArray[np.float64] = np.linalg.norm(ours - theirs, axis=1)
    return distances


def metric_of(first: NDArray[Any], second: NDArray[Any], distance: float) -> Metric | None:
    """Infer the metric from the distance between two vectors, for objects that do not report it."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    product, squared = float(a @ b), float(np.square(a - b).sum())
    cosine = product / float(np.linalg.norm(a) * np.linalg.norm(b))
    forms = {
        Metric.L2: (squared, squared**0.5),
        Metric.IP: (product, 1 - product, -product),
        Metric.COSINE: (cosine, 1 - cosine, max(0.0, 2 - 2 * cosine) ** 0.5),
    }
    close = [
        metric for metric, values in forms.items() if np.isclose(values, distance, rtol=1e-3, atol=1e-4).any()
    ]
    return close[0] if len(close) == 1 else None
