"""Drift: triggers between two snapshots, and a recall test on the current queries, which alone decides."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import headline_of
from recallatk.core import Run
from recallatk.core.drifted import Drifted, RecallTest
from recallatk.core.judgments import Outcome
from recallatk.errors import MismatchError, UsageError
from recallatk.fingerprint import fingerprint_queries
from recallatk.goals import Target
from recallatk.goals.grammar import parse_goal
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.probing.probe import probe
from recallatk.triggers import open_snapshot, shifts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.adapters.collection import Collection
    from recallatk.core import Measurement, Metric
    from recallatk.core.drifted import Shifts
    from recallatk.goals.grammar import Goal
    from recallatk.triggers import Snapshot


def drift(
    baseline: Any,
    current: Any,
    *,
    goals: Sequence[str | Goal] = (),
    target: str | Collection | None = None,
    measured: Any = None,
    corpus: Any = None,
    metric: Metric | str | None = None,
    corpora: bool = False,
    queries: Any = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    on_shifts: Callable[[Shifts], None] | None = None,
    **asked: Any,
) -> Drifted:
    """What changed between two snapshots, beside the recall on the current queries.

    Triggers are cheap numbers; they decide nothing. The verdict is that of a recall test: a probe of
    `target`, or a run that measured the current queries.

    Args:
        baseline: a query log, a corpus, a data set, or a run or its folder.
        current: the same, later.
        goals: such as `recall@10 >= 0.95`; they need a recall test.
        target: an existing collection, as for `probe`; it is asked the current queries.
        measured: a run of the current queries, or its folder; by default `current` if that is a run.
        corpus: the corpus that queries search, to judge their hardness and what their filters admit.
        metric: cosine, ip or l2, where the data do not state it.
        corpora: files with one matrix are corpora; by default they are taken as queries.
        queries: the current queries for the probe, where `current` holds none.
        seed: random seed of samples, tests and the order of the probe.
        progress: called with the number of probed queries, and of all.
        on_shifts: called with the triggers, before recall is measured.
        asked: what else `probe` takes, such as at, search and max_rate.
    """
    parsed = [parse_goal(each) if isinstance(each, str) else each for each in goals]
    first, second = (open_snapshot(each, corpora=corpora) for each in (baseline, current))
    run = _measured(measured, second)
    if target is not None and measured is not None:
        raise UsageError("both a target and a run: the recall test is one of them")
    if parsed and target is None and run is None:
        raise UsageError(
            f"{', '.join(map(str, parsed))}: a target needs a recall test on the current queries: "
            "--probe TARGET, or --run RUN that measured them. Triggers give no verdict"
        )
    real = queries if queries is not None else _real(current, second)
    if target is not None and real is None:
        raise UsageError(f"{second.name} holds no queries for the probe. Name them: --queries FILE")
    changed = shifts(first, second, corpus=corpus, metric=metric, seed=seed)
    if on_shifts is not None:
        on_shifts(changed)
    if target is not None:
        found = probe(target, real, goals=parsed, seed=seed, progress=progress, **asked)
        test = RecallTest(found.target, f"recall@{found.k}", found.recall, found.verdict, found)
        return Drifted(changed, test)
    if run is not None:
        return Drifted(changed, _of_run(run, parsed))
    return Drifted(changed, None, _next_step(current, second))


def _measured(measured: Any, current: Snapshot) -> Snapshot | None:
    """The run to judge by; one of other queries is refused."""
    if measured is None:
        return current if current.run is not None else None
    found = _run_alone(measured)
    assert found.run is not None  # noqa: S101 - checked where it was opened
    if current.queries is not None:
        known = found.run.fingerprints.get("queries")
        if known != fingerprint_queries(current.queries):
            raise MismatchError(
                f"{found.name} measured other queries than {current.name}. Recall on them says nothing about "
                "the current ones: measure those, or probe with them (--probe TARGET)"
            )
    return found


def _run_alone(measured: Any) -> Snapshot:
    """A run whose data may be gone: its recalls are in its folder."""
    from recallatk.storage import load_run

    if isinstance(measured, Run):
        return _snapshot_of(measured, measured.dataset)
    if not isinstance(measured, str | os.PathLike):
        raise UsageError(f"a run of type {type(measured).__name__}. Accepted: a Run, or its folder")
    return _snapshot_of(load_run(measured), os.fspath(measured))


def _snapshot_of(run: Run, name: str) -> Snapshot:
    from recallatk.triggers import Snapshot

    return Snapshot(name, run=run)


def _real(current: Any, opened: Snapshot) -> Any:
    """The current queries as the user named them, so that messages of the probe name them too."""
    if opened.queries is None:
        return None
    whole = opened.corpus is None and isinstance(current, str | os.PathLike)
    return current if whole else opened.queries


def _of_run(found: Snapshot, goals: Sequence[Goal]) -> RecallTest:
    run = found.run
    assert run is not None  # noqa: S101 - checked where it was chosen
    # The goals of the run itself are not those of this test.
    plain = replace(run, settings={key: value for key, value in run.settings.items() if key != "tune"})
    verdict = run_verdict(plain, more=[str(each) for each in goals])
    unmeasured = [each for each in verdict.goals if each.outcome is Outcome.NOT_MEASURED]
    if unmeasured:
        said = "; ".join(f"{each.text}{': ' + each.note if each.note else ''}" for each in unmeasured)
        raise UsageError(f"{found.name} did not measure {said}")
    measurement = _measurement(run, verdict.trial)
    wanted = [each.name for each in goals if isinstance(each, Target)]
    names = measurement.score.measures
    measure = next((name for name in wanted if name in names), None) or headline_of(names)
    if measure is None:
        raise UsageError(f"{found.name}: this run measured no recall")
    return RecallTest(f"{found.name}: {measurement.trial}", measure, names[measure], verdict)


def _measurement(run: Run, number: int | None) -> Measurement:
    """The trial that was judged; without goals the one with the highest headline recall."""
    if not run.candidates:
        raise UsageError("the run has no finished trial")
    if number is not None:
        numbers = trial_numbers(run)
        return next(each for each in run.candidates if numbers[each.trial] == number)
    headline = headline_of(name for each in run.candidates for name in each.score.measures) or ""

    def recall(each: Measurement) -> float:
        mean = each.score.measures.get(headline)
        return -1.0 if mean is None or mean.value is None else mean.value

    return max(run.candidates, key=recall)


def _next_step(current: Any, opened: Snapshot) -> str:
    if opened.queries is None:
        return ""
    named = os.fspath(current) if isinstance(current, str | os.PathLike) else "QUERIES"
    return shlex.join(["recallatk", "probe", "TARGET", "--queries", named, "--target", "recall@10 >= 0.95"])
