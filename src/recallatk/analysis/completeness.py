"""Lists of a truth that the filters of the data contradict, whatever the vectors are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Truth
    from recallatk.filters.eligibility import Eligibility


def list_lengths(truth: Truth) -> NDArray[np.int64]:
    """How many neighbors the truth lists for each query."""
    return np.asarray((truth.rows >= 0).sum(axis=1), np.int64)


def short_lists(truth: Truth, eligibility: Eligibility, k: int) -> NDArray[np.bool_]:
    """Queries with fewer neighbors than min(k, eligible rows): filtered after the search, or cut."""
    return list_lengths(truth) < np.minimum(k, eligibility.counts)


def ineligible_rows(truth: Truth, eligibility: Eligibility) -> NDArray[np.bool_]:
    """Beside each neighbor, whether its query may not return it, or there is no such row."""
    found = np.asarray(truth.rows >= eligibility.corpus_rows)
    query, column = np.nonzero((truth.rows >= 0) & ~found)
    found[query, column] = ~eligibility.allowed(query, truth.rows[query, column])
    return found


def require_complete(truth: Truth, eligibility: Eligibility, k: int) -> None:
    """Refuse lists that recall@k cannot be counted from: too short, or with rows that a filter excludes."""
    barred = ineligible_rows(truth, eligibility)
    if barred.any():
        query, column = (int(each) for each in np.argwhere(barred)[0])
        raise MismatchError(
            f"filter mismatch: the truth lists {truth.ids_of(truth.rows[query, column : column + 1])[0]} for "
            f"query {_name(truth, query)}, whose filter excludes that row. Compute the truth with the same "
            "filters: recallatk truth"
        )
    short = short_lists(truth, eligibility, k)
    if short.any():
        query = int(np.argmax(short))
        count, eligible = list_lengths(truth)[query], eligibility.counts[query]
        raise MismatchError(
            f"incomplete truth: query {_name(truth, query)} lists {count:,} neighbors, but {eligible:,} rows "
            f"are eligible and k is {k:,}; {int(short.sum()):,} of {len(truth):,} queries have such lists. "
            "Was a filter applied after the search? Compute the truth with the filter: recallatk truth"
        )


def _name(truth: Truth, query: int) -> str:
    return str(query if truth.query_ids is None else truth.query_ids[query])
