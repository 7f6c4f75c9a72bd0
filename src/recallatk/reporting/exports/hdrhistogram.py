"""The latencies of a run as an HdrHistogram log: one tagged histogram per trial, in nanoseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import needing
from recallatk.files import write_text
from recallatk.reporting.exports import Exported
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Measurement, Run
    from recallatk.files import PathLike

_DIGITS = 3
_HOUR_NS = 3_600_000_000_000
_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
_LONGEST_TAG = 100


def write(run: Run, out: PathLike) -> Exported:
    """Write the log; interval maxima are in milliseconds by convention."""
    write_text(out, "".join(f"{line}\n" for line in _lines(run)))
    failed = len(run.failures)
    notes = (f"{failed:,} failed trials have no latencies and were skipped",) if failed else ()
    return Exported((Path(out),), notes)


def _lines(run: Run) -> Iterator[str]:
    begun = _seconds(run.begun)
    yield "#[Latencies in nanoseconds, one tagged histogram per trial, written by recallatk]"
    yield "#[Histogram log format version 1.3]"
    yield f"#[StartTime: {begun:.3f} (seconds since epoch), {printable(run.begun or 'not known')}]"
    yield f"#[BaseTime: {begun:.3f} (seconds since epoch)]"
    tags = [_tag(number, each) for number, each in enumerate(run.measurements, 1)]
    for tag, each in zip(tags, run.measurements, strict=True):
        yield f"#[{tag} is {printable(str(each.trial))}]"
    yield _LEGEND
    # Trials have no start time and their rounds are interleaved, so they are written one after the other.
    start = 0.0
    for tag, each in zip(tags, run.measurements, strict=True):
        seconds = float(each.calls.round_ns.sum()) / 1e9
        most = float(each.calls.latency_ns.max(initial=0)) / 1e6
        payload = _histogram(each.calls.latency_ns).encode().decode()
        yield f"Tag={tag},{start:.3f},{seconds:.3f},{most:.3f},{payload}"
        start += seconds


def _seconds(begun: str | None) -> float:
    """Since the epoch; 0 where it is not known."""
    try:
        found = datetime.fromisoformat(begun or "")
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _tag(number: int, measurement: Measurement) -> str:
    """A unique tag without commas or white space, which the format forbids."""
    name = re.sub(r"[^A-Za-z0-9_.=()-]+", "_", str(measurement.trial))
    return f"{number}-{name[:_LONGEST_TAG]}"


def _histogram(latencies_ns: NDArray[np.int64]) -> Any:
    with needing("hdrhistogram", "hdrhistogram"):
        from hdrh.histogram import HdrHistogram

    most = int(latencies_ns.max(initial=0))
    histogram = HdrHistogram(1, max(_HOUR_NS, 2 * most), _DIGITS)
    values, counts = np.unique(_bucketed(latencies_ns, histogram.sub_bucket_count), return_counts=True)
    # The library records one value at a time, so calls are counted by bucket first.
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return histogram


def _bucketed(latencies_ns: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Each value rounded down to the lower edge of its bucket."""
    values = np.maximum(latencies_ns, 0)
    shift = np.zeros(values.shape, np.int64)
    while (beyond := (values >> shift) >= cells).any():
        shift += beyond
    return (values >> shift) << shift
