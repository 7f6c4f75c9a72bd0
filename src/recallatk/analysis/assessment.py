"""Assessment: measures, distribution, segments, diagnosis, relevance and comparison in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.analysis import planning
from recallatk.analysis.answer_scores import ScoreTies, score_ties
from recallatk.analysis.answers import ABSENT, PADDING, Aligned, align
from recallatk.analysis.betting import lower_bound
from recallatk.analysis.compared import Compared
from recallatk.analysis.comparison import Difference, compare
from recallatk.analysis.diagnosis import Diagnosis, deeper_measure, diagnose
from recallatk.analysis.distribution import FEWEST_RESAMPLED, Distribution, distribution, scored_values
from recallatk.analysis.headline import headline_k
from recallatk.analysis.judged_answers import AnswerJudge, JudgedAnswers
from recallatk.analysis.measures import (
    DiscountedGain,
    Measure,
    RankBiasedOverlap,
    Recall,
    ReciprocalRank,
    Robustness,
    parse_measure,
)
from recallatk.analysis.missed import MissedNeighbors, missed_neighbors, relevant_rows
from recallatk.analysis.query_groupings import KnownQueries, automatic_groupings, query_grouping
from recallatk.analysis.relevance import CUTOFF as RELEVANCE_CUTOFF
from recallatk.analysis.row_segments import RowSegments, row_groupings, segments_by_row
from recallatk.analysis.score import comparable_truth, score_aligned, usual_cutoffs, wanted_measures
from recallatk.analysis.segments import Segment, segments
from recallatk.analysis.weighting import query_columns, scored_weights, weights_by_query
from recallatk.core import Answers, Truth
from recallatk.display import renderer
from recallatk.errors import UsageError
from recallatk.ids import row_numbers as numbers_as_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.segments import Grouping
    from recallatk.core import Corpus, Dataset, FilterFacts, Mean, Score, Weights


@dataclass(frozen=True, eq=False)
class Assessment:
    """A score with its explanation: distribution, segments, diagnosis and comparison."""

    name: str
    """Name of the answers."""
    score: Score
    k: int
    """The k of segments, diagnosis and comparison."""
    distribution: Mapping[str, Distribution]
    """Distribution of recall over queries, for each k."""
    at_least: Mapping[str, float]
    """Lower bound of recall with 95 % confidence, for decisions."""
    segments: Mapping[str, list[Segment]]
    diagnosis: Diagnosis | None
    planning: str
    judged: JudgedAnswers | None = None
    """Judged relevance beside exact search and other answers; None without judgments."""
    score_ties: ScoreTies | None = None
    """Ties by score at rank k, for answers that are ordered by score."""
    differences: tuple[Difference, ...] = ()
    """Differences from other answers to the same queries."""
    rows: RowSegments | None = None
    """True neighbors found by corpus column, and rows that are lost; None unless columns were named."""
    corpus_rows: int | None = None
    """Number of rows of the corpus; None if unknown."""
    missed: MissedNeighbors | None = None
    """The missed neighbors that mattered and the others; None unless asked for."""

    @property
    def relevance(self) -> Mapping[str, Mean]:
        """Measures of judged relevance; empty without judgments."""
        return {} if self.judged is None else self.judged.means

    def __str__(self) -> str:
        shown: str = renderer().assessment_text(self)
        return shown

    def __repr__(self) -> str:
        return f"<Assessment of {self.name}: {self.score!r}>"


def assess(
    truth: Truth | Answers | Sequence[Sequence[Any]],
    answers: Any,
    at: Sequence[int] | None = None,
    *,
    measures: Sequence[Measure | str] = (),
    by: Sequence[str] = (),
    by_row: Sequence[str] = (),
    against: Sequence[Answers] = (),
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    corpus: Corpus | None = None, dataset: Dataset | None = None, row_numbers: bool = False,
    weight: str | None = None, facts: FilterFacts | None = None, missed: bool = False,
) -> Assessment:  # fmt: skip
    """Score answers and explain the score; `recallatk.assess` takes both in more forms.

    Args:
        truth: a Truth, or right answers: lists of ids, best first.
        answers: Answers, lists of ids or a matrix of ids, as in `score`.
        at: values of k for recall.
        measures: further measures.
        by: columns to group queries by, in addition to the automatic groups.
        by_row: columns of the corpus to group true neighbors by.
        against: other answers to the same queries to compare with.
        qrels: relevance judgments: grades by query id and corpus id.
        corpus: the corpus, to detect unknown ids.
        dataset: corpus, queries and filters.
        row_numbers: the answers are row numbers, even if the corpus has ids.
        weight: query column that says how much each query counts, such as its share of the traffic.
        facts: what the filters of the dataset's queries admit, to group by their correlation.
        missed: tell the missed neighbors that mattered from the others; needs the dataset or the qrels.
    """
    corpus = dataset.corpus if corpus is None and dataset is not None else corpus
    cutoffs, unreached = (at, ()) if at is not None else usual_cutoffs(truth, answers)
    wanted = _wanted(truth, cutoffs, measures)
    truth = comparable_truth(truth, wanted, corpus, dataset)
    main, aligned = _main(wanted), align(answers, truth, corpus, row_numbers=row_numbers)
    wanted += _further(main, aligned)
    columns, weights = _weighted(truth, dataset, aligned, weight)
    scored = replace(_scored(aligned, truth, wanted, dataset, weights), unreached=unreached)
    recalls = {str(each): scored.per_query[str(each)] for each in wanted if isinstance(each, Recall)}
    name = answers.name if isinstance(answers, Answers) else "answers"
    compared = {each.name: each for each in _named_apart(against, name)}
    others = {each: align(compared[each], truth, corpus, row_numbers=row_numbers) for each in compared}
    judge = None if qrels is None else AnswerJudge(qrels, truth, corpus, weights)
    return Assessment(
        name=name,
        score=scored,
        k=main,
        distribution=_distributions(recalls),
        at_least={each: _bound(scored, values) for each, values in recalls.items() if scored.scored},
        segments=_segments(scored, truth, columns, dataset, facts, by, str(Recall(main))),
        diagnosis=diagnose(scored, main),
        planning=_planning(scored, str(Recall(main))),
        judged=None if judge is None else judge.judged(name, answers, aligned, compared, others),
        score_ties=_score_ties(answers, wanted, qrels),
        corpus_rows=truth.corpus_rows if corpus is None else corpus.rows,
        differences=tuple(_differences(name, scored, others, truth, main)),
        rows=_rows(aligned, truth, main, row_groupings(corpus, by_row), weights),
        missed=_missed(aligned, truth, main, corpus, dataset, qrels, weights) if missed else None,
    )


def _distributions(recalls: Mapping[str, NDArray[np.float64]]) -> dict[str, Distribution]:
    found = {name: distribution(values) for name, values in recalls.items()}
    return {name: each for name, each in found.items() if each is not None}


def _rows(
    aligned: Aligned, truth: Truth, k: int, groupings: Sequence[Grouping], weights: Weights | None
) -> RowSegments | None:
    return segments_by_row(Compared(truth, aligned.rows), k, groupings, weights) if groupings else None


def _missed(
    aligned: Aligned,
    truth: Truth,
    k: int,
    corpus: Corpus | None,
    dataset: Dataset | None,
    qrels: Mapping[str, Mapping[str, int]] | None,
    weights: Weights | None,
) -> MissedNeighbors | None:
    """The missed neighbors that mattered; None without vectors and judgments."""
    if dataset is None and qrels is None:
        return None
    names = numbers_as_ids(0, len(truth)) if truth.query_ids is None else truth.query_ids
    relevant = None if qrels is None else relevant_rows(truth, corpus, names, qrels)
    return missed_neighbors(truth, aligned.rows, k, dataset=dataset, relevant=relevant, weights=weights)


def _weighted(
    truth: Truth, dataset: Dataset | None, aligned: Aligned, weight: str | None
) -> tuple[pa.Table | None, Weights | None]:
    """The columns of the queries, and the weights among them."""
    columns = query_columns(truth, dataset, aligned.columns)
    return columns, weights_by_query(columns, weight, len(truth))


def _planning(scored: Score, headline: str) -> str:
    """Precision that this number of queries gives; empty if there are too few to estimate the spread."""
    values, counts = _scored_values(scored, scored.per_query[headline])
    mean = scored.measures[headline]
    if len(values) < FEWEST_RESAMPLED or mean.low is None or mean.high is None:
        return ""
    return planning.in_words(values, headline, (mean.high - mean.low) / 2, counts)


def _bound(scored: Score, values: NDArray[np.float64]) -> float:
    """The lower bound to decide by."""
    there, counts = _scored_values(scored, values)
    return lower_bound(there, weights=counts)


def _wanted(truth: Any, at: Sequence[int] | None, measures: Sequence[Measure | str]) -> list[Measure]:
    asked = [parse_measure(each) if isinstance(each, str) else each for each in measures]
    recalls = wanted_measures(truth, at, ())
    main = _main(recalls)
    companions: list[Measure] = []
    if main > 1:  # for one neighbor they all equal recall@1
        companions = [
            ReciprocalRank(main),
            DiscountedGain(main),
            RankBiasedOverlap(main),
            Robustness(main, 0.9),
        ]
    return wanted_measures(truth, at, [*companions, *asked])


def _main(measures: Sequence[Measure]) -> int:
    """Headline k."""
    k = headline_k(each.k for each in measures if isinstance(each, Recall) and not each.strict)
    assert k is not None  # noqa: S101 - at least one recall is always wanted
    return k


def _further(k: int, aligned: Aligned) -> list[Measure]:
    """Measures that the diagnosis needs in addition to recall@k."""
    given = (aligned.rows != PADDING) & (aligned.rows != ABSENT)
    deeper = deeper_measure(k, given.sum(axis=1)[~aligned.missing])
    return [] if deeper is None else [deeper]


def _scored(
    aligned: Aligned,
    truth: Truth,
    wanted: list[Measure],
    dataset: Dataset | None,
    weights: Weights | None,
) -> Score:
    eligibility = None if dataset is None else dataset.eligibility
    measures = list(dict.fromkeys(wanted))
    return score_aligned(aligned, truth, measures, dataset=dataset, eligibility=eligibility, weights=weights)


def _score_ties(answers: Any, wanted: Sequence[Measure], qrels: Any) -> ScoreTies | None:
    if not isinstance(answers, Answers):
        return None
    judged = () if qrels is None else (RELEVANCE_CUTOFF,)
    return score_ties(answers, [*(each.k for each in wanted if isinstance(each, Recall)), *judged])


def _scored_values(
    scored: Score, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    return scored_values(values, None if scored.weights is None else scored.weights.values)


def _segments(
    scored: Score,
    truth: Truth,
    columns: pa.Table | None,
    dataset: Dataset | None,
    facts: FilterFacts | None,
    by: Sequence[str],
    headline: str,
) -> dict[str, list[Segment]]:
    queries = None if dataset is None else dataset.queries
    known = KnownQueries(truth, columns, queries, scored_weights(scored), facts)
    groupings = [query_grouping(name, known) for name in by] + automatic_groupings(known)
    return {each.name: segments(scored, each, [headline]) for each in groupings}


def _named_apart(against: Sequence[Answers], name: str) -> Sequence[Answers]:
    names = [name, *(each.name for each in against)]
    if len(set(names)) < len(names):
        raise UsageError(
            f"two files of answers have the same name: {', '.join(names)}. Accepted: distinct names"
        )
    return against


def _differences(
    name: str, scored: Score, others: Mapping[str, Aligned], truth: Truth, k: int
) -> list[Difference]:
    if not others:
        return []
    headline = Recall(k)
    values = {name: scored.per_query[str(headline)]}
    for other, aligned in others.items():
        values[other] = score_aligned(aligned, truth, [headline]).per_query[str(headline)]
    return compare(values, weights=None if scored.weights is None else scored.weights.values)
