"""`recallatk audit`: checks of a benchmark before it is measured, and of a run after it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import FAILED, complain
from recallatk.cli.options import (
    Json,
    Quiet,
    RunCorpus,
    RunQueries,
    RunTruth,
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
    from recallatk.core.judgments import Finding


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
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there is an error that is not waived.")
    ] = False,
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
    from recallatk.datasets import open_queries
    from recallatk.reporting.findings import findings_to_dict, findings_to_text

    set_quiet(quiet)
    require_goals(target or ())
    named = NamedFiles(corpus, queries, truth)
    sample = None if production is None else open_queries(production)
    with progress("audit"):
        found = _found(what, named, sample, target or [])
    if as_json:
        typer.echo(
            json.dumps({"audited": what, **findings_to_dict(found)}, ensure_ascii=False, allow_nan=False)
        )
    else:
        typer.echo(findings_to_text(found))
    if strict and any(each.counts for each in found):
        raise typer.Exit(FAILED)


def _found(what: str, named: NamedFiles, production: QuerySet | None, targets: list[str]) -> list[Finding]:
    from recallatk.bench.recorded_benchmark import NamedFiles, RecordedBenchmark
    from recallatk.bench.settings import read_settings
    from recallatk.linter import audit_run, audit_settings

    if what.endswith(".toml"):
        if named != NamedFiles():
            raise UsageError("--corpus, --queries and --truth cannot be combined with a bench file")
        return audit_settings(read_settings(what, engines=False), production=production, targets=targets)
    run, folder = open_run(what)
    recorded = RecordedBenchmark(run, folder, named, same=False)
    for part, why in (("data", recorded.no_dataset), ("truth", recorded.no_truth)):
        if why:
            complain(f"{folder}: rules that need the {part} are skipped: {why}")
    return audit_run(
        run,
        dataset=recorded.dataset,
        truth=recorded.truth,
        settings=recorded.settings,
        production=production,
        targets=targets,
    )
