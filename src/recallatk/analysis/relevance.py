"""Relevance from judgments, through ir-measures, and the loss against exact search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.distribution import mean_of_values
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Answers, Dataset, Mean, Truth

CUTOFF = 10
USUAL = tuple(f"{name}@{CUTOFF}" for name in ("nDCG", "RR", "P", "R", "Success"))


def relevance(
    answers: Answers,
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = USUAL,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Mean]:
    """Each measure over the queries with judgments; one that was not answered scores 0.

    Args:
        answers: what was returned, best first; repeats count once. Their order counts and not their scores,
            which may tie.
        qrels: by query and by document how relevant it was found.
        measures: names of ir-measures: nDCG@10, RR@10 (MRR), P@10, R@10, Success@10 …
        weights: by query how much it counts; equally by default.
    """
    import ir_measures

    parsed = _parsed(measures)
    run = _run(answers)
    judged = [query for query, grades in qrels.items() if grades]
    if not set(judged) & set(run):
        raise MismatchError(f"{answers.name}: none of its queries has a judgment in the qrels")
    found: dict[str, dict[str, float]] = {str(each): {} for each in parsed}
    provider = ir_measures.DefaultPipeline
    for metric in provider.iter_calc(parsed, {query: dict(qrels[query]) for query in judged}, run):
        found[str(metric.measure)][metric.query_id] = float(metric.value)
    counts = None if weights is None else np.array([weights[query] for query in judged], np.float64)
    return {
        name: _mean(np.array([values.get(query, 0.0) for query in judged]), counts)
        for name, values in found.items()
    }


def _parsed(measures: Sequence[str]) -> list[Any]:
    import ir_measures

    parsed, wrong = [], []
    for name in measures:
        try:
            parsed.append(ir_measures.parse_measure(name))
        except (ValueError, NameError):
            wrong.append(name)
    if wrong:
        raise UsageError(f"no relevance measure {', '.join(wrong)}. Accepted: {', '.join(USUAL)} and others")
    return parsed


def _run(answers: Answers) -> dict[str, dict[str, float]]:
    """The answers as evaluators want them: by query, documents with falling scores."""
    names = range(len(answers)) if answers.query_ids is None else answers.query_ids.to_pylist()
    ids = answers.ids.to_pylist()
    run = {}
    for name, first, last in zip(names, answers.offsets[:-1], answers.offsets[1:], strict=False):
        listed = dict.fromkeys(str(each) for each in ids[first:last] if each is not None and each != -1)
        run[str(name)] = {each: float(len(listed) - place) for place, each in enumerate(listed)}
    return run


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> Mean:
    return mean_of_values(values, is_share=bool(np.isin(values, (0.0, 1.0)).all()), weights=weights)


_MEASURES = {"ndcg": "nDCG", "mrr": "RR"}


def relevance_loss(
    rows: NDArray[np.int64], truth: Truth, dataset: Dataset, measure: str
) -> NDArray[np.float64]:
    """The measure of the exact ranking less that of the answers, from -1 to 1; NaN without judgments.

    Args:
        rows: (queries, k) corpus rows as they were answered; below 0 where there is none.
        truth: the exact ranking, of the same queries and at least as deep as the measure's k.
        dataset: whose queries those are, with judgments.
        measure: `nDCG@10` or `mrr@10`.
    """
    if dataset.qrels is None:
        raise UsageError(f"{measure} loss needs relevance judgments (qrels), but the data have none")
    if not len(rows) == len(truth) == dataset.queries.rows:
        raise MismatchError(
            f"query mismatch: {len(rows)} answers, {len(truth)} queries in the truth, "
            f"{dataset.queries.rows} in the dataset"
        )
    name, _, k = measure.partition("@")
    judged_by = f"{_MEASURES[name.lower()]}@{k}"
    queries = [str(each) for each in dataset.queries.ids.to_pylist()]
    judged = {query: dict(dataset.qrels[query]) for query in queries if dataset.qrels.get(query)}
    if not judged:
        raise MismatchError(f"{measure} loss: none of the {len(queries):,} queries has a judgment")
    exact = _per_query(
        truth.rows, queries, dataset.corpus.ids, judged, f"{_MEASURES[name.lower()]}@{k}", int(k)
    )
    found = _per_query(rows, queries, dataset.corpus.ids, judged, judged_by, int(k))
    return np.array([exact[each] - found[each] if each in judged else np.nan for each in queries])


def _per_query(
    rows: NDArray[np.int64],
    queries: list[str],
    ids: pa.Array,
    judged: Mapping[str, dict[str, int]],
    measure: str,
    k: int,
) -> dict[str, float]:
    import ir_measures
    import pyarrow as pa

    known = rows[:, :k] >= 0
    names = ids.take(pa.array(rows[:, :k][known])).to_pylist()
    ends = np.cumsum(known.sum(axis=1)).tolist()
    run: dict[str, dict[str, float]] = {}
    for query, start, end in zip(queries, [0, *ends], ends, strict=False):
        if query in judged:
            distinct = dict.fromkeys(str(each) for each in names[start:end])
            run[query] = {each: float(k - place) for place, each in enumerate(distinct)}
    wanted: list[Any] = [ir_measures.parse_measure(measure)]
    values = dict.fromkeys(judged, 0.0)
    for each in ir_measures.DefaultPipeline.iter_calc(wanted, dict(judged), run):
        values[each.query_id] = float(each.value)
    return values
