"""Audits of data, settings and runs: evidence in, findings out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.bench.benchmark import Benchmark
from recallatk.bench.recorded_benchmark import RecordedBenchmark
from recallatk.core import Run
from recallatk.core.judgments import Finding, Severity, Waiver
from recallatk.errors import UsageError
from recallatk.linter.evidence import Evidence
from recallatk.linter.rules import RULES, rule_codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, QuerySet, Truth
    from recallatk.files import PathLike

_ORDER = {severity: place for place, severity in enumerate(Severity)}


def audit(evidence: Evidence, waivers: Iterable[Waiver] | None = None) -> list[Finding]:
    """All findings, errors first, then by rule code.

    Args:
        evidence: what is known; rules that need more are skipped.
        waivers: rules whose findings are accepted, by default those in the settings. Their findings are
            marked, not dropped.
    """
    if waivers is None:
        waivers = () if evidence.settings is None else waivers_of(evidence.settings)
    reasons = {each.rule: each.reason for each in waivers}
    found = [
        replace(each, waived=reasons.get(each.rule))
        for rule in RULES
        if evidence.has(rule.needs)
        for each in rule.check(evidence)
    ]
    return sorted(found, key=lambda each: (_ORDER[each.severity], each.rule))


def audit_settings(
    settings: Settings,
    *,
    dataset: Dataset | None = None,
    truth: Truth | None = None,
    production: QuerySet | None = None,
    targets: Iterable[str] = (),
) -> list[Finding]:
    """Findings that are known before anything is measured.

    Args:
        settings: of a bench file.
        dataset: its data, if already open.
        truth: the ground truth; by default the one in the file or the store.
        production: queries from production.
        targets: goals in addition to the bench file's, such as `recall@10 >= 0.95`.
    """
    opened = Benchmark(settings, dataset, truth)
    found = opened.find_truth()
    return audit(Evidence(settings, opened.dataset, found, production=production, targets=tuple(targets)))


def audit_run(
    run: Run | PathLike,
    *,
    dataset: Dataset | None = None,
    truth: Truth | None = None,
    settings: Settings | None = None,
    production: QuerySet | None = None,
    tuned: Any = None,
    tuning_queries: QuerySet | None = None,
    targets: Iterable[str] = (),
) -> list[Finding]:
    """Findings on a run. For a run folder, missing inputs are opened from the recorded paths.

    Args:
        run: a run or its folder.
        dataset: the data that the run was measured on.
        truth: the ground truth that the run was scored against.
        settings: its bench file; by default the one in its folder.
        production: queries from production.
        tuned: the outcome of the tuning that the run belongs to.
        tuning_queries: the queries that the settings were chosen by.
        targets: recall targets, such as `recall@10 >= 0.95`.
    """
    from recallatk.storage import load_run

    loaded = run if isinstance(run, Run) else load_run(run)
    if not isinstance(run, Run):
        found = RecordedBenchmark(loaded, Path(run), same=False)
        settings = found.settings if settings is None else settings
        dataset = found.dataset if dataset is None else dataset
        truth = found.truth if truth is None else truth
    known = Evidence(settings, dataset, truth, loaded, production, tuned, tuning_queries, tuple(targets))
    return audit(known)


def waivers_of(settings: Settings) -> tuple[Waiver, ...]:
    """The findings that a bench file accepts."""
    known = rule_codes()
    strange = [each.rule for each in settings.waive if each.rule not in known]
    if strange:
        raise UsageError(f"waive: unknown rule {strange[0]!r}. Accepted: {known[0]} to {known[-1]}")
    return tuple(Waiver(each.rule, each.reason) for each in settings.waive)
