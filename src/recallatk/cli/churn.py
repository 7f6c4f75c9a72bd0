"""`recallatk churn`: recall of engines while rows come and go, against the truth of every step."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, say, warn_if_swapped
from recallatk.cli.options import (
    Budgets,
    EngineNames,
    GivenOptions,
    IdColumn,
    Json,
    MetricName,
    ModelName,
    QueriesPath,
    Quiet,
    Sample,
    Targets,
    VectorColumn,
    Verbose,
    open_benchmark,
)
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.benchmark import Benchmark
    from recallatk.core.churned import Churned
    from recallatk.streaming.replay import ChurnProgress

USUAL = ["hnswlib"]
RUNBOOK_HELP = (
    "Runbook: a .toml or .yaml file, or KIND[:NAME=VALUE,...] with random-replacement, sliding-window, "
    "growth, clustered-deletes or tenant-leaving."
)
DatasetName = Annotated[
    str | None, typer.Option("--dataset", help="Data set of a YAML runbook that has several.")
]

RunbookInput = Annotated[str, typer.Argument(help=RUNBOOK_HELP)]
CorpusInput = Annotated[
    str | None,
    typer.Argument(help="Every row that is ever inserted, or a bench file; default: [data] of the runbook."),
]
Search = Annotated[
    list[str] | None, typer.Option(help="Search parameter, e.g. ef=40 or hnswlib.ef=40,80; repeatable.")
]
Build = Annotated[list[str] | None, typer.Option(help="Build parameter, e.g. M=16; repeatable.")]
Connection = Annotated[
    list[str] | None, typer.Option("--set", help="Connection setting, e.g. dsn=postgresql:///test.")
]
At = Annotated[str | None, typer.Option(help="Cutoffs k of recall@k. Default: 10.")]
Concurrent = Annotated[bool, typer.Option("--concurrent", help="Search while another thread writes.")]
Recover = Annotated[
    bool, typer.Option("--recover/--no-recover", help="At the end maintain, rebuild, and search again.")
]
Out = Annotated[Path | None, typer.Option(help="Output folder. Default: runs/NAME-churn.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Remove an earlier replay in the folder.")]


def churn(
    runbook: RunbookInput,
    corpus: CorpusInput = None,
    queries: QueriesPath = None,
    engine: EngineNames = None,
    metric: MetricName = None,
    search: Search = None,
    build: Build = None,
    settings: Connection = None,
    at: At = None,
    target: Targets = None,
    budget: Budgets = None,
    concurrent: Concurrent = False,
    recover: Recover = True,
    dataset: DatasetName = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    model: ModelName = None,
    sample: Sample = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Replay inserts, deletes and searches, and measure recall at every step against the truth of that step.

    Run again to resume. Targets and budgets are judged at the last search before maintenance and rebuild.

    Example: recallatk churn random-replacement:steps=10 corpus.parquet queries.parquet --metric cosine

    Example: recallatk churn runbook.yaml corpus.fbin queries.fbin --metric l2 --engine pgvector-hnsw
    """
    from recallatk.streaming.opening import source_of

    set_quiet(quiet)
    source = source_of(runbook, dataset)
    asked = GivenOptions(
        queries, metric, None, id_column, vector_column, model, engines=engine, search=search, build=build,
        settings=settings, at=at, sample=sample, target=target, budget=budget,
    )  # fmt: skip
    benchmark = _benchmark(source, corpus, asked)
    folder = _folder(benchmark, out)
    found = _replayed(source, benchmark, folder, concurrent=concurrent, recover=recover, fresh=fresh)
    _print(found, folder, as_json=as_json, quiet=quiet, verbose=verbose)
    if found.outcome == "FAIL" or all(each.failure for each in found.curves):
        raise typer.Exit(FAILED)
    if found.outcome == "UNDECIDED":
        raise typer.Exit(UNDECIDED)


def _benchmark(source: Any, corpus: str | None, asked: GivenOptions) -> Benchmark:
    """The data and engines of the options; data that they do not name are those of the runbook."""
    from recallatk.streaming.opening import named_data

    named = named_data(source)
    if corpus is None:
        if "corpus" not in named:
            raise UsageError("no corpus. Name one after the runbook, or in its [data] table")
        corpus, asked = named["corpus"], replace(asked, queries=named.get("queries"))
    if not corpus.endswith(".toml"):
        efforts = usual_efforts(asked.engines or USUAL, asked.search or ())
        metric = asked.metric or named.get("metric")
        asked = replace(asked, metric=metric, search=[*(asked.search or ()), *efforts])
    return open_benchmark(corpus, asked, at="10", usual=USUAL)


def usual_efforts(engines: Sequence[str], stated: Sequence[str]) -> list[str]:
    """Options for the default of every effort that is not stated: one line per engine, and no grid."""
    from recallatk.adapters import get_engine

    names = {text.partition("=")[0].strip() for text in stated}
    return [
        f"{name}.{knob.name}={knob.default}"
        for name in dict.fromkeys(engines)
        for knob in get_engine(name).search_knobs
        if knob.effort and not names & {knob.name, f"{name}.{knob.name}"}
    ]


def _folder(benchmark: Benchmark, out: Path | None) -> Path:
    usual = benchmark.folder()
    return usual.with_name(f"{usual.name}-churn") if out is None else out


def _replayed(
    source: Any, benchmark: Benchmark, folder: Path, *, concurrent: bool, recover: bool, fresh: bool
) -> Churned:
    from recallatk.bench.measurement import trial_settings_of
    from recallatk.streaming.churn import replay_plan, require_updates
    from recallatk.streaming.opening import runbook_for

    # Before the data are opened: which engines can do it depends on their names alone.
    require_updates([each.engine.name for each in benchmark.settings.entries], concurrent=concurrent)
    data, goals = benchmark.dataset, benchmark.settings.tune
    warn_if_swapped(data.corpus.sampled_from or data.corpus.rows, data.queries.rows)
    plan, timing = benchmark.plan, trial_settings_of(benchmark.settings)
    with progress("truth of each step") as truth, progress("replay") as line:
        finished, last = 0, 0

        def show(state: ChurnProgress) -> None:
            nonlocal finished, last
            truth.end()
            finished, last = finished + (state.step < last), state.step
            line.what = f"replay: {state.engine}, {state.phase}"
            line(finished * state.steps + state.step, len(plan.builds) * state.steps)

        return replay_plan(
            runbook_for(source, data), data, plan, timing, goals=[*goals.target, *goals.budget],
            concurrent=concurrent, recover=recover, out=folder, fresh=fresh, watch=show, progress=truth,
        )  # fmt: skip


def _print(found: Churned, folder: Path, *, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Write the reports into the folder, and print the result."""
    from recallatk.files import write_text
    from recallatk.reporting.churn import churn_to_dict, churn_to_html, churn_to_markdown, churn_to_text

    described = churn_to_dict(found)
    write_text(folder / "churn.json", json.dumps(described, indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "report.md", churn_to_markdown(found))
    write_text(folder / "report.html", churn_to_html(found))
    if as_json:
        say(json.dumps({**described, "out": str(folder)}, ensure_ascii=False))
        return
    say(churn_to_text(found, verbose=verbose))
    if not quiet:
        say(f"Report: {shlex.quote(str(folder / 'report.html'))}")
