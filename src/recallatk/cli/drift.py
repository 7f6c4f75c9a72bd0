"""`recallatk drift`: what changed since a baseline, and whether recall on the current queries still holds."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, nothing_to_resume, say
from recallatk.cli.options import Json, MetricName, Quiet, Targets, require_goals
from recallatk.cli.probe import Rate, Search, Settings, Timeout, opened_target, parameters, rate_of, texts
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet

Baseline = Annotated[
    str, typer.Argument(help="Earlier snapshot: a query log, a corpus, a data set or a run folder.")
]
Current = Annotated[str, typer.Argument(help="Current snapshot of the same kind.")]
Html = Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write Markdown to this file.")]


def drift(
    baseline: Baseline,
    current: Current,
    targets: Targets = None,
    probe: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Existing collection to ask the current queries, as for probe."),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Run that measured the current queries, in place of --probe.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Current queries for --probe, where CURRENT holds none.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Corpus that the queries search: for hardness and selectivity.")
    ] = None,
    corpora: Annotated[
        bool, typer.Option("--corpora", help="BASELINE and CURRENT are corpora, not queries.")
    ] = False,
    metric: MetricName = None,
    at: Annotated[int | None, typer.Option(help="Cutoff k of the probe.")] = None,
    search: Search = None,
    settings: Settings = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    seed: Annotated[int, typer.Option(help="Random seed for samples, tests and the probe.")] = 0,
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
    from recallatk.files import require_not_among, require_writable, write_text
    from recallatk.probing import drift as drifted
    from recallatk.reporting.drift import drift_to_html, drift_to_markdown, drift_to_text

    set_quiet(quiet)
    require_goals(targets or ())
    for path in (html, markdown):
        if path is not None:
            require_not_among(path, [baseline, current, run, queries, corpus])
            require_writable(path)
    opened = nullcontext(None) if probe is None else opened_target(probe, timeout, None)
    with nothing_to_resume(), opened as target, progress("drift") as line:
        more: dict[str, Any] = {} if target is None else {
            "at": at, "search": parameters(search or ()), "settings": texts(settings or ()),
            "max_rate": rate_of(max_rate),
        }  # fmt: skip
        found = drifted(
            baseline, current, goals=targets or (), target=target, measured=run, queries=queries,
            corpus=corpus, corpora=corpora, metric=metric, seed=seed, progress=line, **more,
        )  # fmt: skip
    say(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else drift_to_text(found))
    for path, render in ((html, drift_to_html), (markdown, drift_to_markdown)):
        if path is not None:
            write_text(path, render(found))
            note(str(path))
    if found.outcome in ("FAIL", "UNDECIDED"):
        raise typer.Exit(FAILED if found.outcome == "FAIL" else UNDECIDED)
