"""Terminal plot of recall against throughput or another cost, with a symbol per engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from recallatk.core import Mode
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Run
    from recallatk.reporting.charts.points import Curve

_SIGNS = "●■▲◆✚▼○□△◇✕▽"
WIDTH, _HEIGHT, MARGIN = 60, 12, 9
# Costs that differ by more than this factor get a logarithmic axis.
_LOGARITHMIC = 4.0


class Dot(NamedTuple):
    """A point of a plot."""

    across: float
    up: float
    engine: str
    front: bool = False
    """Drawn after the others, so that no other point covers it."""


def plot(run: Run, *, width: int = WIDTH, height: int = _HEIGHT) -> list[str]:
    """Recall against throughput under the first load as lines of text; none without two points.

    An open loop fixes the throughput, so its plot has the latency instead.
    """
    from recallatk.reporting.charts.points import curve_of

    curve = curve_of(run)
    if curve.loads and curve.loads[0].mode is Mode.RATE:
        return _plotted(curve, "latency", f"{curve.tail} ms", width, height)
    return _plotted(curve, "qps", "QPS", width, height)


def _plotted(curve: Curve, axis: str, title: str, width: int, height: int) -> list[str]:
    dots = [
        Dot(each["recall"], each[axis], each["engine"], bool(each["latencyFront"]))
        for each in curve.main
        if each["recall"] is not None and each[axis]
    ]
    return scatter(dots, list(curve.engines.values()), title, curve.measure or "", width, height)


def scatter(
    dots: Sequence[Dot],
    engines: Sequence[str],
    up_title: str,
    across_title: str,
    width: int = WIDTH,
    height: int = _HEIGHT,
) -> list[str]:
    """Points between two axes as lines of text; none without two distinct points."""
    if len({(each.across, each.up) for each in dots}) < 2:
        return []
    signs = {name: _SIGNS[place % len(_SIGNS)] for place, name in enumerate(engines)}
    cells = [[" "] * width for _ in range(height)]
    across = _Span([each.across for each in dots], width)
    up = _Span([each.up for each in dots], height, logarithmic=True)
    for each in sorted(dots, key=lambda dot: dot.front):
        cells[height - 1 - up.place(each.up)][across.place(each.across)] = signs[each.engine]
    drawn = {each.engine for each in dots}
    return [
        *_drawn(cells, up, up_title),
        *_below(across, width, across_title),
        *_legend({name: sign for name, sign in signs.items() if name in drawn}, width + len(across_title)),
    ]


class _Span:
    """A range of values divided into steps."""

    def __init__(self, values: list[float], steps: int, *, logarithmic: bool = False) -> None:
        self.least, self.most, self.steps = min(values), max(values), steps
        self.logarithmic = logarithmic and self.most > _LOGARITHMIC * self.least

    def place(self, value: float) -> int:
        """The step that a value is in."""
        least, most, value = (self._scaled(each) for each in (self.least, self.most, value))
        return round((value - least) / ((most - least) or 1.0) * (self.steps - 1))

    def value(self, step: int) -> float:
        """The value in the middle of a step."""
        least, most = self._scaled(self.least), self._scaled(self.most)
        found = least + (most - least) * step / (self.steps - 1)
        return math.exp(found) if self.logarithmic else found

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def _drawn(cells: list[list[str]], up: _Span, title: str) -> list[str]:
    height = len(cells)
    marked = {0, height // 2, height - 1}
    lines = [title.rjust(MARGIN - 2)]
    for place, row in enumerate(cells):
        value = _tick(up.value(height - 1 - place)) if place in marked else ""
        lines.append(f"{value.rjust(MARGIN - 2)} {'┤' if place in marked else '│'}{''.join(row)}".rstrip())
    return lines


def _tick(value: float) -> str:
    """Three digits; whole numbers below a million stay readable as such."""
    return f"{value:,.0f}" if 1_000 <= value < 1_000_000 else f"{value:.3g}"


def _below(across: _Span, width: int, title: str) -> list[str]:
    least, most = f"{across.least:.3f}", f"{across.most:.3f}"
    middle = f"{across.value(width // 2):.3f}"
    left = (width // 2) - len(least) - len(middle) // 2
    right = width - len(least) - left - len(middle) - len(most)
    return [
        f"{' ' * (MARGIN - 1)}└{'─' * width}",
        f"{' ' * MARGIN}{least}{' ' * max(1, left)}{middle}{' ' * max(1, right)}{most} {title}",
    ]


def _legend(signs: dict[str, str], width: int) -> list[str]:
    """The sign of every engine, in as many lines as it takes."""
    lines: list[str] = []
    for name, sign in signs.items() if len(signs) > 1 else ():
        shown = f"{sign} {printable(name)}"
        if lines and len(lines[-1]) + 2 + len(shown) <= width:
            lines[-1] += f"  {shown}"
        else:
            lines.append(shown)
    return [" " * MARGIN + line for line in lines]
