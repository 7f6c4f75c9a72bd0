"""pgvector-hnsw and pgvector-ivfflat: pgvector's graph and its inverted lists in a real PostgreSQL."""

from __future__ import annotations

from typing import Any, ClassVar

from recallatk.adapters.base import Constraint
from recallatk.adapters.postgres import OPERATORS, POSTGRES_BUILD_KNOBS, POSTGRES_SEARCH_KNOBS, Postgres
from recallatk.adapters.snippet import Setting, lines
from recallatk.core import Knob


class Pgvector(Postgres):
    """One access method of pgvector, and the SQL that creates and searches its index."""

    options: ClassVar[dict[str, str]]
    """Options of CREATE INDEX, each with its build knob."""
    effort: ClassVar[tuple[str, str]]
    """Session parameter for the effort, and its search knob."""

    @classmethod
    def with_clause(cls, build: dict[str, Any]) -> str:
        """The WITH options of CREATE INDEX."""
        return ", ".join(f"{name} = {build[knob]}" for name, knob in cls.options.items())

    def configure(self, **parameters: Any) -> None:
        """Set the effort, and whether a search continues after a filter removed candidates."""
        super().configure(**parameters)
        name, knob = self.effort
        scan = parameters["iterative_scan"]
        self.set({name: parameters[knob], f"{self.method}.iterative_scan": scan})

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """SQL: CREATE INDEX, the session settings, and the query.

        The table is `items` with the columns `id` and `embedding`.
        """
        search, storage = setting.search, setting.build["storage"]
        dimension = setting.dimension or "DIMENSION"
        unknown = storage != "vector" and setting.dimension is None
        forced = "-- Measured with SET enable_seqscan = off, so that the planner uses the index."
        return lines(
            "-- Your table is items (id, embedding), and $1 is the query vector.",
            "-- DIMENSION is the length of a vector." if unknown else None,
            f"CREATE INDEX items_embedding ON items USING {cls.method}",
            f"  (({_indexed(storage, dimension)}) {_operator_class(setting)})",
            f"  WITH ({cls.with_clause(dict(setting.build))});",
            "",
            f"SET {cls.effort[0]} = {search[cls.effort[1]]};",
            f"SET {cls.method}.iterative_scan = {search['iterative_scan']};",
            f"SET plan_cache_mode = {search['plan_cache_mode']};",
            None if search["plan"] == "free" else forced,
            "",
            _query(setting, dimension),
        )


class PgvectorHnsw(Pgvector):
    """pgvector HNSW index; a search returns at most `ef` rows unless iterative_scan is on."""

    name = "pgvector-hnsw"
    method = "hnsw"
    options: ClassVar[dict[str, str]] = {"m": "M", "ef_construction": "ef_construction"}
    effort = ("hnsw.ef_search", "ef")
    build_knobs = (
        Knob("M", default=16, low=2, high=100),
        Knob("ef_construction", default=64, low=4, high=1000, effort=True),
        *POSTGRES_BUILD_KNOBS,
    )
    search_knobs = (
        Knob("ef", default=40, low=1, high=1000, effort=True),
        Knob("iterative_scan", default="off", choices=("off", "relaxed_order", "strict_order")),
        *POSTGRES_SEARCH_KNOBS,
    )
    constraints = (
        Constraint(
            "ef_construction of at least 2 M",
            ("M", "ef_construction"),
            lambda M, ef_construction: ef_construction >= 2 * M,
        ),
    )


class PgvectorIvfFlat(Pgvector):
    """pgvector IVFFlat index: whole vectors in inverted lists."""

    name = "pgvector-ivfflat"
    method = "ivfflat"
    options: ClassVar[dict[str, str]] = {"lists": "lists"}
    effort = ("ivfflat.probes", "probes")
    build_knobs = (Knob("lists", default=100, low=1, high=32_768), *POSTGRES_BUILD_KNOBS)
    search_knobs = (
        Knob("probes", default=1, low=1, high=32_768, effort=True),
        Knob("iterative_scan", default="off", choices=("off", "relaxed_order")),
        *POSTGRES_SEARCH_KNOBS,
    )
    constraints = (
        Constraint("no more probes than lists", ("probes", "lists"), lambda probes, lists: probes <= lists),
    )
    list_knob = "lists"


def _indexed(storage: str, dimension: int | str) -> str:
    if storage == "bit":
        return f"binary_quantize(embedding)::bit({dimension})"
    return "embedding" if storage == "vector" else f"embedding::{storage}({dimension})"


def _operator_class(setting: Setting) -> str:
    storage = setting.build["storage"]
    return "bit_hamming_ops" if storage == "bit" else f"{storage}_{OPERATORS[setting.metric][1]}_ops"


def _query(setting: Setting, dimension: int | str) -> str:
    storage, k = setting.build["storage"], setting.k
    operator = OPERATORS[setting.metric][0]
    if storage == "bit":
        order = f"({_indexed(storage, dimension)}) <~> binary_quantize($1)::bit({dimension})"
        inner = f"SELECT * FROM items ORDER BY {order} LIMIT {k * setting.search['rerank']}"  # noqa: S608
        nearest = f"ORDER BY embedding {operator} $1 LIMIT {k};"
        return f"SELECT id FROM ({inner}) AS candidates\n  {nearest}"  # noqa: S608
    asked = "$1" if storage == "vector" else f"$1::{storage}({dimension})"
    nearest = f"ORDER BY ({_indexed(storage, dimension)}) {operator} {asked} LIMIT {k};"
    return f"SELECT id FROM items {nearest}"  # noqa: S608
