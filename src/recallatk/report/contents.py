"""Everything that a report of a run says, before a form is given to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.errors import UsageError
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.redaction import public
from recallatk.report.naming import cut, naming
from recallatk.report.notes import notes
from recallatk.report.summary import summarise
from recallatk.report.tables import Table, tables
from recallatk.report.verdict import goal_said

if TYPE_CHECKING:
    from recallatk.core import Caution, Failure, Run
    from recallatk.goals import Verdict
    from recallatk.report.naming import Naming

_LONGEST_MESSAGE = 300
_GROUPS = ("mode", "load")


@dataclass(frozen=True)
class Contents:
    """The parts of a report as plain text, nothing of it escaped."""

    title: str
    about: list[str]
    """What holds for all trials, and how far the run has come."""
    tables: list[Table]
    goals: list[str]
    """The verdict with the setting that it is on, then each goal with its outcome."""
    failures: list[str]
    cautions: list[str]
    notes: list[str]


def contents(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
) -> Contents:
    """What there is to say of a run.

    Args:
        run: what was measured.
        verdict: on its goals; by default what the run tells without its truth and data.
        wide: with every interval and percentile, and whole parameters.
        by: one table per `mode`, or one per `load`.
        logs: where the logs of failed trials are.
        go_on: the command that measures what is missing.
    """
    if by not in _GROUPS:
        raise UsageError(f"by = {by!r}. Accepted: {' or '.join(_GROUPS)}")
    names, lines = naming(run), summarise(run)
    found = run_verdict(run) if verdict is None else verdict
    return Contents(
        title=_title(run, names),
        about=[*_shared(names), *_progress(run, go_on)],
        tables=tables(run, lines, names, wide=wide, by=by),
        goals=_goals(run, names, found),
        failures=_failures(run, names, logs),
        cautions=[_caution(each) for each in run.cautions],
        notes=notes(run, lines, names),
    )


def _goals(run: Run, names: Naming, verdict: Verdict) -> list[str]:
    if not verdict.goals:
        return []
    numbers = {number: trial for trial, number in trial_numbers(run).items()}
    at = f" at {names.label(numbers[verdict.trial])}" if verdict.trial in numbers else ""
    return [f"verdict: {verdict.outcome}{at}", *(f"goal: {goal_said(each)}" for each in verdict.goals)]


def _title(run: Run, names: Naming) -> str:
    if len(names.engines) == 1:
        what = names.engine(names.engines[0])
    else:
        what = f"{len(names.engines)} engines" if names.engines else "Nothing yet"
    return f"{what} on {run.dataset}, {run.metric}"


def _shared(names: Naming) -> list[str]:
    """Engines with what is the same in all of their trials, where there are several."""
    return [names.engine(name) for name in names.engines] if len(names.engines) > 1 else []


def _progress(run: Run, go_on: str | None) -> list[str]:
    if run.complete or run.planned is None:
        return []
    failed = f", {len(run.failures):,} failed" if run.failures else ""
    how = go_on or "the same command again"
    return [f"{len(run.measurements):,} of {len(run.planned):,} trials measured{failed}; to go on: {how}"]


def _failures(run: Run, names: Naming, logs: str | None) -> list[str]:
    said = [_failure(each, names) for each in run.failures]
    return [*said, f"What their processes said: {logs}"] if said and logs else said


def _failure(failure: Failure, names: Naming) -> str:
    message = cut(str(public(" ".join(failure.message.split()))), _LONGEST_MESSAGE)
    what = f"{failure.kind} in {failure.phase}" if failure.phase else failure.kind
    return f"{names.label(failure.trial)}: {what}: {message or 'no message'}"


def _caution(caution: Caution) -> str:
    numbers = [
        f"{name} {found:.4g}"
        for name, found in (("measured", caution.value), ("limit", caution.limit))
        if found is not None
    ]
    beside = f" ({', '.join(numbers)})" if numbers else ""
    return f"{caution.kind}: {caution.message}{beside}"
