"""`recallatk probe`: the recall of a collection that is in use, read-only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.exits import end_with, nothing_to_resume, say
from recallatk.cli.history import HistoryFile, history_for, remember_in
from recallatk.cli.options import By, Json, Quiet, Targets, Where, import_from_folder
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.adapters.collection import Collection
    from recallatk.core.probed import Discovery

_TARGET_HELP = "Existing collection: postgresql://host/db?table=items, lancedb://folder/table, ..."
TargetUrl = Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET_HELP)]
Search = Annotated[
    list[str] | None, typer.Option(help="Search parameter for this probe, e.g. ef_search=64; repeatable.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Setting of the engine for this probe, e.g. hnsw.iterative_scan=strict_order."
    ),
]
Rate = Annotated[str, typer.Option(help="Most queries per second, e.g. 20/s; `none` for no limit.")]
Timeout = Annotated[str, typer.Option(help="Time limit of every statement, e.g. 30s.")]
Recent = Annotated[int | None, typer.Option(help="Number of latest queries to ask; default: all.")]
TruthSource = Annotated[
    str | None, typer.Option("--truth", help="Source of truth of a collection: exact or stream.")
]
MadeFrom = Annotated[
    str | None, typer.Option("--corpus", help="What the collection was made from, to compute the truth.")
]
Statement = Annotated[
    str | None, typer.Option("--sql", help="SELECT with $vector, $k and $filter, for PostgreSQL.")
]


def probe(
    target: TargetUrl,
    queries: Annotated[str | None, typer.Option(help="Real queries; a file, folder or query log.")] = None,
    sample: Annotated[int, typer.Option(help="Without --queries: rows that serve as queries.")] = 500,
    recent: Recent = None,
    at: Annotated[
        int | None, typer.Option(help="Cutoff k of recall@k. Default: the target's, else 10.")
    ] = None,
    targets: Targets = None,
    where: Where = None,
    search: Search = None,
    settings: Settings = None,
    by: By = None,
    truth: TruthSource = None,
    corpus: MadeFrom = None,
    proxy: Annotated[
        bool,
        typer.Option("--proxy", help="Exact neighbors for every tenth query; the highest effort judges."),
    ] = False,
    sql: Statement = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    seed: Annotated[int, typer.Option(help="Random seed for the order of queries and the sample.")] = 0,
    history: HistoryFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the recall of a collection that is in use, without changing it.

    Example: recallatk probe "postgresql:///shop?table=items" --queries log.parquet --target "recall@10>=0.95"
    """
    from recallatk.probing import probe as probe_target
    from recallatk.reporting.probe import probe_to_text

    set_quiet(quiet)
    remembered = history_for(history)
    with nothing_to_resume(), opened_target(target, timeout, sql) as opened, progress("probing") as line:
        found = probe_target(
            opened, queries, goals=targets or (), at=at, where=where, by=by or (),
            search=parameters(search or ()), settings=texts(settings or ()), sample=sample, recent=recent,
            truth=truth, corpus=corpus,
            max_rate=rate_of(max_rate), proxy=proxy, seed=seed,
            on_discovery=None if as_json else show_discovery, progress=line,
        )  # fmt: skip
        say(json.dumps(found.to_dict(), indent=2) if as_json else probe_to_text(found))
    remember_in(remembered, found)
    end_with(found.verdict.outcome)


def opened_target(target: str, timeout: str, sql: str | None) -> Collection:
    """Open what the command names; functions may be in the current folder."""
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.adapters.target_schemes import open_collection
    from recallatk.units import parse_duration

    import_from_folder()
    more: dict[str, Any] = {} if sql is None else {"sql": sql}
    return open_collection(target, ProbeLimits(seconds=parse_duration(timeout)), **more)


def rate_of(text: str) -> float | None:
    """Queries per second of --max-rate; None for `none`."""
    from recallatk.units import parse_rate

    return None if text == "none" else parse_rate(text)


def show_discovery(found: Discovery) -> None:
    """Show on standard error what the collection reports, before any query."""
    from recallatk.reporting.probe import discovery_to_text

    note(discovery_to_text(found))


def texts(pairs: list[str] | tuple[()]) -> dict[str, str]:
    """`NAME=VALUE` texts of --set."""
    found = {}
    for text in pairs:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise UsageError(f"{text}: no value. Accepted: NAME=VALUE, such as hnsw.ef_search=64")
        found[name.strip()] = value.strip()
    return found


def parameters(pairs: list[str] | tuple[()]) -> dict[str, Any]:
    """Search parameters; numbers are numbers."""
    return {name: _number(value) for name, value in texts(pairs).items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
