"""`recallatk probe`: the recall of a collection that is in use, read-only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.exits import FAILED
from recallatk.cli.options import By, Json, Quiet, Targets, Where, import_from_folder
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.core.probed import Discovery

UNDECIDED = 3
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


def probe(
    target: TargetUrl,
    queries: Annotated[str | None, typer.Option(help="Real queries; a file, folder or query log.")] = None,
    sample: Annotated[int, typer.Option(help="Without --queries: rows that serve as queries.")] = 500,
    at: Annotated[
        int | None, typer.Option(help="Cutoff k of recall@k. Default: the target's, else 10.")
    ] = None,
    targets: Targets = None,
    where: Where = None,
    search: Search = None,
    settings: Settings = None,
    by: By = None,
    truth: Annotated[str | None, typer.Option(help="Source of truth: exact or stream.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Corpus file to compute the truth from.")] = None,
    proxy: Annotated[
        bool,
        typer.Option("--proxy", help="Exact neighbors for every tenth query; the highest effort judges."),
    ] = False,
    sql: Annotated[
        str | None, typer.Option(help="SELECT with $vector, $k and $filter, for PostgreSQL.")
    ] = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    seed: Annotated[int, typer.Option(help="Random seed for the order of queries and the sample.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the recall of a collection that is in use, without changing it.

    Example: recallatk probe "postgresql:///shop?table=items" --queries log.parquet --target "recall@10>=0.95"
    """
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.adapters.target_schemes import open_collection
    from recallatk.probing import probe as probe_target
    from recallatk.reporting.probe import probe_to_text, segments_of
    from recallatk.units import parse_duration, parse_rate

    set_quiet(quiet)
    import_from_folder()
    more: dict[str, Any] = {} if sql is None else {"sql": sql}
    limits = ProbeLimits(seconds=parse_duration(timeout))
    with open_collection(target, limits, **more) as opened, progress("probing") as line:
        found = probe_target(
            opened, queries, goals=targets or (), at=at, where=where, search=parameters(search or ()),
            settings=texts(settings or ()), sample=sample, truth=truth, corpus=corpus,
            max_rate=None if max_rate == "none" else parse_rate(max_rate), proxy=proxy, seed=seed,
            on_discovery=None if as_json else show_discovery, progress=line,
        )  # fmt: skip
        if not as_json:
            typer.echo(probe_to_text(found, by or ()))
        else:
            segments = {name: segments_of(found, name) for name in by or ()}
            typer.echo(json.dumps({**found.to_dict(), "by": segments}, indent=2))
    outcome = found.verdict.outcome
    if outcome in ("FAIL", "UNDECIDED"):
        raise typer.Exit(FAILED if outcome == "FAIL" else UNDECIDED)


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
