"""`recallatk tune`: from a target to the cheapest setting that keeps it, validated on held-out queries."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from recallatk.cli.exits import FAILED
from recallatk.cli.options import BenchQueries, Json, MetricName, Strict, open_benchmark
from recallatk.cli.progress import progress
from recallatk.errors import RecallError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Truth
    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned

Targets = Annotated[
    list[str] | None, typer.Option(help='What to keep, such as "recall@10 >= 0.95"; may be repeated.')
]
Budgets = Annotated[
    list[str] | None, typer.Option(help='What it may take, such as "p95 <= 5ms"; may be repeated.')
]
Prefer = Annotated[
    str | None, typer.Option(help="What is to be cheap: p95 (the default), qps, memory or build.")
]
Engines = Annotated[list[str] | None, typer.Option(help="An engine to choose from; may be repeated.")]
Time = Annotated[str | None, typer.Option(help="How long it may take, such as 15min.")]
Columns = Annotated[
    list[str] | None, typer.Option(help="A column of the queries, for the worst segment; may be repeated.")
]
Out = Annotated[Path | None, typer.Option(help="The folder for what was found; by default runs/NAME-tune.")]


class Wanted(NamedTuple):
    """Goals and limits of a tuning, from the options or the bench file."""

    target: tuple[str, ...]
    budget: tuple[str, ...]
    prefer: str
    engine: tuple[str, ...]
    seconds: float | None
    by: tuple[str, ...]


def tune(
    file: Annotated[str, typer.Argument(help="The corpus, or a bench file (.toml) with a [tune] table.")],
    queries: BenchQueries = None,
    target: Targets = None,
    budget: Budgets = None,
    prefer: Prefer = None,
    engine: Engines = None,
    time: Time = None,
    by: Columns = None,
    metric: MetricName = None,
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Which queries are held out, and every other order.")] = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Find the cheapest setting that keeps a target within budgets, and prove it on held-out queries.

    The exit code is 1 when nothing keeps the target. After Ctrl-C or a crash the same command goes on.

    Example: recallatk tune corpus.parquet queries.parquet --metric cosine --target "recall@10 >= 0.95"

    Example: recallatk tune bench.toml
    """
    from recallatk.cli.lint_and_report import before_tuning, lint, report_tuning
    from recallatk.cli.live import tune_view
    from recallatk.tuning.flow import tune as find

    benchmark = open_benchmark(file, queries, metric)
    wanted = _wanted(benchmark.settings, target, budget, prefer, engine, time, by)
    _require(wanted, file)
    _require_columns(wanted.by, benchmark.dataset)
    folder = Path(f"{benchmark.settings.output.folder}-tune") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    truth = _stated_truth(benchmark)
    known = before_tuning(benchmark, truth, wanted.target)
    lint(known, strict=strict)
    with tune_view() as view:
        found = find(
            benchmark.dataset,
            target=wanted.target,
            budgets=wanted.budget,
            prefer=wanted.prefer,
            engines=wanted.engine or None,
            seconds=wanted.seconds,
            by=wanted.by,
            seed=seed,
            out=folder,
            truth=truth,
            watch=view.show,
        )
    findings = report_tuning(found, folder, known, benchmark, seed=seed)
    _print(found, findings, folder, as_json=as_json)
    if not found.met or (strict and any(each.counts for each in findings)):
        raise typer.Exit(FAILED)


def _wanted(
    settings: Settings,
    target: list[str] | None,
    budget: list[str] | None,
    prefer: str | None,
    engine: list[str] | None,
    time: str | None,
    by: list[str] | None,
) -> Wanted:
    """What the options state, else the bench file."""
    from recallatk.units import parse_duration

    table = settings.tune
    return Wanted(
        target=tuple(target or table.target),
        budget=tuple(budget or table.budget),
        prefer=prefer or table.prefer,
        engine=tuple(engine or table.engine or (each.name for each in settings.engine)),
        seconds=table.time if time is None else parse_duration(time),
        by=tuple(by or table.by or settings.measure.by),
    )


def _require(wanted: Wanted, file: str) -> None:
    """Refuse goals and preferences that cannot be read, all at once, before any file is opened."""
    from recallatk.goals import parse_goal
    from recallatk.tuning.candidates import PREFERENCES

    if not wanted.target:
        example = (
            'target = "recall@10 >= 0.95" under [tune] in the file, or ' if file.endswith(".toml") else ""
        )
        raise UsageError(f'no target. Say what to keep: {example}--target "recall@10 >= 0.95"')
    if wanted.prefer not in PREFERENCES:
        raise UsageError(f"--prefer {wanted.prefer}. Accepted: {choices(PREFERENCES)}")
    problems = []
    for text in (*wanted.target, *wanted.budget):
        try:
            parse_goal(text)
        except RecallError as problem:
            problems.append(str(problem))
    if problems:
        raise UsageError("\n".join(problems))


def _require_columns(by: Sequence[str], dataset: Dataset) -> None:
    for name in by:
        if name not in dataset.queries.metadata_names:
            known = choices(dataset.queries.metadata_names) or "none"
            raise UsageError(f"--by {name}: no such column beside the queries. Accepted: {known}")


def _stated_truth(benchmark: Benchmark) -> Truth | None:
    """The truth that the bench file describes; any other is found or computed while engines load."""
    asked = benchmark.settings.truth
    if asked.file is None and asked.store is None and asked.memory is None:
        return None
    with progress("truth") as step:
        return benchmark.truth(step)


def _print(found: Tuned, findings: Sequence[Finding], folder: Path, *, as_json: bool) -> None:
    from recallatk.cli.lint_and_report import HTML
    from recallatk.reporting.tuned import tuned_to_text
    from recallatk.reporting.tuned_file import described

    if as_json:
        typer.echo(json.dumps({**described(found, findings), "out": str(folder)}, ensure_ascii=False))
    else:
        report, name = shlex.quote(str(folder / HTML)), shlex.quote(str(folder))
        typer.echo(tuned_to_text(found, findings=findings, files=[f"Report: {report}", f"Files: {name}"]))
