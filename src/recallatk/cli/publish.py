"""`recallatk publish`: runs as a static site with leaderboards, trends, every report and data files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from recallatk.cli.exits import complain
from recallatk.cli.options import Json, Quiet
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet
from recallatk.units import counted

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUNS...", help="Run folders, folders of tunings, or folders that hold them."),
]
Out = Annotated[Path, typer.Option(help="Folder of the site: new, or that of an older site.")]
HistoryFile = Annotated[Path | None, typer.Option("--history", help="Show the trends of this history.")]
Title = Annotated[str, typer.Option(help="Title of the site.")]
Level = Annotated[
    list[float] | None,
    typer.Option(help="Level of recall to compare at; repeatable. Default: 0.9, 0.95 and 0.99."),
]
Details = Annotated[
    bool,
    typer.Option(
        "--details",
        help="Open the data and truth that runs name: reports show the worst queries with their texts.",
    ),
]


def publish(
    runs: Runs,
    out: Out = Path("site"),
    history: HistoryFile = None,
    title: Title = "Results",
    level: Level = None,
    details: Details = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a static site of results: leaderboards at equal recall, trends, every report, data files.

    The site works from disk and on any web server, and loads nothing from elsewhere. Runs are compared
    where data, truth, metric, k, load and machine are the same. Damaged runs are listed and left out. An
    older site is replaced; files that publish did not write are never touched.

    Example: recallatk publish runs --out site --history runs/history.db
    """
    from recallatk import publish as publish_runs
    from recallatk.publishing.leaderboards import LEVELS

    set_quiet(quiet)
    with progress("publishing") as line:
        made = publish_runs(
            runs, out, history=history, title=title, levels=level or LEVELS, details=details, progress=line
        )
    for each in made.left_out:
        complain(f"left out: {each.name}: {each.why}")
    if as_json:
        typer.echo(json.dumps(made.to_dict(), ensure_ascii=False))
        return
    counts = [
        counted(made.runs, "run", "runs"),
        *([counted(made.tunings, "tuning", "tunings")] if made.tunings else []),
        counted(made.pages, "page", "pages"),
    ]
    typer.echo(f"{made.folder / 'index.html'}: {', '.join(counts)}")
    if made.removed:
        note(f"{counted(made.removed, 'file', 'files')} of the older site removed")
