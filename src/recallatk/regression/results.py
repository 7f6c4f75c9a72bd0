"""`compare_results`: runs, tunings, probes and answers compared, each with the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.analysis.side_comparison import compare_sides
from recallatk.errors import UsageError
from recallatk.regression.sources import described_sides, open_sources, open_truth
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.compared_results import ComparedResults


def compare_results(
    *results: Any,
    truth: Any = None,
    at: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    across: bool = False,
) -> ComparedResults:
    """Compare measurements of the same queries with the first one: recalls, tails, segments, costs.

    Differences of recall are paired by query, and p values are corrected over all of them (Holm). Where
    settings were built several times, the variance between builds is part of every interval.

    Args:
        results: two or more: runs or their folders (`"runs/a"`, `"runs/a#2"` for one trial), folders of
            tunings, files of `recallatk probe --json`; with a truth, answers in any form that `score` takes.
        truth: what answers are scored against; a Truth, or anything that `load_truth` takes.
        at: values of k of answers; by default those of 1, 10 and 100 that any of them reaches.
        names: how the results are called; by default by their paths.
        across: compare means without pairing queries where data, metric or queries differ.

    Raises:
        MismatchError: the results are of different data, or have no setting or measure in common.
    """
    if len(results) < 2:
        count = counted(len(results), "result", "results")
        raise UsageError(f"{count}. Accepted: two or more to compare")
    if names is not None and len(names) != len(results):
        raise UsageError(f"{len(names)} names for {len(results)} results. Accepted: one each")
    right = open_truth(truth)
    given = [None] * len(results) if names is None else list(names)
    return compare_sides(described_sides(open_sources(results, given, right, at)), across=across)
