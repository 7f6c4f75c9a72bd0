"""R41: filters on columns that have no index in the benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, engine_of
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

_NAMED = 5


class UnindexedFilterColumns(Rule):
    """A database that could index the columns of the filters, measured without."""

    code, name, severity = "R41", "unindexed-filter-columns", Severity.NOTE
    title = "Filter columns have no index"
    threshold = "queries have filters, and the engine was built without indexes on their columns"
    source = (
        "pgvector's documentation on filtering: with an index on the column, the planner can use it instead "
        "of the vector index."
    )
    why = (
        "With an index on the column, a database may find the rows that pass first and scan only these. "
        "Recall and latency of selective filters then differ from those measured here."
    )
    remedy = "If production indexes these columns, measure that table: attach to it, or use its own plan."
    needs = frozenset({"run", "dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """One finding per engine, with the columns."""
        if evidence.run is None or evidence.dataset is None:
            return
        filters = {each for each in evidence.dataset.queries.filters or () if each is not None}
        columns = sorted(frozenset[str]().union(*(each.columns() for each in filters)))
        for name in by_engine(evidence.measurements) if columns else ():
            engine = engine_of(name)
            if engine is not None and engine.column_indexes is False:
                listed = ", ".join(columns[:_NAMED]) + (", …" if len(columns) > _NAMED else "")
                many = counted(len(columns), "column", "columns")
                yield self.finding(
                    f"{name} filters by {many} without an index: {listed}",
                    len(columns),
                    0,
                )
