"""Relevance from judgments, through ir-measures, and the loss against exact search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.distribution import mean_of_values
from recallatk.errors import MismatchError, UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Answers, Dataset, Mean, Truth

    Floats = NDArray[np.float64]
    Grades = Mapping[str, Mapping[str, int]]

CUTOFF = 10
_NAMED = 3
USUAL = tuple(f"{name}@{CUTOFF}" for name in ("nDCG", "RR", "P", "R", "Success"))


def relevance(
    answers: Answers,
    qrels: Grades,
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
    judged = [query for query, grades in qrels.items() if grades]
    values = relevance_by_query(answers, qrels, judged, measures)
    counts = None if weights is None else np.array([weights[query] for query in judged], np.float64)
    return {name: relevance_mean(each, counts) for name, each in values.items()}


def relevance_by_query(
    answers: Answers, qrels: Grades, queries: Sequence[str], measures: Sequence[str] = USUAL
) -> dict[str, Floats]:
    """Each measure for each query of a list; NaN without judgments, 0 for one that was not answered.

    Args:
        answers: what was returned, best first.
        qrels: by query and by document how relevant it was found.
        queries: ids of the queries, in the order of the values.
        measures: names of ir-measures.
    """
    run = _run(answers)
    if not any(qrels.get(query) for query in run):
        raise MismatchError(f"{answers.name}: none of its queries has a judgment in the qrels")
    return _evaluated(run, qrels, queries, measures)


def relevance_of_rows(
    rows: NDArray[np.int64], dataset: Dataset, measures: Sequence[str], k: int
) -> dict[str, Floats]:
    """Each measure for every query of a dataset; NaN without judgments.

    Args:
        rows: (queries, at least k) corpus rows, best first; below 0 where there is none.
        dataset: the queries, with judgments.
        measures: names of ir-measures, with cutoffs up to k.
        k: how many rows of each query count.
    """
    qrels = dataset.qrels or {}
    queries = query_names(dataset)
    run = _run_of_rows(rows[:, :k], queries, dataset.corpus.ids, qrels)
    return _evaluated(run, qrels, queries, measures)


def query_names(dataset: Dataset) -> list[str]:
    """The ids of the queries as judgments spell them."""
    return [str(each) for each in dataset.queries.ids.to_pylist()]


def relevance_mean(values: Floats, weights: Floats | None) -> Mean:
    """The mean of a measure over the judged queries; one that is 0 or 1 everywhere is a share."""
    known = values[~np.isnan(values)]
    return mean_of_values(values, is_share=bool(np.isin(known, (0.0, 1.0)).all()), weights=weights)


def _evaluated(
    run: Mapping[str, dict[str, float]], qrels: Grades, queries: Sequence[str], measures: Sequence[str]
) -> dict[str, Floats]:
    import ir_measures

    parsed = _parsed(measures)
    judged = {query: dict(qrels[query]) for query in queries if qrels.get(query)}
    found: dict[str, dict[str, float]] = {str(each): dict.fromkeys(judged, 0.0) for each in parsed}
    if judged:
        answered = {query: listed for query, listed in run.items() if query in judged}
        for each in ir_measures.DefaultPipeline.iter_calc(parsed, judged, answered):
            found[str(each.measure)][each.query_id] = float(each.value)
    return {
        name: np.array([values.get(query, np.nan) for query in queries], np.float64)
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
        run[str(name)] = _ranked(each for each in ids[first:last] if each is not None and each != -1)
    return run


def _run_of_rows(
    rows: NDArray[np.int64], queries: Sequence[str], ids: pa.Array, qrels: Grades
) -> dict[str, dict[str, float]]:
    """The same of corpus rows, for the queries with judgments."""
    import pyarrow as pa

    known = rows >= 0
    names = ids.take(pa.array(rows[known])).to_pylist()
    ends = np.cumsum(known.sum(axis=1)).tolist()
    return {
        query: _ranked(names[start:end])
        for query, start, end in zip(queries, [0, *ends], ends, strict=False)
        if qrels.get(query)
    }


def _ranked(names: Any) -> dict[str, float]:
    listed = dict.fromkeys(str(each) for each in names)
    return {each: float(len(listed) - place) for place, each in enumerate(listed)}


def unknown_documents(qrels: Grades, ids: pa.Array | None) -> str:
    """How many judged documents the corpus does not have, in words; empty if none or if it is not known."""
    named = list(dict.fromkeys(document for grades in qrels.values() for document in grades))
    unknown = [] if ids is None else absent_ids(named, ids)
    if not unknown:
        return ""
    more = ", …" if len(unknown) > _NAMED else ""
    return (
        f"{len(unknown):,} of {len(named):,} judged documents are not in the corpus "
        f"({', '.join(unknown[:_NAMED])}{more}): no search can return them, so nDCG is lower for exact "
        "search and all answers alike"
    )


def without_judgment(count: int) -> str:
    """How many queries have no judgment, in words."""
    verb = "leaves" if count == 1 else "leave"
    return f"{counted(count, 'query has', 'queries have')} no judgment and {verb} these means"


def absent_ids(names: list[str], ids: pa.Array) -> list[str]:
    """Those of some ids that a corpus does not have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(names, pa.string())
    known = pc.is_in(wanted, value_set=ids.cast(pa.string()))
    found: list[str] = wanted.filter(pc.invert(known)).to_pylist()
    return found


_MEASURES = {"ndcg": "nDCG", "mrr": "RR"}


def loss_measure(name: str) -> str:
    """The name in ir-measures of the measure that a loss is about: `RR@10` for `mrr@10`."""
    measure, _, k = name.partition("@")
    return f"{_MEASURES[measure.lower()]}@{k}"


def relevance_loss(rows: NDArray[np.int64], truth: Truth, dataset: Dataset, measure: str) -> Floats:
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
    name, k = loss_measure(measure), int(measure.partition("@")[2])
    exact = relevance_of_rows(truth.rows, dataset, [name], k)[name]
    if np.isnan(exact).all():
        raise MismatchError(f"{measure} loss: none of the {len(rows):,} queries has a judgment")
    return exact - relevance_of_rows(rows, dataset, [name], k)[name]
