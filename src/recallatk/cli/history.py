"""`recallatk history`: the trend of recall over runs, tunings, probes and gates, and where it changed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import complain
from recallatk.cli.options import Json
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.core.probed import Probed, TunedEffort
    from recallatk.core.tuned import Tuned
    from recallatk.goals.gated import Gated

HistoryFile = Annotated[
    Path | None,
    typer.Option("--history", help="Append the result to this history, e.g. runs/history.db."),
]


def history(
    file: Annotated[
        Path | None, typer.Option("--history", help="The history. Default: runs/history.db.")
    ] = None,
    measure: Annotated[str | None, typer.Option(help="Show this measure alone, e.g. recall@10.")] = None,
    collection: Annotated[
        str | None, typer.Option(help="Show this data set or target alone, or those that contain the text.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Show entries from then on, e.g. 30d, 12h or 2026-05-01.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the trends as HTML to this file.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Also write every entry to this Parquet file.")] = None,
    as_json: Json = False,
) -> None:
    """Show how recall developed, where its level changed, and what changed with it.

    Runs, tunings, probes and gates are recorded with --history FILE; runs and tunings also where a
    history.db stands next to their folder.

    Example: recallatk history --measure recall@10 --since 30d
    """
    from recallatk.files import require_not_among, write_text
    from recallatk.reporting.history import history_to_dict, history_to_html, history_to_text
    from recallatk.storage import history as trends_in
    from recallatk.storage.history import DEFAULT, write_history_table

    found = trends_in(file or DEFAULT, measure=measure, collection=collection, since=since)
    for path in (out, parquet):
        if path is not None:
            require_not_among(path, [file or DEFAULT])
    if out is not None:
        write_text(out, history_to_html(found))
    if parquet is not None:
        write_history_table(parquet, found)
    typer.echo(json.dumps(history_to_dict(found), ensure_ascii=False) if as_json else history_to_text(found))


def history_for(stated: Path | None, folder: Path | None = None) -> Path | None:
    """The history that a result is appended to: the stated one, else one next to the folder of the result.

    A stated one is refused before anything is measured if it cannot be written.

    Args:
        stated: the file of --history.
        folder: the folder of a run or tuning.
    """
    from recallatk.storage.history_store import HISTORY, require_appendable

    if stated is not None:
        require_appendable(stated)
        return stated
    beside = None if folder is None else folder.resolve().parent / HISTORY
    if beside is None or not beside.is_file():
        return None
    try:
        require_appendable(beside)
    except RecallError as problem:
        # Nobody asked for this file by name: it may be another program's.
        complain(f"not recorded: {problem}")
        return None
    return beside


def remember_in(
    file: Path | None, found: Run | Tuned | Probed | TunedEffort | Gated, name: str | None = None
) -> None:
    """Append a result to a history, if there is one; a failure is said and costs nothing else."""
    from recallatk.storage import remember

    if file is None:
        return
    try:
        remember(found, file, name=name)
    except RecallError as problem:
        complain(f"not recorded in {shlex.quote(str(file))}: {problem}")
