"""Dates and times as whole numbers of ticks, and ISO 8601 literals converted to them exactly."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa

_DATE = r"(?P<date>\d{4}-\d{2}-\d{2})"
_TIME = r"(?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
_ZONE = r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)"
_ONLY_DATE = re.compile(_DATE, re.ASCII)
_ONLY_TIME = re.compile(_TIME, re.ASCII)
_LOCAL = re.compile(f"{_DATE}(?:[T ]{_TIME})?", re.ASCII)
_ZONED = re.compile(f"{_DATE}[T ]{_TIME}{_ZONE}", re.ASCII)
_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_moment(kind: pa.DataType) -> bool:
    """Whether columns of this type hold dates, times of day or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def ticks(column: Any) -> Any:
    """A column of dates or times as int64: days, or the unit of its type, since 1970 or midnight."""
    narrow = pa.types.is_date32(column.type) or pa.types.is_time32(column.type)
    return (column.cast(pa.int32()) if narrow else column).cast(pa.int64())


def ticks_per_second(kind: pa.DataType) -> Fraction:
    """Ticks of this type in a second."""
    if pa.types.is_date32(kind):
        return Fraction(1, _DAY)
    return Fraction(_PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit])


def ticks_of(kind: pa.DataType, text: str) -> int | Fraction:
    """An ISO 8601 literal in ticks of this type, a fraction between two ticks; ValueError if it is none."""
    pattern, _ = _form(kind)
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    parts = match.groupdict()
    days = dt.date.fromisoformat(parts["date"]).toordinal() - _EPOCH if parts.get("date") else 0
    found = (days * _DAY + _seconds(parts)) * ticks_per_second(kind)
    return int(found) if found.denominator == 1 else found


def accepted_moment(kind: pa.DataType) -> str:
    """A literal that columns of this type can be compared with."""
    return _form(kind)[1]


def _form(kind: pa.DataType) -> tuple[re.Pattern[str], str]:
    if pa.types.is_date(kind):
        return _ONLY_DATE, "'2024-01-31'"
    if pa.types.is_time(kind):
        return _ONLY_TIME, "'10:30:00'"
    if kind.tz is None:
        return _LOCAL, "'2024-01-31' or '2024-01-31T10:30:00'"
    return _ZONED, "'2024-01-31T10:30:00Z', with a time zone"


def _seconds(parts: dict[str, str | None]) -> Fraction:
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    dt.time(hour, minute, second)
    fraction = parts.get("fraction") or "0"
    return hour * 3600 + minute * 60 + second + Fraction(int(fraction), 10 ** len(fraction)) - _offset(parts)


def _offset(parts: dict[str, str | None]) -> int:
    """Seconds east of UTC."""
    zone = parts.get("zone") or "Z"
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    dt.time(hours, minutes)
    return (hours * 60 + minutes) * (60 if zone[0] == "+" else -60)
