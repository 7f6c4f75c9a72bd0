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
    from recallatk.bench.recorded_benchmark import RecordedBenchmark, recorded_verdict
    from recallatk.reporting import run_to_dict, to_text
    from recallatk.reporting.run_report import RunReport

    found, folder = open_run(run)
    found = judged_by(found, target, budget, price)
    verdict = recorded_verdict(found, folder)
    truth = RecordedBenchmark(found, folder).truth if found.by else None
    if as_json:
        segments = RunReport(found, truth, judged=verdict).segments[0]
        typer.echo(json.dumps(run_to_dict(found, verdict, segments), allow_nan=False))
    else:
        logs = str(folder / "logs") if (folder / "logs").is_dir() else None
        files = [f"Files: {shlex.quote(str(folder))}"]
        typer.echo(
            to_text(
                found, verdict=verdict, verbose=verbose, wide=wide, by=by, logs=logs, files=files, truth=truth
            )
        )
