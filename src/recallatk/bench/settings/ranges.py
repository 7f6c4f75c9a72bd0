"""A range of a parameter as the values that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recallatk.bench.settings.models import RangeSettings

# Enough to tell any two steps apart, and no tails such as 0.30000000000000004.
_DIGITS = 12


def range_values(given: RangeSettings, scale: str = "linear", *, whole: bool = False) -> tuple[float, ...]:
    """The values in rising order, each once, both ends included; `scale` is for a range that names none."""
    low, high = given.from_, given.to
    ratio = high / low if (given.scale or scale) == "log" else None
    values = [low]
    for step in range(1, given.steps - 1):
        share = step / (given.steps - 1)
        # Taken apart, so that ends of any size have a difference.
        value = low * (1 - share) + high * share if ratio is None else low * ratio**share
        values.append(min(max(value if whole else float(f"{value:.{_DIGITS}g}"), low), high))
    values.append(high)
    if whole:
        return tuple(sorted({round(value) for value in values}))
    return tuple(sorted(set(values)))
