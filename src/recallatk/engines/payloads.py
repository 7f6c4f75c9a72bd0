"""Corpus columns as databases store them, filters reduced to two truth values, and Qdrant's form of those."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from recallatk.errors import EngineError, FilterError, RecallError
from recallatk.filters import And, Equals, Exists, Filter, In, Not, Or, Range
from recallatk.filters.expression import Literal, literal_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.engines.base import Filters

# Where bounds are compared in float64, whole numbers from here on could be taken for their neighbours.
EXACT_WHOLE = 2**53


@dataclass
class Column:
    """One column, under a key that needs no quoting in any database."""

    key: str
    kind: str
    """text, whole, number, truth, nothing (only nulls), or the Arrow type of what cannot be stored."""
    nullable: bool = False
    """Whether a null has been stored."""


class StoredColumns:
    """The columns of a corpus that an engine stores beside the vectors; a null is stored as no value."""

    def __init__(self, engine: str, corpus: Corpus) -> None:
        self.engine, self.corpus = engine, corpus
        names, schema = corpus.metadata_names, corpus.columns.schema
        self.columns = {
            name: Column(f"c{number}", _kind(schema.field(name).type))
            for number, name in enumerate(names)
            if names.count(name) == 1
        }

    @property
    def stored(self) -> dict[str, Column]:
        """The columns that have something to store."""
        kinds = ("text", "whole", "number", "truth")
        return {name: column for name, column in self.columns.items() if column.kind in kinds}

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """What stands beside each of these rows, by key, without nulls."""
        payloads: list[dict[str, Any]] = [{} for _ in range(start, stop)]
        stored = self.stored
        if not stored:
            return payloads
        table = self.corpus.columns.read(list(stored), start, stop)
        for name, column in stored.items():
            for payload, value in zip(payloads, table[name].to_pylist(), strict=True):
                if value is None or value != value:
                    column.nullable = True
                else:
                    payload[column.key] = value
        return payloads

    def lose(self) -> None:
        """Rows without any values were added."""
        for column in self.columns.values():
            column.nullable = True

    def reduced(self, condition: Filter, negated: bool = False) -> Filter | bool:
        """The same over keys, without nulls: negations stand at the leaves, and test for a value first."""
        match condition:
            case Not(operand):
                return self.reduced(operand, not negated)
            case And(operands) | Or(operands):
                parts = [self.reduced(each, negated) for each in operands]
                return _joined(parts, isinstance(condition, And) != negated)
            case Exists(name):
                known = self._known(self._column(name))
                return known if not negated else (not known if isinstance(known, bool) else Not(known))
            case Equals(name) | In(name) | Range(name):
                column = self._column(name)
                leaf = False if column.kind == "nothing" else self._leaf(condition, column)
                if isinstance(leaf, bool):
                    return self._known(column) if leaf != negated else False
                return _joined([self._known(column), Not(leaf)], True) if negated else leaf
        raise FilterError(f"{type(condition).__name__} is no kind of filter")

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise FilterError(f"no column {name!r}. The columns are: {', '.join(self.columns) or 'none'}")
        column = self.columns[name]
        if column.kind != "nothing" and name not in self.stored:
            raise EngineError(f"{self.engine} cannot filter by {name!r}, which holds {column.kind}")
        return column

    def _known(self, column: Column) -> Filter | bool:
        if column.kind == "nothing":
            return False
        return Exists(column.key) if column.nullable else True

    def _leaf(self, condition: Equals | In | Range, column: Column) -> Filter | bool:
        if isinstance(condition, Range):
            return self._range(condition, column)
        values = (condition.value,) if isinstance(condition, Equals) else condition.values
        typed = [
            each for each in (_typed(column, condition.column, value) for value in values) if each is not None
        ]
        return In(column.key, tuple(typed)) if typed else False

    def _range(self, condition: Range, column: Column) -> Range:
        bounds: dict[str, Literal] = {}
        for bound, value in condition.bounds().items():
            # Only the type is of interest here: a bound need not be a value of the column.
            _typed(column, condition.column, value)
            if isinstance(value, str):
                bounds[bound] = value
            elif (column.kind == "whole" and abs(value) >= EXACT_WHOLE) or float(value) != value:
                raise EngineError(f"{self.engine} cannot compare exactly with {literal_text(value)}")
            elif column.kind == "whole" and int(value) != value:
                lower = bound in ("gte", "gt")
                bounds["gte" if lower else "lte"] = math.ceil(value) if lower else math.floor(value)
            else:
                bounds[bound] = int(value) if column.kind == "whole" else float(value)
        return Range(column.key, **bounds)


def _kind(kind: pa.DataType) -> str:
    import pyarrow as pa

    types, plain = pa.types, kind.value_type if pa.types.is_dictionary(kind) else kind
    if types.is_integer(plain) and not types.is_uint64(plain):
        return "whole"
    named = {"float": "number", "double": "number", "halffloat": "number", "bool": "truth", "null": "nothing"}
    textual = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    return "text" if textual else named.get(str(plain), str(plain))


def _typed(column: Column, name: str, value: Literal) -> Literal | None:
    """The value as the column holds it; None where no value of the column can equal it."""
    if column.kind == "text" and isinstance(value, str):
        return value
    if column.kind == "truth" and isinstance(value, bool):
        return value
    if column.kind in ("whole", "number") and not isinstance(value, str | bool):
        if column.kind == "whole":
            return int(value) if int(value) == value and -(2**63) <= value < 2**63 else None
        return float(value) if float(value) == value or abs(value) >= 2**63 else None
    raise FilterError(
        f"column {name!r} holds {column.kind} and cannot be compared with {literal_text(value)}"
    )


def _joined(parts: list[Filter | bool], every: bool) -> Filter | bool:
    """All or any of the parts, without those that decide nothing."""
    if (not every) in parts:
        return not every
    open_parts = tuple(each for each in parts if isinstance(each, Filter))
    if len(open_parts) < 2:
        return open_parts[0] if open_parts else every
    return And(open_parts) if every else Or(open_parts)


def address(engine: str, url: str) -> str:
    """The address of a server; parameters are written down, so it may hold no password."""
    try:
        holds_secret = "@" in urlsplit(url).netloc
    except ValueError:
        holds_secret = True
    if holds_secret:
        raise EngineError(
            f"{engine}: an address must hold no user or password; see the help of its parameter"
        )
    return url


@contextlib.contextmanager
def dropping(engine: str, collection: str) -> Iterator[None]:
    """What cannot be dropped is said: it may stay behind on somebody's server. Closing goes on."""
    try:
        yield
    except Exception as problem:
        kind = type(problem).__name__
        warnings.warn(f"{engine}: the collection {collection} could not be dropped ({kind})", stacklevel=3)


@contextlib.contextmanager
def told(engine: str, *secrets: str | None) -> Iterator[None]:
    """What goes wrong in a library or on the way to a server, as an EngineError without secrets."""
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        reason = f"{type(problem).__name__}: {problem}"
        for secret in filter(None, secrets):
            reason = reason.replace(secret, "…")
        raise EngineError(f"{engine} failed: {' '.join(reason.split())[:300]}") from None


def grouped(filters: Filters, count: int) -> list[tuple[Filter | None, list[int]]]:
    """The queries by their filter, for databases that take one filter for a batch."""
    groups: dict[Filter | None, list[int]] = {}
    for number, each in enumerate([None] * count if filters is None else filters):
        groups.setdefault(each, []).append(number)
    return list(groups.items())


def padded(found: Sequence[Iterable[int]], k: int) -> NDArray[np.int64]:
    """Answers of any length as a matrix, with -1 where there are no more."""
    answers = np.full((len(found), k), -1, np.int64)
    for number, rows in enumerate(found):
        listed = list(rows)[:k]
        answers[number, : len(listed)] = listed
    return answers


def qdrant_filter(condition: Filter, api: Any) -> Any:
    """A reduced filter in the classes of `api`, which are the shard's or the client's."""
    match condition:
        case And(operands):
            return api.Filter(must=[qdrant_filter(each, api) for each in operands])
        case Or(operands):
            return api.Filter(should=[qdrant_filter(each, api) for each in operands])
        case Not(operand):
            return api.Filter(must_not=[qdrant_filter(operand, api)])
        case Exists(key):
            return api.Filter(must_not=[api.FieldCondition(key=key, is_empty=True)])
        case In(key, values):
            return api.Filter(should=[api.FieldCondition(key=key, **_equal(value, api)) for value in values])
        case Range(key):
            if any(isinstance(value, str) for value in condition.bounds().values()):
                raise EngineError("qdrant cannot filter by the order of texts")
            return api.Filter(must=[api.FieldCondition(key=key, range=_bounds(api, **condition.bounds()))])
    raise FilterError(f"{type(condition).__name__} is no kind of filter")


def qdrant_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """Values as `qdrant_filter` looks for them."""
    return {key: int(value) if isinstance(value, bool) else value for key, value in payload.items()}


def _equal(value: Literal, api: Any) -> dict[str, Any]:
    """Qdrant matches no fractional numbers; a range of one does."""
    if isinstance(value, float):
        return {"range": _bounds(api, gte=value, lte=value)}
    # The shard takes true for the number 1, so truth values are stored as numbers.
    return {"match": api.MatchValue(value=int(value) if isinstance(value, bool) else value)}


def _bounds(api: Any, **bounds: Any) -> Any:
    return (api.RangeFloat if hasattr(api, "RangeFloat") else api.Range)(**bounds)
