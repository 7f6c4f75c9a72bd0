"""Recall by corpus row: the share of true neighbors found per column value, and rows that are never found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.ratios import ratio_of
from recallatk.analysis.segments import FEWEST, by_column
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared
    from recallatk.analysis.segments import Grouping
    from recallatk.core import Corpus, Mean, Truth, Weights

# A row that fewer queries want may be missed by chance.
FEWEST_WANTING = 5
# A hub is in at least this many true lists; a lost one is found at most half as often as recall suggests.
FEWEST_OF_HUB = 10
_RARELY = 0.5
MOST_NAMED = 20
NO_VALUE = "(no value)"


@dataclass(frozen=True, eq=False)
class WantedRows:
    """Every true neighbor of every query, with the part of it that was wanted and found.

    A neighbor within rank k is wanted whole. Rows that tie at rank k share the places that are left: a
    returned one takes a place, and the others share what remains. The sums per query are therefore min(k,
    eligible) and the tie-aware hits.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    wanted: NDArray[np.float64]
    """From 0 to 1."""
    found: NDArray[np.float64]
    """The wanted part if the row was returned, else 0."""
    tied: NDArray[np.bool_]
    """Whether the row ties at rank k with more rows than there are places."""
    answered: NDArray[np.bool_]
    """Per query: whether any row was returned."""


@dataclass(frozen=True, eq=False)
class RowSegment:
    """The true neighbors that have one value of a column."""

    name: str
    share: Mean
    """The share of them that was returned; n is the number of queries that want at least one."""
    neighbors: float
    """Number of true neighbors over all queries; fractions are due to ties at rank k."""

    @property
    def judged(self) -> bool:
        """Whether enough queries want such rows to rank the value."""
        return self.share.n >= FEWEST


@dataclass(frozen=True)
class LostRow:
    """A row that is found for few of the queries that want it."""

    row: int
    id: Any
    queries: int
    """Number of answered queries of which it is a true neighbor."""
    found: int
    """For how many of them it was returned."""


@dataclass(frozen=True, eq=False)
class LostRows:
    """Rows of one kind, those that most queries want first."""

    count: int
    rows: tuple[LostRow, ...]
    """At most `MOST_NAMED` of them."""


@dataclass(frozen=True, eq=False)
class RowSegments:
    """The documents' side of recall@k: by column value, and row by row."""

    k: int
    share: Mean
    """The share of all true neighbors that was returned."""
    columns: dict[str, list[RowSegment]]
    """By column: the worst value first, values that are too small to judge last."""
    never_found: LostRows
    """Rows that at least `FEWEST_WANTING` answered queries want and none receives."""
    lost_hubs: LostRows
    """Rows in at least `FEWEST_OF_HUB` true lists, found at most half as often as the average neighbor."""
    weight: str | None = None
    """The query column that weights the shares; None without weights."""


def segments_by_row(
    compared: Compared, k: int, groupings: Sequence[Grouping], weights: Weights | None = None
) -> RowSegments:
    """The share of true neighbors found by the values of corpus columns, and the rows that are lost.

    Args:
        compared: answers and truth.
        k: the cutoff of recall.
        groupings: groups of corpus rows, such as `row_groupings` makes of columns.
        weights: how much the neighbors of each query count in the shares; equally by default. Queries of
            weight 0 are left out of them. Lost rows are counted without weights.
    """
    counted = None if weights is None else weights.values
    wanted = wanted_rows(compared, k)
    return RowSegments(
        k,
        _share(wanted, slice(None), counted),
        {each.name: segments_of(wanted, each, counted) for each in groupings},
        *lost_rows(wanted, compared.truth),
        None if weights is None else weights.column,
    )


def row_groupings(corpus: Corpus | None, columns: Sequence[str]) -> list[Grouping]:
    """Each column of the corpus as a grouping of its rows; unknown columns are refused."""
    require_corpus_columns(corpus, columns)
    if corpus is None:
        return []
    return [by_column(corpus.columns.read([name], 0, corpus.rows), name) for name in columns]


def require_corpus_columns(corpus: Corpus | None, columns: Sequence[str]) -> None:
    """Refuse columns that the corpus does not have."""
    if corpus is None and columns:
        raise UsageError("grouping by corpus rows needs the corpus: --corpus FILE, in Python corpus=…")
    for name in columns:
        if corpus is not None and name not in corpus.metadata_names:
            raise UsageError(unknown("corpus column", name, corpus.metadata_names))


def wanted_rows(compared: Compared, k: int) -> WantedRows:
    """Every true neighbor within rank k, and those that tie at rank k."""
    truth, width = compared.truth, min(k, compared.truth.depth)
    is_found = compared.places.up_to(k)[:, :width] < k
    query, rank = np.nonzero(truth.rows[:, :width] >= 0)
    which, first, end = compared.tie_blocks(k)
    begins = np.full(len(truth), width)
    begins[which] = first
    whole = rank < begins[query]
    query, rank = query[whole], rank[whole]
    found = is_found[query, rank].astype(np.float64)
    parts: list[tuple[NDArray[Any], ...]] = [
        (query, truth.rows[query, rank], np.ones(len(query)), found, np.zeros(len(query), bool))
    ]
    if len(which):
        parts.append(_tied(compared, k, which, first, end))
    query, row, wanted, found, tied = (np.concatenate(each) for each in zip(*parts, strict=True))
    return WantedRows(query, row, wanted, found, tied, compared.places.distinct > 0)


def _tied(
    compared: Compared, k: int, which: NDArray[np.int64], first: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[Any], ...]:
    """The rows of each tie at rank k, beyond the depth too, with their parts of the places."""
    truth, ranks = compared.truth, np.arange(compared.truth.depth)
    line, rank = np.nonzero((ranks >= first[:, None]) & (ranks < end[:, None]))
    query = which[line]
    row, is_found = truth.rows[query, rank], compared.places.up_to(k)[query, rank] < k
    listed, lists, places = compared.overflow_places
    reaching = np.isin(listed, which[end == truth.depth])
    line, rank = np.nonzero((lists >= 0) & reaching[:, None])
    query, row = np.concatenate([query, listed[line]]), np.concatenate([row, lists[line, rank]])
    is_found = np.concatenate([is_found, places.up_to(k)[line, rank] < k])
    left = np.zeros(len(truth))
    left[which] = k - first
    members = np.bincount(query, minlength=len(truth))
    hits = np.bincount(query[is_found], minlength=len(truth))
    of_found = np.minimum(1.0, left / np.maximum(hits, 1))
    of_missed = np.maximum(0.0, left - hits) / np.maximum(members - hits, 1)
    wanted = np.where(is_found, of_found[query], of_missed[query])
    return query, row, wanted, np.where(is_found, wanted, 0.0), np.ones(len(query), bool)


def segments_of(
    wanted: WantedRows, grouping: Grouping, weights: NDArray[np.float64] | None = None
) -> list[RowSegment]:
    """The share found of each group of rows: the worst first, groups too small to judge last."""
    labels = pa.array(grouping.labels[wanted.row], pa.string()).fill_null(NO_VALUE).dictionary_encode()
    codes = labels.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(labels.dictionary) + 1))
    found = []
    for code, name in enumerate(labels.dictionary.to_pylist()):
        inside = order[starts[code] : starts[code + 1]]
        share = _share(wanted, inside, weights)
        if share.n:
            counts = inside if weights is None else inside[weights[wanted.query[inside]] > 0]
            found.append(RowSegment(name, share, float(wanted.wanted[counts].sum())))
    return sorted(found, key=lambda each: (not each.judged, each.share.value, each.name))


def _share(wanted: WantedRows, inside: Any, weights: NDArray[np.float64] | None) -> Mean:
    """The share found of some true neighbors, with its interval over the queries that want them."""
    queries, place = np.unique(wanted.query[inside], return_inverse=True)
    parts, wholes = (
        np.bincount(place, each[inside], len(queries)).astype(np.float64)
        for each in (wanted.found, wanted.wanted)
    )
    return ratio_of(parts, wholes, None if weights is None else weights[queries])


def lost_rows(wanted: WantedRows, truth: Truth) -> tuple[LostRows, LostRows]:
    """Rows that are never found, and hubs that are found rarely; rows that tie at rank k do not count."""
    sure = ~wanted.tied & wanted.answered[wanted.query]
    rows, place = np.unique(wanted.row[sure], return_inverse=True)
    hits = wanted.found[sure] > 0
    queries = np.bincount(place, minlength=len(rows))
    found = np.bincount(place[hits], minlength=len(rows))
    average = float(hits.mean()) if len(hits) else 0.0
    never = (queries >= FEWEST_WANTING) & (found == 0)
    rarely = (queries >= FEWEST_OF_HUB) & (found > 0) & (found <= _RARELY * average * queries)
    return _named(never, rows, queries, found, truth), _named(rarely, rows, queries, found, truth)


def _named(
    which: NDArray[np.bool_],
    rows: NDArray[np.int64],
    queries: NDArray[np.int64],
    found: NDArray[np.int64],
    truth: Truth,
) -> LostRows:
    places = np.flatnonzero(which)
    first = places[np.lexsort((rows[places], found[places] - queries[places]))][:MOST_NAMED]
    ids = truth.ids_of(rows[first]).to_pylist()
    named = (
        LostRow(int(rows[at]), name, int(queries[at]), int(found[at]))
        for at, name in zip(first, ids, strict=True)
    )
    return LostRows(len(places), tuple(named))
