"""`recallatk show`: a run's tables again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.truth import Json

if TYPE_CHECKING:
    from recallatk.core import Run

RunPath = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or its run.json.")]


def show(
    run: RunPath,
    wide: Annotated[
        bool, typer.Option("--wide", help="With every interval and percentile, and whole parameters.")
    ] = False,
    by: Annotated[str, typer.Option(help="One table per mode, or one per load.")] = "mode",
    as_json: Json = False,
) -> None:
    """Show a run: the Pareto front first, what failed, what to be careful about, and notes.

    Example: recallatk show recallatk-demo --wide
    """
    from recallatk.bench.inputs import verdict_of
    from recallatk.report import run_to_dict, to_text

    found, folder = opened(run)
    verdict = verdict_of(found, folder)
    if as_json:
        typer.echo(json.dumps(run_to_dict(found, verdict), allow_nan=False))
    else:
        logs = str(folder / "logs") if (folder / "logs").is_dir() else None
        typer.echo(to_text(found, verdict=verdict, wide=wide, by=by, logs=logs))


def opened(path: str) -> tuple[Run, Path]:
    """A run by its folder or its run.json, with the folder."""
    from recallatk.history import load_run

    folder = Path(path)
    if folder.name == "run.json" and not folder.is_dir():
        folder = folder.parent
    return load_run(folder), folder
