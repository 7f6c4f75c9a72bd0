"""Histories: measurements that are remembered, and their trends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.analysis.trend import Trend, trends_of
from recallatk.errors import UsageError, unknown
from recallatk.files import atomic_file
from recallatk.storage.history_entries import history_entries, moment
from recallatk.storage.history_store import HISTORY, append_history, read_history
from recallatk.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Run
    from recallatk.core.history import HistoryEntry
    from recallatk.core.probed import Probed, TunedEffort
    from recallatk.core.tuned import Tuned
    from recallatk.files import PathLike
    from recallatk.goals.gated import Gated

_DAYS = re.compile(r"([0-9]+) ?d")
DEFAULT = f"runs/{HISTORY}"


def remember(
    found: Run | Tuned | Probed | TunedEffort | Gated, path: PathLike = DEFAULT, *, name: str | None = None
) -> int:
    """Append what was measured to a history; the number of entries. A run is appended once.

    Args:
        found: a run, a tuning, a probe or a gate.
        path: the file; it is made if there is none.
        name: name of the collection, for a tuning, which does not know it.
    """
    entries = history_entries(found, name)
    append_history(path, entries)
    return len(entries)


def history(
    path: PathLike = DEFAULT,
    *,
    measure: str | None = None,
    collection: str | None = None,
    since: str | None = None,
) -> list[Trend]:
    """Trends of a history, with the entries at which their level changed.

    Args:
        path: the file of the history.
        measure: only this measure, such as recall@10.
        collection: only this data set or target, or those that contain the text.
        since: only entries from then on: a duration such as 30d or 12h, or a date such as 2026-05-01.
    """
    entries = read_history(path)
    earliest = None if since is None else _moment(since)
    named = _of_collection(entries, collection)
    wanted = [each for each in named if measure in (None, each.measure)]
    if measure is not None and named and not wanted:
        raise UsageError(f"--measure: {unknown('measure', measure, _distinct(named, 'measure'))}")
    return trends_of(each for each in wanted if earliest is None or each.when >= earliest)


def _of_collection(entries: Sequence[HistoryEntry], name: str | None) -> list[HistoryEntry]:
    if name is None:
        return list(entries)
    found = [each for each in entries if each.collection == name]
    found = found or [each for each in entries if name in each.collection]
    if entries and not found:
        raise UsageError(f"--collection: {unknown('collection', name, _distinct(entries, 'collection'))}")
    return found


def _distinct(entries: Sequence[HistoryEntry], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(each, field) for each in entries))


def _moment(text: str) -> str:
    """The moment that a duration before now, or a date, stands for, as entries write it."""
    days = _DAYS.fullmatch(text.strip())
    try:
        if days is None and not text.strip()[:5].endswith("-"):
            found = datetime.now(UTC) - timedelta(seconds=parse_duration(text))
        elif days is not None:
            found = datetime.now(UTC) - timedelta(days=int(days[1]))
        else:
            found = datetime.combine(date.fromisoformat(text.strip()), datetime.min.time(), UTC)
    except (ValueError, OverflowError, UsageError):
        raise UsageError(f"--since {text}: not a time. Accepted: 30d, 12h or 2026-05-01") from None
    return moment(found)


def write_history_table(path: PathLike, trends: Sequence[Trend]) -> None:
    """Every entry as one row of a Parquet file; states and costs as JSON."""
    import json

    rows = [each.to_dict() for trend in trends for each in trend.entries]
    for row in rows:
        row["state"], row["costs"] = json.dumps(row["state"]), json.dumps(row["costs"])
    with atomic_file(Path(path)) as scratch:
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), scratch)


_TEXTS = ("when", "kind", "collection", "subject", "measure")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("queries", pa.int64()),
        *((name, pa.string()) for name in ("verdict", "state", "costs")),
    ]
)
