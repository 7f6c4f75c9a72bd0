"""A run as flat rows, one per trial and one column per number: CSV, Parquet, and JSON as it is."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.files import atomic_file, write_text
from recallatk.redaction import writable
from recallatk.reporting.as_dict import run_to_dict
from recallatk.reporting.exports import Exported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from recallatk.core import Run
    from recallatk.files import PathLike

Row = dict[str, Any]

# Columns that are text even where no trial has a value.
TEXTS = frozenset(
    ["version", "call", "evidence", "failure_kind", "failure_phase", "failure_message", "load.via"]
)
_FLAT = (
    *("k", "queries", "asked", "scored", "calls", "rounds", "clients", "changed_answers", "highest_rate"),
    *("build_seconds", "build_cpu_seconds", "build_threads", "search_threads"),
    *("memory_bytes", "peak_bytes", "size_bytes", "version", "call", "evidence"),
)
# Spreadsheets execute text that begins with these, even after white space.
_RUN = ("=", "+", "-", "@")
_LARGEST = 1 << 63


def flat_rows(run: Run) -> tuple[list[str], list[Row]]:
    """The union of all trials' columns, and one row per trial; missing values are None."""
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
        row |= {f"{name}_{part}": value for part, value in mean.items() if part != "value"}
    return row


def _latency(trial: dict[str, Any]) -> Row:
    row: Row = {}
    for name, value in (trial["latency_ms"] or {}).items():
        row[f"{name}_ms"] = value
        ends = trial["latency_intervals_ms"][name]
        row |= {f"{name}_low_ms": ends["low"], f"{name}_high_ms": ends["high"]}
    return row | {
        name: trial[name] for name in ("qps", "qps_low", "qps_high", "cost_per_million") if name in trial
    }


def _others(trial: dict[str, Any]) -> Row:
    return {
        **{name: trial[name] for name in _FLAT},
        "refused_queries": None if trial["refused"] is None else trial["refused"]["queries"],
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


def write_csv(run: Run, out: PathLike) -> Exported:
    """Write a header and the trials; what was not measured is empty."""
    write_text(out, csv_text(run))
    return Exported((Path(out),))


def csv_text(run: Run) -> str:
    """The table as text."""
    return rows_as_csv(*flat_rows(run))


def rows_as_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Flat rows as CSV; what a row does not have is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in columns])
    writer.writerows([_csv_cell(row.get(name)) for name in columns] for row in rows)
    return target.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return inert(writable(value)) if isinstance(value, str) else value


def inert(text: str) -> str:
    """Text with an apostrophe in front where a spreadsheet would execute it as a formula."""
    return f"'{text}" if text.lstrip().startswith(_RUN) or text.startswith(("\t", "\r", "\n")) else text


def write_parquet(run: Run, out: PathLike) -> Exported:
    """Write the trials as typed columns."""
    import pyarrow.parquet as pq

    with atomic_file(out) as scratch:
        pq.write_table(arrow_table(run), scratch, compression="zstd", write_page_checksum=True)
    return Exported((Path(out),))


def arrow_table(run: Run) -> pa.Table:
    """The trials as typed columns in memory."""
    about = {name: value for name, value in run_to_dict(run).items() if name != "trials"}
    table = rows_as_arrow(*flat_rows(run))
    return table.replace_schema_metadata({b"recallatk.run": json.dumps(about).encode()})


def rows_as_arrow(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Flat rows as typed columns; what a row does not have is null."""
    import pyarrow as pa

    return pa.table({writable(name): _column(name, [row.get(name) for row in rows]) for name in columns})


def _column(name: str, values: list[Any]) -> pa.Array:
    """One type for the whole column: a parameter may be a number in one engine and text in another."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values), pa.string() if name in TEXTS else pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -_LARGEST <= value < _LARGEST for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [None if value is None else writable(str(value)) for value in values]
    return pa.array(texts, pa.string())


def write_json(run: Run, out: PathLike) -> Exported:
    """Write the object, indented."""
    write_text(out, json.dumps(run_to_dict(run), indent=2, allow_nan=False) + "\n")
    return Exported((Path(out),))
