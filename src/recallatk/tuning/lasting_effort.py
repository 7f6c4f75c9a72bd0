"""Whether the chosen setting still meets its targets after a runbook, and the least effort that does."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.adapters import get_engine
from recallatk.bench.full_effort import effort_knobs
from recallatk.bench.job import TrialSettings
from recallatk.bench.plan import Plan, PlannedBuild
from recallatk.bench.settings.grid import violations
from recallatk.core import Load
from recallatk.core.tuned import ChurnedEffort
from recallatk.fingerprint import fingerprints
from recallatk.streaming.churn import replay_plan, require_updates
from recallatk.streaming.opening import runbook_for, source_of
from recallatk.streaming.step_goals import read_goals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.adapters import Engine
    from recallatk.core import Dataset
    from recallatk.core.tuned import Candidate, Tuned
    from recallatk.files import PathLike
    from recallatk.goals import Target
    from recallatk.streaming import Runbook

# Efforts to ask, in multiples of the chosen one.
_TIMES = (1.0, 1.5, 2.0, 3.0, 4.0)


def checked_runbook(
    given: Any, dataset: Dataset, targets: Sequence[Target], engines: Sequence[type[Engine]]
) -> Runbook:
    """The runbook of a tuning, before anything is built; engines that cannot delete are refused."""
    read_goals([str(each) for each in targets])
    require_updates([each.name for each in engines], concurrent=False)
    return runbook_for(source_of(given), dataset)


def after_runbook(
    tuned: Tuned,
    dataset: Dataset,
    runbook: Runbook,
    targets: Sequence[Target],
    *,
    seed: int = 0,
    out: PathLike | None = None,
) -> Tuned:
    """The tuning with what its choice, and the same build at more effort, reach after a runbook.

    Args:
        tuned: the outcome; without a choice, nothing is replayed.
        dataset: the corpus and the held-out queries.
        runbook: what happens to the corpus.
        targets: judged at the last search.
        seed: random seed of the order of queries.
        out: the folder of the tuning; the replay is resumed from there.
    """
    if tuned.choice is None:
        return replace(tuned, churn=runbook.name)
    cutoffs = tuple(sorted({each.measure.k for each in targets}))
    planned = PlannedBuild(
        tuned.choice.engine, tuned.choice.build, 0, _efforts(tuned.choice, dataset, max(cutoffs)), (Load(),)
    )
    found = replay_plan(
        runbook,
        dataset,
        Plan((planned,), ()),
        TrialSettings(at=cutoffs, seed=seed),
        goals=[str(each) for each in targets],
        recover=False,
        out=None if out is None else Path(out) / _folder_name(runbook, dataset, cutoffs, seed),
    )
    name = str(targets[0].measure)
    efforts = tuple(
        ChurnedEffort(
            curve.search,
            curve.searches[0].measures[name],
            curve.searches[-1].measures[name],
            curve.verdict.outcome,
        )
        for curve in found.curves
        if curve.searches
    )
    failed = next((each.failure.message for each in found.curves if each.failure is not None), "")
    lasts = any(each.outcome == "PASS" for each in efforts)
    return replace(
        tuned, met=tuned.met and lasts, churn=runbook.name, churned=efforts, churn_failure=failed or None
    )


def _folder_name(runbook: Runbook, dataset: Dataset, cutoffs: tuple[int, ...], seed: int) -> str:
    """A folder for each replay, because a tuning of other data or targets may use the same folder."""
    identity = f"{runbook.identity} {sorted(fingerprints(dataset).items())} {cutoffs} {seed}"
    return f"churn-{blake2b(identity.encode(), digest_size=4).hexdigest()}"


def _efforts(choice: Candidate, dataset: Dataset, k: int) -> tuple[Any, ...]:
    """The chosen search, and the same with more effort, as far as the engine accepts it."""
    engine, search = get_engine(choice.engine), dict(choice.search)
    corpus = dataset.corpus
    known = {**dict(choice.build), "k": k, "rows": corpus.rows, "dimension": corpus.dimension}
    found: dict[Any, None] = {}
    for times in _TIMES:
        more = {
            knob.name: knob.plain(min(knob.high, round(times * search[knob.name])))
            for knob in effort_knobs(engine, search)
        }
        if not any(violations(engine, {**known, **search, **more})):
            found[tuple({**search, **more}.items())] = None
    return tuple(found)
