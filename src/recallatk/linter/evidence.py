"""Evidence for the rules: everything known about a benchmark, each part read once."""

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

# Queries whose neighbors are examined one by one.
_SOME = 200


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything known about a benchmark; None where unknown. Rules do not guess."""

    settings: Settings | None = None
    dataset: Dataset | None = None
    truth: Truth | None = None
    run: Run | None = None
    production: QuerySet | None = None
    """Queries from production."""
    tuned: Any = None
    """The outcome of tuning, with `targets`, `looks` and `cautions`."""
    tuning_queries: QuerySet | None = None
    """The queries that settings were chosen by; `dataset` then has the validation queries."""
    targets: tuple[str, ...] = field(default=())
    """Goals, such as `recall@10 >= 0.95`."""

    def __post_init__(self) -> None:
        # Refuse goals that cannot be measured before any data is read.
        targets, _ = sort_goals(self.targets)
        if self.dataset is not None:
            require_answerable(targets, self.dataset)

    def measured(self, run: Run, truth: Truth | None = None) -> Evidence:
        """The evidence after a run.

        Args:
            run: the run.
            truth: the ground truth that it was scored against, unless already known.
        """
        return self._later(self._seen, run=run, truth=self.truth if truth is None else truth)

    def tuned_as(self, tuned: Any) -> Evidence:
        """The evidence after tuning whose held-out queries are unknown."""
        return self._later(self._seen, tuned=tuned)

    def tuned_on(
        self, dataset: Dataset, truth: Truth, numbers: NDArray[np.int64], tuned: Any, tuning_queries: QuerySet
    ) -> Evidence:
        """The evidence after tuning, with the validation queries.

        Args:
            dataset: the same corpus with only the validation queries.
            truth: the ground truth of these queries.
            numbers: their numbers among all queries.
            tuned: the outcome of tuning.
            tuning_queries: the queries that the setting was chosen by.
        """
        seen = self._seen and self._seen.of_some(numbers, dataset)
        return self._later(seen, dataset=dataset, truth=truth, tuned=tuned, tuning_queries=tuning_queries)

    @property
    def _seen(self) -> Survey | None:
        return vars(self).get("survey")

    def _later(self, seen: Survey | None, **changes: Any) -> Evidence:
        """Extended evidence that keeps the survey, so that the data is not read again."""
        later = replace(self, **changes)
        if seen is not None:
            vars(later)["survey"] = seen
        return later

    def has(self, needs: frozenset[str]) -> bool:
        """Whether all of these fields are known."""
        return all(getattr(self, name) is not None for name in needs)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Measurements of the run; empty without a run."""
        return () if self.run is None else self.run.measurements

    @cached_property
    def cutoffs(self) -> tuple[int, ...]:
        """Every k of recall@k, measured or planned."""
        found = recall_cutoffs(name for each in self.measurements for name in each.score.measures)
        if not found and self.settings is not None:
            found = sorted(set(self.settings.measure.at))
        return tuple(found)

    @property
    def deepest(self) -> int:
        """The largest k, measured or planned; 0 if unknown."""
        wanted = [int(name.rpartition("@")[2]) for name in self.asked]
        tuning = self.tuned is not None or self.targets
        if self.run is not None:
            wanted += self.cutoffs
        elif self.settings is not None and not tuning:
            wanted.append(self.settings.measure.deepest)
        return max(wanted, default=0)

    @property
    def k(self) -> int:
        """The k of the headline recall."""
        return headline_k(self.cutoffs) or USUAL_K

    @property
    def headline(self) -> str:
        """Name of the headline recall."""
        return f"recall@{self.k}"

    @cached_property
    def asked(self) -> dict[str, float]:
        """Lower bound per measure, from targets on the mean over all queries."""
        stated = () if self.settings is None else self.settings.tune.target
        recorded = () if self.run is None else goals_of(self.run).goals
        targets, _ = sort_goals([*self.targets, *getattr(self.tuned, "targets", ()), *stated, *recorded])
        plain = [each for each in targets if each == Target(each.measure, each.value) and each.at_least]
        return {each.name: each.value for each in plain}

    @cached_property
    def survey(self) -> Survey | None:
        """Survey of corpus and queries from one pass; None without a dataset."""
        return None if self.dataset is None else survey(self.dataset)

    @cached_property
    def usable_truth(self) -> Truth | None:
        """The truth if its shape fits the dataset, even if it is wrong otherwise."""
        truth, dataset = self.truth, self.dataset
        if truth is None or dataset is None or not truth.depth:
            return None
        fits = len(truth) == dataset.queries.rows and truth.rows.max(initial=-1) < dataset.corpus.rows
        return truth if fits else None

    @cached_property
    def some_queries(self) -> NDArray[np.int64]:
        """Fixed sample of queries to examine closely."""
        count = 0 if self.dataset is None else self.dataset.queries.rows
        drawn = np.random.default_rng(0).permutation(count)[:_SOME]
        return np.sort(drawn)
