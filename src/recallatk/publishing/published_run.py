"""What a site keeps of a run after its report is made: the machine, the settings and their numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import recall_cutoffs
from recallatk.analysis.weighting import weights_of_run
from recallatk.fingerprint import Hash
from recallatk.goals.grammar import parse_goal
from recallatk.goals.runs import TrialEvidence, trial_numbers
from recallatk.redaction import public
from recallatk.reporting.exports.tabular import flat_rows
from recallatk.reporting.trial_lines import trial_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.analysis.latency import Percentile, Spread
    from recallatk.core import Load, Mean, Measurement, Run, Trial
    from recallatk.core.judgments import Finding
    from recallatk.goals.evaluation import GoalEstimate
    from recallatk.reporting.exports.tabular import Row
    from recallatk.reporting.trial_lines import TrialLine

# Parts of the data; a truth is of all of them, and of a metric.
DATA_PARTS = ("vectors", "ids", "metadata", "queries")
_REQUIRED = ("vectors", "queries", "truth")
# What a machine reports of itself that does not change from one start to the next.
_MACHINE = ("processor", "machine", "cores", "processor_limit", "memory_limit_bytes", "memory_bytes")


@dataclass(frozen=True, order=True)
class Machine:
    """A machine as far as a run describes it; two that report the same count as one."""

    processor: str
    machine: str
    cores: str
    limits: str
    memory_gigabytes: str

    def __str__(self) -> str:
        parts = [
            self.processor,
            f"{self.cores} cores",
            self.machine,
            f"{self.memory_gigabytes} GB",
            self.limits,
        ]
        return ", ".join(part for part in parts if part and not part.startswith("? "))


@dataclass(frozen=True)
class MeasuredQuestion:
    """What two settings must have been asked alike for their recalls to be comparable."""

    dataset: str
    data: tuple[tuple[str, str], ...]
    """Fingerprints of corpus and queries."""
    metric: str
    truth: str
    weights: str
    """The column and a fingerprint of the weights; empty without weights."""


@dataclass(frozen=True)
class Conditions:
    """What two settings must share for their costs to be comparable, beside the question."""

    load: Load
    k: int
    """Number of neighbors requested per query."""
    search_threads: int
    machine: Machine


@dataclass(frozen=True, eq=False)
class PublishedSetting:
    """One measured trial."""

    run: str
    begun: str
    number: int
    trial: Trial
    version: str
    call: str
    conditions: Conditions
    means: Mapping[str, Mean]
    """Every recall@k."""
    estimates: Mapping[str, GoalEstimate]
    """Each of them with the bounds that decide goals; empty for settings that are not ranked."""
    latency_ms: Mapping[str, Percentile]
    qps: Spread
    rounds: int
    highest_rate: float | None
    memory_bytes: int | None
    size_bytes: int | None
    build_seconds: float | None
    unranked: str = ""
    """Why it is in no leaderboard; empty if it is."""


@dataclass(frozen=True, eq=False)
class PublishedRun:
    """One run of the site."""

    name: str
    page: str
    """Address of its report, relative to the site."""
    dataset: str
    metric: str
    fingerprints: Mapping[str, str]
    environment: Mapping[str, Any]
    machine: Machine
    begun: str
    """Start time, ISO 8601 in UTC; empty if unknown."""
    finished: int
    planned: int | None
    failed: int
    queries: int
    findings: Mapping[str, int]
    """Number of findings of the linter by severity, without waived ones."""
    remarks: tuple[str, ...]
    question: MeasuredQuestion | None
    """None if the run does not say what it was measured on."""
    settings: tuple[PublishedSetting, ...]
    columns: Sequence[str]
    rows: Sequence[Row]
    """Every trial as a flat row, for the data files."""

    def to_dict(self) -> dict[str, Any]:
        """The run for JSON."""
        return {
            "run": self.name,
            "page": self.page,
            "dataset": self.dataset,
            "metric": self.metric,
            "machine": str(self.machine),
            "begun": self.begun or None,
            "finished": self.finished,
            "planned": self.planned,
            "failed": self.failed,
            "queries": self.queries,
            "findings": dict(self.findings),
            "remarks": list(self.remarks),
            "fingerprints": dict(self.fingerprints),
            "environment": public(dict(self.environment)),
        }


def published_run(run: Run, name: str, page: str, findings: Sequence[Finding]) -> PublishedRun:
    """What a site keeps of a run.

    Args:
        run: the run.
        name: its name on the site.
        page: the address of its report.
        findings: of the linter.
    """
    columns, rows = flat_rows(run)
    counts: dict[str, int] = {}
    for each in findings:
        if each.waived is None:
            counts[str(each.severity)] = counts.get(str(each.severity), 0) + 1
    return PublishedRun(
        name=name,
        page=page,
        dataset=str(public(run.dataset)),
        metric=str(run.metric),
        fingerprints=dict(run.fingerprints),
        environment=dict(run.environment),
        machine=machine_of(run.environment),
        begun=run.begun or "",
        finished=len(run.measurements),
        planned=None if run.planned is None else len(run.planned),
        failed=len(run.failures),
        queries=max((len(each.answers) for each in run.measurements), default=0),
        findings=counts,
        remarks=tuple(_remarks(run)),
        question=_question(run),
        settings=tuple(_settings(run, name)),
        columns=columns,
        rows=rows,
    )


def machine_of(environment: Mapping[str, Any]) -> Machine:
    """The machine that an environment describes."""
    known = {name: environment.get(name) for name in _MACHINE}
    cores, memory = _number(known["processor_limit"]), _number(known["memory_limit_bytes"])
    limits = [] if cores is None else [f"limited to {cores:g} cores"]
    limits += [] if memory is None else [f"limited to {memory / 1e9:.0f} GB"]
    # Kernels keep a little more or less of the same memory for themselves.
    whole = _number(known["memory_bytes"])
    return Machine(
        processor=_text(known["processor"]) or "unknown processor",
        machine=_text(known["machine"]),
        cores=_text(known["cores"]),
        limits=", ".join(limits),
        memory_gigabytes="" if whole is None else f"{whole / 1e9:.0f}",
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _text(value: Any) -> str:
    return "" if value is None else " ".join(str(public(value)).split())


def _remarks(run: Run) -> list[str]:
    """What a reader must know before trusting its numbers."""
    said = []
    if not run.complete:
        said.append("incomplete")
    if not run.checked:
        said.append("format without checksums")
    if run.sampled_from is not None:
        said.append(f"a sample of {run.sampled_from:,} rows")
    if run.synthetic:
        said.append("synthetic filters")
    return said


def _question(run: Run) -> MeasuredQuestion | None:
    prints = run.fingerprints
    if any(not prints.get(part) for part in _REQUIRED):
        return None
    weights = weights_of_run(run)
    weighted = ""
    if weights is not None:
        state = Hash("weights", weights.column)
        state.update(weights.values)
        weighted = f"{weights.column} {state.text()}"
    data = tuple((part, str(prints[part])) for part in DATA_PARTS if part in prints)
    return MeasuredQuestion(str(public(run.dataset)), data, str(run.metric), str(prints["truth"]), weighted)


def _settings(run: Run, name: str) -> list[PublishedSetting]:
    numbers, machine = trial_numbers(run), machine_of(run.environment)
    kept = set(run.kept)
    return [
        _setting(run, name, numbers[line.trial], machine, line, "kept from earlier settings")
        if line.trial in kept
        else _setting(run, name, numbers[line.trial], machine, line, _unranked(line.measurement))
        for line in trial_lines(run)
    ]


def _unranked(measurement: Measurement) -> str:
    """Why a trial cannot be ranked; empty if it can."""
    if measurement.own_truth:
        return "scored against the truth of its own path"
    if measurement.refused is not None:
        return "refused queries"
    if not measurement.asked.all():
        return "did not send every query"
    return ""


def _setting(
    run: Run, name: str, number: int, machine: Machine, line: TrialLine, unranked: str
) -> PublishedSetting:
    measurement, built = line.measurement, line.measurement.build
    cutoffs = recall_cutoffs(measurement.score.measures)
    names = [f"recall@{k}" for k in cutoffs]
    return PublishedSetting(
        run=name,
        begun=run.begun or "",
        number=number,
        trial=replace(line.trial, repeat=0),
        version=_text(built.version) or "unknown version",
        call=_text(built.call),
        conditions=Conditions(line.trial.load, measurement.k, built.search_threads, machine),
        means={each: measurement.score.measures[each] for each in names},
        estimates={} if unranked else _estimates(measurement, names),
        latency_ms=line.latency_ms,
        qps=line.qps,
        rounds=measurement.calls.rounds,
        highest_rate=measurement.highest_rate,
        memory_bytes=built.memory_bytes,
        size_bytes=built.size_bytes,
        build_seconds=built.seconds,
        unranked=unranked,
    )


def _estimates(measurement: Measurement, names: Sequence[str]) -> dict[str, GoalEstimate]:
    """Every recall with the bounds that decide whether it reaches a level, whatever that is."""
    evidence = TrialEvidence(measurement, {})
    found = {name: evidence.estimate(parse_goal(f"{name} >= 0.5")) for name in names}
    return {name: each for name, each in found.items() if each is not None}
