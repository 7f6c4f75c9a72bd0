"""The base of saved index files as collections: read into memory as production does it, never written."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from recallatk.adapters.base import resolved
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.collection import Answer, Collection, CollectionTarget, Discovery
from recallatk.adapters.database import told
from recallatk.adapters.embedded_collection import chosen_metric, existing_file
from recallatk.adapters.installation import importing
from recallatk.adapters.registry import get_engine, live_engine
from recallatk.core import Metric
from recallatk.errors import EngineError, FormatError, MismatchError, UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.live import LiveIndex
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Corpus, Knob
    from recallatk.filters import Filter


class IndexFileCollection(Collection):
    """A saved index with the corpus that it was built from, which has the ids and the columns of its rows.

    Subclasses write `load`, `definition` and `snippet`.
    """

    options: ClassVar = ("corpus", "metric")
    # The index in memory: what is written to the file later does not reach it.
    on_copy = True
    library: ClassVar[str]
    """The engine that declares the library."""
    example: ClassVar[str]

    def __init__(self, target: CollectionTarget, path: Path) -> None:
        self.target, self.path = target, path
        self.corpus = target.options.get("corpus")
        self.metric = chosen_metric(target, None, "")
        self._engine: LiveIndex | None = None

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> Collection:
        """Find the file; it is read once the corpus is known."""
        with importing(get_engine(cls.library)):
            return cls(target, existing_file(target, cls.example))

    # Declared by each kind of file

    def load(self, corpus: Corpus) -> Any:
        """The index object of the file; any exception of the library means that it cannot be read."""
        raise NotImplementedError

    def definition(self) -> str:
        """The index in words."""
        raise NotImplementedError

    def stamp(self) -> tuple[int, int, int] | None:
        """What changes when the file is written."""
        return _stamp(self.path)

    # The contract of collections

    def bind(self, corpus: Corpus) -> None:
        """Read the file, and compare it with the corpus: dimension, rows, labels, metric, order."""
        if self._engine is not None and corpus is self.corpus:
            return
        self.close()
        self.corpus, self._stamp = corpus, self.stamp()
        kind = live_engine(self._loaded(corpus))
        if kind is None:
            raise EngineError(f"{self.target.text} holds an index of an unknown kind")
        engine = kind()
        try:
            self._attach(engine, corpus)
        except (EngineError, MismatchError) as problem:
            raise type(problem)(f"{self.target.text}: {problem}") from None
        self._engine, self._ids = engine, corpus.ids
        self._filters = kind.can_filter({})
        self.found = self._described(engine, corpus)

    def _loaded(self, corpus: Corpus) -> Any:
        try:
            return self.load(corpus)
        except (EngineError, MismatchError, UsageError):
            raise
        except Exception as problem:
            said = " ".join(str(problem).split())[-200:]
            found = f"damaged, or no index of {self.target.scheme} ({said.strip('.!')})"
            raise FormatError(str(self.path), found, f"a saved index, as {self.example}") from None

    def _attach(self, engine: LiveIndex, corpus: Corpus) -> None:
        facts = engine.facts()
        labels = facts.labels
        repeated = 0 if labels is None else len(labels) - len(np.unique(labels))
        if repeated:
            raise EngineError(
                f"the index has {counted(repeated, 'duplicate label', 'duplicate labels')}: hits cannot be "
                "counted. Give every row a label of its own"
            )
        self.metric = self.metric or facts.metric
        if self.metric is None:
            raise UsageError(f"{self.target.text}: the metric is unknown. Add metric=cosine, ip or l2")
        self._unit = self.metric is Metric.COSINE and facts.metric is Metric.IP
        engine.attach(corpus, self.metric)

    def _described(self, engine: LiveIndex, corpus: Corpus) -> Discovery:
        scanned, names = engine.scanned(), corpus.metadata_names if self._filters else []
        ids = f"the ids in column {corpus.id_column!r}"
        read_as = ids if engine.labels_are_ids else "row numbers of the corpus"
        notes: tuple[str, ...] = (f"labels of the index are read as {read_as}",)
        if scanned is not None:
            notes += (f"every search scans {scanned}",)
        return Discovery(
            target=self.target.text,
            engine=self.target.scheme,
            rows=corpus.rows,
            dimension=corpus.dimension,
            metric=self.metric,
            index=None if scanned is not None else self.definition(),
            columns={name: str(corpus.columns.schema.field(name).type) for name in names},
            notes=notes,
        )

    @property
    def engine(self) -> LiveIndex:
        """The index in memory."""
        if self._engine is None:
            raise UsageError(
                f"{self.target.text}: no corpus. An index file has no exact vectors: name what it was built "
                f"from, as {self.example}, or with --corpus FILE"
            )
        return self._engine

    @property
    def title(self) -> str:
        """The class of the index."""
        return self.engine.name

    def discovery(self) -> Discovery:
        """What the file says, with the parameters in force, and whether it has changed since it was read."""
        engine = self.engine
        found = replace(self.found, settings={each.name: engine.current(each.name) for each in engine.own()})
        if self.stamp() == self._stamp:
            return found
        changed = f"{self.path} was changed or deleted after it was read; this is what it held then"
        return replace(found, notes=(*found.notes, changed))

    def knobs(self) -> tuple[Knob, ...]:
        """The parameters of the index and of its parts."""
        return self.engine.search_knobs

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set the parameters of the index in memory; those not named are as in the file."""
        engine = self.engine
        if settings:
            raise UsageError(f"{self.title} takes no --set. Use --search for its parameters")
        known = {each.name for each in self.knobs()}
        named = {
            name if name in known else engine.aliases.get(name, name): each for name, each in search.items()
        }
        engine.configure(**resolved(self.title, self.knobs(), named))

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter cannot run; None for unknown columns, which the truth refuses by name."""
        engine = self.engine
        if not self._filters:
            return super().refusal(condition)
        return engine.refusal(condition) if condition.columns() <= set(self.found.columns) else None

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One call of the library; a filter is given to it as the labels that pass."""
        engine = self.engine
        batch = QueryBatch(float32_matrix(vector[None, :], unit=self._unit), [condition])
        if condition is not None:
            engine.compiled(condition)
        with told(self.title):
            start = time.perf_counter()
            rows = engine.search(batch, min(k, engine.rows))[0]
            seconds = time.perf_counter() - start
        known = rows[(rows >= 0) & (rows < engine.rows)]
        return Answer(self._ids.take(pa.array(known)).to_pylist(), seconds, self.found.index is not None)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Nothing: the corpus has the exact vectors, and an index file may have codes alone."""
        raise UsageError(f"{self.target.text}: its truth is that of its corpus. Leave out --truth")

    def close(self) -> None:
        """Let go of the index."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Identity, size and time of change of a file; None if it is gone."""
    try:
        held = path.stat()
    except OSError:
        return None
    return held.st_ino, held.st_size, held.st_mtime_ns
