"""The linter before a command measures, and the reports after it: of a run and of a tuning."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from recallatk.cli.exits import FAILED, warn_if_swapped
from recallatk.cli.progress import progress
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from recallatk.bench.benchmark import Benchmark
    from recallatk.core import Run, Truth
    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.goals import Target, Verdict
    from recallatk.linter import Evidence

MARKDOWN, HTML = "report.md", "report.html"


def lint(known: Evidence, *, strict: bool) -> None:
    """Print errors of the linter, and a warning of swapped files; with `strict`, errors end the command."""
    from recallatk.linter import audit
    from recallatk.reporting.findings import findings_to_text

    with progress("audit"):
        errors = [each for each in audit(known) if each.counts]
    if known.dataset is not None:
        corpus = known.dataset.corpus
        warn_if_swapped(corpus.sampled_from or corpus.rows, known.dataset.queries.rows)
    if errors:
        typer.echo(findings_to_text(errors, short=True), err=True)
    if errors and strict:
        raise typer.Exit(FAILED)


def report_run(
    run: Run, folder: Path, before: Evidence, truth: Truth | None
) -> tuple[list[Finding], Verdict]:
    """Audit a run and write its reports into its folder; the findings, and the verdict on its goals.

    Args:
        run: what was measured.
        folder: its folder.
        before: what was known before the run.
        truth: what it was scored against.
    """
    from recallatk.files import write_text
    from recallatk.goals.runs import run_verdict
    from recallatk.linter import audit
    from recallatk.reporting import to_html, to_markdown
    from recallatk.reporting.findings import findings_to_markdown

    with progress("audit and report"):
        known = before.measured(run, truth)
        found, verdict = audit(known), run_verdict(run, known.truth, known.dataset)
        text = to_markdown(run, verdict=verdict, truth=known.truth, dataset=known.dataset)
        write_text(folder / MARKDOWN, f"{text}\n{findings_to_markdown(found)}")
        write_text(folder / HTML, to_html(run, truth=known.truth, dataset=known.dataset, findings=found))
    return found, verdict


def before_tuning(benchmark: Benchmark, truth: Truth | None, targets: Sequence[str]) -> Evidence:
    """What is known before a tuning; its measures are those of the targets.

    Args:
        benchmark: what is tuned.
        truth: the truth that the tuning uses, if known; otherwise one in the store counts.
        targets: the targets to meet.
    """
    from recallatk.goals import sort_goals
    from recallatk.linter import Evidence

    wanted, _ = sort_goals(targets)
    cutoffs = tuple(sorted({each.measure.k for each in wanted}))
    settings = benchmark.settings
    measure = settings.measure.model_copy(update={"at": cutoffs})
    stated = settings.model_copy(update={"measure": measure})
    known = _tuning_truth(benchmark, wanted) if truth is None else truth
    return Evidence(stated, benchmark.dataset, known, targets=tuple(targets))


def report_tuning(
    tuned: Tuned, folder: Path, before: Evidence, benchmark: Benchmark, *, seed: int
) -> list[Finding]:
    """Audit a tuning and write its reports into its folder; the findings.

    Args:
        tuned: the outcome.
        folder: its folder.
        before: what was known before the tuning.
        benchmark: what was tuned.
        seed: random seed of the query split.
    """
    from recallatk.files import write_text
    from recallatk.linter import audit
    from recallatk.reporting import tuned_to_html
    from recallatk.reporting.findings import findings_to_markdown
    from recallatk.reporting.tuned import tuned_to_markdown
    from recallatk.reporting.tuned_file import TUNED, tuned_text

    with progress("audit and report"):
        found = audit(_after_tuning(tuned, before, benchmark, seed))
        write_text(folder / TUNED, tuned_text(tuned, found))
        write_text(folder / MARKDOWN, f"{tuned_to_markdown(tuned)}\n{findings_to_markdown(found)}")
        write_text(folder / HTML, tuned_to_html(tuned, findings=found))
    return found


def _after_tuning(tuned: Tuned, before: Evidence, benchmark: Benchmark, seed: int) -> Evidence:
    """The outcome with the held-out queries only: the others chose it, and prove nothing."""
    from recallatk.goals import sort_goals
    from recallatk.tuning.query_split import split_sides

    truth = before.truth
    if truth is None:
        # A store that became unreadable meanwhile must not cost the outcome.
        with suppress(RecallError, OSError):
            truth = _tuning_truth(benchmark, sort_goals(before.targets)[0])
    if truth is None:
        return before.tuned_as(tuned)
    chosen_by, held_out = split_sides(benchmark.dataset, truth, seed)
    return before.tuned_on(
        held_out.dataset, held_out.truth, held_out.numbers, tuned, chosen_by.dataset.queries
    )


def _tuning_truth(benchmark: Benchmark, targets: Sequence[Target]) -> Truth | None:
    """The truth that tuning to these targets stores, or the one that a run uses."""
    depth = max(each.measure.deepest for each in targets)
    return benchmark.find_truth(depth)
