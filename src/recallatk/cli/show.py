"""`recallatk show`: the tables of a run."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.options import (
    Budgets,
    ByRow,
    Json,
    PriceOption,
    RunPath,
    Targets,
    Verbose,
    judged_by,
    open_run,
    require_columns,
)

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.core import Dataset, Run, Truth


def show(
    run: RunPath,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show every interval and percentile, and full parameters.")
    ] = False,
    by: Annotated[str, typer.Option(help="One table per mode, or one per load.")] = "mode",
    by_row: ByRow = None,
    target: Targets = None,
    budget: Budgets = None,
    price: PriceOption = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print a run: verdict, table, curve and failures; --verbose adds all notes.

    --verbose also tells, from truth and data, which missed neighbors mattered. --by-row, --target, --budget
    and --price replace those that the run recorded.

    Example: recallatk show recallatk-demo --wide
    """
    from recallatk.bench.recorded_benchmark import recorded_verdict
    from recallatk.reporting import run_to_dict, to_text
    from recallatk.reporting.run_report import RunReport

    found, folder = open_run(run)
    found = judged_by(found, target, budget, price, by_row)
    verdict = recorded_verdict(found, folder)
    truth, dataset = _inputs(found, folder, by_row, whole=verbose)
    if as_json:
        report = RunReport(found, truth, dataset, judged=verdict)
        missed = report.missed if verbose else ()
        described = run_to_dict(found, verdict, report.segments[0], report.rows, missed)
        typer.echo(json.dumps(described, allow_nan=False))
    else:
        logs = str(folder / "logs") if (folder / "logs").is_dir() else None
        files = [f"Files: {shlex.quote(str(folder))}"]
        text = to_text(
            found, verdict=verdict, verbose=verbose, wide=wide, by=by, logs=logs, truth=truth,
            dataset=dataset, files=files,
        )  # fmt: skip
        typer.echo(text)


def _inputs(
    run: Run, folder: Path, by_row: list[str] | None, *, whole: bool
) -> tuple[Truth | None, Dataset | None]:
    """Truth and data for segments and missed neighbors; columns that are given here must exist."""
    if not whole and not run.by and not run.by_row:
        return None, None
    from recallatk.bench.recorded_benchmark import RecordedBenchmark

    data = RecordedBenchmark(run, folder)
    require_columns(data, by_row)
    if whole:
        return data.truth, data.judged_dataset
    return data.truth, data.dataset if run.by_row else None
