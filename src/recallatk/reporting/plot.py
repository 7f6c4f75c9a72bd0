"""Terminal plot of recall against latency, with a symbol per engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

_SIGNS = "●■▲◆✚▼○□△◇✕▽"
_WIDTH, _HEIGHT, _MARGIN = 60, 12, 9
# Latencies that differ by more than this factor get a logarithmic axis.
_LOGARITHMIC = 4.0


def plot(run: Run, *, width: int = _WIDTH, height: int = _HEIGHT) -> list[str]:
    """Recall against latency under the first load as lines of text; none where there are not two points."""
    from recallatk.reporting.charts.points import curve_of

    curve = curve_of(run)
    points = [each for each in curve.main if each["recall"] is not None and each["latency"]]
    if len({(each["recall"], each["latency"]) for each in points}) < 2:
        return []
    signs = {name: _SIGNS[place % len(_SIGNS)] for place, name in enumerate(curve.engines.values())}
    cells = [[" "] * width for _ in range(height)]
    across = _Span([each["recall"] for each in points], width)
    up = _Span([each["latency"] for each in points], height, logarithmic=True)
    # Points on the front are drawn last, so that no other point covers them.
    for each in sorted(points, key=lambda point: bool(point["latencyFront"])):
        cells[height - 1 - up.place(each["latency"])][across.place(each["recall"])] = signs[each["engine"]]
    return [*_drawn(cells, up, curve), *_below(across, width, curve), *_legend(signs, points)]


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


def _drawn(cells: list[list[str]], up: _Span, curve: Curve) -> list[str]:
    height = len(cells)
    marked = {0, height // 2, height - 1}
    lines = [f"{curve.tail} ms".rjust(_MARGIN - 2)]
    for place, row in enumerate(cells):
        value = f"{up.value(height - 1 - place):.3g}" if place in marked else ""
        lines.append(f"{value.rjust(_MARGIN - 2)} {'┤' if place in marked else '│'}{''.join(row)}".rstrip())
    return lines


def _below(across: _Span, width: int, curve: Curve) -> list[str]:
    least, most = f"{across.least:.3f}", f"{across.most:.3f}"
    middle = f"{across.value(width // 2):.3f}"
    left = (width // 2) - len(least) - len(middle) // 2
    right = width - len(least) - left - len(middle) - len(most)
    pad = " " * (_MARGIN)
    return [
        f"{' ' * (_MARGIN - 1)}└{'─' * width}",
        f"{pad}{least}{' ' * max(1, left)}{middle}{' ' * max(1, right)}{most} {curve.measure}",
    ]


def _legend(signs: dict[str, str], points: list[Row]) -> list[str]:
    drawn = {each["engine"] for each in points}
    shown = [f"{sign} {printable(name)}" for name, sign in signs.items() if name in drawn]
    return [" " * _MARGIN + "  ".join(shown)] if len(shown) > 1 else []
