"""Existing SQLite tables with vectors of sqlite-vec, opened read-only; what cannot be so is copied first."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from recallatk.adapters.collection import Answer, AnswerPair, CollectionTarget, Discovery, Neighbors
from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.adapters.embedded_collection import (
    EmbeddedCollection,
    chosen,
    chosen_metric,
    existing_file,
    interrupted_after,
    null_note,
    require_ids,
    require_rows,
)
from recallatk.adapters.installation import importing
from recallatk.adapters.sql import Column
from recallatk.adapters.sqlite_file import connected, reason_to_copy
from recallatk.adapters.sqlite_tables import quote, read_table, require_distance, vector_type
from recallatk.adapters.sqlite_vec import JsonFilters, SqliteVec
from recallatk.core import Metric
from recallatk.errors import EngineError, UsageError, unknown
from recallatk.filters import And, Equals, In, Prefix, Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.filters import Filter

_EXAMPLE = "sqlite://file.db?table=items"
_TYPES = {"boolean": pa.bool_(), "integer": pa.int64(), "float": pa.float64(), "text": pa.large_string()}
_SHOWN = {"": "blob or another type"}


class SqliteCollection(EmbeddedCollection):
    """A vec0 table, or an ordinary table with float32 BLOBs; every search compares all rows."""

    schemes: ClassVar = ("sqlite",)
    options: ClassVar = ("table", "vector", "id", "metric", "columns")
    exact_mode = True
    snapshots = True
    connection: Any = None
    copy: CollectionCopy | None = None

    def __init__(self, path: Path, target: CollectionTarget, limits: ProbeLimits) -> None:
        super().__init__()
        self.limits = limits
        reason = reason_to_copy(path, target.text)
        try:
            if reason is not None:
                self.copy = CollectionCopy(path, endings=("-wal", "-journal"))
                self.on_copy = True
            self.connection = connected(path if self.copy is None else self.copy.path, self.on_copy)
            with self._limited():
                self._describe(target, reason)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> SqliteCollection:
        """Open the file read-only, or a copy if reading would create files beside it."""
        with importing(SqliteVec):
            import apsw  # noqa: F401
            import sqlite_vec  # noqa: F401
        # Logs lie beside the file itself, not beside a link to it.
        return cls(existing_file(target, _EXAMPLE).resolve(), target, limits)

    def _describe(self, target: CollectionTarget, copy_reason: str | None) -> None:
        self.table = read_table(self._rows, target.options.get("table"), target.text)
        vectors = self.table.vectors
        if not vectors:
            raise EngineError(f"{target.text}: {self.table.name} has no vec0 vectors and no column of BLOBs")
        self.vector = chosen(
            target, "vector", vectors, next(iter(vectors)) if len(vectors) == 1 else None, "vector column"
        )
        self.kind = vector_type(self._rows, self.table, self.vector, target.text)
        self.id = self._id_column(target)
        rows, valid = self._counted(target)
        metric = chosen_metric(target, require_distance(vectors[self.vector][1], target.text), "the table")
        if metric is None:
            raise UsageError(
                f"{target.text}: an ordinary table does not state the metric. Add metric=l2 or cosine"
            )
        if metric is Metric.IP:
            raise UsageError(f"{target.text}: sqlite-vec has no inner product. Accepted: metric=l2 or cosine")
        far = "hamming" if self.kind.name == "bit" else str(metric)
        self.distance = f"vec_distance_{far}({quote(self.vector)}, {self.kind.placeholder})"
        self.valid = valid
        kinds = self._columns(target)
        self.filterable = {
            name: Column(quote(name), kind, _TYPES[kind], pa.chunked_array([], _TYPES[kind]))
            for name, kind in kinds.items()
            if kind
        }
        self.found = Discovery(
            target=target.text,
            engine="sqlite-vec",
            rows=rows,
            dimension=self.kind.dimension,
            metric=metric,
            index=self.table.indexed,
            columns={name: kind or _SHOWN[""] for name, kind in kinds.items()
                     if name not in (self.id, self.vector)},
            exact=str(self.kind),
            quantized=self.kind.name != "float",
            notes=(*self._notes(copy_reason), *null_note(rows - valid, self.vector)),
        )  # fmt: skip

    def _columns(self, target: CollectionTarget) -> dict[str, str]:
        """The kinds of all columns: its own, and those of the table beside it that the target names."""
        self.rows_of, self.beside = f"{quote(self.table.name)} AS t", frozenset[str]()
        if "columns" not in target.options:
            return self.table.kinds
        other = read_table(self._rows, target.options["columns"], target.text)
        key = quote(other.id or "rowid")
        self.rows_of += f" LEFT JOIN {quote(other.name)} AS b ON b.{key} = t.{quote(self.id)}"
        self.beside = frozenset(other.kinds) - frozenset(self.table.kinds) - {other.id or ""}
        return {
            **self.table.kinds,
            **{name: other.kinds[name] for name in other.kinds if name in self.beside},
        }

    def _qualified(self, name: str) -> str:
        return f"{'b' if name in self.beside else 't'}.{quote(name)}"

    def _notes(self, copy_reason: str | None) -> Iterator[str]:
        if copy_reason is not None:
            yield f"a temporary copy is searched: {copy_reason}"
        if self.table.indexed is None:
            yield "no index: every search compares all rows, so that recall is 1 unless a filter loses rows"
        if self.kind.name == "bit":
            yield "Hamming distance of bits, which orders as l2 of zeros and ones does"

    def _id_column(self, target: CollectionTarget) -> str:
        known = {**self.table.kinds, **({} if self.table.virtual and self.table.id else {"rowid": "integer"})}
        default = self.table.id or ("rowid" if self.table.virtual else "id" if "id" in known else "rowid")
        return chosen(target, "id", known, default, "id column")

    def _counted(self, target: CollectionTarget) -> tuple[int, int]:
        """Rows, and rows with a vector; ids must tell them apart."""
        row, vector, table = quote(self.id), quote(self.vector), quote(self.table.name)
        if self.table.virtual and self.id in (self.table.id, "rowid"):
            # vec0 keeps these unique and not null.
            ((rows,),) = self._rows(f"SELECT count(*) FROM {table}")  # noqa: S608
            require_rows(target, rows)
            return rows, rows
        counts = f"count(*), count({vector}), count({row}), count(DISTINCT {row})"
        ((rows, valid, ids, distinct),) = self._rows(f"SELECT {counts} FROM {table}")  # noqa: S608
        require_rows(target, rows)
        require_ids(target, self.id, missing=rows - ids, duplicates=ids - distinct)
        kinds = [kind for (kind,) in self._rows(f"SELECT DISTINCT typeof({row}) FROM {table}")]  # noqa: S608
        if kinds not in (["integer"], ["text"]):
            raise EngineError(
                f"{target.text}: {self.id!r} holds {', '.join(kinds)}. Ids are whole numbers or text"
            )
        return rows, valid

    def without_effort(self) -> str:
        """Why there is nothing to tune."""
        if self.table.indexed is not None:
            return f"the effort of its index ({self.table.indexed}) is fixed when the table is made"
        return "sqlite-vec compares all rows in every search, so that recall is 1 without an effort"

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """The search of vec0, or a scan of an ordinary table, which is what its users run."""
        if self.table.virtual:
            among, values = self._among(condition)
            statement = (
                f"SELECT {quote(self.id)} FROM {quote(self.table.name)} "  # noqa: S608
                f"WHERE {quote(self.vector)} MATCH {self.kind.placeholder} AND k = ?{among}"
            )
            bound = (self.kind.packed(vector), k, *values)
        else:
            statement, bound = self._scan(vector, k, condition)
        start = time.perf_counter()
        with self._limited():
            found = self._rows(statement, bound)
        seconds = time.perf_counter() - start
        return Answer([each[0] for each in found], seconds, None if self.table.indexed else False)

    def _among(self, condition: Filter | None) -> tuple[str, list[Any]]:
        """The filter as a search of vec0 takes it: constraints on its columns, else the ids that pass."""
        if condition is None:
            return "", []
        where, values = self._where(condition)
        if not self._constrains(condition, where):
            row = quote(self.id)
            where = f"{row} IN (SELECT {row} FROM {quote(self.table.name)} WHERE {where})"  # noqa: S608
        return f" AND {where}", values

    def _constrains(self, condition: Filter, where: str) -> bool:
        """Whether vec0 compares all of a filter itself; SQLite would apply the rest to the answer."""
        match condition:
            case And(operands):
                return all(self._constrains(each, where) for each in operands)
            case Equals(name) | In(name) | Range(name) | Prefix(name):
                constant = any(f"{quote(name)} {sign} {quote(name)}" in where for sign in ("=", "<>"))
                several = not (
                    isinstance(condition, Equals)
                    or (isinstance(condition, In) and len(condition.values) == 1)
                )
                return (
                    name in self.table.constrained
                    and not constant
                    and not (several and name in self.table.single)
                )
        return False

    def _scan(self, vector: NDArray[Any], k: int, condition: Filter | None) -> tuple[str, tuple[Any, ...]]:
        where, values = ("", []) if condition is None else self._where(condition)
        statement = (
            f"SELECT {quote(self.id)}, {self.distance} AS far FROM {quote(self.table.name)} "  # noqa: S608
            f"WHERE {f'{where} AND ' if where else ''}{self._valid} ORDER BY far NULLS LAST LIMIT {k:d}"
        )
        return statement, (self.kind.packed(vector), *values)

    @property
    def _valid(self) -> str:
        # A vec0 table has a vector in every row.
        return "TRUE" if self.table.virtual else f"{quote(self.vector)} IS NOT NULL"

    def _where(self, condition: Filter) -> tuple[str, list[Any]]:
        if not condition.columns() & self.beside:
            return JsonFilters(dict(self.filterable), "?").compile(condition)
        both = {
            name: replace(each, identifier=self._qualified(name)) for name, each in self.filterable.items()
        }
        where, values = JsonFilters(both, "?").compile(condition)
        row = quote(self.id)
        return f"{row} IN (SELECT t.{row} FROM {self.rows_of} WHERE {where})", values  # noqa: S608

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """Compute and sort the distance to every row by SQL, without the search of vec0."""
        with self._limited():
            found = self._rows(*self._scan(vector, depth, condition))
        far = np.array([np.inf if far is None else far for _, far in found], np.float64)
        return Neighbors([each for each, _ in found], far, len(found) < depth or len(found) == self.valid)

    def passing(self, condition: Filter) -> int:
        """Counted by one statement."""
        where, values = self._where(condition)
        statement = f"SELECT count(*) FROM {quote(self.table.name)} WHERE {where} AND {self._valid}"  # noqa: S608
        with self._limited():
            return int(self._rows(statement, values)[0][0])

    def pair(self, vector: NDArray[Any], k: int, depth: int, condition: Filter | None) -> AnswerPair:
        """Both in one read transaction."""
        with self._limited():
            self._rows("BEGIN")
        try:
            return AnswerPair(self.answer(vector, k, condition), self.exact(vector, depth, condition), False)
        finally:
            self._rows("ROLLBACK")

    def writes(self) -> object:
        """A number that changes with every commit by others."""
        return self._rows("PRAGMA data_version")

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Random rows by their place in the table."""
        row, vector, table = quote(self.id), quote(self.vector), quote(self.table.name)
        places = np.random.default_rng(seed).choice(self.valid, min(count, self.valid), replace=False)
        wanted, vectors = set(places.tolist()), []
        with self._limited():
            scan = self.connection.execute(f"SELECT {row} FROM {table} WHERE {self._valid}")  # noqa: S608
            ids = [each for place, (each,) in enumerate(scan) if place in wanted]
            for each in ids:
                vectors += self._rows(f"SELECT {vector} FROM {table} WHERE {row} = ?", (each,))  # noqa: S608
        return ids, self.kind.unpacked([each for (each,) in vectors])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the table."""
        for name in columns:
            if name not in self.filterable:
                raise EngineError(f"{self.title}: {unknown('column to filter by', name, self.filterable)}")
        listed = ", ".join(map(self._qualified, [self.id, self.vector, *columns]))
        valid = "TRUE" if self.table.virtual else f"t.{quote(self.vector)} IS NOT NULL"
        with self._told():
            scan = self.connection.execute(
                f"SELECT {listed} FROM {self.rows_of} WHERE {valid}"  # noqa: S608
            )
            while held := list(islice(scan, self.block_rows)):
                ids, blobs, *rest = zip(*held, strict=True)
                matrix = self.kind.unpacked(blobs)
                vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
                kind = pa.int64() if isinstance(ids[0], int) else pa.large_string()
                held_columns = [self._array(name, each) for name, each in zip(columns, rest, strict=True)]
                yield pa.record_batch(
                    [pa.array(ids, kind), vectors, *held_columns], ["id", "vector", *columns]
                )

    def _array(self, name: str, values: Sequence[Any]) -> pa.Array:
        column = self.filterable[name]
        if column.kind == "boolean":
            values = [None if each is None else bool(each) for each in values]
        try:
            return pa.array(values, column.type)
        except pa.ArrowException as problem:
            raise EngineError(
                f"column {name!r} is declared {column.kind} and holds more: {problem}"
            ) from problem

    def close(self) -> None:
        """Close the connection and remove the copy."""
        connection, self.connection = self.connection, None
        copy, self.copy = self.copy, None
        if connection is not None:
            connection.close()
        if copy is not None:
            copy.remove()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self.connection.execute(statement, tuple(values)).fetchall()
        return found

    @contextmanager
    def _limited(self) -> Iterator[None]:
        with (
            self._told(),
            interrupted_after(self.limits.seconds, self.connection.interrupt, "a statement of SQLite"),
        ):
            yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        import apsw

        try:
            yield
        except apsw.BusyError as problem:
            raise EngineError("a writer locks the file. Start the probe again once it is done") from problem
        except apsw.Error as problem:
            raise EngineError(f"sqlite-vec failed: {str(problem).strip()}") from problem
