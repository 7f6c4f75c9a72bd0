"""`recallatk audit`: checks of a benchmark before it is measured, and of a run after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import complain, end_strictly, say
from recallatk.cli.options import (
    Json,
    Quiet,
    RunCorpus,
    RunQueries,
    RunTruth,
    StrictGoals,
    Targets,
    open_run,
    require_goals,
)
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.bench.recorded_benchmark import NamedFiles
    from recallatk.core import QuerySet
    from recallatk.core.judgments import Finding, Verdict


def audit(
    what: Annotated[str, typer.Argument(metavar="FILE|RUN", help="A bench file, or a run folder.")],
    production: Annotated[
        str | None,
        typer.Option(help="Sample of production queries: a log of `recallatk.tap`, or vectors and filters."),
    ] = None,
    target: Targets = None,
    truth: RunTruth = None,
    corpus: RunCorpus = None,
    queries: RunQueries = None,
    strict: StrictGoals = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a benchmark or a run for common mistakes in queries, data, truth, engines and timing.

    A bench file is checked before anything is measured, a run with its data if they still exist. URLs that
    a run folder names are not opened: name them with --corpus, --queries and --truth.

    Example: recallatk audit bench.toml --production sample.parquet --strict

    Example: recallatk audit recallatk-demo
    """
    from recallatk.bench.recorded_benchmark import NamedFiles
    from recallatk.core.judgments import Verdict
    from recallatk.datasets import open_queries
    from recallatk.reporting.findings import findings_to_dict, findings_to_text

    set_quiet(quiet)
    require_goals(target or ())
    named = NamedFiles(corpus, queries, truth)
    sample = None if production is None else open_queries(production)
    with progress("audit"):
        found, verdict = _found(what, named, sample, target or [])
    if as_json:
        told = {"verdict": verdict.to_dict()} if verdict and verdict.goals else {}
        described = {"audited": what, **findings_to_dict(found), **told}
        say(json.dumps(described, ensure_ascii=False, allow_nan=False))
    else:
        say(findings_to_text(found))
    if strict:
        end_strictly(found, verdict or Verdict())


def _found(
    what: str, named: NamedFiles, production: QuerySet | None, targets: list[str]
) -> tuple[list[Finding], Verdict | None]:
    """The findings, and for a run the verdict on its goals and the given ones."""
    from recallatk.bench.recorded_benchmark import NamedFiles, RecordedBenchmark
    from recallatk.bench.settings import read_settings
    from recallatk.goals.runs import run_verdict
    from recallatk.linter import audit_run, audit_settings

    if what.endswith(".toml"):
        if named != NamedFiles():
            raise UsageError("--corpus, --queries and --truth cannot be combined with a bench file")
        settings = read_settings(what, engines=False)
        return audit_settings(settings, production=production, targets=targets), None
    run, folder = open_run(what)
    recorded = RecordedBenchmark(run, folder, named, same=False)
    for part, why in (("data", recorded.no_dataset), ("truth", recorded.no_truth)):
        if why:
            complain(f"{folder}: rules that need the {part} are skipped: {why}")
    found = audit_run(
        run,
        dataset=recorded.dataset,
        truth=recorded.truth,
        settings=recorded.settings,
        production=production,
        targets=targets,
    )
    return found, run_verdict(run, recorded.truth, recorded.dataset, targets)
