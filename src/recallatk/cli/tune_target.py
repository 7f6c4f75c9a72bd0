"""`recallatk tune TARGET`: the least search effort with which a collection in use meets its targets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from recallatk.adapters.target_schemes import is_target as is_target  # noqa: PLC0414 - decided here
from recallatk.cli.exits import FAILED, nothing_to_resume, say
from recallatk.cli.history import history_for, remember_in
from recallatk.cli.probe import opened_target, parameters, rate_of, show_discovery, texts
from recallatk.cli.progress import progress
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recallatk.cli.options import GivenOptions

_USED = ("QUERIES", "--where")


@dataclass(frozen=True)
class TargetOptions:
    """Options that mean something only for an existing collection."""

    truth: str | None
    corpus: str | None
    search: list[str] | None
    settings: list[str] | None
    sql: str | None
    timeout: str
    max_rate: str
    history: Path | None = None

    def refuse(self) -> None:
        """Refuse those that are stated without an existing collection."""
        given = {"--truth": self.truth, "--corpus": self.corpus, "--search": self.search,
                 "--set": self.settings, "--sql": self.sql}  # fmt: skip
        stated = [name for name, value in given.items() if value]
        if stated:
            raise UsageError(
                f"{', '.join(stated)} can only be combined with an existing collection, such as "
                "postgresql://host/db?table=items"
            )


def tune_target(
    target: str,
    given: GivenOptions,
    asked: TargetOptions,
    seed: int,
    as_json: bool,
    unused: Mapping[str, object],
) -> None:
    """Tune the effort of an existing collection, print the choice and exit with its code.

    Args:
        target: the URL of the collection.
        given: options of every tuning: queries, targets, budgets and a filter are used.
        asked: options of existing collections.
        seed: random seed of the split.
        as_json: print one JSON object.
        unused: more options that mean nothing here, with their values.
    """
    from recallatk.probing import tune_effort
    from recallatk.reporting.probe import effort_to_text

    if given.queries is None:
        raise UsageError(
            f"no queries. A collection is tuned with real ones: recallatk tune {target} --queries FILE"
        )
    stated = {**unused, **given.described, "--price": given.price, "--weight": given.weight,
              "--qrels": given.qrels, "--sample": given.sample,
              "--corpus-sample": given.corpus_sample}  # fmt: skip
    wrong = [name for name, value in stated.items() if value and name not in _USED]
    if wrong:
        raise UsageError(f"{', '.join(wrong)} cannot be combined with an existing collection")
    remembered = history_for(asked.history)
    goals = [*(given.target or ()), *(given.budget or ())]
    with (
        nothing_to_resume(),
        opened_target(target, asked.timeout, asked.sql) as opened,
        progress("tuning") as line,
    ):
        found = tune_effort(
            opened, given.queries, goals, where=given.where,
            search=parameters(asked.search or ()), settings=texts(asked.settings or ()),
            truth=asked.truth, corpus=asked.corpus, max_rate=rate_of(asked.max_rate), seed=seed,
            on_discovery=None if as_json else show_discovery, progress=line,
        )  # fmt: skip
    say(json.dumps(found.to_dict(), indent=2) if as_json else effort_to_text(found))
    remember_in(remembered, found)
    if not found.served:
        raise typer.Exit(FAILED)
