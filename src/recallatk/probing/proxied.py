"""Probes with few exact queries: a proxy judges most of them, exact neighbors correct it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.betting import BATCH, SequentialVerdict
from recallatk.analysis.listed_recall import listed_recall
from recallatk.analysis.prediction_powered import proxy_mean
from recallatk.analysis.proxy_betting import ProxyTest, any_time_bounds
from recallatk.bench.full_effort import highest_effort
from recallatk.core import Mean
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.core.probed import Probed
from recallatk.errors import UsageError
from recallatk.goals import Budget
from recallatk.probing.decision import ROWS_AS_QUERIES, latency_percentiles, most_needed
from recallatk.probing.references import plain_id, write_notes
from recallatk.probing.tally import Tally, without_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from recallatk.adapters.collection import Answer, Collection, Discovery
    from recallatk.adapters.probe_limits import RateLimit
    from recallatk.goals import Target
    from recallatk.probing.decision import RecallDecision
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.references import Reference

# Queries with a proxy alone, for each query with exact neighbors.
PER_EXACT = 9
# Limits of libraries are absurdly high; this effort is enough, or so many times the stated one.
_PLENTY, _TIMES = 1_000, 10
_OUTCOMES = {
    SequentialVerdict.PASS: Outcome.MET,
    SequentialVerdict.FAIL: Outcome.MISSED,
    SequentialVerdict.UNDECIDED: Outcome.UNDECIDED,
}


def metric_of(found: Discovery) -> Any:
    """The metric of a collection, which a probe has to know."""
    if found.metric is None:
        raise UsageError(f"{found.target}: the metric is unknown. Add metric=cosine, ip or l2 to the target")
    return found.metric


class Proxied:
    """One probe with a proxy: the same collection at its highest effort.

    Args:
        collection: what is probed.
        queries: its queries.
        reference: the source of exact neighbors.
        decision: the goals.
        k: the cutoff.
        search: search parameters of the probe.
        settings: settings of the engine.
    """

    def __init__(
        self,
        collection: Collection,
        queries: ProbeQueries,
        reference: Reference,
        decision: RecallDecision,
        k: int,
        search: Mapping[str, Any],
        settings: Mapping[str, str] | None,
    ) -> None:
        self.collection, self.queries, self.reference = collection, queries, reference
        self.decision, self.k, self.search, self.settings = decision, k, search, settings
        self.highest = _highest(collection, search)
        self.tests = {goal: ProxyTest(goal.value) for goal in decision.tests}
        if any(goal not in self.tests and not isinstance(goal, Budget) for goal in decision.goals):
            raise UsageError("--proxy decides targets on mean recall@k alone. Leave out the others")
        self.tally = Tally(k)
        self.exact: list[float] = []
        self.judged: list[float] = []
        self.others: list[list[float]] = []
        """For each exact query, the proxy recalls of the others of its block."""

    def probed(self, pace: RateLimit, progress: Callable[[int, int], None] | None) -> Probed:
        """Ask blocks of one exact query and nine others until the goals are decided."""
        places = [each for each in self.queries.order.tolist() if self._accepts(each)]
        blocks = list(_blocks(places))
        if not blocks:
            raise UsageError(
                f"--proxy needs at least {PER_EXACT + 1} queries, and {len(places):,} can be asked"
            )
        for done, block in enumerate(blocks):
            with without_verdict(self.tally, block[0], len(places)):
                self._ask(block, pace)
            if progress is not None:
                progress((done + 1) * len(block), len(blocks) * len(block))
            if self._decided():
                break
        if not self.exact:
            raise UsageError("no query could be scored: no row passes the filters of the exact queries")
        return self._result()

    def _accepts(self, place: int) -> bool:
        condition = self.queries.filters[place]
        reason = None if condition is None else self.collection.refusal(condition)
        if reason is not None:
            self.tally.refuse(reason)
        return reason is None

    def _ask(self, block: list[int], pace: RateLimit) -> None:
        extra = int(self.queries.sampled)
        self.collection.configure(self.search, self.settings)
        pace.wait()
        pair = self.reference.pair(self.collection, self.queries, block[0], self.k + extra)
        value = self.tally.take(block[0], pair, self._own(block[0]))
        answers = [pair.answer, *(self._answer(each, pace) for each in block[1:])]
        self.collection.configure({**self.search, **self.highest}, self.settings)
        best = [self._answer(each, pace) for each in block]
        found = [self._proxy(*each) for each in zip(block, answers, best, strict=True)]
        others = [each for each in found[1:] if each is not None]
        if value is None or found[0] is None or not others:
            return
        self.exact.append(value)
        self.judged.append(found[0])
        self.others.append(others)
        for test in self.tests.values():
            test.update([value], [found[0]], [others])

    def _answer(self, place: int, pace: RateLimit) -> Answer:
        pace.wait()
        queries = self.queries
        return self.collection.answer(
            queries.vectors[place], self.k + int(queries.sampled), queries.filters[place]
        )

    def _own(self, place: int) -> Any:
        return None if self.queries.own_ids is None else self.queries.own_ids[place]

    def _proxy(self, place: int, answer: Answer, best: Answer) -> float | None:
        """Recall as though the answer at the highest effort were exact."""
        own = self._own(place)
        ids, right = ([plain_id(each) for each in some.ids if each != own] for some in (answer, best))
        whole = len(right) < self.k
        return listed_recall(
            right, np.arange(len(right), dtype=np.float64), ids, self.k, complete=whole
        ).value

    def _decided(self) -> bool:
        if self.decision.all_queries or len(self.tests) < len(self.decision.goals) or not self.tests:
            return False
        return all(test.verdict not in self.decision.open_still for test in self.tests.values())

    def _result(self) -> Probed:
        # The settings of the probe, and not those of the proxy.
        self.collection.configure(self.search, self.settings)
        found, tally = self.collection.discovery(), self.tally
        exact, judged = np.array(self.exact), np.array(self.judged)
        others = np.concatenate(self.others)
        mean = proxy_mean(exact, judged, others)
        if self.tests:
            # These hold at any time; those for a fixed number of queries would not.
            low, high = any_time_bounds(self.exact, self.judged, self.others, 0.975)
            bound, _ = any_time_bounds(self.exact, self.judged, self.others)
            mean = mean._replace(low=min(low, mean.value), high=max(high, mean.value), bound=bound)
        milliseconds = np.array(tally.milliseconds)
        listed = ", ".join(f"{name}={value}" for name, value in self.highest.items())
        said = f"{self.reference.description}, for one query in {PER_EXACT + 1}; proxy: answers at {listed}"
        return Probed(
            target=found.target,
            engine=found.engine,
            rows=found.rows,
            dimension=found.dimension,
            metric=metric_of(found),
            index=found.index,
            settings=found.settings or self.search,
            k=self.k,
            recall=Mean(mean.value, None, len(exact) + len(others), mean.low, mean.high),
            bound=mean.bound,
            verdict=self._verdict(mean.value, exact, milliseconds),
            counts=tally.totals(),
            truth_source=said,
            latency_ms=latency_percentiles(milliseconds),
            sampled=self.queries.sampled,
            more_queries=self._more_queries(exact, judged, others),
            any_time=bool(self.tests),
            proxy_worth=mean.worth,
            notes=(*found.notes, *write_notes(self.collection, self.reference)),
            refusals=tuple(tally.refusals),
            per_query={"recall": exact, "strict": np.array(tally.strict), "latency_ms": milliseconds},
        )

    def _more_queries(self, exact: Any, judged: Any, others: Any) -> int | None:
        """About how many more queries would decide, exact ones and others together."""

        def advance(test: ProxyTest, random: np.random.Generator) -> None:
            drawn = random.integers(0, len(exact), BATCH)
            test.update(exact[drawn], judged[drawn], random.choice(others, (BATCH, PER_EXACT)))

        blocks = most_needed(self.tests.values(), advance)
        return None if blocks is None else blocks * (PER_EXACT + 1)

    def _verdict(self, value: float, exact: Any, milliseconds: Any) -> Verdict:
        plain = self.decision.verdict(exact, milliseconds, None)
        results = []
        for goal, result in zip(self.decision.goals, plain.goals, strict=True):
            results.append(result if isinstance(goal, Budget) else self._judged(goal, value))
        return Verdict(tuple(results))

    def _judged(self, goal: Target, value: float) -> GoalResult:
        outcome = _OUTCOMES[self.tests[goal].verdict]
        low, high = any_time_bounds(self.exact, self.judged, self.others)
        # The bounds are found by bisection: the verdict is known exactly.
        low = max(low, goal.value) if outcome is Outcome.MET else low
        high = min(high, goal.value) if outcome is Outcome.MISSED else high
        if outcome is Outcome.MET and self.queries.sampled:
            return GoalResult(str(goal), Outcome.UNDECIDED, value, low, high, ROWS_AS_QUERIES)
        return GoalResult(str(goal), outcome, value, low, high)


def _blocks(places: list[int]) -> Iterator[list[int]]:
    size = PER_EXACT + 1
    for start in range(0, len(places) - size + 1, size):
        yield places[start : start + size]


def _highest(collection: Collection, search: Mapping[str, Any]) -> dict[str, Any]:
    """The effort parameter so high that answers are nearly exact, and still cheap."""
    effort = next((each for each in collection.knobs() if each.effort), None)
    if effort is None:
        raise UsageError(
            f"{collection.discovery().target} has no parameter for the effort of one call, so there is "
            "no proxy. Leave out --proxy"
        )
    stated = float(search.get(effort.name, effort.default))
    most = highest_effort(effort, collection.discovery().rows or _PLENTY, lambda _: True)
    return {effort.name: effort.plain(max(stated, min(most, max(_PLENTY, _TIMES * stated))))}
