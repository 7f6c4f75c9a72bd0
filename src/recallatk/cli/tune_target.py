"""`recallatk tune TARGET`: the least search effort with which a collection in use meets its targets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import typer

from recallatk.cli.exits import FAILED
from recallatk.cli.options import import_from_folder
from recallatk.cli.probe import show_discovery
from recallatk.cli.progress import progress
from recallatk.errors import UsageError


def tune_target(
    target: str,
    queries: str | None,
    goals: Sequence[str],
    where: str | None,
    max_rate: str,
    seed: int,
    as_json: bool,
    unused: Mapping[str, object],
) -> None:
    """Tune the effort of an existing collection, print the choice and exit with its code.

    Args:
        target: the URL of the collection.
        queries: a file of real queries.
        goals: targets and budgets.
        where: a filter for all queries.
        max_rate: such as 20/s, or none.
        seed: random seed of the split.
        as_json: print one JSON object.
        unused: options that mean nothing here, with their values.
    """
    from recallatk.probing import tune_effort
    from recallatk.reporting.probe import effort_to_text
    from recallatk.units import parse_rate

    if queries is None:
        raise UsageError(
            f"no queries. A collection is tuned with real ones: recallatk tune {target} --queries FILE"
        )
    import_from_folder()
    stated = [name for name, value in unused.items() if value]
    if stated:
        raise UsageError(f"{', '.join(stated)} cannot be combined with an existing collection")
    rate = None if max_rate == "none" else parse_rate(max_rate)
    with progress("tuning") as line:
        found = tune_effort(
            target, queries, goals, where=where, max_rate=rate, seed=seed,
            on_discovery=None if as_json else show_discovery, progress=line,
        )  # fmt: skip
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else effort_to_text(found))
    if not found.met:
        raise typer.Exit(FAILED)
