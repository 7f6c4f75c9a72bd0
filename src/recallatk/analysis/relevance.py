"""Relevance, which is not recall@k: what somebody judged to be good answers, through ir-measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.summarising import interval_of
from recallatk.core import Mean
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.core import Answers

CUTOFF = 10
USUAL = tuple(f"{name}@{CUTOFF}" for name in ("nDCG", "RR", "P", "R", "Success"))


def relevance(
    answers: Answers,
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = USUAL,
) -> dict[str, Mean]:
    """Each measure over the queries with judgements; one that was not answered scores 0.

    Args:
        answers: what was returned, best first; repeats count once. Their order counts and not their scores,
            which may tie.
        qrels: by query and by document how relevant it was found.
        measures: names of ir-measures: nDCG@10, RR@10 (MRR), P@10, R@10, Success@10 …
    """
    import ir_measures

    parsed = _parsed(measures)
    run = _run(answers)
    judged = [query for query, grades in qrels.items() if grades]
    if not set(judged) & set(run):
        raise MismatchError(f"{answers.name}: none of its queries has a judgement in the qrels")
    found: dict[str, dict[str, float]] = {str(each): {} for each in parsed}
    provider = ir_measures.DefaultPipeline
    for metric in provider.iter_calc(parsed, {query: dict(qrels[query]) for query in judged}, run):
        found[str(metric.measure)][metric.query_id] = float(metric.value)
    return {
        name: _mean(np.array([values.get(query, 0.0) for query in judged])) for name, values in found.items()
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


def _mean(values: Any) -> Mean:
    interval = interval_of(values, is_share=bool(np.isin(values, (0.0, 1.0)).all()))
    low, high = (None, None) if interval is None else interval
    return Mean(float(values.mean()), None, len(values), low, high)
