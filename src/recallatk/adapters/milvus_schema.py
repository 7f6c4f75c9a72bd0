"""Fields and index of an existing Milvus collection, as its own description states them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.adapters.embedded_collection import chosen
from recallatk.adapters.milvus import Milvus
from recallatk.adapters.stored_columns import Column, FilterColumns, found_column
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError, UsageError
from recallatk.filters import And, ContainsAll, ContainsAny, Equals, Exists, In, Not, Or, Prefix, Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.adapters.collection import CollectionTarget
    from recallatk.filters import Filter

_TYPES = {
    "BOOL": pa.bool_(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64"), pa.int64()),
}
_ELEMENTS = {kind: held for kind, held in _TYPES.items() if pa.types.is_integer(held) or kind == "VARCHAR"}
_SCANS = ("FLAT", "BRUTE_FORCE")
_EF, _NPROBE = Milvus.search_knobs
_SEARCH_LIST = Knob("search_list", default=100, low=1, high=65_535, effort=True, help="of DISKANN")
_KNOBS = {
    **dict.fromkeys(("HNSW", "HNSW_SQ", "HNSW_PQ", "HNSW_PRQ"), _EF),
    **dict.fromkeys(("IVF_FLAT", "IVF_SQ8", "IVF_PQ", "IVF_RABITQ", "SCANN"), _NPROBE),
    "DISKANN": _SEARCH_LIST,
}
# What a description of an index has beside its build parameters.
_STATE = ("metric_type", "index_type", "field_name", "index_name", "total_rows", "indexed_rows",
          "pending_index_rows", "state", "params")  # fmt: skip


@dataclass(frozen=True)
class MilvusFields:
    """Primary key, vectors and scalar fields."""

    id: str
    text_ids: bool
    vector: str
    dimension: int
    columns: FilterColumns
    shown: Mapping[str, str]
    """Types of the scalar fields as Milvus names them."""
    singles: frozenset[str]
    """Fields of float32."""

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter on known fields has no exact form; None if it has."""
        try:
            self.columns.reduced(condition)
        except EngineError as problem:
            return str(problem)
        for name, value in _numbers(condition):
            if name in self.singles and float(np.float32(value)) != value:
                return f"milvus compares {name!r} in float32, which cannot represent {value}"
        return None

    def arrow(self, name: str) -> pa.DataType:
        """The type of a field's values."""
        found = self.columns.columns[name]
        if found.kind != "nothing" and name not in self.columns.stored:
            raise EngineError(
                f"the field {name!r} holds {self.shown[name]}, so the truth cannot filter by it"
            )
        return found.type


def read_fields(described: Mapping[str, Any], target: CollectionTarget) -> MilvusFields:
    """The fields of a collection, with the vectors that the target names.

    Args:
        described: what the client's `describe_collection` returned.
        target: the target.
    """
    key, vectors, columns, shown, singles = "", {}, {}, {}, set()
    text_ids = False
    for field in described["fields"]:
        name, kind = field["name"], field["type"].name
        if kind.endswith("_VECTOR"):
            vectors[name] = (kind, int(field["params"].get("dim", 0)))
            continue
        if field.get("is_primary"):
            key, text_ids = name, kind == "VARCHAR"
        else:
            shown[name] = _shown(field)
        columns[name] = _column(field)
        if kind == "FLOAT":
            singles.add(name)
    only = next(iter(vectors)) if len(vectors) == 1 else None
    vector = chosen(target, "vector", vectors, only, "vector field")
    stored, dimension = vectors[vector]
    if stored != "FLOAT_VECTOR":
        raise EngineError(f"{target.text}: {vector!r} holds {stored}. Accepted: FLOAT_VECTOR")
    filters = FilterColumns("milvus", columns)
    return MilvusFields(key, text_ids, vector, dimension, filters, shown, frozenset(singles))


def _shown(field: Mapping[str, Any]) -> str:
    name: str = field["type"].name
    if name != "ARRAY":
        return name
    element = field["element_type"]
    return f"ARRAY of {getattr(element, 'name', element)}"


def _column(field: Mapping[str, Any]) -> Column:
    shown = _shown(field)
    kind = _TYPES.get(shown)
    if kind is None and shown.removeprefix("ARRAY of ") in _ELEMENTS:
        kind = pa.list_(_ELEMENTS[shown.removeprefix("ARRAY of ")])
    if kind is None:
        return Column(field["name"], shown, pa.null())
    return found_column(field["name"], kind, bool(field.get("nullable")))


def _numbers(condition: Filter) -> Iterator[tuple[str, float]]:
    """Every number that a filter compares with, and the column."""
    values: Any = ()
    match condition:
        case And(operands) | Or(operands):
            for each in operands:
                yield from _numbers(each)
            return
        case Not(operand):
            yield from _numbers(operand)
            return
        case Exists() | Prefix():
            return
        case Equals(name, value):
            values = (value,)
        case In(name, several) | ContainsAny(name, several) | ContainsAll(name, several):
            values = several
        case Range(name):
            values = condition.bounds().values()
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


@dataclass(frozen=True)
class MilvusIndex:
    """The index on the vectors."""

    kind: str
    metric: Metric
    definition: str
    build: Mapping[str, Any]
    indexed: int
    """Rows that the database says are in it."""

    @property
    def scans(self) -> bool:
        """Whether it compares every row."""
        return self.kind in _SCANS

    def knob(self, local: bool) -> Knob | None:
        """The effort of a search; None if there is none, or none that is known.

        Args:
            local: whether it is an index of Milvus Lite.
        """
        # Lite makes AUTOINDEX a graph; what a server makes it is up to its configuration.
        found = _EF if local and self.kind == "AUTOINDEX" else _KNOBS.get(self.kind)
        if found is _NPROBE and str(self.build.get("nlist", "")).isdigit():
            return replace(found, high=int(self.build["nlist"]), default=min(8, int(self.build["nlist"])))
        return found

    def without_effort(self) -> str:
        """Why there is no effort."""
        if self.scans:
            return f"{self.kind} compares every row, so that recall is 1 without an effort"
        return f"which parameter is the effort of a {self.kind} index is not known here"


def read_index(described: Mapping[str, Any] | None, vector: str, target: CollectionTarget) -> MilvusIndex:
    """The index on a vector field.

    Args:
        described: what the client's `describe_index` returned; None if there is no index.
        vector: the field.
        target: the target.
    """
    if described is None:
        raise EngineError(
            f"{target.text}: there is no index on {vector!r}, and Milvus searches no field without one. Make "
            "one with client.create_index"
        )
    metrics = {each.upper(): each for each in Metric}
    named = str(described.get("metric_type", ""))
    if named not in metrics:
        raise UsageError(
            f"{target.text}: the index compares by {named or 'nothing known'}. Accepted: COSINE, IP, L2"
        )
    nested = described.get("params")
    given = {name: value for name, value in described.items() if name not in _STATE}
    build = {**given, **(nested if isinstance(nested, dict) else {})}
    kind = str(described["index_type"])
    indexed = int(described.get("indexed_rows") or 0)
    listed = "".join(f", {name}={value}" for name, value in sorted(build.items()))
    definition = f"{kind} on {vector} ({named}{listed})"
    return MilvusIndex(kind, metrics[named], definition, build, indexed)
