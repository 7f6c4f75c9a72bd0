"""The title of a run: engines, data, queries with their filters, metric and goals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.goals.runs import goals_of
from recallatk.reporting.labels import weighted_by

if TYPE_CHECKING:
    from recallatk.core import Run, Weights
    from recallatk.reporting.labels import Naming


def run_title(run: Run, labels: Naming, weights: Weights | None = None) -> str:
    """The engine, or how many there are, on which data: queries, filters, metric and goals."""
    engines = labels.engines
    if len(engines) == 1:
        what = labels.engine(engines[0])
    else:
        what = f"{len(engines)} engines" if engines else "Nothing measured yet"
    goals = [str(each) for each in goals_of(run).goals]
    target = [f"target {' and '.join(goals)}"] if goals else []
    weighted = [weighted_by(weights)] if weights else []
    return f"{what} on {run.dataset}: {', '.join([*_queries(run), str(run.metric), *weighted, *target])}"


def has_filters(run: Run) -> bool:
    """Whether queries have filters."""
    # Only a truth under filters depends on the metadata of the corpus.
    return "metadata" in run.fingerprints


def _queries(run: Run) -> list[str]:
    """How many queries there are, and how many of them have filters."""
    counts = sorted({len(each.answers) for each in run.measurements})
    if not counts:
        return []
    asked = "query" if counts == [1] else "queries"
    some = _some_filtered(run)
    if some:
        how = "with synthetic filters" if run.synthetic else "filtered"
        return [f"{_range(counts)} {asked}", f"{some:,} of them {how}"]
    if run.synthetic:
        return [f"{_range(counts)} {asked} with synthetic filters"]
    return [f"{_range(counts)} {'filtered ' if has_filters(run) else ''}{asked}"]


def _some_filtered(run: Run) -> int | None:
    """Number of queries with a filter, where not all have one; None if all have one or none is recorded."""
    facts = next((each.filters for each in run.measurements if each.filters is not None), None)
    return None if facts is None or facts.filtered.all() else int(facts.filtered.sum())


def _range(counts: list[int]) -> str:
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
