"""The table of all settings: the front first, every interval, failures beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts.cost import builds
from recallatk.report.naming import cut
from recallatk.report.summary import number
from recallatk.report.tables import Table, interval, megabytes
from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.report.charts.points import Curve


def ordered(curve: Curve) -> list[int]:
    """The points of each load, its front by rising recall before the others."""
    return [
        point["n"]
        for point in sorted(
            curve.points, key=lambda each: (each["load"], not each["latencyFront"], each["recall"] or 0.0)
        )
    ]


def settings_table(curve: Curve) -> Table:
    """One line per measured setting, in the order above."""
    several = len(curve.loads) > 1
    header = ["Setting", *(["Load"] if several else []), "Front", curve.measure or "recall", "95 % interval"]
    header += [f"{name} (ms)" for name in ("p50", "p95", "p99")]
    header += ["QPS (1/s)", "Build (s)", "Memory (MB)", "Size (MB)"]
    rows = []
    for place in ordered(curve):
        point, line = curve.points[place], curve.lines[place]
        built, mean = line.measurement.build, line.measurement.score.measures.get(curve.measure or "")
        rows.append(
            [
                point["label"],
                *([printable(point["loadText"])] if several else []),
                "front" if point["latencyFront"] else "",
                number(point["recall"], ".4f"),
                interval(mean, ".4f"),
                *(number(line.latency_ms[name].value, ".3f") for name in ("p50", "p95", "p99")),
                number(line.qps.median, ",.0f"),
                number(built.seconds, ".2f"),
                megabytes(built.memory_bytes),
                megabytes(built.size_bytes),
            ]
        )
    return Table("All settings", header, rows, 3 if several else 2)


def cost_table(curve: Curve) -> Table:
    """One line per index that was built."""
    rows = [
        [
            row["whole"],
            cut(printable(row["version"] or "-"), 120),
            str(row["threads"]),
            number(row["seconds"], ".2f"),
            *(number(row[name], ".1f") for name in ("memory", "peak", "size")),
        ]
        for row in builds(curve)
    ]
    header = ["Index", "Library", "Threads", "Build (s)", "Memory (MB)", "Peak (MB)", "Size (MB)"]
    title = "Every index of the settings above" if curve.left_out else "Every index that was built"
    return Table(title, header, rows, 2)
