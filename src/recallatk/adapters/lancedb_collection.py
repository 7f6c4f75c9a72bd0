"""Existing LanceDB tables, read in place at the version that was opened."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.adapters.collection import Answer, CollectionTarget, Discovery, Neighbors
from recallatk.adapters.database import told
from recallatk.adapters.embedded_collection import (
    EmbeddedCollection,
    chosen,
    chosen_metric,
    list_vectors,
    local_path,
    null_note,
    require_ids,
    require_rows,
)
from recallatk.adapters.installation import importing
from recallatk.adapters.lancedb import _METRICS, LanceDB, LiveLanceTable
from recallatk.adapters.sql import SqlFilters, native_columns
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError, MissingFileError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.filters import Filter

_EXAMPLE = "lancedb://folder/table"


class LanceCollection(EmbeddedCollection):
    """A table of LanceDB; reading it writes nothing, and later writes do not change the opened version."""

    schemes: ClassVar = ("lancedb",)
    options: ClassVar = ("vector", "id", "metric")
    exact_mode = True
    snapshots = True

    def __init__(self, table: Any, target: CollectionTarget, limits: ProbeLimits) -> None:
        super().__init__()
        self.table, self._seconds = table, timedelta(seconds=limits.seconds)
        with told("lancedb"):
            self._describe(target)

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> LanceCollection:
        """Open the table and pin its version."""
        with importing(LanceDB):
            import lancedb
        path = local_path(target, _EXAMPLE)
        folder, name = path.parent, path.name.removesuffix(".lance")
        # `connect` would create a missing folder.
        if not folder.is_dir():
            raise MissingFileError(
                f"{target.text}: the folder {folder} does not exist. Type it as {_EXAMPLE}"
            )
        if not (folder / f"{name}.lance").is_dir():
            known = sorted(each.stem for each in folder.glob("*.lance"))
            raise UsageError(f"{target.text}: no table {name!r}. The tables are: {choices(known) or 'none'}")
        with told("lancedb"):
            table = lancedb.connect(folder).open_table(name)
            table.checkout(table.version)
        return cls(table, target, limits)

    def _describe(self, target: CollectionTarget) -> None:
        schema, rows = self.table.schema, self.table.count_rows()
        require_rows(target, rows)
        self.vector = _vector_column(target, schema)
        others = {each.name: str(each.type) for each in schema if each.name != self.vector}
        self.id = chosen(target, "id", others, "id" if "id" in others else None, "id column")
        self._require_ids(target, rows)
        index, definition = self._index()
        notes = null_note(self.table.count_rows(f"{_quote(self.vector)} IS NULL"), self.vector)
        self.valid = self.table.count_rows(f"{_quote(self.vector)} IS NOT NULL")
        metrics = {name: metric for metric, name in _METRICS.items()}
        known = None if index is None else metrics.get(str(index.distance_type))
        metric = chosen_metric(target, known, f"the index {definition}")
        if index is None:
            notes += ("no vector index: every search scans all rows (table.create_index makes one)",)
            if metric is None:
                notes += ("metric: LanceDB's default l2, because no index states one; else add metric=",)
        elif index.num_unindexed_rows:
            notes += (
                f"{index.num_unindexed_rows:,} rows are not in the index; every search scans them "
                "(table.optimize adds them)",
            )
        metric = metric or Metric.L2
        self.distance = _METRICS[metric]
        self.filterable = native_columns(
            pa.schema([each for each in schema if each.name in others and "`" not in each.name]), _quote
        )
        kind = schema.field(self.vector).type
        self.found = Discovery(
            target=target.text,
            engine="lancedb",
            rows=rows,
            dimension=kind.list_size,
            metric=metric,
            index=definition,
            columns={name: held for name, held in others.items() if name != self.id},
            exact=f"{kind.value_type}[{kind.list_size}]",
            quantized=kind.value_type == pa.float16(),
            notes=notes,
        )

    def _require_ids(self, target: CollectionTarget, rows: int) -> None:
        kind = self.table.schema.field(self.id).type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise EngineError(f"{target.text}: {self.id!r} holds {kind}. Ids are whole numbers or text")
        ids = self.table.search().select([self.id]).limit(None).to_arrow()[self.id]
        duplicates = rows - ids.null_count - pc.count_distinct(ids).as_py()
        require_ids(target, self.id, missing=ids.null_count, duplicates=duplicates)

    def _index(self) -> tuple[Any, str | None]:
        """The statistics and the definition of the vector index."""
        for each in self.table.list_indices():
            if each.columns == [self.vector]:
                held = self.table.index_stats(each.name)
                text = f"{held.index_type} {each.name} on {self.vector} ({held.distance_type})"
                return held, f"{text} over {held.num_indexed_rows:,} rows"
        return None, None

    def knobs(self) -> tuple[Knob, ...]:
        """Effort of the index: lists, graph candidates and reranking, as far as it has them."""
        if self.found.index is None:
            return ()
        hnsw = "HNSW" in self.found.index.partition(" ")[0]
        return tuple(each for each in LiveLanceTable.call_knobs if hnsw or each.name != "ef")

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One query with a prefilter, LanceDB's default; its plan says whether the index answered."""
        where = self._where(condition)
        with told("lancedb"):
            start = time.perf_counter()
            asked = self._asked(vector, k, where)
            for name, value in self.search.items():
                asked = getattr(asked, name)(value)
            ids = asked.to_arrow(timeout=self._seconds)[self.id].to_pylist()
            seconds = time.perf_counter() - start
            return Answer(ids, seconds, "ANN" in asked.explain_plan())

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """Compare every row, bypassing the index."""
        where = self._where(condition)
        with told("lancedb"):
            found = self._asked(vector, depth, where).bypass_vector_index().to_arrow(timeout=self._seconds)
        complete = len(found) < depth or len(found) == self.valid
        return Neighbors(found[self.id].to_pylist(), found["_distance"].to_numpy(), complete)

    def passing(self, condition: Filter) -> int:
        """Counted by the table."""
        with told("lancedb"):
            counted: int = self.table.count_rows(
                f"({self._where(condition)}) AND {_quote(self.vector)} IS NOT NULL"
            )
        return counted

    def _asked(self, vector: NDArray[Any], k: int, where: str | None) -> Any:
        asked = self.table.search(np.asarray(vector, np.float32), vector_column_name=self.vector)
        asked = asked.distance_type(self.distance).limit(k).select([self.id, "_distance"])
        return asked if where is None else asked.where(where, prefilter=True)

    def _where(self, condition: Filter | None) -> str | None:
        if condition is None:
            return None
        # The library has no bound parameters.
        return SqlFilters(dict(self.filterable), None).compile(condition)[0]

    def writes(self) -> object:
        """The version of the table, which is pinned."""
        return self.table.version

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Random rows by their position; those without a vector are drawn again from the rest."""
        rows = self.found.rows or 0
        count = min(count, self.valid)
        places = np.random.default_rng(seed).choice(rows, min(rows, count + rows - self.valid), replace=False)
        with told("lancedb"):
            taken = self.table.take_offsets(np.sort(places).tolist()).select([self.id, self.vector])
            found = taken.to_arrow()
        found = found.filter(found[self.vector].is_valid())
        kept = np.random.default_rng(seed).permutation(len(found))[:count]
        found = found.take(np.sort(kept))
        vectors = list_vectors(found[self.vector], self.found.dimension or 0)
        return found[self.id].to_pylist(), vectors.flatten().to_numpy().reshape(len(found), -1)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the table."""
        names = list(dict.fromkeys([self.id, self.vector, *columns]))
        with told("lancedb"):
            scan = self.table.search().where(f"{_quote(self.vector)} IS NOT NULL").select(names).limit(None)
            for each in scan.to_batches(self.block_rows):
                vectors = list_vectors(each[self.vector], self.found.dimension or 0)
                arrays = [each[self.id], vectors, *(each[name] for name in columns)]
                yield pa.record_batch(arrays, ["id", "vector", *columns])

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The calls on a query."""
        return "table.search(query)" + "".join(f".{name}({value})" for name, value in search.items())

    def close(self) -> None:
        """Let go of the table."""
        self.table = None


def _quote(name: str) -> str:
    return f"`{name}`"


def _vector_column(target: CollectionTarget, schema: pa.Schema) -> str:
    types = pa.types
    known = {
        each.name: each.type
        for each in schema
        if types.is_fixed_size_list(each.type) and types.is_floating(each.type.value_type)
    }
    if not known:
        listed = ", ".join(f"{each.name} {each.type}" for each in schema)
        raise EngineError(f"{target.text} has no column of float vectors of one dimension. It has {listed}")
    only = next(iter(known)) if len(known) == 1 else "vector" if "vector" in known else None
    return chosen(target, "vector", known, only, "vector column")
