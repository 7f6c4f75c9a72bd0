"""`recallatk show`: a run's tables again."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from recallatk.cli.options import Json, RunPath, open_run


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
    from recallatk.bench.recorded_benchmark import recorded_verdict
    from recallatk.reporting import run_to_dict, to_text

    found, folder = open_run(run)
    verdict = recorded_verdict(found, folder)
    if as_json:
        typer.echo(json.dumps(run_to_dict(found, verdict), allow_nan=False))
    else:
        logs = str(folder / "logs") if (folder / "logs").is_dir() else None
        files = [f"Files: {shlex.quote(str(folder))}"]
        typer.echo(to_text(found, verdict=verdict, wide=wide, by=by, logs=logs, files=files))
