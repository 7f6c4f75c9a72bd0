"""Scoring: every measure with its interval, and counts of anomalies in the answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answer_scores import answer_scores
from recallatk.analysis.answers import (
    PADDING,
    UNKNOWN,
    Aligned,
    align,
    bounded,
    last_answer,
    longest,
    query_names,
    truth_from_lists,
)
from recallatk.analysis.compared import Compared
from recallatk.analysis.compatibility import require_same
from recallatk.analysis.distribution import mean_of
from recallatk.analysis.measures import Measure, Recall, parse_measure
from recallatk.analysis.weighting import query_columns, weights_by_query
from recallatk.core import Corpus, Mean, Score, Truth
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core import Answers, Dataset, Measurement, Others, Weights
    from recallatk.filters.eligibility import Eligibility

    Values = dict[Measure, list[NDArray[np.float64]]]

USUAL = (1, 10, 100)


def score(
    truth: Truth | Answers | Sequence[Sequence[Any]],
    answers: Any,
    at: Sequence[int] | None = None,
    *,
    measures: Sequence[Measure | str] = (),
    corpus: Corpus | None = None,
    dataset: Dataset | None = None,
    eligibility: Eligibility | None = None,
    row_numbers: bool = False,
    weight: str | None = None,
) -> Score:
    """Score answers against the truth; `recallatk.score` takes both in more forms.

    Args:
        truth: a Truth, or right answers: lists of ids, best first.
        answers: Answers, one list of ids per query, best first, or a matrix of ids. -1 and None are padding.
            Queries are matched by id if the answers have query ids, by position otherwise.
        at: values of k for recall, each within the truth's depth. Default: those of 1, 10 and 100 that are
            and that some query has answers for.
        measures: further measures, for example `"robust(0.9)@10"` or `"mrr@10"`.
        corpus: the corpus, to detect unknown ids.
        dataset: corpus, queries and filters, to detect ineligible answers; measures of vectors need it.
        eligibility: the rows each query may return, if there is no dataset.
        row_numbers: the answers are row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
    """
    if dataset is not None:
        corpus = dataset.corpus if corpus is None else corpus
        eligibility = dataset.eligibility if eligibility is None else eligibility
    cutoffs, unreached = (at, ()) if at is not None else usual_cutoffs(truth, answers)
    wanted = wanted_measures(truth, cutoffs, measures)
    truth = comparable_truth(truth, wanted, corpus, dataset)
    aligned = align(answers, truth, corpus, row_numbers=row_numbers)
    columns = query_columns(truth, dataset, aligned.columns)
    scored = score_aligned(
        aligned,
        truth,
        wanted,
        dataset=dataset,
        eligibility=eligibility,
        weights=weights_by_query(columns, weight, len(truth)),
    )
    return replace(scored, unreached=unreached)


def usual_cutoffs(truth: Any, answers: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Default values of k within the truth's depth: those with answers, and those that no query reaches."""
    depth, last = _depth(truth), last_answer(answers)
    possible = _usual(depth)
    reached = tuple(k for k in possible if k <= max(1, last))
    return reached, tuple(k for k in possible if k not in reached)


def _depth(truth: Any) -> int:
    return truth.depth if isinstance(truth, Truth) else longest(truth)


def _usual(depth: int) -> list[int]:
    return [k for k in USUAL if k <= depth] or [max(1, depth)]


def comparable_truth(
    truth: Truth | Answers | Sequence[Sequence[Any]],
    wanted: Sequence[Measure],
    corpus: Corpus | None,
    dataset: Dataset | None,
) -> Truth:
    """The truth, checked against the data and the depth of the measures."""
    deepest = max(each.deepest for each in wanted)
    if not isinstance(truth, Truth):
        truth = truth_from_lists(truth, deepest, corpus)
    require_same(truth, corpus, dataset, deepest)
    return truth


def score_aligned(
    aligned: Aligned,
    truth: Truth,
    measures: Sequence[Measure],
    *,
    dataset: Dataset | None = None,
    eligibility: Eligibility | None = None,
    weights: Weights | None = None,
) -> Score:
    """Score answers that are already corpus rows."""
    rows = aligned.rows
    if eligibility is not None and rows.max(initial=0) >= eligibility.corpus_rows:
        rows = np.where(rows >= eligibility.corpus_rows, UNKNOWN, rows)
    scores = None
    if dataset is not None and any(each.needs_scores for each in measures):
        scores = answer_scores(dataset, rows)
    compared = Compared(truth, rows, scores)
    found = {str(each): _measured(compared, each, weights) for each in measures}
    told = aligned.tells_unknown or eligibility is not None
    deepest = max((each.k for each in measures if isinstance(each, Recall)), default=truth.depth)
    # Queries without an eligible row have no score, also where they have no answers.
    missing = aligned.missing & (compared.available > 0)
    return Score(
        queries=len(truth),
        scored=int((compared.available > 0).sum()),
        measures={name: mean for name, (mean, _) in found.items()},
        anomalies=count_anomalies(compared, missing, deepest, eligibility, told=told),
        per_query={name: values for name, (_, values) in found.items()},
        sampled_from=truth.sampled_from,
        synthetic=truth.synthetic,
        missing=query_names(truth, missing) if missing.any() else (),
        weights=weights,
    )


def _measured(
    compared: Compared, measure: Measure, weights: Weights | None
) -> tuple[Mean, NDArray[np.float64]]:
    values = measure.per_query(compared)
    counts = None if weights is None else weights.values
    return mean_of(values, measure, measure.by_ids(compared), counts), values


def wanted_measures(truth: Any, at: Any, measures: Sequence[Measure | str]) -> list[Measure]:
    """Recall at every k, then the further measures; one error names all that are impossible."""
    depth = _depth(truth)
    cutoffs = _usual(depth) if at is None else _cutoffs(at)
    wanted: list[Measure] = [Recall(k) for k in cutoffs]
    given = [measures] if isinstance(measures, str) else measures
    wanted += [parse_measure(each) if isinstance(each, str) else each for each in given]
    deep = [str(each) for each in wanted if each.deepest > depth]
    if deep and isinstance(truth, Truth):
        raise UsageError(
            f"{', '.join(deep)} needs a deeper truth: this one has depth {truth.depth}. "
            f"Recompute it: recallatk truth CORPUS QUERIES --depth {max(each.deepest for each in wanted)}"
        )
    return list(dict.fromkeys(wanted))


def _cutoffs(at: Any) -> list[int]:
    values = (
        [at] if _is_cutoff(at) else list(at) if isinstance(at, Iterable) and not isinstance(at, str) else []
    )
    if not values or not all(map(_is_cutoff, values)):
        raise UsageError(f"at = {at!r}. Accepted: one or more whole numbers, for example at=(1, 10)")
    return [int(k) for k in values]


def _is_cutoff(k: object) -> bool:
    return not isinstance(k, bool) and isinstance(k, int | np.integer) and int(k) > 0


def count_anomalies(
    compared: Compared,
    missing: NDArray[np.bool_],
    k: int,
    eligibility: Eligibility | None,
    *,
    told: bool,
) -> dict[str, int | None]:
    """Count anomalies: short and missing answers, repeats, padding, unknown and ineligible rows."""
    rows = compared.answers
    wanted = np.minimum(k, compared.available)
    padding = unknown = 0
    # The rest are not rows.
    if (compared.places.distinct + compared.places.repeats < rows.shape[1]).any():
        padding, unknown = int((rows == PADDING).sum()), int((rows == UNKNOWN).sum())
    return {
        "short": int(((compared.places.distinct < wanted) & ~missing).sum()),
        "duplicate": int(compared.places.repeats.sum()),
        "padding": padding,
        # Unknown ids cannot be detected without a corpus or its size.
        "unknown": unknown if told else None,
        "ineligible": _ineligible(compared, eligibility),
        "no_eligible": int((compared.available == 0).sum()),
        "missing": int(missing.sum()),
        "cut_ties": compared.cut_ties(k),
    }


def _ineligible(compared: Compared, eligibility: Eligibility | None) -> int | None:
    """Number of ineligible answers; None if eligibility is unknown."""
    truth, rows = compared.truth, compared.answers
    if eligibility is not None:
        query, column = np.nonzero(rows >= 0)
        return int((~eligibility.allowed(query, rows[query, column])).sum())
    if truth.eligible is None or truth.corpus_rows is None:
        return None
    if (truth.eligible == truth.corpus_rows).all():
        return 0
    # If the truth lists all eligible rows of a query, every other row is ineligible.
    if (truth.eligible > truth.depth).any():
        return None
    named = compared.places.is_found.sum(axis=1)
    return int((compared.places.distinct + compared.places.repeats - named).sum()) - _repeated_hits(compared)


def _repeated_hits(compared: Compared) -> int:
    """Repeated answers that are eligible."""
    if not compared.places.repeats.any():
        return 0
    from recallatk.analysis.matching import repeated

    again = np.where(repeated(compared.answers), compared.answers, -1)
    return sum(
        int(np.isin(line[line >= 0], rows).sum())
        for line, rows in zip(again, compared.truth.rows, strict=True)
        if (line >= 0).any()
    )


def score_repeated(
    answers: NDArray[np.int64],
    times: NDArray[np.int64],
    others: Others | None,
    truth: Truth,
    dataset: Dataset,
    at: Sequence[int] | None = None,
    measures: Sequence[Measure | str] = (),
    weights: Weights | None = None,
) -> Score:
    """The mean over the queries that were asked, each query's own value being the mean over its calls.

    Args:
        answers: (queries, k) corpus rows that each query got first.
        times: how often each query was asked.
        others: what it got later, where that differs.
        truth: the right answers.
        dataset: what was asked of what.
        at: the values of k for recall.
        measures: what else to measure.
        weights: how much each query of the dataset counts.
    """
    wanted = wanted_measures(truth, at, measures)
    asked = np.flatnonzero(times)
    table = _Table(truth if len(asked) == len(truth) else truth.take(asked), dataset, asked, wanted)
    compared, values = table.of(answers)
    if others is not None and len(others):
        _average(values, answers, times[asked], others, table)
    deepest = max((each.k for each in wanted if isinstance(each, Recall)), default=truth.depth)
    never = np.zeros(len(asked), bool)
    eligibility = dataset.eligibility.subset(asked)
    weights = None if weights is None else weights.take(asked)
    counts = None if weights is None else weights.values
    return Score(
        queries=len(asked),
        scored=int((compared.available > 0).sum()),
        measures={str(each): _mean(each, found, counts) for each, found in values.items()},
        anomalies=count_anomalies(compared, never, deepest, eligibility, told=True),
        per_query={str(each): found[0] for each, found in values.items()},
        sampled_from=truth.sampled_from,
        weights=weights,
        synthetic=truth.synthetic,
    )


def measure_repeated(
    measurement: Measurement, truth: Truth, dataset: Dataset, measure: Measure
) -> NDArray[np.float64]:
    """One more measure of a trial: the value of each query that was asked, as `score_repeated` has it."""
    times = measurement.times
    if times is None:
        times = np.bincount(measurement.calls.query, minlength=len(measurement.answers))
    score = score_repeated(
        measurement.answers, times, measurement.others, truth, dataset, [measure.deepest], [measure]
    )
    return score.per_query[str(measure)]


class _Table:
    """Inputs of all measures."""

    def __init__(
        self, truth: Truth, dataset: Dataset, asked: NDArray[np.int64], wanted: list[Measure]
    ) -> None:
        self.truth, self.dataset, self.asked, self.wanted = truth, dataset, asked, wanted
        self.needs_scores = any(each.needs_scores for each in wanted)

    def of(self, answers: NDArray[np.int64]) -> tuple[Compared, Values]:
        rows = bounded(answers, self.dataset.corpus.rows)
        scores = answer_scores(self.dataset, rows)[self.asked] if self.needs_scores else None
        compared = Compared(self.truth, rows[self.asked], scores)
        return compared, {each: _values(each, compared) for each in self.wanted}


def _values(measure: Measure, compared: Compared) -> list[NDArray[np.float64]]:
    """The values of all queries, and those by strict ids where ties count."""
    by_ids = measure.by_ids(compared)
    return [measure.per_query(compared), *([] if by_ids is None else [by_ids])]


def _mean(measure: Measure, found: list[NDArray[np.float64]], weights: NDArray[np.float64] | None) -> Mean:
    return mean_of(found[0], measure, found[1] if len(found) > 1 else None, weights)


def _average(
    values: Values,
    answers: NDArray[np.int64],
    times: NDArray[np.int64],
    others: Others,
    table: _Table,
) -> None:
    """Let every other answer count for its call: the first again, then the second again, and so on."""
    first = dict(values)
    order = np.argsort(others.query, kind="stable")
    query = others.query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    for turn in range(int(place.max()) + 1):
        chosen = order[place == turn]
        changed = answers.copy()
        changed[others.query[chosen]] = others.rows[chosen]
        _, now = table.of(changed)
        for each, means in values.items():
            parts = zip(means, now[each], first[each], strict=True)
            values[each] = [mean + (after - before) / times for mean, after, before in parts]
