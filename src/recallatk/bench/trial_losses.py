"""Where the trials of a run lost recall: causes with intervals, the remedy, and what the evidence lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.loss import CAUSES, attribute, loss_by_cause
from recallatk.analysis.remedy import remedy_of
from recallatk.core import Run
from recallatk.core.losses import ABSENT, NOT_ASKED, Cause, FilterWork, TrialLoss
from recallatk.errors import UsageError
from recallatk.goals.runs import trial_numbers
from recallatk.storage import load_run
from recallatk.units import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Measurement
    from recallatk.core.losses import LossEvidence
    from recallatk.files import PathLike

_COLLECT = "Collect it: recallatk run BENCH_FILE --explain"
_MEASURE_AGAIN = "Collect it: measure(…, explain=True)"


def explain(run: Run | PathLike, trial: int | None = None) -> list[TrialLoss]:
    """Where each trial of a run lost recall, from the evidence that `explain=True` or `--explain` collected.

    Args:
        run: the run, or its folder.
        trial: number of one trial, as in the name of its file; by default all.

    Stages of paths say themselves what they lost: `Measurement.stages`.

    Raises:
        UsageError: there is no such trial, or no evidence.
    """
    found = run if isinstance(run, Run) else load_run(Path(run))
    numbers = trial_numbers(found)
    known = {numbers[each.trial]: each for each in found.measurements}
    if trial is not None and trial not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise UsageError(f"no measured trial {trial}. Measured trials: {listed}")
    chosen = known if trial is None else {trial: known[trial]}
    if all(each.loss is None and each.stages is None for each in chosen.values()):
        which = "the run" if trial is None else f"trial {trial}"
        # A run of `measure` has no bench file.
        stated = found.settings.get("engine") or found.settings.get("path")
        collect = _COLLECT if stated else _MEASURE_AGAIN
        raise UsageError(f"no evidence on what {which} missed. {collect}")
    return losses_of(found, chosen)


def losses_of(run: Run, chosen: dict[int, Measurement] | None = None) -> list[TrialLoss]:
    """The losses of the trials that have evidence, by number; of all trials by default."""
    numbers = trial_numbers(run)
    known = {numbers[each.trial]: each for each in run.measurements} if chosen is None else chosen
    found = (_loss(number, each, run) for number, each in known.items())
    return [each for each in found if each is not None]


def _loss(number: int, measurement: Measurement, run: Run) -> TrialLoss | None:
    evidence = measurement.loss
    measure = "" if evidence is None else f"recall@{evidence.k}"
    recalls = measurement.values(measure)
    if evidence is None or recalls is None:
        return None
    causes = loss_by_cause(evidence, recalls, measurement.weights)
    recall = measurement.score.measures.get(measure) or mean_of(recalls, measure)
    return TrialLoss(
        number=number,
        trial=measurement.trial,
        measure=measure,
        recall=replace(recall, ids=None),
        causes=causes,
        remedy=remedy_of(measurement, causes, run.measurements),
        filtering=_filtering(evidence),
        notes=tuple(_notes(evidence)),
    )


def _filtering(evidence: LossEvidence) -> FilterWork | None:
    """Medians of what the filters did, over the queries for which the engine counted it."""
    _, first = np.unique(evidence.query, return_index=True)
    asked = first[evidence.returned[first] != NOT_ASKED]
    if not len(asked):
        return None
    returned, removed = (float(np.median(each[asked])) for each in (evidence.returned, evidence.removed))
    return FilterWork(len(asked), returned, removed)


def _notes(evidence: LossEvidence) -> list[str]:
    cause = attribute(evidence)

    def lost_to(which: Cause) -> NDArray[np.bool_]:
        return np.asarray(cause == CAUSES.index(which))

    said = []
    unvisited = evidence.visited[lost_to(Cause.EFFORT) & (evidence.visited != ABSENT)]
    if len(unvisited):
        share = float((unvisited == 0).mean())
        said.append(f"{share:.0%} of the neighbors lost to effort are in lists that the search did not visit")
    missing = len(np.unique(evidence.row[lost_to(Cause.MISSING)]))
    if missing:
        said.append(f"{counted(missing, 'row is', 'rows are')} missing from the index")
    if evidence.stopped and lost_to(Cause.UNATTRIBUTED).any():
        queries = len(np.unique(evidence.query))
        lists = (evidence.deeper, evidence.unfiltered, evidence.full)
        asked = np.logical_or.reduce([ranks != NOT_ASKED for ranks in lists])
        said.append(
            f"evidence covers {len(np.unique(evidence.query[asked])):,} of "
            f"{counted(queries, 'query', 'queries')} that missed something: it stopped after "
            f'{evidence.seconds:.2g} s. Allow more: [limits] explain = "10min" in the bench file, or '
            "limits=recallatk.Limits(explain_seconds=600)"
        )
    return [*said, *evidence.notes]
