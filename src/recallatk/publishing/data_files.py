"""The data files of a site: every trial as CSV, JSON and Parquet, and the leaderboards as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from recallatk.files import atomic_file
from recallatk.publishing.addresses import DATA
from recallatk.reporting.as_dict import mean_to_dict, plain
from recallatk.reporting.exports.tabular import rows_as_arrow, rows_as_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.publishing.index_page import SiteContent
    from recallatk.publishing.leaderboards import ComparedData, Contest, Leaderboard, Standing
    from recallatk.publishing.published_run import PublishedRun
    from recallatk.publishing.site_folder import SiteFolder
    from recallatk.reporting.exports.tabular import Row

# 1: the first.
FORMAT_VERSION = 1
CSV, PARQUET, RESULTS, BOARDS = (
    f"{DATA}/{name}" for name in ("results.csv", "results.parquet", "results.json", "leaderboards.json")
)
FILES = (CSV, PARQUET, RESULTS, BOARDS)


def write_data_files(folder: SiteFolder, site: SiteContent) -> None:
    """Write all data files of a site."""
    columns, rows = joined_rows(site.runs)
    folder.write(CSV, rows_as_csv(columns, rows))
    parquet = folder.path(PARQUET)
    with atomic_file(parquet) as scratch:
        pq.write_table(rows_as_arrow(columns, rows), scratch, compression="zstd", write_page_checksum=True)
    described = {
        "format_version": FORMAT_VERSION,
        "title": site.title,
        "runs": [each.to_dict() for each in site.runs],
        "tunings": [each.to_dict() for each in site.tunings],
        "left_out": [each.to_dict() for each in site.left_out],
        "trials": rows,
    }
    folder.write(RESULTS, _as_json(described))
    folder.write(BOARDS, _as_json(leaderboards_to_dict(site.compared)))


def joined_rows(runs: Sequence[PublishedRun]) -> tuple[list[str], list[Row]]:
    """The columns of all runs, and every trial with its run, machine and start first."""
    own = ["run", "machine", "begun"]
    columns = list(dict.fromkeys(name for run in runs for name in run.columns))
    # A parameter cannot be called like these: all have a prefix.
    rows = [
        {"run": run.name, "machine": str(run.machine), "begun": run.begun or None, **row}
        for run in runs
        for row in run.rows
    ]
    return [*own, *columns], rows


def leaderboards_to_dict(compared: Sequence[ComparedData]) -> dict[str, Any]:
    """Every leaderboard with the setting, the recall and the cost of every engine."""
    return {"format_version": FORMAT_VERSION, "data_sets": [_data_set(each) for each in compared]}


def _data_set(data: ComparedData) -> dict[str, Any]:
    question = data.question
    return {
        "title": data.title,
        "dataset": question.dataset,
        "metric": question.metric,
        "fingerprints": {**dict(question.data), "truth": question.truth},
        "queries": max(each.queries for each in data.runs),
        "weighted": bool(question.weights),
        "contests": [_contest(each) for each in data.contests],
    }


def _contest(contest: Contest) -> dict[str, Any]:
    shared = contest.conditions
    return {
        "load": str(shared.load),
        "k": shared.k,
        "search_threads": shared.search_threads,
        "machine": str(shared.machine),
        "ranked_by": contest.axis.title,
        "leaderboards": [_board(each) for each in contest.boards],
    }


def _board(board: Leaderboard) -> dict[str, Any]:
    return {
        "measure": board.measure,
        "level": board.level,
        "standings": [_standing(board, each) for each in board.standings],
    }


def _standing(board: Leaderboard, standing: Standing) -> dict[str, Any]:
    shown = standing.contender.worst_recall(board.measure)
    latencies = {name: each.value for name, each in shown.latency_ms.items()}
    return {
        "rank": standing.rank,
        "engine": standing.engine,
        "version": standing.version,
        "build": dict(shown.trial.build),
        "search": dict(shown.trial.search),
        "run": shown.run,
        "begun": shown.begun or None,
        "recall": mean_to_dict(shown.means[board.measure]),
        "at_least": standing.contender.bound(board.measure),
        "cost": None if standing.cost is None else standing.cost.to_dict(),
        "latency_ms": latencies,
        "qps": shown.qps.median,
        "memory_bytes": shown.memory_bytes,
        "size_bytes": shown.size_bytes,
        "build_seconds": shown.build_seconds,
    }


def _as_json(value: Any) -> str:
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"
