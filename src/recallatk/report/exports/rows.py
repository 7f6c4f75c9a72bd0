"""A run as flat rows: one per trial, one column for every number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recallatk.report.as_dict import run_to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Run

Row = dict[str, Any]

# What is text even where no trial has it.
TEXTS = frozenset(
    ["version", "call", "evidence", "failure_kind", "failure_phase", "failure_message", "load.via"]
)
_FLAT = (
    *("k", "queries", "asked", "scored", "calls", "rounds", "clients", "changed_answers", "highest_rate"),
    *("build_seconds", "build_cpu_seconds", "build_threads", "search_threads"),
    *("memory_bytes", "peak_bytes", "size_bytes", "version", "call", "evidence"),
)


def flat_rows(run: Run) -> tuple[list[str], list[Row]]:
    """The columns that any trial has, and the trials; what a trial does not have is None."""
    whole = run_to_dict(run)
    same = {"dataset": whole["dataset"], "metric": whole["metric"]}
    found = [{**same, **_row(trial)} for trial in whole["trials"]]
    columns = list(same)
    for group in _GROUPS:
        names = (name for trial in whole["trials"] for name in group(trial))
        columns += [name for name in dict.fromkeys(names) if name not in columns]
    return columns, [{name: row.get(name) for name in columns} for row in found]


def _row(trial: dict[str, Any]) -> Row:
    return {name: value for group in _GROUPS for name, value in group(trial).items()}


def _identity(trial: dict[str, Any]) -> Row:
    load = {f"load.{name}": value for name, value in trial["load"].items() if name != "mode"}
    names = ("engine", "mode", "status", "pareto", "repeat")
    return {**{name: trial[name] for name in names}, **load}


def _build(trial: dict[str, Any]) -> Row:
    return _prefixed("build.", trial["build"])


def _search(trial: dict[str, Any]) -> Row:
    return _prefixed("search.", trial["search"])


def _measures(trial: dict[str, Any]) -> Row:
    row: Row = {}
    for name, mean in trial["measures"].items():
        row[name] = mean["value"]
        row |= {f"{name}_{part}": mean[part] for part in ("low", "high", "n", "ids")}
    return row


def _latency(trial: dict[str, Any]) -> Row:
    row: Row = {}
    for name, value in (trial["latency_ms"] or {}).items():
        row[f"{name}_ms"] = value
        ends = trial["latency_intervals_ms"][name]
        row |= {f"{name}_low_ms": ends["low"], f"{name}_high_ms": ends["high"]}
    return row | {name: trial[name] for name in ("qps", "qps_low", "qps_high")}


def _others(trial: dict[str, Any]) -> Row:
    return {
        **{name: trial[name] for name in _FLAT},
        **_prefixed("late_", trial["late"] or {}),
        **_prefixed("warm_up_", trial["warm_up"] or {}),
        **_prefixed("anomaly_", trial["anomalies"]),
    }


def _failure(trial: dict[str, Any]) -> Row:
    failure = trial["failure"] or {}
    return {f"failure_{name}": failure.get(name) for name in ("kind", "phase", "message")}


_GROUPS = (_identity, _build, _search, _measures, _latency, _others, _failure)


def _prefixed(prefix: str, values: Mapping[str, Any]) -> Row:
    return {f"{prefix}{name}": _cell(value) for name, value in values.items()}


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
