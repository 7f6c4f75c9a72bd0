"""Filters in a measurement: what they admit, and those that an engine refused."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.units import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

REFUSED = "refused filters"
"""The kind of a caution about refused filters."""


@dataclass(frozen=True)
class RefusedFilter:
    """One filter that an engine cannot apply."""

    filter: str
    """The filter as text."""
    queries: int
    """Number of queries with this filter."""
    reason: str


@dataclass(frozen=True, eq=False)
class Refusals:
    """Queries that were not sent because the engine refused their filters."""

    numbers: NDArray[Any]
    """For each query, the place of its filter in `filters`; -1 if it was not refused."""
    filters: tuple[RefusedFilter, ...]

    @property
    def refused(self) -> NDArray[Any]:
        """Which queries were refused."""
        found: NDArray[Any] = self.numbers >= 0
        return found

    @property
    def queries(self) -> int:
        """Number of refused queries."""
        return sum(each.queries for each in self.filters)

    @property
    def count_in_words(self) -> str:
        """How many queries were refused, of how many."""
        return f"{self.queries:,} of {len(self.numbers):,} queries refused"

    @property
    def in_words(self) -> str:
        """The counts, and the most frequent filter with its reason."""
        return f"{self.count_in_words}: {self.why_in_words}"

    @property
    def why_in_words(self) -> str:
        """The most frequent filter with its reason."""
        worst = max(self.filters, key=lambda each: each.queries)
        others = counted(len(self.filters) - 1, "more filter", "more filters")
        more = f" (and {others})" if len(self.filters) > 1 else ""
        return f"{worst.filter}{more}: {worst.reason}"

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """The refusals for JSON, with the first `most` filters."""
        return {
            "queries": self.queries,
            "filters": len(self.filters),
            "reasons": [asdict(each) for each in self.filters[:most]],
        }


def read_refusals(numbers: NDArray[Any] | None, record: dict[str, Any] | None) -> Refusals | None:
    """The refusals of a record and the filter number of each query; None without them."""
    if numbers is None or record is None:
        return None
    found = tuple(RefusedFilter(**each) for each in record["reasons"])
    for each in record["reasons"]:
        texts = isinstance(each["filter"], str) and isinstance(each["reason"], str)
        if not texts or not _is_count(each["queries"]):
            raise ValueError("a refused filter is not a text with a number of queries and a reason")
    if not found or not ((numbers >= -1) & (numbers < len(found))).all():
        raise ValueError(f"refused queries name filters beyond the {len(found):,} with a reason")
    return Refusals(numbers, found)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, eq=False)
class FilterFacts:
    """What the filter of each query admits; the same for all trials of a run."""

    filtered: NDArray[Any]
    """Whether each query has a filter."""
    eligible: NDArray[Any]
    """Number of corpus rows that each query may return."""
    corpus_rows: int
    near: NDArray[Any] | None = None
    """Of each query's nearest rows without its filter, the number that pass it; None if not measured."""
    depth: int | None = None
    """Number of nearest rows that `near` counts among."""

    def take(self, which: NDArray[Any]) -> FilterFacts:
        """The facts about some of the queries."""
        near = None if self.near is None else self.near[which]
        return replace(self, filtered=self.filtered[which], eligible=self.eligible[which], near=near)


def read_facts(
    filtered: NDArray[Any], eligible: NDArray[Any], near: NDArray[Any] | None, record: dict[str, Any]
) -> FilterFacts:
    """The facts of a record and of the columns with one value per query."""
    rows, depth = record["corpus_rows"], record["depth"]
    if not _is_count(rows) or not (depth is None or _is_count(depth)):
        raise ValueError("corpus_rows and depth of its filters are not numbers of rows")
    if not ((eligible >= 0) & (eligible <= rows)).all():
        raise ValueError(f"a filter admits fewer than 0 or more than all {rows:,} rows")
    if near is not None and not ((near >= 0) & (near <= (depth or 0))).all():
        raise ValueError(f"of {depth or 0:,} nearest rows, fewer than 0 or more than all pass a filter")
    return FilterFacts(filtered.astype(bool), eligible, rows, near, depth)
