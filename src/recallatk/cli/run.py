"""`recallatk run`: every setting of every engine against one ground truth, saved trial by trial."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from recallatk.cli.exits import FAILED, end_strictly, say, warn_if_swapped
from recallatk.cli.history import HistoryFile, history_for, remember_in
from recallatk.cli.options import (
    BenchQueries,
    Budgets,
    By,
    ByRow,
    CorpusSample,
    EngineNames,
    GivenOptions,
    IdColumn,
    Json,
    MetricName,
    ModelColumn,
    ModelName,
    PriceOption,
    Qrels,
    QueryModel,
    Quiet,
    Sample,
    StrictGoals,
    Targets,
    VectorColumn,
    Verbose,
    Weight,
    Where,
    import_from_here,
    open_benchmark,
)
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.progress import Progress
    from recallatk.core import Run, Truth
    from recallatk.core.judgments import Finding, Verdict
    from recallatk.linter import Evidence


Search = Annotated[
    list[str] | None,
    typer.Option(help="Search parameter and its values, e.g. ef=10,20,40 or hnswlib.ef=40; repeatable."),
]
Build = Annotated[
    list[str] | None, typer.Option(help="Build parameter and its values, e.g. M=16,32; repeatable.")
]
Connection = Annotated[
    list[str] | None,
    typer.Option("--set", help="Connection setting, e.g. url=http://localhost:6333; repeatable."),
]
At = Annotated[str | None, typer.Option(help="Cutoffs k of recall@k. Default: 1,10,100.")]
Rounds = Annotated[
    int | None, typer.Option(help="Number of times each query is sent at each setting. Default: 5.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Find out why neighbors were missed; takes at most as long as the trials."
    ),
]
QualityName = Annotated[
    str | None,
    typer.Option(
        "--quality", help="Function that judges answers, as module:function; called as (query, retrieved)."
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="Run folder. Default: the one in the bench file, else runs/NAME.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and an estimate of its cost; measure nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume a run, and fail if there is none.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Remove an earlier run in the folder.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Measure failed trials again.")]


def run(
    file: Annotated[str, typer.Argument(help="A bench file (.toml), or the corpus.")],
    queries: BenchQueries = None,
    engine: EngineNames = None,
    metric: MetricName = None,
    search: Search = None,
    build: Build = None,
    settings: Connection = None,
    at: At = None,
    rounds: Rounds = None,
    explain: Explain = False,
    quality: QualityName = None,
    target: Targets = None,
    budget: Budgets = None,
    price: PriceOption = None,
    where: Where = None,
    by: By = None,
    by_row: ByRow = None,
    weight: Weight = None,
    qrels: Qrels = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    model: ModelName = None,
    query_model: QueryModel = None,
    model_column: ModelColumn = None,
    sample: Sample = None,
    corpus_sample: CorpusSample = None,
    out: Out = None,
    history: HistoryFile = None,
    dry_run: DryRun = False,
    resume: Resume = False,
    fresh: Fresh = False,
    retry_failed: RetryFailed = False,
    strict: StrictGoals = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure recall, latency, throughput, memory, size and build cost of every setting.

    The same command resumes. With a bench file, options on queries, groups, rounds, judges, goals, price win.

    Example: recallatk run bench.toml

    Example: recallatk run corpus.parquet queries.parquet --metric cosine --engine hnswlib --search ef=16,64
    """
    set_quiet(quiet)
    asked = GivenOptions(
        queries, metric, where, id_column, vector_column, model, query_model, model_column, engine, search,
        build, settings, at=at, by=by, by_row=by_row, weight=weight, sample=sample, price=price,
        corpus_sample=corpus_sample, rounds=rounds, explain=explain, target=target, budget=budget,
        qrels=qrels, quality=quality,
    )  # fmt: skip
    benchmark = open_benchmark(file, asked, at="1,10,100", usual=["faiss-hnsw"])
    folder = benchmark.folder(out)
    if dry_run:
        _show_plan(benchmark, folder, as_json=as_json)
        return
    _require_run(folder, resume=resume)
    _measure(benchmark, folder, Manner(fresh, retry_failed, strict, as_json, quiet, verbose), history)


def _require_run(folder: Path, *, resume: bool) -> None:
    if resume and not (folder / "run.json").exists():
        raise UsageError(f"{folder}: no run to resume. Omit --resume to start one")


class Manner(NamedTuple):
    """How a run is measured and shown."""

    fresh: bool
    retry_failed: bool
    strict: bool
    as_json: bool
    quiet: bool
    verbose: bool


def _measure(benchmark: Benchmark, folder: Path, manner: Manner, history: Path | None) -> None:
    """Lint, measure, write the reports, print the result and exit with its code."""
    from recallatk.cli.lint_and_report import lint
    from recallatk.linter import Evidence

    import_from_here(benchmark.settings)
    remembered = history_for(history, folder)
    known = Evidence(benchmark.settings, benchmark.dataset, benchmark.find_truth())
    lint(known, strict=manner.strict)
    found = _measured(benchmark, folder, fresh=manner.fresh, retry_failed=manner.retry_failed)
    remember_in(remembered, found)
    findings, verdict = _report(found, folder, known, benchmark.truth(), manner)
    if found.failures and not found.measurements:
        raise typer.Exit(FAILED)
    if manner.strict:
        end_strictly(findings, verdict)


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


def _report(
    found: Run, folder: Path, known: Evidence, truth: Truth, manner: Manner
) -> tuple[list[Finding], Verdict]:
    from recallatk.cli.lint_and_report import report_run
    from recallatk.reporting import run_to_dict, to_text
    from recallatk.reporting.findings import findings_to_dict
    from recallatk.reporting.run_report import RunReport

    findings, verdict = report_run(found, folder, known, truth)
    if manner.as_json:
        report = RunReport(found, truth, known.dataset, judged=verdict)
        described = run_to_dict(found, verdict, report.segments[0], report.rows, report.missed)
        described |= {"audit": findings_to_dict(findings), "out": str(folder)}
        say(json.dumps(described, ensure_ascii=False))
    else:
        say(
            to_text(
                found,
                verdict=verdict,
                verbose=manner.verbose,
                truth=truth,
                dataset=known.dataset,
                findings=None if manner.quiet else findings,
                logs=str(folder / "logs"),
                files=() if manner.quiet else _files(folder),
            )
        )
    return findings, verdict


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
    with progress("pilot"):
        estimates = estimate(plan, dataset, trial_settings_of(benchmark.settings))
    described = plan_to_dict(plan, estimates, str(folder))
    say(json.dumps(described, ensure_ascii=False) if as_json else plan_to_text(described))
