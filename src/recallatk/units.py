"""Quantities as text: counts, durations, sizes and shares."""

from __future__ import annotations

import re
import sys
from decimal import Decimal

from recallatk.errors import UsageError


def counted(count: int, one: str, several: str) -> str:
    """A number with its noun, such as `1 query` or `2 queries`."""
    return f"{count:,} {one if count == 1 else several}"


def share_of(count: int, whole: int, noun: str, one: str, several: str) -> str:
    """A count with its share and a predicate: `1 of 50 queries (2.0%) is …`."""
    return f"{count:,} of {whole:,} {noun} ({count / whole:.1%}) {one if count == 1 else several}"


DURATION = "a duration such as 500ms, 5s, 10min or 2h"
RATE = "a rate such as 20/s, 100/min or 500/h"
SIZE = "a size such as 500MiB or 8GiB, or a number of bytes"

_SECONDS = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?) ?(us|ms|s|min|h)")
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?/ ?(s|min|h)")
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SHARE = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]{1,3})?) ?(%?)")
_LARGE_UNITS = (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10))


def parse_duration(text: str, *, unit: str = "s") -> float:
    """A positive duration in seconds, or in another unit."""
    found = _DURATION.fullmatch(text.strip())
    value = None if found is None else float(Decimal(found[1]) * _SECONDS[found[2]] / _SECONDS[unit])
    if value is None or not 0 < value < float("inf"):
        raise UsageError(f"{text!r} is not a duration. Accepted: {DURATION}")
    return value


def format_duration(value: float, *, unit: str = "s") -> str:
    """The shortest text that parses to the same duration."""
    exact = Decimal(value) * _SECONDS[unit]
    for name in ("h", "min", "s", "ms"):
        count = exact / _SECONDS[name]
        whole = f"{int(count)}{name}"
        if 1 <= count < 10**15 and parse_duration(whole, unit=unit) == value:
            return whole
    return f"{value!r}{unit}"


def parse_rate(text: str) -> float:
    """A positive number per second."""
    found = _RATE.fullmatch(text.strip())
    value = 0.0 if found is None else float(Decimal(found[1]) / _SECONDS[found[2]])
    if not 0 < value < float("inf"):
        raise UsageError(f"{text!r} is not a rate. Accepted: {RATE}")
    return value


def parse_size(size: int | str) -> int:
    """Bytes of a size such as `1GiB`, `500MB` or a number; K, M, G and T are always powers of 1024."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?\s*", str(size), re.IGNORECASE)
    if found is None:
        raise UsageError(f"{size!r} is not a size. Accepted: {SIZE}")
    number = float(found[1]) * (1 << _POWERS[found[2].lower()])
    if number > sys.maxsize:
        raise UsageError(f"the size {size!r} is too large. Accepted: up to {sys.maxsize} bytes")
    return int(number)


def parse_share(text: str) -> float:
    """A share such as `0.95` or `95%`, which are the same number."""
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a number. Accepted: a share such as 0.95 or 95%")
    return float(Decimal(found[1]) / 100 if found[2] else Decimal(found[1]))


def parse_bytes(size: int | str) -> int:
    """A positive size in bytes."""
    value = parse_size(size)
    if value < 1:
        raise UsageError(f"the size {size!r} is not above 0. Accepted: {SIZE}")
    return value


def format_bytes(size: int) -> int | str:
    """The size in the largest unit that divides it."""
    for name, power in _LARGE_UNITS:
        if size % (1 << power) == 0:
            return f"{size >> power}{name}"
    return size


def mebibytes(size: float, digits: int = 1) -> str:
    """A size in MiB, for display."""
    return f"{size / (1 << 20):,.{digits}f} MiB"
