"""Scores of answers against a truth, both in any form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from recallatk import analysis
from recallatk.analysis.query_groupings import names_correlation
from recallatk.api.truth import filter_facts, load_truth
from recallatk.core import Answers, Truth
from recallatk.datasets import open_corpus, read_answers
from recallatk.datasets.answer_sources import held_answers
from recallatk.datasets.in_memory import as_frame, is_path
from recallatk.datasets.qrels import judgments
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recallatk.analysis import Assessment, StagedAssessment
    from recallatk.analysis.comparison import Difference
    from recallatk.analysis.measures import Measure
    from recallatk.core import Corpus, Dataset, FilterFacts, Score
    from recallatk.filters.eligibility import Eligibility

P = ParamSpec("P")
R = TypeVar("R")


def truth_first(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse positional calls in the order of version 0.1, which had the answers first.

    Goes away in 0.3: by then nobody calls `score(answers, truth)` and gets a wrong number.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given, named = list(args), dict(kwargs)
        if given and "truth" in named and "answers" not in named:
            named["answers"] = given.pop(0)
            named |= dict(zip(["at"], given, strict=False))
            given = []
        unclear = len(given) > 1 and not isinstance(given[0], Truth)
        if unclear or len(given) + len(named.keys() & {"truth", "answers"}) < 2:
            name = function.__name__
            raise UsageError(
                f"{name}: which argument is the truth? Name both: {name}(truth=…, answers=…). "
                "As positional arguments, the truth comes first and must be a Truth: load_truth(…)"
            )
        return function(*given, **named)  # type: ignore[arg-type]

    return call


@truth_first
def score(
    truth: Any,
    answers: Any,
    at: Sequence[int] | None = None,
    *,
    measures: Sequence[Measure | str] = (),
    corpus: Any = None,
    dataset: Dataset | None = None,
    eligibility: Eligibility | None = None,
    row_numbers: bool = False,
    weight: str | None = None,
) -> Score:
    """Score answers against the truth: every measure with its interval, and counts of anomalies.

    Args:
        truth: a Truth, or anything that `load_truth` takes. Lists may hold text ids without a corpus.
        answers: anything that `read_answers` takes: a file, a data frame, a matrix of ids, or one list of
            ids per query, best first. -1 and None are padding. Queries are matched by id if the answers have
            query ids, by position otherwise.
        at: values of k for recall, each within the truth's depth. Default: those of 1, 10 and 100 that are
            and that some query has answers for; `Score.unreached` has the others.
        measures: further measures, for example `"robust(0.9)@10"` or `"mrr@10"`.
        corpus: the corpus in any form, to detect unknown ids.
        dataset: corpus, queries and filters, to detect ineligible answers; measures of vectors need it.
        eligibility: the rows each query may return, if there is no dataset.
        row_numbers: the answers are row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
    """
    known = _corpus(corpus, dataset)
    return analysis.score(
        _truth(truth, known, dataset),
        _answers(answers),
        at,
        measures=measures,
        corpus=known,
        dataset=dataset,
        eligibility=eligibility,
        row_numbers=row_numbers,
        weight=weight,
    )


@truth_first
def assess(
    truth: Any,
    answers: Any,
    at: Sequence[int] | None = None,
    *,
    measures: Sequence[Measure | str] = (),
    by: Sequence[str] = (),
    by_row: Sequence[str] = (),
    against: Sequence[Any] | Mapping[str, Any] = (),
    qrels: Any = None,
    corpus: Any = None,
    dataset: Dataset | None = None,
    row_numbers: bool = False,
    weight: str | None = None,
    missed: bool = False,
) -> Assessment:
    """Score answers and explain the score: distribution, segments, diagnosis and comparisons.

    Args:
        truth: the truth, as in `score`.
        answers: the answers, as in `score`.
        at: values of k for recall.
        measures: further measures.
        by: columns to group queries by, beside the groups that the truth implies.
        by_row: columns of the corpus to group true neighbors by; the corpus is needed.
        against: other answers to the same queries to compare with; a mapping names them.
        qrels: relevance judgments: a file, or grades by query id and corpus id.
        corpus: the corpus in any form, to detect unknown ids.
        dataset: corpus, queries and filters.
        row_numbers: the answers are row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
        missed: tell the missed neighbors that mattered from the others; needs the dataset or the qrels.
    """
    known = _corpus(corpus, dataset)
    return analysis.assess(
        _truth(truth, known, dataset),
        _answers(answers),
        at,
        measures=measures,
        by=by,
        by_row=by_row,
        against=list(_others(against)),
        qrels=judgments(qrels),
        corpus=known,
        dataset=dataset,
        row_numbers=row_numbers,
        weight=weight,
        facts=_facts(dataset, by),
        missed=missed,
    )


def assess_stages(
    truth: Any,
    stages: Mapping[str, Any],
    at: Sequence[int] | None = None,
    *,
    by: Sequence[str] = (),
    qrels: Any = None,
    corpus: Any = None,
    dataset: Dataset | None = None,
    row_numbers: bool = False,
    weight: str | None = None,
) -> StagedAssessment:
    """Assess the stages of a retrieval path: what each one contains, loses and gains by its order.

    Args:
        truth: the truth, as in `score`.
        stages: the lists of every stage by its name, first stage first; each as the answers in `score`.
        at: values of k. Default: 10 if the truth and the last stage reach it, else the nearest of 1 and 100.
        by: columns to group queries by.
        qrels: relevance judgments: a file, or grades by query id and corpus id.
        corpus: the corpus in any form, to detect unknown ids.
        dataset: corpus, queries and filters.
        row_numbers: the lists hold row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
    """
    if not isinstance(stages, Mapping):
        raise UsageError(
            f"stages of type {type(stages).__name__}. Accepted: a mapping from names to lists, such as "
            '{"ann": first, "rerank": second}'
        )
    known = _corpus(corpus, dataset)
    return analysis.assess_stages(
        _truth(truth, known, dataset),
        {name: _answers(each) for name, each in stages.items()},
        at,
        by=by,
        qrels=judgments(qrels),
        corpus=known,
        dataset=dataset,
        row_numbers=row_numbers,
        weight=weight,
    )


def _facts(dataset: Dataset | None, by: Sequence[str]) -> FilterFacts | None:
    """What grouping by the correlation of filter and query needs; None if nothing groups by it."""
    if dataset is None or not names_correlation(by, dataset.queries.metadata_names):
        return None
    return filter_facts(dataset)


def compare(values: Any, confidence: float = 0.95, seed: int = 0, weights: Any = None) -> list[Difference]:
    """Compare every pair of systems, query by query: difference, interval and p-value.

    The p-value is that of a sign-flip permutation test, with Holm's correction over all pairs.

    Args:
        values: one value per query and system: a mapping from names to values, or a data frame with one
            column per system. Queries that are NaN everywhere are left out.
        confidence: of the intervals.
        seed: random seed of the permutations, if there are more than 9,999.
        weights: how much each query counts, such as its share of the traffic; equally by default.
    """
    if not isinstance(values, Mapping):
        frame = as_frame(values, "values")
        if frame is None:
            raise UsageError(
                f"values of type {type(values).__name__}. Accepted: a mapping from names to values, or a "
                "data frame with one column per system"
            )
        names = [name for name in frame.table.column_names if name != frame.index]
        values = {name: frame.table[name].to_numpy() for name in names}
    return analysis.compare(values, confidence, seed, weights)


def _corpus(corpus: Any, dataset: Dataset | None) -> Corpus | None:
    if corpus is None:
        return None if dataset is None else dataset.corpus
    return open_corpus(corpus)


def _truth(truth: Any, corpus: Corpus | None, dataset: Dataset | None) -> Any:
    """A Truth, or lists of ids: these need no corpus to be compared with answers."""
    if isinstance(truth, Truth | Answers) or _is_lists(truth):
        return truth
    if is_path(truth):
        return load_truth(truth, corpus=corpus, metric=None if dataset is None else dataset.metric)
    return held_answers(truth, "truth")


def _answers(answers: Any) -> Any:
    """Answers, or lists or a matrix of ids."""
    return answers if _is_lists(answers) else read_answers(answers)


def _is_lists(value: Any) -> bool:
    """Whether a value is lists or a matrix of ids; rows by column name are a table."""
    if isinstance(value, list | tuple):
        return not value or not isinstance(value[0], Mapping)
    return isinstance(value, np.ndarray)


def _others(against: Sequence[Any] | Mapping[str, Any]) -> Iterator[Answers]:
    """Other answers, each with a name of its own."""
    if isinstance(against, Mapping):
        for name, each in against.items():
            yield replace(read_answers(each), name=str(name))
        return
    for number, each in enumerate(against, 2):
        read = read_answers(each)
        yield read if each is read or is_path(each) else replace(read, name=f"answers {number}")
