"""`recallatk explain`: why a run missed neighbors, and what to change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.options import Json, RunPath, open_run

if TYPE_CHECKING:
    from recallatk.core.losses import TrialLoss


def explain(
    run: RunPath,
    trial: Annotated[
        int | None, typer.Option(help="Number of one trial, as in the name of its file. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where a run lost recall: causes, remedy and its price.

    Each missed neighbor has one cause: missing from the index, ranking, filter, effort or build. The run
    needs evidence, which recallatk run --explain collects. Paths also say which stage lost what.

    Example: recallatk explain runs/bench --trial 2
    """
    from recallatk import bench
    from recallatk.reporting.losses import losses_to_text
    from recallatk.reporting.path_stages import path_losses_to_dict, stages_to_text

    found, _ = open_run(run)
    losses = bench.explain(found, trial)
    paths = path_losses_to_dict(found, trial)
    if as_json:
        typer.echo(json.dumps(_plain(losses, paths, one=trial is not None), allow_nan=False))
        return
    shown = [losses_to_text(found, losses)] if losses or not paths else []
    typer.echo("\n\n".join([*shown, *([stages_to_text(found, trial)] if paths else [])]))


def _plain(losses: list[TrialLoss], paths: list[dict[str, Any]], *, one: bool) -> dict[str, Any]:
    """The losses of one trial, or of all, with the stages of paths."""
    from recallatk.reporting.losses import loss_to_dict, losses_to_dict

    if one and losses:
        return loss_to_dict(losses[0]) | ({"path": paths[0]} if paths else {})
    return {"trials": losses_to_dict(losses)} | ({"paths": paths} if paths else {})
