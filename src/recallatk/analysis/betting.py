"""Bounds of a mean that hold for every sample size, and a test that may be looked at after every query.

Both bet on values in [0, 1] one after the other (Waudby-Smith and Ramdas, "Estimating means of bounded
random variables by betting", 2024). A gambler who starts with 1 and puts a share of the capital on "the mean
is larger than m" turns it into the product of 1 + bet (value - m). While the mean is at most m, no bet placed
before its value is seen gains on average, so that the probability that the capital ever reaches 1 / alpha is
at most alpha. Reaching it is evidence, at whichever moment one looks.

With weights the mean is E[weight value] / E[weight], and at most m where the mean of weight (value - m) is at
most 0. So the value's part of a bet shrinks with its weight over the heaviest: no query loses more than the
heaviest would, however weights and values depend on each other.
"""

from __future__ import annotations

import math
from copy import copy
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from recallatk.core.weights import unequal
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

# No single value takes more of the capital than this.
LARGEST_LOSS = 0.9
VARIANCE_BEFORE_ANY = 0.05
# The bets of the test, as shares of the one that could lose everything. Recalls of 1 gain little on a target
# near it, so that only large bets on them are worth it; on the other side all are, from small to large.
EVEN_SHARES = np.linspace(0.15, 0.99, 7)
SPREAD_SHARES = np.geomspace(0.02, 0.6, 8)
BATCH = 256
# Continuations of an undecided test, and how far they go.
_CONTINUATIONS, _FURTHEST = 15, 20_000


class SequentialVerdict(StrEnum):
    """What is known of a mean and its target."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    UNDECIDED = "UNDECIDED"


class SequentialDecision(NamedTuple):
    """A verdict, and how many queries led to it."""

    verdict: SequentialVerdict
    used: int


def lower_bound(
    values: Floats,
    confidence: float = 0.95,
    seed: int = 0,
    weights: Floats | None = None,
    *,
    in_order: bool = False,
) -> float:
    """What the mean of values in [0, 1] is above, with a confidence that holds for every n and distribution.

    Bets are the larger the smaller the variance of the values before. The values are taken in an order drawn
    from `seed` and the values, for a file may be sorted; the bound does not depend on the order they come in.
    With `in_order`, they are taken as they come, in random order: then the bound also holds if the values
    themselves decided when to stop.

    Each factor 1 + min(bet, c / m) (value - m) falls with m: up to m = c / bet it is 1 + bet (value - m),
    from there 1 - c + c value / m. Capital falls with m therefore, and so does its maximum over time: the
    means that are refuted are those below one point, which bisection finds. All of that holds with weights.
    """
    checked = checked_values(values)
    sizes = None if weights is None else unequal(_relative(checked, weights))
    needed = needed_gain(confidence)
    drawn, sizes = (checked, sizes) if in_order else shuffled(checked, sizes, seed)
    bets = _bets(drawn, sizes, needed)

    def is_refuted(mean: float) -> bool:
        above = drawn - mean if sizes is None else sizes * (drawn - mean)
        gains = np.log1p(np.minimum(bets, LARGEST_LOSS / mean) * above)
        return bool(np.max(np.cumsum(gains), initial=0.0) >= needed)

    return largest_refuted(is_refuted)


def upper_bound(
    values: Floats,
    confidence: float = 0.95,
    seed: int = 0,
    weights: Floats | None = None,
    *,
    in_order: bool = False,
) -> float:
    """What the mean of values in [0, 1] is below; the mirror image of `lower_bound`."""
    return 1.0 - lower_bound(1.0 - checked_values(values), confidence, seed, weights, in_order=in_order)


def needed_gain(confidence: float) -> float:
    """Logarithm of the capital that refutes a mean with this confidence."""
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence}. Accepted: more than 0 and less than 1, such as 0.95")
    return -math.log1p(-confidence)


def largest_refuted(is_refuted: Callable[[float], bool], precision: float = 1e-9) -> float:
    """The point from 0 to 1 below which all means are refuted, by bisection."""
    refuted, open_still = 0.0, 1.0
    while open_still - refuted > precision:
        middle = (refuted + open_still) / 2
        if is_refuted(middle):
            refuted = middle
        else:
            open_still = middle
    return refuted


class BettingTest:
    """Two averages of capitals, for and against a target, and the verdict of the first to reach 1 / alpha."""

    def __init__(self, target: float, alpha: float, start_for: Floats, start_against: Floats) -> None:
        if not 0 < alpha < 1:
            raise UsageError(f"an alpha of {alpha}. Accepted: more than 0 and less than 1, such as 0.05")
        self.target, self.alpha = target, alpha
        self.verdict = SequentialVerdict.UNDECIDED
        self.used = 0
        self._for, self._against = start_for, start_against

    @property
    def capital_for(self) -> float:
        """What betting on a mean above the target has made of 1."""
        return float(_average(self._for[None, :])[0])

    @property
    def capital_against(self) -> float:
        """What betting on a mean below the target has made of 1."""
        return float(_average(self._against[None, :])[0])

    def _take(self, factors_for: Floats, factors_against: Floats) -> None:
        """Multiply capitals by the factors of each value (rows) in turn, up to the one that decides."""
        # Behind the value that decides, capital may grow beyond any float; those rows are not read.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            capital_for = _capital(self._for, factors_for)
            capital_against = _capital(self._against, factors_against)
            passes = _average(capital_for) >= 1 / self.alpha
            fails = _average(capital_against) >= 1 / self.alpha
        decides = passes | fails
        last = int(np.argmax(decides)) if decides.any() else len(factors_for) - 1
        self.used += last + 1
        self._for, self._against = capital_for[last], capital_against[last]
        # With an alpha near 1 one value can bring both there: neither is then evidence against the other.
        if passes[last] != fails[last]:
            self.verdict = SequentialVerdict.PASS if passes[last] else SequentialVerdict.FAIL
        elif passes[last]:
            larger = self.capital_for >= self.capital_against
            self.verdict = SequentialVerdict.PASS if larger else SequentialVerdict.FAIL


Test = TypeVar("Test", bound=BettingTest)


class SequentialTest(BettingTest):
    """Whether a mean of values in [0, 1] reaches its target, decided as soon as the values say so.

    PASS says that the mean is above the target and FAIL that it is below; the probability that it is wrong is
    at most `alpha` for each, however often and whenever one looks. The values come in random order, one per
    query. Each capital is the average over several gamblers, each with the same bet throughout. Values with
    weights need to know the heaviest in advance. With `even`, large bets are placed on both sides, for values
    that rarely differ from one another.
    """

    def __init__(
        self, target: float, alpha: float = 0.05, heaviest: float = 1.0, *, even: bool = False
    ) -> None:
        if not 0 < heaviest < math.inf:
            raise UsageError(f"a heaviest weight of {heaviest}. Accepted: more than 0")
        self._bets_for, self._bets_against = constant_bets(target, even=even)
        super().__init__(target, alpha, np.ones_like(self._bets_for), np.ones_like(self._bets_against))
        self.heaviest = heaviest

    def update(self, values: ArrayLike, weights: ArrayLike | None = None) -> SequentialVerdict:
        """Take one value or more, in order, up to the first that decides; what follows it changes nothing."""
        checked = np.atleast_1d(checked_values(values))
        above = checked - self.target
        if weights is not None:
            above = _relative(checked, np.atleast_1d(weights), self.heaviest) * above
        for start in range(0, len(above), BATCH):
            if self.verdict is not SequentialVerdict.UNDECIDED:
                break
            batch = above[start : start + BATCH, None]
            self._take(1 + self._bets_for * batch, 1 + self._bets_against * -batch)
        return self.verdict


def more_to_decide(test: Test, advance: Callable[[Test, np.random.Generator], object]) -> int | None:
    """About how many more queries decide a test: the median of continuations drawn at random.

    None if more than half of them are undecided after 20,000.

    Args:
        test: an undecided test, which stays as it is.
        advance: updates a test with some queries like those seen.
    """
    counts = []
    for continuation in range(_CONTINUATIONS):
        ahead, random = copy(test), np.random.default_rng(continuation)
        while ahead.verdict is SequentialVerdict.UNDECIDED and ahead.used - test.used < _FURTHEST:
            advance(ahead, random)
        decided = ahead.verdict is not SequentialVerdict.UNDECIDED
        counts.append(ahead.used - test.used if decided else math.inf)
    median = sorted(counts)[_CONTINUATIONS // 2]
    return None if math.isinf(median) else int(median)


def is_at_least(
    values: Floats, target: float, alpha: float = 0.05, weights: Floats | None = None
) -> SequentialDecision:
    """The sequential test over values in the order they have, which must not be a sorted one."""
    heaviest = 1.0 if weights is None else float(np.max(weights, initial=0.0)) or 1.0
    test = SequentialTest(target, alpha, heaviest)
    test.update(values, weights)
    return SequentialDecision(test.verdict, test.used)


def checked_values(values: ArrayLike) -> Floats:
    numbers: Floats = np.asarray(values, np.float64)
    if numbers.ndim > 1:
        raise UsageError(f"values of shape {numbers.shape}. Accepted: one value per query")
    if not np.all((numbers >= 0) & (numbers <= 1)):
        raise UsageError("a betting bound of values outside [0, 1]. Accepted: values from 0 to 1")
    return numbers


def _relative(values: Floats, weights: ArrayLike, heaviest: float | None = None) -> Floats:
    """Each weight over the heaviest."""
    numbers: Floats = np.asarray(weights, np.float64)
    most = float(np.max(numbers, initial=0.0)) if heaviest is None else heaviest
    if numbers.shape != values.shape or not np.all((numbers >= 0) & (numbers <= most)) or math.isinf(most):
        raise UsageError(
            "weights of a betting bound that do not fit. Accepted: one finite weight of 0 or more per value, "
            "none above the heaviest"
        )
    return numbers / (most or 1.0)


def shuffled(values: Floats, sizes: Floats | None, seed: int) -> tuple[Floats, Floats | None]:
    """The values in an order that is the same for the same values, whatever order they came in.

    The seed alone would give every sample of one size the same permutation of its sorted values, and the
    bound would be wrong for most of them where that permutation happens to put large values first.
    """
    places = np.argsort(values) if sizes is None else np.lexsort((sizes, values))
    in_order = values[places] + 0.0
    seen = in_order.tobytes() + (b"" if sizes is None else sizes[places].tobytes())
    digest = blake2b(seen, digest_size=16).digest()
    drawn = np.random.default_rng([seed, int.from_bytes(digest, "little")]).permutation(len(in_order))
    return in_order[drawn], None if sizes is None else sizes[places][drawn]


def _bets(drawn: Floats, sizes: Floats | None, needed: float) -> Floats:
    """For each value the bet that would do best at the end, by the variance of the values before it."""
    if not len(drawn):
        return drawn
    bets: Floats = np.sqrt(2 * needed / (len(drawn) * variances_before(drawn, sizes)))
    return bets


def variances_before(drawn: Floats, sizes: Floats | None = None) -> Floats:
    """For each value the variance of the values before it, shrunk to what is thought before any.

    Values in several columns are columns of their own, without sizes.
    """
    seen = np.arange(1, len(drawn) + 1).reshape(-1, *[1] * (drawn.ndim - 1))
    if sizes is None:
        means = (0.5 + np.cumsum(drawn, axis=0)) / (seen + 1)
        first, squares = VARIANCE_BEFORE_ANY, (drawn - means) ** 2
    else:
        usual = float(np.mean(sizes))
        means = (0.5 * usual + np.cumsum(sizes * drawn)) / (np.cumsum(sizes) + usual)
        first = VARIANCE_BEFORE_ANY * float(np.mean(sizes**2))
        squares = (sizes * (drawn - means)) ** 2
    variances = (first + np.cumsum(squares, axis=0)) / (seen + 1)
    before: Floats = np.concatenate([np.full_like(drawn[:1], first), variances[:-1]])
    return before


def constant_bets(target: float, *, even: bool = False) -> tuple[Floats, Floats]:
    """The bets of a test's gamblers, for and against its target; with `even`, large ones on both sides."""
    if not 0 < target < 1:
        raise UsageError(f"a target of {target}. Accepted: more than 0 and less than 1, such as 0.95")
    shares = [EVEN_SHARES, EVEN_SHARES] if even else [_shares(target), _shares(1 - target)]
    return shares[0] / target, shares[1] / (1 - target)


def _shares(room: float) -> Floats:
    return EVEN_SHARES if room >= 0.5 else SPREAD_SHARES


def _capital(start: Floats, factors: Floats) -> Floats:
    """The capital of every gambler (columns) after every value (rows).

    Products one after the other: their rounding does not depend on how values are put into batches.
    """
    return np.multiply.accumulate(np.concatenate([start[None, :], factors]), axis=0)[1:]


def _average(capital: Floats) -> Floats:
    # A running sum has one order of additions, whatever the number of rows.
    average: Floats = np.cumsum(capital, axis=1)[:, -1] / capital.shape[1]
    return average
