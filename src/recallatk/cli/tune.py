"""`recallatk tune`: the cheapest setting that meets a target, validated on held-out queries."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from recallatk.cli.exits import FAILED
from recallatk.cli.history import HistoryFile, history_for, remember_in
from recallatk.cli.options import (
    BenchQueries,
    Budgets,
    By,
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
    Strict,
    Targets,
    VectorColumn,
    Verbose,
    Weight,
    Where,
    import_from_here,
    open_benchmark,
    require_goals,
)
from recallatk.cli.probe import MadeFrom, Statement, Timeout, TruthSource
from recallatk.cli.probe import Settings as TargetSettings
from recallatk.cli.progress import progress
from recallatk.cli.tune_target import TargetOptions, is_target, tune_target
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.cost import MachinePrice
    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Truth
    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned

Prefer = Annotated[
    str | None,
    typer.Option(help="Cost to minimize: p95 (default), qps, memory, build or cost (with --price)."),
]
Time = Annotated[str | None, typer.Option(help="Time limit, e.g. 15min.")]
Out = Annotated[Path | None, typer.Option(help="Output folder. Default: runs/NAME-tune.")]
TuneInput = Annotated[
    str,
    typer.Argument(
        help="The corpus, a bench file (.toml) with a [tune] table, or an existing collection "
        "(postgresql://host/db?table=items, ...): then its search effort is tuned."
    ),
]
QueryFile = Annotated[str | None, typer.Option("--queries", help="Queries, as an option.")]
MaxRate = Annotated[str, typer.Option(help="Most queries per second to an existing collection, or `none`.")]
FixedSearch = Annotated[
    list[str] | None,
    typer.Option(help="Search parameter of an existing collection that stays fixed; repeatable."),
]
Churn = Annotated[
    str | None,
    typer.Option(help="Runbook after which the targets must still be met, as in `recallatk churn`."),
]
Seed = Annotated[int, typer.Option(help="Random seed for the query split and trial order.")]


class Wanted(NamedTuple):
    """Goals and limits of a tuning, from the options or the bench file."""

    target: tuple[str, ...]
    budget: tuple[str, ...]
    prefer: str
    engine: tuple[str, ...]
    seconds: float | None
    by: tuple[str, ...]
    price: MachinePrice | None
    churn: str | None = None


def tune(
    file: TuneInput,
    queries: BenchQueries = None,
    query_file: QueryFile = None,
    target: Targets = None,
    budget: Budgets = None,
    prefer: Prefer = None,
    price: PriceOption = None,
    engine: EngineNames = None,
    time: Time = None,
    metric: MetricName = None,
    where: Where = None,
    by: By = None,
    weight: Weight = None,
    qrels: Qrels = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    model: ModelName = None,
    query_model: QueryModel = None,
    model_column: ModelColumn = None,
    sample: Sample = None,
    corpus_sample: CorpusSample = None,
    churn: Churn = None,
    out: Out = None,
    history: HistoryFile = None,
    truth: TruthSource = None,
    made_from: MadeFrom = None,
    search: FixedSearch = None,
    settings: TargetSettings = None,
    sql: Statement = None,
    timeout: Timeout = "30s",
    max_rate: MaxRate = "20/s",
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the cheapest setting that meets a recall target within your budgets.

    Held-out queries validate the choice. The exit code is 1 if none meets the target. Run again to resume.

    Example: recallatk tune corpus.parquet queries.parquet --metric cosine --target "recall@10 >= 0.95"

    Example: recallatk tune bench.toml

    Example: recallatk tune "postgresql:///shop?table=items" --queries log.parquet --target "recall@10>=0.95"
    """
    set_quiet(quiet)
    asked = GivenOptions(queries or query_file, metric, where, id_column, vector_column, model, query_model,
        model_column, sample=sample, corpus_sample=corpus_sample, weight=weight, target=target, budget=budget,
        price=price, qrels=qrels)  # fmt: skip
    of_target = TargetOptions(truth, made_from, search, settings, sql, timeout, max_rate, history)
    if is_target(file):
        unused = {"--engine": engine, "--prefer": prefer, "--time": time, "--out": out, "--by": by}
        tune_target(file, asked, of_target, seed, as_json, unused | {"--churn": churn})
        return
    benchmark = _opened(file, asked, of_target)
    wanted = _wanted(benchmark.settings, file, target, budget, prefer, engine, time, by, churn)
    _tune_benchmark(benchmark, wanted, out, history, seed, strict, as_json, quiet, verbose)


def _opened(file: str, asked: GivenOptions, of_target: TargetOptions) -> Benchmark:
    """The benchmark; options of existing collections are refused."""
    of_target.refuse()
    return open_benchmark(file, asked)


def _tune_benchmark(
    benchmark: Benchmark,
    wanted: Wanted,
    out: Path | None,
    history: Path | None,
    seed: int,
    strict: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    from recallatk.cli.lint_and_report import before_tuning, lint, report_tuning

    _require_columns(wanted.by, benchmark.dataset)
    # Judgments of other data are found before anything is built.
    _ = benchmark.judges
    folder = Path(f"{benchmark.settings.output.folder}-tune") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    remembered = history_for(history, folder)
    truth = _stated_truth(benchmark)
    known = before_tuning(benchmark, truth, wanted.target)
    lint(known, strict=strict)
    found = _tuned(benchmark, wanted, truth, folder, seed)
    remember_in(remembered, found, benchmark.dataset.name)
    findings = report_tuning(found, folder, known, benchmark, seed=seed)
    _print(found, findings, folder, as_json=as_json, quiet=quiet, verbose=verbose)
    if not found.met or (strict and any(each.counts for each in findings)):
        raise typer.Exit(FAILED)


def _tuned(benchmark: Benchmark, wanted: Wanted, truth: Truth | None, folder: Path, seed: int) -> Tuned:
    from recallatk.cli.live import tune_view
    from recallatk.tuning.flow import tune as find

    import_from_here(benchmark.settings)
    with tune_view() as view:
        return find(
            benchmark.dataset,
            target=wanted.target,
            budgets=wanted.budget,
            prefer=wanted.prefer,
            engines=wanted.engine or None,
            seconds=wanted.seconds,
            by=wanted.by,
            weight=benchmark.settings.measure.weight,
            seed=seed,
            out=folder,
            truth=truth,
            price=wanted.price,
            churn=wanted.churn,
            watch=view.show,
        )


def _wanted(
    settings: Settings,
    file: str,
    target: list[str] | None,
    budget: list[str] | None,
    prefer: str | None,
    engine: list[str] | None,
    time: str | None,
    by: list[str] | None,
    churn: str | None,
) -> Wanted:
    """What the options state, else the bench file; refused if it cannot be read."""
    from recallatk.analysis.cost import price_of
    from recallatk.units import parse_duration

    table = settings.tune
    found = Wanted(
        target=tuple(target or table.target),
        budget=tuple(budget or table.budget),
        prefer=prefer or table.prefer,
        engine=tuple(engine or table.engine or (each.engine.name for each in settings.entries)),
        seconds=table.time if time is None else parse_duration(time),
        by=tuple(by or table.by or settings.measure.by),
        price=price_of(settings.model_dump(include={"cost"})),
        churn=churn,
    )
    _require(found, file)
    return found


def _require(wanted: Wanted, file: str) -> None:
    """Refuse goals and preferences that cannot be read, all at once, before any file is opened."""
    from recallatk.tuning.candidates import COST, PREFERENCES

    if not wanted.target:
        example = (
            'target = "recall@10 >= 0.95" under [tune] in the file, or ' if file.endswith(".toml") else ""
        )
        raise UsageError(f'no target. State one: {example}--target "recall@10 >= 0.95"')
    if wanted.prefer not in PREFERENCES:
        raise UsageError(f"--prefer: {unknown('preference', wanted.prefer, PREFERENCES)}")
    if wanted.prefer == COST and wanted.price is None:
        raise UsageError("--prefer cost needs the price of the machine. State it: --price 0.34/h")
    require_goals(wanted.target, wanted.budget)


def _require_columns(by: Sequence[str], dataset: Dataset) -> None:
    for name in by:
        if name not in dataset.queries.metadata_names:
            raise UsageError(f"--by: {unknown('query column', name, dataset.queries.metadata_names)}")


def _stated_truth(benchmark: Benchmark) -> Truth | None:
    """The truth that the bench file describes; any other is found or computed while engines load."""
    asked = benchmark.settings.truth
    if asked.file is None and asked.store is None and asked.memory is None:
        return None
    with progress("truth") as step:
        return benchmark.truth(step)


def _print(
    found: Tuned,
    findings: Sequence[Finding],
    folder: Path,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    from recallatk.cli.lint_and_report import HTML
    from recallatk.reporting.tuned import tuned_to_text
    from recallatk.reporting.tuned_file import described

    if as_json:
        whole = {**described(found, findings), "out": str(folder)}
        typer.echo(json.dumps(whole, ensure_ascii=False))
    else:
        report, name = shlex.quote(str(folder / HTML)), shlex.quote(str(folder))
        files = [] if quiet else [f"Report: {report}", f"Files: {name}"]
        shown = None if quiet else findings
        typer.echo(tuned_to_text(found, verbose=verbose, findings=shown, files=files))
