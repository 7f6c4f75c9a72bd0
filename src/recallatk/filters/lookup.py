"""Row sets, and an index of rows by value: many equality filters on one column read it once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import FilterError
from recallatk.filters.columns import converted, plain, tag_type, tags
from recallatk.filters.expression import And, ContainsAll, ContainsAny, Equals, In

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from recallatk.filters.expression import Filter, Literal

    Value: TypeAlias = tuple[type, Literal]
    # A column, and whether the elements of its lists are compared.
    Subject: TypeAlias = tuple[str, bool]
    Leaf: TypeAlias = Equals | In | ContainsAny


@dataclass(frozen=True, eq=False)
class RowSet:
    """An immutable set of corpus rows, made by `of_mask` or `of_rows`.

    It stores sorted row numbers or one bit per corpus row, whichever is smaller.
    """

    corpus_rows: int
    """Number of corpus rows."""
    count: int
    """Number of rows in the set."""
    _packed: bool
    _stored: NDArray[Any]

    @classmethod
    def of_mask(cls, mask: NDArray[np.bool_]) -> RowSet:
        """The rows whose mask is true."""
        count = int(np.count_nonzero(mask))
        stored = _bits(mask) if _packs(count, len(mask)) else _numbers(np.flatnonzero(mask), len(mask))
        return cls(len(mask), count, _packs(count, len(mask)), stored)

    @classmethod
    def of_rows(cls, sorted_rows: NDArray[np.integer[Any]], corpus_rows: int) -> RowSet:
        """The given rows, ascending and distinct."""
        if _packs(len(sorted_rows), corpus_rows):
            mask = np.zeros(corpus_rows, bool)
            mask[sorted_rows] = True
            return cls(corpus_rows, len(sorted_rows), True, _bits(mask))
        return cls(corpus_rows, len(sorted_rows), False, _numbers(sorted_rows, corpus_rows))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the rows take."""
        return int(self._stored.nbytes)

    def contains(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row is in the set; a negative row, which pads an answer, never is."""
        real = rows >= 0
        if not self.count:
            return np.zeros(len(rows), bool)
        if self._packed:
            safe = np.where(real, rows, 0)
            bits: NDArray[np.bool_] = (self._stored[safe >> 3] >> (safe & 7).astype(np.uint8) & 1).view(bool)
            return real & bits
        # Same type as the stored numbers, or searchsorted would convert all of them every time.
        wanted = rows.astype(self._stored.dtype)
        place = np.searchsorted(self._stored, wanted)
        found: NDArray[np.bool_] = self._stored[np.minimum(place, self.count - 1)] == wanted
        return real & found

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Members in [start, stop), ascending, relative to `start`."""
        if self._packed:
            return np.flatnonzero(self.mask(start, stop))
        first, last = np.searchsorted(self._stored, np.asarray([start, stop], self._stored.dtype))
        return self._stored[first:last].astype(np.int64) - start

    def mask(self, start: int, stop: int) -> NDArray[np.bool_]:
        """One truth value per row in [start, stop)."""
        if self._packed:
            skipped = start % 8
            around = np.unpackbits(self._stored[start // 8 : -(-stop // 8)], bitorder="little")
            return around[skipped : skipped + stop - start].view(bool)
        mask = np.zeros(stop - start, bool)
        mask[self.between(start, stop)] = True
        return mask


def _packs(count: int, corpus_rows: int) -> bool:
    return -(-corpus_rows // 8) < count * _number_type(corpus_rows).itemsize


def _number_type(corpus_rows: int) -> np.dtype[Any]:
    # The end of a range is a valid argument, so the number of rows itself must fit.
    return np.dtype(np.uint32 if corpus_rows < 2**32 else np.int64)


def _bits(mask: NDArray[np.bool_]) -> NDArray[Any]:
    return _sealed(np.packbits(mask, bitorder="little"))


def _numbers(rows: NDArray[np.integer[Any]], corpus_rows: int) -> NDArray[Any]:
    # Copy, because a slice would keep the whole array alive.
    return _sealed(np.array(rows, _number_type(corpus_rows)))


def _sealed(stored: NDArray[Any]) -> NDArray[Any]:
    stored.flags.writeable = False
    return stored


# Indexing a column costs about as much as this many masks.
_WORTHWHILE = 8
# If the index leaves more than one row in this many, a full mask is just as fast.
_SELECTIVE = 8


class Lookup:
    """Indexes of the columns that many filters compare with values.

    It returns None instead of raising, so that `Filter.mask` evaluates the filter and raises every error.
    """

    def __init__(self, conditions: Iterable[Filter], metadata: pa.Table) -> None:
        self.metadata = metadata
        self.columns: dict[str, pa.ChunkedArray | None] = {}
        filters: Counter[Subject] = Counter()
        values: dict[Subject, dict[Value, None]] = {}
        for condition in conditions:
            leaves = [each for each in _operands(condition) if isinstance(each, Equals | In | ContainsAny)]
            filters.update({_subject(leaf) for leaf in leaves})
            for leaf in leaves:
                values.setdefault(_subject(leaf), {}).update(dict.fromkeys(_values(leaf)))
        many = [subject for subject, count in filters.items() if count > _WORTHWHILE]
        indexes = {each: _ColumnIndex.build(metadata, each, list(values[each])) for each in many}
        self.indexes = {subject: index for subject, index in indexes.items() if index is not None}

    def find(self, condition: Filter) -> RowSet | None:
        """The rows that satisfy a filter; None if only its mask can tell."""
        operands = list(_operands(condition))
        known = [part for part in map(self._indexed, operands) if part is not None]
        if not known:
            return None
        (index, codes), *others = sorted(known, key=lambda part: part[0].count(part[1]))
        rows = index.rows_of(codes)
        for index, codes in others:
            rows = rows[index.among(rows, codes)]
        if len(known) == len(operands):
            return RowSet.of_rows(rows, self.metadata.num_rows)
        return self._checked(condition, rows)

    def _indexed(self, operand: Filter) -> tuple[_ColumnIndex, NDArray[np.int64]] | None:
        if not isinstance(operand, Equals | In | ContainsAny) or _subject(operand) not in self.indexes:
            return None
        index = self.indexes[_subject(operand)]
        codes = index.codes_of(operand)
        return None if codes is None else (index, codes)

    def _checked(self, condition: Filter, rows: NDArray[np.int64]) -> RowSet | None:
        """The rows that satisfy a filter, among candidates that include all of them."""
        if len(rows) * _SELECTIVE > self.metadata.num_rows:
            return None
        columns = {name: self._column(name) for name in sorted(condition.columns())}
        if any(column is None for column in columns.values()):
            return None
        mask = condition.mask(pa.table(columns).take(pa.array(rows)))
        return RowSet.of_rows(rows[mask], self.metadata.num_rows)

    def _column(self, name: str) -> pa.ChunkedArray | None:
        """A column as one chunk, for fast random access; None if it cannot be read."""
        if name not in self.columns:
            try:
                # Convert all of it, because a mask also refuses values in rows that are not selected.
                found = _plain_column(self.metadata, name)
                whole = None if found is None else pa.chunked_array([found.combine_chunks()])
            except pa.ArrowException:
                whole = None
            self.columns[name] = whole
        return self.columns[name]


@dataclass(frozen=True, eq=False)
class _ColumnIndex:
    """The rows of every value that a filter compares with; values are numbered by codes."""

    code: dict[Value, int | None]
    """None for a value of the right type that no row can have."""
    codes: NDArray[np.int32] | None
    """Code of each row's value, -1 if it is null or no filter uses it; None for lists, which have several."""
    rows: NDArray[np.int64]
    """Rows by code, ascending within each code."""
    offsets: NDArray[np.int64]

    @classmethod
    def build(cls, metadata: pa.Table, subject: Subject, values: list[Value]) -> _ColumnIndex | None:
        """The index of a column; None if it cannot be compared with any of the values."""
        name, lists = subject
        owners: NDArray[np.int64] | None = None
        try:
            column = _plain_column(metadata, name)
            if column is None or (lists and tag_type(column.type) is None):
                return None
            if lists:
                owners, column = tags(column, name)
            scalars = _scalars(column.type, name, values)
            wanted = pa.array([each for each in scalars.values() if each is not None], column.type)
            # Two values may be equal in the column's type, such as 1 and 1.0; the kernel gives both one code.
            numbers = iter(pc.index_in(wanted, value_set=wanted).to_pylist())
            codes = pc.fill_null(pc.index_in(column, value_set=wanted), -1).to_numpy()
        except pa.ArrowException:
            return None
        code = {value: None if each is None else next(numbers) for value, each in scalars.items()}
        if owners is None:
            return cls(code, codes, *_by_code(codes, len(wanted)))
        places, offsets = _by_code(codes, len(wanted))
        return cls(code, None, owners[places], offsets)

    def among(self, rows: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row has one of these codes."""
        if self.codes is None:
            return np.isin(rows, self.rows_of(codes))
        return np.isin(self.codes[rows], codes)

    def codes_of(self, leaf: Leaf) -> NDArray[np.int64] | None:
        """The codes that satisfy a leaf; None if the index cannot answer it."""
        values = list(_values(leaf))
        if not all(value in self.code for value in values):
            return None
        found = (self.code[value] for value in values)
        return np.asarray(sorted({each for each in found if each is not None}), np.int64)

    def count(self, codes: NDArray[np.int64]) -> int:
        """Number of rows with one of these codes; a row of a list counts once for each code."""
        return int((self.offsets[codes + 1] - self.offsets[codes]).sum())

    def rows_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows with one of these codes, ascending."""
        parts = [self.rows[self.offsets[code] : self.offsets[code + 1]] for code in codes]
        if self.codes is None:
            return np.unique(np.concatenate([self.rows[:0], *parts]))
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate([self.rows[:0], *parts]))


def _operands(condition: Filter) -> Iterator[Filter]:
    """The conditions that must all be true; for these, null excludes a row just as false does."""
    if isinstance(condition, And):
        for operand in condition.operands:
            yield from _operands(operand)
    elif isinstance(condition, ContainsAll):
        for value in condition.values:
            yield ContainsAny(condition.column, (value,))
    else:
        yield condition


def _subject(leaf: Leaf) -> Subject:
    return leaf.column, isinstance(leaf, ContainsAny)


def _values(leaf: Leaf) -> Iterator[Value]:
    for value in (leaf.value,) if isinstance(leaf, Equals) else leaf.values:
        yield type(value), value


def _plain_column(metadata: pa.Table, name: str) -> pa.ChunkedArray | None:
    return plain(metadata[name]) if metadata.column_names.count(name) == 1 else None


def _scalars(kind: pa.DataType, name: str, values: list[Value]) -> dict[Value, Any]:
    """Values in the column's type; None if it cannot hold them. Values of another kind are left out."""
    scalars: dict[Value, Any] = {}
    for each in values:
        try:
            scalars[each] = converted(kind, name, each[1])
        except FilterError:
            continue
    return scalars


def _by_code(codes: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that have a code, sorted by it, and the offset of each code."""
    rows = np.flatnonzero(codes >= 0)
    # NumPy sorts numbers of 16 bits ten times as fast as larger ones.
    keys = codes[rows].astype(np.uint16 if count <= 2**16 else np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
    return rows[np.argsort(keys, kind="stable")], offsets
