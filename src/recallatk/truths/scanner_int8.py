"""The 8-bit scanner: exact products of codes rule out nearly all rows, float32 scores those left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import UsageError
from recallatk.truths.integer_product import MOST_COMPONENTS, IntegerProduct, highest_code
from recallatk.truths.pair_products import pair_products
from recallatk.truths.quantization import QueryCodes, RowCodes, RowQuantizer, offset_weight
from recallatk.truths.scanner import Asked, ScanHits, below
from recallatk.truths.scanner_blas import BlasScanner, eligible_hits, reached_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.space import Space

# Turning a row into codes costs about as much as multiplying it with this many queries.
_FEW_QUERIES = 48
# Where more pairs than this share are left, float32 for all of them is cheaper.
_MOST_LEFT = 0.15
# After a block that left too many, so many calls at the most go without codes.
_LONGEST_PAUSE = 64


class Int8Scanner(BlasScanner):
    """Products in 8 bits with the bound of what was rounded away; whole float32 products where these fail."""

    def __init__(self, space: Space, queries: int) -> None:
        super().__init__(space, queries)
        highest = highest_code()
        if highest is None:
            raise UsageError("backend int8: this processor does not add 8-bit products exactly. Use auto")
        self.space = space
        self._product = IntegerProduct()
        self._quantizer = RowQuantizer(space, self.tile_rows, highest)
        self._fits = self._quantizer.components <= MOST_COMPONENTS
        self._integers = self._scores.view(np.int32)
        self._weight: float | None = None
        self._query_codes: dict[int, tuple[NDArray[Any], QueryCodes]] = {}
        self._entered = False
        self._row_codes: RowCodes | None = None
        self._pause = self._next_pause = 0

    def enter(self, rows: NDArray[Any]) -> None:
        """Forget the codes of the rows before."""
        self._entered, self._row_codes = False, None

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Rule out by codes, then score what is left."""
        found = self._by_codes(asked, rows) if self._is_worth_it(asked) else None
        return super().hits(asked, rows) if found is None else found

    def _is_worth_it(self, asked: Asked) -> bool:
        if not self._fits or len(asked.queries) < _FEW_QUERIES:
            return False
        fresh = asked.fresh
        if fresh.any() and not (fresh.all() and asked.eligible is None):
            return False
        if self._pause:
            self._pause -= 1
            return False
        return True

    def _by_codes(self, asked: Asked, rows: NDArray[Any]) -> ScanHits | None:
        """The hits; None where codes leave too many pairs."""
        queries = self._codes_of(asked.queries)
        codes = self._codes_of_rows(rows, queries.offset_weight)
        if codes is None:
            return None
        shape = (len(rows), len(asked.queries))
        products = self._integers[: shape[0] * shape[1]].reshape(shape)
        self._product(codes.codes, queries.codes, products)
        # What a product in the type of the space may be off by covers what preparing the vectors rounded.
        products[codes.loose] = np.iinfo(np.int32).min
        if asked.fresh.any():
            if len(rows) < asked.k:
                return None
            asked = replace(asked, floors=self._first_floors(asked, rows, products))
        left = self._reaching(products, codes.limits(queries, asked.floors - asked.errors))
        if len(left) > _MOST_LEFT * products.size:
            self._next_pause = min(_LONGEST_PAUSE, 2 * self._next_pause + 1)
            self._pause = self._next_pause
            return None
        self._next_pause = 0
        return self._scored(asked, rows, left, codes.loose)

    def _first_floors(
        self, asked: Asked, rows: NDArray[Any], products: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Real scores that the best k rows by their codes reach: hardly less than those of the best k."""
        asked.queries[:, -1] = 0
        columns, queries = np.divmod(
            self._reaching(products, _reached(products, asked.k)), len(asked.queries)
        )
        scores = pair_products(asked.queries, queries, rows, columns)
        least = np.full(len(asked.queries), np.inf)
        np.minimum.at(least, queries, scores)
        return least - (1 + asked.spare) * asked.errors

    def _scored(
        self, asked: Asked, rows: NDArray[Any], left: NDArray[np.int64], loose: NDArray[np.int64]
    ) -> ScanHits:
        """The pairs that are left, and all pairs of loose rows, by their float32 scores."""
        asked.queries[:, -1] = 0
        thresholds = below(asked.floors, asked.errors, self._scores.dtype)
        columns, queries = np.divmod(left, len(asked.queries))
        scores = pair_products(asked.queries, queries, rows, columns)
        if len(loose):
            whole = np.matmul(asked.queries, rows[loose].T)
            more_queries, places = np.nonzero(whole >= thresholds[:, None])
            queries = np.concatenate([queries, more_queries])
            columns = np.concatenate([columns, loose[places]])
            scores = np.concatenate([scores, whole[more_queries, places]])
        kept = np.flatnonzero(scores >= thresholds[queries])
        # NumPy sorts numbers of 16 bits ten times as fast as larger ones.
        kept = kept[np.argsort(queries[kept].astype(np.uint16), kind="stable")]
        hits = ScanHits(queries[kept], columns[kept], scores[kept], asked.errors, asked.floors)
        return eligible_hits(asked, hits)

    def _codes_of(self, queries: NDArray[Any]) -> QueryCodes:
        # Each batch has its own array for as long as this scanner lives.
        known = self._query_codes.get(id(queries))
        if known is None:
            if self._weight is None:
                self._weight = offset_weight(self.space, queries) if self._quantizer.has_offsets else 0.0
            known = queries, QueryCodes.of(self.space, queries, self._weight)
            self._query_codes[id(queries)] = known
        return known[1]

    def _codes_of_rows(self, rows: NDArray[Any], weight: float) -> RowCodes | None:
        if not self._entered:
            self._entered, self._row_codes = True, self._quantizer.codes(rows, weight)
        return self._row_codes


def _reached(products: NDArray[np.int32], k: int) -> NDArray[np.int32]:
    """A product that k rows reach, for each column; the largest one, or hardly less."""
    rows, columns = products.shape
    groups, together = reached_groups(rows, k)
    if together > 1:
        shape = (groups, together, columns)
        products = products[: groups * together].reshape(shape).max(axis=1)
    place = len(products) - k
    return np.asarray(np.partition(products, place, axis=0)[place])
