"""The comparison of a truth with the one that was computed from the data, query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.core import Metric
from recallatk.core.truth import Decision
from recallatk.pair_scores import norms
from recallatk.truths.arithmetic import exact_ranks
from recallatk.truths.faults import Claim, Fault, Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.truths.faults import Listed
    from recallatk.truths.results import Results
    from recallatk.truths.search import ExactSearch

# float32 keeps 29 bits less than float64; one more for sums that were taken in another order.
_FLOAT32_LOSS = 2.0**30
_FLOAT32_UNIT = 2.0**-22


class _Position(NamedTuple):
    """Where a row belongs among the best of its query."""

    block: int
    """The number of its tie block."""
    place: int
    """Its place in the list, ties in the order of their rows."""


class Proof:
    """A truth against the computed results.

    Args:
        listed: the lists of the truth.
        search: the search that computed the results.
        real: the results.
        same_rows: whether row numbers of the truth are row numbers of this corpus.
    """

    def __init__(self, listed: Listed, search: ExactSearch, real: Results, *, same_rows: bool) -> None:
        self.listed, self.search, self.real, self.same_rows = listed, search, real, same_rows
        self.truth, self.dataset = listed.truth, listed.dataset
        self.offsets, self.beyond = real.overflow()
        self.own_scores, self.tolerances = self._own_scores()
        self.query_norms = norms(search.queries)

    def _own_scores(self) -> tuple[Any, Any]:
        """The real score of every listed row, and how far float64 can be off."""
        rows = self.listed.rows
        line, column = np.nonzero(rows >= 0)
        pairs = self.search.scored(self.search.queries, self.listed.places[line], rows[line, column])
        scores, tolerances = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
        scores[line, column], tolerances[line, column] = pairs.scores, pairs.tolerances
        return scores, tolerances

    def wrong(self) -> Iterator[Wrong]:
        """Every fault, by query and rank."""
        for line in range(len(self.listed.numbers)):
            yield from self._neighbors(line)
            yield from self._claims(line)

    def _neighbors(self, line: int) -> Iterator[Wrong]:
        belongs = self._positions(line)
        # Rows that tie at the boundary fill the places that better rows leave, and no more.
        boundary = max((each.block for each in belongs.values()), default=0)
        room = sum(each.block == boundary and each.place < self.truth.depth for each in belongs.values())
        seen: set[int] = set()
        before: _Position | None = None
        sound = True
        for rank, row in enumerate(self.listed.rows[line].tolist()):
            fault = self._membership(line, row, rank, belongs, seen)
            position = belongs[row] if fault is None and row >= 0 else None
            if position is not None:
                room -= position.block == boundary
                if before is not None and self._is_before(position, before):
                    fault = Fault.OUT_OF_ORDER
                elif position.block == boundary and room < 0:
                    fault = Fault.NOT_AMONG_BEST
                elif sound and (position.place == rank or not self.listed.is_ours):
                    yield from self._cell_claims(line, rank, row, position, before if rank else None)
                before = position
            seen.add(row)
            sound = fault is None
            if fault is not None:
                yield self._fault(line, rank, row, fault)

    def _is_before(self, position: _Position, other: _Position) -> bool:
        """Whether a row belongs before another; only our own truths order ties."""
        return position < other if self.listed.is_ours else position.block < other.block

    def _positions(self, line: int) -> dict[int, _Position]:
        """Where each row among the best belongs, with those that tie beyond the depth."""
        place = int(self.listed.places[line])
        rows = self.real.rows[place]
        rows = rows[rows >= 0]
        numbers = np.cumsum(~self.real.tied[place][: len(rows)]).tolist()
        tied = self._beyond(line)
        every = rows.tolist() + tied
        blocks = numbers + numbers[-1:] * len(tied)
        return {row: _Position(blocks[index], index) for index, row in enumerate(every)}

    def _beyond(self, line: int) -> list[int]:
        place = self.listed.places[line]
        found: list[int] = self.beyond[self.offsets[place] : self.offsets[place + 1]].tolist()
        return found

    def _membership(
        self, line: int, row: int, rank: int, belongs: dict[int, _Position], seen: set[int]
    ) -> Fault | None:
        place = self.listed.places[line]
        if row == -1:
            kept = min(self.truth.depth, int(self.dataset.eligibility.counts[place]))
            return Fault.MISSING if rank < kept else None
        if row < 0:
            return Fault.UNKNOWN
        if row in seen:
            return Fault.REPEATED
        if not self.listed.allowed[line, rank]:
            return Fault.INELIGIBLE
        if row not in belongs and not self._ties_unlisted(line, row, belongs):
            return Fault.NOT_AMONG_BEST
        return None

    def _ties_unlisted(self, line: int, row: int, belongs: dict[int, _Position]) -> bool:
        """Whether the row is one of more ties than are listed; then it belongs after those."""
        place = int(self.listed.places[line])
        if self.real.tie_counts[place] <= len(self._beyond(line)):
            return False
        last = int(self.real.rows[place, -1])
        pair = self.search.reader.rows(np.asarray(sorted([row, last])))
        ranks = exact_ranks(self.dataset.metric, self.search.queries[place], pair)
        if ranks[0] != ranks[1]:
            return False
        belongs[row] = _Position(belongs[last].block, self.dataset.corpus.rows + row)
        return True

    def _cell_claims(
        self, line: int, rank: int, row: int, position: _Position, before: _Position | None
    ) -> Iterator[Wrong]:
        """Claims of the truth about a neighbor at its correct rank."""
        number, truth = int(self.listed.numbers[line]), self.truth
        if self.same_rows and truth.rows[number, rank] != row:
            claim = Claim("rows", int(truth.rows[number, rank]), row)
            yield self._fault(line, rank, row, Fault.ROW, claim)
        if truth.scores is not None:
            stated, actual = float(truth.scores[number, rank]), self._actual_score(line, rank, position)
            if not self._is_score(line, rank, stated, actual):
                yield self._fault(line, rank, row, Fault.SCORE, Claim("scores", _number(stated), actual))
        if truth.tied is not None:
            ties = before is not None and before.block == position.block
            if bool(truth.tied[number, rank]) != ties:
                claim = Claim("tied", bool(truth.tied[number, rank]), ties)
                yield self._fault(line, rank, row, Fault.TIES, claim)

    def _actual_score(self, line: int, rank: int, position: _Position) -> float:
        if not self.listed.is_ours:
            return float(self.own_scores[line, rank])
        # A tie has the score of its first row.
        return float(self.real.scores[self.listed.places[line], min(position.place, self.truth.depth - 1)])

    def _is_score(self, line: int, rank: int, stated: float, actual: float) -> bool:
        """Whether a stated score is right: to the last bit in a truth of ours, in float32 otherwise."""
        if self.listed.is_ours:
            return stated == actual
        if self.dataset.metric is not Metric.L2:
            return bool(abs(stated - actual) <= _FLOAT32_LOSS * self.tolerances[line, rank])
        # The squares of both norms cancel where the square of a distance is expanded.
        size = 2 * self.query_norms[self.listed.places[line]] + actual
        rounding = (self.dataset.corpus.dimension + 8) * _FLOAT32_UNIT
        return bool(abs(stated**2 - actual**2) <= rounding * size**2)

    def _claims(self, line: int) -> Iterator[Wrong]:
        """What the truth says of a query as a whole."""
        for fault, claim in (*self._counts(line), *self._certificate(line)):
            if claim.stated != claim.actual:
                yield self._fault(line, None, -1, fault, claim)

    def _counts(self, line: int) -> Iterator[tuple[Fault, Claim]]:
        truth, number, place = self.truth, self.listed.numbers[line], self.listed.places[line]
        if truth.eligible is not None:
            counts = self.dataset.eligibility.counts
            yield Fault.ELIGIBLE, Claim("eligible", int(truth.eligible[number]), int(counts[place]))
        if truth.tie_counts is not None:
            stated, actual = int(truth.tie_counts[number]), int(self.real.tie_counts[place])
            yield Fault.TIES, Claim("tied_count", stated, actual)
        if truth.overflow is not None or self.listed.is_ours:
            yield Fault.TIES, _first_difference(self.listed.beyond[line], self._beyond(line))

    def _certificate(self, line: int) -> Iterator[tuple[Fault, Claim]]:
        truth, number, place = self.truth, self.listed.numbers[line], self.listed.places[line]
        proof = truth.certificate
        if proof is None:
            return
        stated, actual = Decision(proof.decided[number]), Decision(self.real.decided[place])
        # In older formats, `float64` depended on how a scan was run, and `exact` may be due to rows that the
        # truth does not name.
        vague = truth.older_format is not None and (stated is Decision.EXACT or actual is not Decision.EXACT)
        if not vague:
            yield Fault.CERTIFICATE, Claim("decided", stated.text, actual.text)
        for name, said, found in (
            ("bound", proof.bounds, self.real.bounds),
            ("next_score", proof.next_scores, self.real.next_scores),
        ):
            yield Fault.CERTIFICATE, Claim(name, _number(said[number]), _number(found[place]))
        if self.same_rows:
            following = int(proof.next_rows[number]), int(self.real.next_rows[place])
            yield Fault.CERTIFICATE, Claim("next_row", *(None if row < 0 else row for row in following))

    def _fault(
        self, line: int, rank: int | None, row: int, fault: Fault, claim: Claim | None = None
    ) -> Wrong:
        place, number = int(self.listed.places[line]), int(self.listed.numbers[line])
        ids = self.truth.query_ids
        query = self.dataset.queries.ids[place].as_py() if ids is None else ids[number].as_py()
        if rank is None or row < 0:
            return Wrong(query, None if rank is None else rank + 1, None, fault, claim=claim)
        score = float(self.own_scores[line, rank])
        scores = self.real.scores[place]
        worst = scores[~np.isnan(scores)]
        sign = 1.0 if self.dataset.metric is Metric.L2 else -1.0
        gap = max(0.0, float(sign * (score - worst[-1]))) if len(worst) else None
        return Wrong(query, rank + 1, self.dataset.corpus.ids[row].as_py(), fault, score, gap, claim)


def _number(value: float) -> float | None:
    """A number from a file; None for NaN, which means no value."""
    return None if np.isnan(value) else float(value)


def _first_difference(stated: list[int], actual: list[int]) -> Claim:
    """The first row beyond the depth that differs; None where a list has ended."""
    for place in range(max(len(stated), len(actual))):
        pair = [each[place] if place < len(each) else None for each in (stated, actual)]
        if pair[0] != pair[1]:
            return Claim("tied_rows", *pair)
    return Claim("tied_rows", None, None)
