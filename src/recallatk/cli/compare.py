"""`recallatk compare`: runs, tunings, probes and answers, each against the first, query by query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from recallatk.cli.options import Json, Quiet, cutoffs
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet

Results = Annotated[
    list[str],
    typer.Argument(
        metavar="RESULT...",
        help="Run folders (RUN#2 for one trial), folders of tunings, files of `recallatk probe --json`, or "
        "answers with --truth; two or more.",
    ),
]
TruthPath = Annotated[str | None, typer.Option("--truth", help="Ground truth of answer files.")]
At = Annotated[
    str | None,
    typer.Option(help="Cutoffs k of answers. Default: those of 1,10,100 that any of them reaches."),
]
Across = Annotated[
    bool,
    typer.Option(
        "--across", help="Compare means without pairing queries where data, metric or queries differ."
    ),
]
Html = Annotated[Path | None, typer.Option(help="Also write the comparison as an HTML page to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the comparison as Markdown to this file.")]


def compare(
    results: Results,
    truth: TruthPath = None,
    at: At = None,
    across: Across = False,
    html: Html = None,
    markdown: Markdown = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare measurements of the same queries with the first one: recall, tails, segments, latency, cost.

    Differences are paired by query and corrected for multiple comparisons. Results on different data are
    refused, unless --across.

    Example: recallatk compare runs/before runs/after

    Example: recallatk compare before.parquet after.parquet --truth truth.parquet --html comparison.html
    """
    from recallatk.files import require_not_among, require_writable, write_text
    from recallatk.regression import compare_results
    from recallatk.reporting.results import (
        comparison_to_dict,
        comparison_to_html,
        comparison_to_markdown,
        comparison_to_text,
    )

    set_quiet(quiet)
    for path in (html, markdown):
        if path is not None:
            require_not_among(path, [*results, truth])
            require_writable(path)
    with progress("comparing"):
        found = compare_results(*results, truth=truth, at=None if at is None else cutoffs(at), across=across)
    if as_json:
        typer.echo(json.dumps(comparison_to_dict(found), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(comparison_to_text(found))
    for path, render in ((html, comparison_to_html), (markdown, comparison_to_markdown)):
        if path is not None:
            write_text(path, render(found))
            note(str(path))
