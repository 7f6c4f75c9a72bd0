"""`recallatk drift`: what changed since a baseline, and whether recall on the current queries still holds."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from recallatk.cli.exits import end_with, nothing_to_resume, say
from recallatk.cli.options import Json, MetricName, Quiet, Targets, require_goals
from recallatk.cli.pages import Html, Markdown, require_pages, write_pages
from recallatk.cli.probe import Rate, Search, Settings, Timeout, opened_target, parameters, rate_of, texts
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet

Baseline = Annotated[
    str, typer.Argument(help="Earlier snapshot: a query log, a corpus, a data set or a run folder.")
]
Current = Annotated[str, typer.Argument(help="Current snapshot of the same kind.")]
ProbeTarget = Annotated[
    str | None,
    typer.Option(metavar="TARGET", help="Existing collection to ask the current queries, as for probe."),
]
MeasuredRun = Annotated[
    str | None, typer.Option("--run", help="Run that measured the current queries, in place of --probe.")
]
Asked = Annotated[str | None, typer.Option(help="Current queries for --probe, where CURRENT holds none.")]
Searched = Annotated[
    str | None, typer.Option(help="Corpus that the queries search: for hardness and selectivity.")
]
Corpora = Annotated[bool, typer.Option("--corpora", help="BASELINE and CURRENT are corpora, not queries.")]
Cutoff = Annotated[int | None, typer.Option(help="Cutoff k of the probe.")]
Seed = Annotated[int, typer.Option(help="Random seed for samples, tests and the probe.")]


def drift(
    baseline: Baseline,
    current: Current,
    targets: Targets = None,
    probe: ProbeTarget = None,
    run: MeasuredRun = None,
    queries: Asked = None,
    corpus: Searched = None,
    corpora: Corpora = False,
    metric: MetricName = None,
    at: Cutoff = None,
    search: Search = None,
    settings: Settings = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    seed: Seed = 0,
    html: Html = None,
    markdown: Markdown = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two snapshots, and measure recall on the current queries.

    Triggers say what changed; only recall decides. Exit 0 for PASS or without a target, 1 for FAIL, 3 for
    UNDECIDED.

    Example: recallatk drift may/ june/ --probe "postgresql:///shop?table=items" --target "recall@10>=0.95"

    Example: recallatk drift corpus-may.parquet corpus-june.parquet --corpora --metric cosine
    """
    from recallatk.probing import drift as drifted
    from recallatk.reporting.drift import drift_to_html, drift_to_markdown, drift_to_text

    set_quiet(quiet)
    require_goals(targets or ())
    require_pages((html, markdown), (baseline, current, probe, run, queries, corpus))
    asked: dict[str, Any] = {
        "at": at, "search": parameters(search or ()), "settings": texts(settings or ()),
        "max_rate": rate_of(max_rate),
    }  # fmt: skip
    with (
        nothing_to_resume(),
        nullcontext(None) if probe is None else opened_target(probe, timeout, None) as target,
        progress("drift") as line,
    ):
        found = drifted(
            baseline, current, goals=targets or (), target=target, measured=run, queries=queries,
            corpus=corpus, corpora=corpora, metric=metric, seed=seed, progress=line, **asked,
        )  # fmt: skip
    say(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else drift_to_text(found))
    write_pages(found, ((html, drift_to_html), (markdown, drift_to_markdown)))
    end_with(found.outcome)
