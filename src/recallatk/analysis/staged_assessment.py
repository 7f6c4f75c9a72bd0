"""Assessment of a path from the lists of its stages: loss, segments, relevance and anomalies by stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answers import Aligned, align, answers_from_lists
from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.headline import headline_k
from recallatk.analysis.judged_answers import AnswerJudge
from recallatk.analysis.query_groupings import KnownQueries, query_grouping
from recallatk.analysis.score import comparable_truth, score_aligned, usual_cutoffs, wanted_measures
from recallatk.analysis.segments import segments
from recallatk.analysis.stages import StageLists, require_stages
from recallatk.analysis.weighting import query_columns, weights_by_query
from recallatk.core import Answers, Truth
from recallatk.display import renderer
from recallatk.errors import MismatchError
from recallatk.ids import RowIds
from recallatk.ids import row_numbers as numbers_as_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recallatk.analysis.segments import Grouping
    from recallatk.analysis.stages import AddedRows, StagedRecall
    from recallatk.core import Corpus, Dataset, Mean, Score, Weights

EXACT = "exact search"


@dataclass(frozen=True, eq=False)
class StageSegment:
    """A group of queries: recall@k of the last stage, and the share that each stage lost."""

    name: str
    queries: int
    recall: Mean
    lost: Mapping[str, Mean]


@dataclass(frozen=True, eq=False)
class StagedAssessment:
    """The stages of a path, each against the truth."""

    scores: Mapping[str, Score]
    """By stage: its recall at every k, and counts of anomalies."""
    k: int
    """Headline k, which segments are about."""
    at: Mapping[int, StagedRecall]
    """By k: what each stage contains and loses."""
    added: Mapping[str, tuple[tuple[Any, Any], ...]]
    """By stage: ids of queries and of rows that it returned without having received them, the first few."""
    segments: Mapping[str, list[StageSegment]]
    relevance: Mapping[str, Mapping[str, Mean]]
    """By `exact search` and stage: measures of judged relevance; empty without judgments."""

    @property
    def last(self) -> Score:
        """Score of the last stage, whose answers the user sees."""
        return list(self.scores.values())[-1]

    @property
    def weights(self) -> Weights | None:
        """How much each query counts; None if all count the same."""
        return self.last.weights

    def __str__(self) -> str:
        shown: str = renderer().stages_text(self)
        return shown

    def __repr__(self) -> str:
        found = self.at[self.k]
        return f"<StagedAssessment of {', '.join(self.scores)}: recall@{self.k} {found.last.recall.value}>"


def assess_stages(
    truth: Truth | Answers | Sequence[Sequence[Any]],
    stages: Mapping[str, Any],
    at: Sequence[int] | None = None,
    *,
    by: Sequence[str] = (),
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    corpus: Corpus | None = None,
    dataset: Dataset | None = None,
    row_numbers: bool = False,
    weight: str | None = None,
) -> StagedAssessment:
    """Assess the stages of a path by their lists; `recallatk.assess_stages` takes them in more forms.

    Args:
        truth: a Truth, or right answers: lists of ids, best first.
        stages: by name, first stage first: Answers, lists of ids or a matrix of ids, as in `score`.
        at: values of k. Default: the headline k of those that `score` would take for the last stage.
        by: columns to group queries by.
        qrels: relevance judgments: grades by query id and corpus id.
        corpus: the corpus, to detect unknown ids.
        dataset: corpus, queries and filters.
        row_numbers: the lists hold row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
    """
    require_stages(list(stages))
    corpus = dataset.corpus if corpus is None and dataset is not None else corpus
    wanted = wanted_measures(truth, _cutoffs(truth, stages, at), ())
    cutoffs = [each.k for each in wanted]
    truth = comparable_truth(truth, wanted, corpus, dataset)
    aligned, named = _aligned(stages, truth, corpus, row_numbers=row_numbers)
    last = list(aligned.values())[-1]
    columns = query_columns(truth, dataset, last.columns)
    weights = weights_by_query(columns, weight, len(truth))
    eligibility = None if dataset is None else dataset.eligibility
    scores = {
        name: score_aligned(each, truth, wanted, dataset=dataset, eligibility=eligibility, weights=weights)
        for name, each in aligned.items()
    }
    lists = StageLists(list(aligned), [each.rows for each in aligned.values()], truth)
    main = headline_k(cutoffs)
    assert main is not None  # noqa: S101 - at least one k is always wanted
    found = {k: lists.at(k, weights) for k in cutoffs}
    known = KnownQueries(truth, columns, None if dataset is None else dataset.queries, weights)
    groupings = [query_grouping(name, known) for name in by]
    return StagedAssessment(
        scores,
        main,
        found,
        {each.name: _named(each.added, named, corpus) for each in found[main].stages if each.added},
        {each.name: _segments(list(scores.values())[-1], found[main], each) for each in groupings},
        {} if qrels is None else _relevance(stages, aligned, truth, corpus, qrels, weights),
    )


def _cutoffs(truth: Any, stages: Mapping[str, Any], at: Sequence[int] | None) -> Sequence[int]:
    if at is not None:
        return at
    reached, _ = usual_cutoffs(truth, list(stages.values())[-1])
    return [k for k in [headline_k(reached)] if k is not None]


def _aligned(
    stages: Mapping[str, Any], truth: Truth, corpus: Corpus | None, *, row_numbers: bool
) -> tuple[dict[str, Aligned], Truth]:
    """The lists of all stages as corpus rows, and the truth with an id for every row in them."""
    found = {name: _align(name, each, truth, corpus, row_numbers) for name, each in stages.items()}
    if all(each.tells_unknown for each in found.values()) or truth.row_ids is None or row_numbers:
        return found, truth
    # An id outside the truth has a number within one file only, and stages are compared by number.
    shared = replace(truth, row_ids=_all_ids(truth.row_ids, stages.values()))
    found = {name: _align(name, each, shared, corpus, row_numbers) for name, each in stages.items()}
    return found, shared


def _align(name: str, answers: Any, truth: Truth, corpus: Corpus | None, row_numbers: bool) -> Aligned:
    try:
        return align(answers, truth, corpus, row_numbers=row_numbers)
    except MismatchError as problem:
        raise MismatchError(f"stage {name}: {problem}") from problem


def _all_ids(known: RowIds, stages: Iterable[Any]) -> RowIds:
    """The ids of the truth and those of all stages, the latter as rows after all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [each if isinstance(each, Answers) else answers_from_lists(each) for each in stages]
    text = known.ids.cast(pa.string())
    listed = pc.unique(pa.concat_arrays([each.ids.cast(pa.string()) for each in given]).drop_null())
    further = listed.filter(pc.invert(pc.is_in(listed, value_set=text)))
    first = int(known.rows.max(initial=-1)) + 1
    rows = np.concatenate([known.rows, np.arange(first, first + len(further))])
    return RowIds(rows, pa.concat_arrays([text, further]))


def _named(added: AddedRows, truth: Truth, corpus: Corpus | None) -> tuple[tuple[Any, Any], ...]:
    """The user's ids of some added rows; rows whose id is not known keep their number."""
    import pyarrow as pa

    if not added.some:
        return ()
    queries, rows = np.array(added.some).T
    asked = numbers_as_ids(0, len(truth)) if truth.query_ids is None else truth.query_ids
    known = truth.corpus_ids if corpus is None else corpus.ids
    ids = truth.ids_of(rows) if known is None else known.take(pa.array(rows))
    return tuple(
        (query, row if name is None else name)
        for query, row, name in zip(
            asked.take(pa.array(queries)).to_pylist(), rows.tolist(), ids.to_pylist(), strict=True
        )
    )


def _segments(last: Score, found: StagedRecall, grouping: Grouping) -> list[StageSegment]:
    name = f"recall@{found.k}"
    weights = None if last.weights is None else last.weights.values
    parts = []
    for each in segments(last, grouping, [name]):
        inside = grouping.labels == each.name
        counts = None if weights is None else weights[inside]
        lost = {stage: mean_of_values(values[inside], weights=counts) for stage, values in found.lost.items()}
        parts.append(StageSegment(each.name, each.queries, each.measures[name], lost))
    return parts


def _relevance(
    stages: Mapping[str, Any],
    aligned: Mapping[str, Aligned],
    truth: Truth,
    corpus: Corpus | None,
    qrels: Mapping[str, Mapping[str, int]],
    weights: Weights | None,
) -> dict[str, Mapping[str, Mean]]:
    """Relevance of the exact ranking, if the truth is deep enough for it, and of every stage."""
    judge = AnswerJudge(qrels, truth, corpus, weights)
    exact = judge.exact_means()
    found: dict[str, Mapping[str, Mean]] = {EXACT: exact} if exact else {}
    for name, answers in stages.items():
        found[name] = judge.means(answers, aligned[name])
    return found
