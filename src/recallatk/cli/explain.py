"""`recallatk explain`: why a run missed neighbors, and what to change."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from recallatk.cli.options import Json, RunPath, open_run


def explain(
    run: RunPath,
    trial: Annotated[
        int | None, typer.Option(help="Number of one trial, as in the name of its file. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where a run lost recall: causes, remedy and its price.

    Each missed neighbor has one cause: missing from the index, ranking, filter, effort or build. The run
    needs evidence, which recallatk run --explain collects.

    Example: recallatk explain runs/bench --trial 2
    """
    from recallatk import bench
    from recallatk.reporting.losses import loss_to_dict, losses_to_dict, losses_to_text

    found, _ = open_run(run)
    losses = bench.explain(found, trial)
    if not as_json:
        typer.echo(losses_to_text(found, losses))
    elif trial is not None:
        typer.echo(json.dumps(loss_to_dict(losses[0]), allow_nan=False))
    else:
        typer.echo(json.dumps({"trials": losses_to_dict(losses)}, allow_nan=False))
