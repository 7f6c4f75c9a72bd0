"""`recallatk migrate`: what changes if the rows are embedded anew, and whether to do it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, nothing_to_resume, say
from recallatk.cli.options import (
    Budgets,
    EngineNames,
    Json,
    MetricName,
    Qrels,
    Quiet,
    Targets,
    cutoffs,
    engine_names,
    require_goals,
)
from recallatk.cli.volume import note, set_quiet

Old = Annotated[str, typer.Argument(help="Corpus as it is embedded now, or a data set with queries.")]
New = Annotated[str, typer.Argument(help="The same ids, embedded anew.")]


def migrate(
    old: Old,
    new: New,
    old_queries: Annotated[str | None, typer.Option(help="Queries for OLD.")] = None,
    new_queries: Annotated[str | None, typer.Option(help="The same queries, embedded for NEW.")] = None,
    metric: MetricName = None,
    new_metric: Annotated[str | None, typer.Option(help="Metric of NEW, if it is another one.")] = None,
    at: Annotated[str, typer.Option(help="Cutoffs k of the overlap.")] = "1,10",
    qrels: Qrels = None,
    target: Targets = None,
    budget: Budgets = None,
    engine: EngineNames = None,
    new_engine: Annotated[
        list[str] | None,
        typer.Option(
            "--new-engine",
            autocompletion=engine_names,
            help="Engine for NEW, if it is another one; repeatable.",
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Time limit of each tuning, e.g. 15min.")] = None,
    sample: Annotated[int, typer.Option(help="Most queries to compare.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed for samples and tunings.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write Markdown to this file.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two embeddings of the same rows: exact neighbors, relevance, settings, costs, mixed spaces.

    With a target, both are tuned to it: exit 0 if the new one meets it, 1 if not, 3 if that is undecided.

    Example: recallatk migrate minilm.parquet new-model.parquet --metric cosine

    Example: recallatk migrate old/ new/ --metric cosine --qrels qrels.tsv --target "recall@10 >= 0.95"
    """
    from recallatk.adapters import get_engine
    from recallatk.files import require_not_among, require_writable, write_text
    from recallatk.migration import migrate as migrated
    from recallatk.reporting.migration import migration_to_html, migration_to_markdown, migration_to_text
    from recallatk.units import parse_duration

    set_quiet(quiet)
    require_goals(target or (), budget or ())
    for name in (*(engine or ()), *(new_engine or ())):
        get_engine(name)
    for path in (html, markdown):
        if path is not None:
            require_not_among(path, [old, new, old_queries, new_queries, qrels])
            require_writable(path)
    with nothing_to_resume():
        found = migrated(
            old, new, old_queries=old_queries, new_queries=new_queries, metric=metric, new_metric=new_metric,
            at=cutoffs(at), qrels=qrels, target=target or (), budgets=budget or (), engines=engine,
            new_engines=new_engine, seconds=None if time is None else parse_duration(time), sample=sample,
            seed=seed, progress=lambda what: note(f"{what} …"),
        )  # fmt: skip
    say(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else migration_to_text(found))
    for path, render in ((html, migration_to_html), (markdown, migration_to_markdown)):
        if path is not None:
            write_text(path, render(found))
            note(str(path))
    if found.outcome in ("FAIL", "UNDECIDED"):
        raise typer.Exit(FAILED if found.outcome == "FAIL" else UNDECIDED)
