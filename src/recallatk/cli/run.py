"""`recallatk run`: every configuration of every engine on the same truth, kept as it is measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import FAILED, warn_if_swapped
from recallatk.cli.options import BenchQueries, Json, MetricName, Strict, open_benchmark
from recallatk.cli.progress import progress
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.progress import Progress
    from recallatk.core import Run, Truth
    from recallatk.linter import Evidence


def run(
    file: Annotated[str, typer.Argument(help="A bench file (.toml), or the corpus.")],
    queries: BenchQueries = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="An engine to measure, without a bench file; may be repeated.")
    ] = None,
    metric: MetricName = None,
    at: Annotated[str, typer.Option(help="The values of k, without a bench file.")] = "1,10,100",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the run; by default the file's, else runs/NAME.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured and what it may take.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that must be there; the same command does too.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove an earlier run in the folder first.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure again what had failed.")
    ] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure recall, latency, throughput, memory, size and build cost of every setting that a file asks for.

    Each trial is saved as soon as it is measured. After Ctrl-C, a crash or a reboot the same command goes on.

    Example: recallatk run bench.toml

    Example: recallatk run corpus.parquet queries.parquet --metric cosine --engine faiss-hnsw
    """
    from recallatk.cli.lint_and_report import lint
    from recallatk.linter import Evidence

    benchmark = open_benchmark(file, queries, metric, engine or (), at=at, usual=["faiss-hnsw"])
    folder = benchmark.folder(out)
    if dry_run:
        _show_plan(benchmark, folder, as_json=as_json)
        return
    if resume and not (folder / "run.json").exists():
        raise UsageError(f"{folder}: no run is here to go on with. Leave out --resume to begin one")
    known = Evidence(benchmark.settings, benchmark.dataset, benchmark.find_truth())
    lint(known, strict=strict)
    found = _measured(benchmark, folder, fresh=fresh, retry_failed=retry_failed)
    _report(found, folder, known, benchmark.truth(), as_json=as_json, strict=strict)


def _measured(benchmark: Benchmark, folder: Path, *, fresh: bool, retry_failed: bool) -> Run:
    from recallatk import bench
    from recallatk.cli.live import run_view

    with progress("truth") as truth, run_view() as view:

        def show(state: Progress) -> None:
            truth.end()
            view.show(state)

        return bench.run(
            benchmark, out=folder, fresh=fresh, retry_failed=retry_failed, watch=show, progress=truth
        )


def _report(found: Run, folder: Path, known: Evidence, truth: Truth, *, as_json: bool, strict: bool) -> None:
    from recallatk.cli.lint_and_report import report_run
    from recallatk.reporting import run_to_dict, to_text
    from recallatk.reporting.findings import findings_to_dict

    findings, verdict = report_run(found, folder, known, truth)
    if as_json:
        described = {**run_to_dict(found, verdict), "audit": findings_to_dict(findings), "out": str(folder)}
        typer.echo(json.dumps(described, ensure_ascii=False))
    else:
        logs, files = str(folder / "logs"), _files(folder)
        typer.echo(to_text(found, verdict=verdict, truth=truth, findings=findings, logs=logs, files=files))
    if (found.failures and not found.measurements) or (strict and any(each.counts for each in findings)):
        raise typer.Exit(FAILED)


def _files(folder: Path) -> list[str]:
    report, name = (shlex.quote(str(each)) for each in (folder / "report.html", folder))
    return [f"Report: {report}", f"Again: recallatk show {name}"]


def _show_plan(benchmark: Benchmark, folder: Path, *, as_json: bool) -> None:
    """Print the plan with the estimates of a quick pilot."""
    from recallatk.bench.measurement import trial_settings_of
    from recallatk.bench.pilot import estimate
    from recallatk.reporting.plan import plan_to_dict, plan_to_text

    dataset, plan = benchmark.dataset, benchmark.plan
    warn_if_swapped(dataset.corpus.sampled_from or dataset.corpus.rows, dataset.queries.rows)
    with progress("a quick pilot"):
        estimates = estimate(plan, dataset, trial_settings_of(benchmark.settings))
    described = plan_to_dict(plan, estimates, str(folder))
    typer.echo(json.dumps(described, ensure_ascii=False) if as_json else plan_to_text(described))
