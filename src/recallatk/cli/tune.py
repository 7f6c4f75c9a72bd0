"""`recallatk tune`: from a target to the cheapest setting that keeps it, validated on held-out queries."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from recallatk.cli.guard import FAILED
from recallatk.cli.truth import Json, MetricName
from recallatk.errors import RecallError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.audit import Evidence
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Truth
    from recallatk.core.tuned import Tuned

QueriesPath = Annotated[
    str | None, typer.Argument(help="The queries, where a corpus was named and does not have them.")
]
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
    """What is looked for, from the options or the bench file."""

    target: tuple[str, ...]
    budget: tuple[str, ...]
    prefer: str
    engine: tuple[str, ...]
    seconds: float | None
    by: tuple[str, ...]


def tune(
    file: Annotated[str, typer.Argument(help="The corpus, or a bench file (.toml) with a [tune] table.")],
    queries: QueriesPath = None,
    target: Targets = None,
    budget: Budgets = None,
    prefer: Prefer = None,
    engine: Engines = None,
    time: Time = None,
    by: Columns = None,
    metric: MetricName = None,
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Which queries are held out, and every other order.")] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where the linter finds an error.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find the cheapest setting that keeps a target within budgets, and prove it on held-out queries.

    The exit code is 1 when nothing keeps the target. After Ctrl-C or a crash the same command goes on.

    Example: recallatk tune corpus.parquet queries.parquet --metric cosine --target "recall@10 >= 0.95"

    Example: recallatk tune bench.toml
    """
    from recallatk.bench.settings import open_data
    from recallatk.cli.looking import look
    from recallatk.cli.tune_ending import known_before
    from recallatk.cli.tune_live import live
    from recallatk.tune.tuning import tune as find

    settings = _settings(file, queries, metric)
    wanted = _wanted(settings, target, budget, prefer, engine, time, by)
    _require(wanted, file)
    dataset = open_data(settings)
    _require_columns(wanted.by, dataset)
    folder = Path(f"{settings.output.folder}-tune") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    truth = _truth(settings, dataset)
    known = known_before(settings, dataset, truth, wanted.target)
    look(known, strict=strict)
    with live() as view:
        found = find(
            dataset,
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
    _report(found, folder, known, seed, as_json=as_json, strict=strict)


def _settings(file: str, queries: str | None, metric: str | None) -> Settings:
    from recallatk.bench.settings import read_settings
    from recallatk.bench.starter import implied

    if not file.endswith(".toml"):
        # Some engine has to stand there; which ones are tuned is another question.
        return implied(file, queries, ["exact"], metric=metric, k=(1,))
    beside = [name for name, value in {"QUERIES": queries, "--metric": metric}.items() if value]
    if beside:
        raise UsageError(f"{', '.join(beside)}: stands in the bench file, and cannot be given beside it")
    return read_settings(file)


def _wanted(
    settings: Settings,
    target: list[str] | None,
    budget: list[str] | None,
    prefer: str | None,
    engine: list[str] | None,
    time: str | None,
    by: list[str] | None,
) -> Wanted:
    """What the options say, and where they say nothing, the table."""
    from recallatk.units import parse_duration

    table = settings.tune
    listed = tuple(dict.fromkeys(each.name for each in settings.engine))
    return Wanted(
        target=tuple(target or table.target),
        budget=tuple(budget or table.budget),
        prefer=prefer or table.prefer,
        engine=tuple(engine or table.engine) or (() if listed == ("exact",) else listed),
        seconds=table.time if time is None else parse_duration(time),
        by=tuple(by or table.by or settings.measure.by),
    )


def _require(wanted: Wanted, file: str) -> None:
    """Refuse what cannot be read before anything is opened, all of it at once."""
    from recallatk.goals import parse_goal
    from recallatk.tune.candidates import PREFERENCES

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


def _truth(settings: Settings, dataset: Dataset) -> Truth | None:
    """The one that a bench file names; any other is found or computed while engines load."""
    from recallatk.bench.inputs import truth_of
    from recallatk.cli.progress import progress

    asked = settings.truth
    if asked.file is None and asked.store is None and asked.memory is None:
        return None
    with progress("truth") as step:
        return truth_of(settings, dataset, step)


def _report(found: Tuned, folder: Path, known: Evidence, seed: int, *, as_json: bool, strict: bool) -> None:
    from recallatk.cli.ending import HTML, MARKDOWN
    from recallatk.cli.tune_ending import ended
    from recallatk.report.findings import findings_to_text
    from recallatk.report.tuned import tuned_to_text
    from recallatk.report.tuned_file import TUNED, described

    findings = ended(found, folder, known, seed=seed)
    if as_json:
        typer.echo(json.dumps({**described(found, findings), "out": str(folder)}, ensure_ascii=False))
    else:
        typer.echo(f"{tuned_to_text(found)}\n\n{findings_to_text(findings, short=True)}")
        files = f"{HTML}, {MARKDOWN}, {TUNED} and a journal to go on by"
        typer.echo(f"\nFiles in {shlex.quote(str(folder))}: {files}.")
    if not found.met or (strict and any(each.counts for each in findings)):
        raise typer.Exit(FAILED)
