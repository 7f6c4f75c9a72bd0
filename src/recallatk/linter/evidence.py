"""Everything that is known of a benchmark, and what rules share in looking at it; nothing is read twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.headline import USUAL_K, headline_k, recall_cutoffs
from recallatk.goals import Target, require_answerable, sort_goals
from recallatk.goals.runs import goals_of
from recallatk.linter.survey import Survey, survey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Measurement, QuerySet, Run, Truth

# Queries whose neighbors are looked at one by one.
_SOME = 200


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a benchmark; None for what is not, which no rule guesses."""

    settings: Settings | None = None
    dataset: Dataset | None = None
    truth: Truth | None = None
    run: Run | None = None
    production: QuerySet | None = None
    """Queries as users ask them."""
    tuned: Any = None
    """The outcome of a tuning, with `targets`, `looks` and `cautions`."""
    tuning_queries: QuerySet | None = None
    """The queries that settings were chosen by, where `dataset` has those that the choice is proved on."""
    targets: tuple[str, ...] = field(default=())
    """Goals, such as `recall@10 >= 0.95`."""

    def __post_init__(self) -> None:
        # A goal that names nothing measurable is an error before anything is looked at.
        targets, _ = sort_goals(self.targets)
        if self.dataset is not None:
            require_answerable(targets, self.dataset)

    def measured(self, run: Run, truth: Truth | None = None) -> Evidence:
        """The same benchmark after its run.

        Args:
            run: what was measured.
            truth: what it was scored against, unless that was known before.
        """
        return self._later(self._seen, run=run, truth=self.truth if truth is None else truth)

    def tuned_as(self, tuned: Any) -> Evidence:
        """The same benchmark after its tuning, whose held-out queries are not known."""
        return self._later(self._seen, tuned=tuned)

    def tuned_on(
        self, dataset: Dataset, truth: Truth, numbers: NDArray[np.int64], tuned: Any, tuning_queries: QuerySet
    ) -> Evidence:
        """The outcome of a tuning beside the queries that it was proved on.

        Args:
            dataset: the same corpus with these queries alone.
            truth: theirs.
            numbers: which of all queries they are.
            tuned: the outcome.
            tuning_queries: those that it was chosen by.
        """
        seen = self._seen and self._seen.of_some(numbers, dataset)
        return self._later(seen, dataset=dataset, truth=truth, tuned=tuned, tuning_queries=tuning_queries)

    @property
    def _seen(self) -> Survey | None:
        return vars(self).get("survey")

    def _later(self, seen: Survey | None, **changes: Any) -> Evidence:
        """What is known by now; whoever looked at all of the data need not do so again."""
        later = replace(self, **changes)
        if seen is not None:
            vars(later)["survey"] = seen
        return later

    def has(self, needs: frozenset[str]) -> bool:
        """Whether all of these are known."""
        return all(getattr(self, name) is not None for name in needs)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured; empty without a run."""
        return () if self.run is None else self.run.measurements

    @cached_property
    def cutoffs(self) -> tuple[int, ...]:
        """Every k of recall@k that is measured, or is to be."""
        found = recall_cutoffs(name for each in self.measurements for name in each.score.measures)
        if not found and self.settings is not None:
            found = sorted(set(self.settings.measure.k))
        return tuple(found)

    @property
    def deepest(self) -> int:
        """The largest k that is measured, or is to be; 0 where nobody said."""
        wanted = [int(name.rpartition("@")[2]) for name in self.asked]
        tuning = self.tuned is not None or self.targets
        if self.run is not None:
            wanted += self.cutoffs
        elif self.settings is not None and not tuning:
            wanted.append(self.settings.measure.deepest)
        return max(wanted, default=0)

    @property
    def k(self) -> int:
        """The k of the recall that readers look at."""
        return headline_k(self.cutoffs) or USUAL_K

    @property
    def headline(self) -> str:
        """What that recall is called."""
        return f"recall@{self.k}"

    @cached_property
    def asked(self) -> dict[str, float]:
        """The least value of each measure that was asked for in the mean of all queries."""
        stated = () if self.settings is None else self.settings.tune.target
        recorded = () if self.run is None else goals_of(self.run).goals
        targets, _ = sort_goals([*self.targets, *getattr(self.tuned, "targets", ()), *stated, *recorded])
        plain = [each for each in targets if each == Target(each.measure, each.value) and each.at_least]
        return {each.name: each.value for each in plain}

    @cached_property
    def survey(self) -> Survey | None:
        """One pass over the corpus and the queries; None without a dataset."""
        return None if self.dataset is None else survey(self.dataset)

    @cached_property
    def usable_truth(self) -> Truth | None:
        """The truth where its shape fits the dataset; whatever else is wrong with it, it can be looked at."""
        truth, dataset = self.truth, self.dataset
        if truth is None or dataset is None or not truth.depth:
            return None
        fits = len(truth) == dataset.queries.rows and truth.rows.max(initial=-1) < dataset.corpus.rows
        return truth if fits else None

    @cached_property
    def some_queries(self) -> NDArray[np.int64]:
        """Which queries to look at closely, always the same ones."""
        count = 0 if self.dataset is None else self.dataset.queries.rows
        drawn = np.random.default_rng(0).permutation(count)[:_SOME]
        return np.sort(drawn)
