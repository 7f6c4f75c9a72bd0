"""The fixture `recall`: measures a search, judges it by its least recall and its baseline, and records it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from recallatk.core.asserted import AskedQuery, RecallAssertion
from recallatk.core.judgments import Outcome, Verdict
from recallatk.errors import RecallError, UsageError, unknown
from recallatk.regression.gating import MARGIN
from recallatk.regression.session_baseline import (
    OtherBaselineError,
    SessionBaseline,
    asserted_side,
    judged_assertion,
    lost_nothing,
)
from recallatk.reporting.labels import listed
from recallatk.testing.assertion import WORST, diagnosis, explained, measured_recall, passes, worst_queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from recallatk.core import Dataset, Truth
    from recallatk.core.probed import Probed
    from recallatk.goals.gated import Gated

DEFAULTS: dict[str, Any] = {
    "at": 10,
    "min": None,
    "margin": MARGIN,
    "parameters": None,
    "undecided": "fail",
    "seed": 0,
}
"""What the marker and the call may state."""


@dataclass(eq=False, repr=False)
class RecallFixture:
    """Asserts the recall of searches in one test; call it with a search or an index, and a dataset.

    Args:
        test: id of the test.
        marked: what its markers state.
        baseline_path: the file of accepted recalls, which need not exist.
        baseline_shown: its name in messages.
        accepting: whether this session accepts what it measures.
    """

    test: str
    marked: Mapping[str, Any]
    baseline_path: Path
    baseline_shown: str
    accepting: bool
    records: list[dict[str, Any]] = field(default_factory=list)
    """Every assertion so far as plain values, with what the baseline would store."""

    def __post_init__(self) -> None:
        for name in self.marked:
            if name not in DEFAULTS:
                raise UsageError(f"@pytest.mark.recall: {unknown('option', name, list(DEFAULTS))}")

    def __repr__(self) -> str:
        # pytest shows the arguments of a failed test.
        return f"<recall of {self.test}>"

    def __call__(
        self,
        search_or_index: Any,
        dataset: Dataset,
        *,
        at: int | None = None,
        min: float | None = None,
        margin: float | None = None,
        truth: Truth | None = None,
        parameters: Mapping[str, Any] | None = None,
        undecided: Literal["fail", "pass"] | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Probed:
        """Assert that a search finds enough of the true neighbors, and no fewer than its baseline.

        What is not stated is taken from `@pytest.mark.recall(...)`.

        Args:
            search_or_index: `search(queries, k)` that returns lists of ids, or an index object.
            dataset: corpus, queries and metric.
            at: the cutoff k. Default: 10.
            min: the least mean recall@k. Without it, the baseline alone decides.
            margin: how much lower than that of the baseline mean recall may be. Default: 0.01.
            truth: exact neighbors of the queries; computed if there are none.
            parameters: search parameters, such as ef.
            undecided: `fail`, or `pass` for what the queries cannot decide.
            seed: random seed of the order of the queries.
            name: tells assertions of one test apart. Default: their order.

        Raises:
            AssertionError: with the verdict, the worst queries, and what they have in common.
        """
        __tracebackhide__ = True
        stated = {"at": at, "min": min, "margin": margin, "parameters": parameters,
                  "undecided": undecided, "seed": seed}  # fmt: skip
        options = {
            **DEFAULTS,
            **self.marked,
            **{key: each for key, each in stated.items() if each is not None},
        }
        called = self._called(name)
        try:
            return self._asserted(called, search_or_index, dataset, truth, options)
        except RecallError as problem:
            self._record(RecallAssertion(called, False, "ERROR", advice=(str(problem),)))
            raise

    def _called(self, name: str | None) -> str:
        """The name of the assertion: the test, with a name or number for all but a first one without."""
        taken = {each["assertion"]["name"] for each in self.records}
        first = self.test if name is None else f"{self.test} #{name}"
        number = 2
        called = first
        while called in taken:
            called, number = f"{first} #{number}", number + 1
        return called

    def _asserted(
        self, called: str, held: Any, dataset: Dataset, truth: Truth | None, options: Mapping[str, Any]
    ) -> Probed:
        __tracebackhide__ = True
        margin, undecided = options["margin"], options["undecided"]
        if not (isinstance(margin, float | int) and 0 <= margin < 1):
            raise UsageError(f"margin = {margin!r}. Accepted: a number from 0, below 1")
        baseline = self._baseline(options["min"])
        accepted = None if baseline is None or self.accepting else baseline.side(called)
        if options["min"] is None and accepted is None and not self.accepting:
            raise UsageError(
                f"{called}: nothing to compare with: no min, and it is not in {self.baseline_shown}. "
                "State min=0.95, or accept what is measured now: pytest --recall-accept"
            )
        measured = {name: options[name] for name in ("at", "min", "parameters", "seed")}
        everything = self.accepting or accepted is not None
        found = measured_recall(held, dataset, truth=truth, all_queries=everything, **measured)
        side = asserted_side(called, found, dataset, truth) if self.accepting or accepted else None
        gated, passed = None, passes(found, undecided)
        if accepted is not None and side is not None:
            gated = judged_assertion(accepted, side, found.k, margin)
            found = _beside_baseline(found, gated)
            # The queries of a suite are fixed: where none of them lost, nothing got worse.
            passed = passes(found, undecided) or (passed and lost_nothing(accepted, side, found.k))
        worst = worst_queries(found) if gated is None else _lost_most(gated) or worst_queries(found)
        sealed = baseline.sealed(side) if self.accepting and passed and baseline and side else None
        self._record(_described(called, found, dataset, gated, worst, passed=passed), sealed)
        if not passed:
            raise AssertionError(explained(found, worst))
        return found

    def _baseline(self, least: float | None) -> SessionBaseline | None:
        """The file of accepted recalls; None if it belongs to another tool, and `min` decides."""
        try:
            return SessionBaseline(self.baseline_path, self.baseline_shown)
        except OtherBaselineError:
            if least is None or self.accepting:
                raise
            return None

    def _record(self, assertion: RecallAssertion, sealed: dict[str, Any] | None = None) -> None:
        self.records.append({"assertion": assertion.to_dict(), "sealed": sealed})


def _beside_baseline(found: Probed, gated: Gated) -> Probed:
    """With the goal relative to the baseline in the verdict."""
    [goal] = gated.goals
    needed = [each for each in (found.more_queries, goal.needed) if each is not None]
    undecided = goal.result.outcome is Outcome.UNDECIDED
    more = max(needed) if needed and not (undecided and goal.needed is None) else None
    return replace(found, verdict=Verdict((*found.verdict.goals, goal.result)), more_queries=more)


def _lost_most(gated: Gated) -> list[AskedQuery]:
    """The queries whose recall fell most, if the goal is not met."""
    if gated.verdict.met or gated.compared is None:
        return []
    lost = [each for pair in gated.compared.pairs for each in pair.changed if each.second < each.first]
    lost.sort(key=lambda each: each.second - each.first)
    return [AskedQuery(each.query, each.second, each.first) for each in lost[:WORST]]


def _described(
    called: str,
    found: Probed,
    dataset: Dataset,
    gated: Gated | None,
    worst: Sequence[AskedQuery],
    *,
    passed: bool,
) -> RecallAssertion:
    return RecallAssertion(
        called,
        passed,
        found.verdict.outcome or "PASS",
        found.target,
        listed(found.settings.items()),
        found.k,
        found.recall,
        dataset.queries.rows,
        found.verdict.goals,
        None if gated is None else gated.goals[0].baseline,
        tuple(worst),
        tuple(diagnosis(found)),
    )
