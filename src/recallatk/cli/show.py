"""`recallatk show`: the tables of a run."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from recallatk.cli.options import (
    Budgets,
    Json,
    PriceOption,
    RunPath,
    Targets,
    Verbose,
    judged_by,
    open_run,
)


def show(
    run: RunPath,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show every interval and percentile, and full parameters.")
    ] = False,
    by: Annotated[str, typer.Option(help="One table per mode, or one per load.")] = "mode",
    target: Targets = None,
    budget: Budgets = None,
    price: PriceOption = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print a run: verdict, table, curve and failures; --verbose adds all notes.

    --target, --budget and --price replace those that the run recorded.

    Example: recallatk show recallatk-demo --wide
    """
    from recallatk.bench.recorded_benchmark import recorded_verdict
    from recallatk.reporting import run_to_dict, to_text

    found, folder = open_run(run)
    found = judged_by(found, target, budget, price)
    verdict = recorded_verdict(found, folder)
    if as_json:
        typer.echo(json.dumps(run_to_dict(found, verdict), allow_nan=False))
    else:
        logs = str(folder / "logs") if (folder / "logs").is_dir() else None
        files = [f"Files: {shlex.quote(str(folder))}"]
        typer.echo(to_text(found, verdict=verdict, verbose=verbose, wide=wide, by=by, logs=logs, files=files))
