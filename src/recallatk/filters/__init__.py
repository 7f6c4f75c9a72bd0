"""Filters: conditions on corpus metadata, as expressions with a text form and a JSON form."""

from recallatk.filters.expression import (
    And,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Range,
    filter_from_json,
)
from recallatk.filters.text import parse_filter

__all__ = [
    "And",
    "Equals",
    "Exists",
    "Filter",
    "In",
    "Not",
    "Or",
    "Range",
    "filter_from_json",
    "parse_filter",
]
