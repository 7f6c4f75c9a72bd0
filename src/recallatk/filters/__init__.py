"""Filters: conditions on corpus metadata, as expressions with a text form and a JSON form."""

from recallatk.filters.expression import (
    And,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
)
from recallatk.filters.json_form import filter_from_json
from recallatk.filters.text import parse_filter

__all__ = [
    "And",
    "ContainsAll",
    "ContainsAny",
    "Equals",
    "Exists",
    "Filter",
    "In",
    "Not",
    "Or",
    "Prefix",
    "Range",
    "filter_from_json",
    "parse_filter",
]
