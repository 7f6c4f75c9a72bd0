"""`recallatk migrate`: what changes if the rows are embedded anew, and whether to do it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from recallatk.cli.exits import end_with, nothing_to_resume, say
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
from recallatk.cli.pages import Html, Markdown, require_pages, write_pages
from recallatk.cli.volume import note, set_quiet

Old = Annotated[str, typer.Argument(help="Corpus as it is embedded now, or a data set with queries.")]
New = Annotated[str, typer.Argument(help="The same ids, embedded anew.")]
OldQueries = Annotated[str | None, typer.Option(help="Queries for OLD.")]
NewQueries = Annotated[str | None, typer.Option(help="The same queries, embedded for NEW.")]
NewMetric = Annotated[str | None, typer.Option(help="Metric of NEW, if it is another one.")]
At = Annotated[str, typer.Option(help="Cutoffs k of the overlap.")]
NewEngines = Annotated[
    list[str] | None,
    typer.Option(autocompletion=engine_names, help="Engine for NEW, if it is another one; repeatable."),
]
Time = Annotated[str | None, typer.Option(help="Time limit of each tuning, e.g. 15min.")]
Sample = Annotated[int, typer.Option(help="Most queries to compare.")]
Seed = Annotated[int, typer.Option(help="Random seed for samples and tunings.")]


def migrate(
    old: Old,
    new: New,
    old_queries: OldQueries = None,
    new_queries: NewQueries = None,
    metric: MetricName = None,
    new_metric: NewMetric = None,
    at: At = "1,10",
    qrels: Qrels = None,
    target: Targets = None,
    budget: Budgets = None,
    engine: EngineNames = None,
    new_engine: NewEngines = None,
    time: Time = None,
    sample: Sample = 1000,
    seed: Seed = 0,
    html: Html = None,
    markdown: Markdown = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two embeddings of the same rows: exact neighbors, relevance, settings, costs, mixed spaces.

    With a target, both are tuned to it: exit 0 if the new one meets it, 1 if not, 3 if that is undecided.

    Example: recallatk migrate minilm.parquet new-model.parquet --metric cosine

    Example: recallatk migrate old/ new/ --metric cosine --qrels qrels.tsv --target "recall@10 >= 0.95"
    """
    from recallatk.adapters import get_engine
    from recallatk.migration import migrate as migrated
    from recallatk.reporting.migration import migration_to_html, migration_to_markdown, migration_to_text
    from recallatk.units import parse_duration

    set_quiet(quiet)
    require_goals(target or (), budget or ())
    for name in (*(engine or ()), *(new_engine or ())):
        get_engine(name)
    require_pages((html, markdown), (old, new, old_queries, new_queries, qrels))
    with nothing_to_resume():
        found = migrated(
            old, new, old_queries=old_queries, new_queries=new_queries, metric=metric, new_metric=new_metric,
            at=cutoffs(at), qrels=qrels, target=target or (), budgets=budget or (), engines=engine,
            new_engines=new_engine, seconds=None if time is None else parse_duration(time), sample=sample,
            seed=seed, progress=lambda what: note(f"{what} …"),
        )  # fmt: skip
    say(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else migration_to_text(found))
    write_pages(found, ((html, migration_to_html), (markdown, migration_to_markdown)))
    end_with(found.outcome)
