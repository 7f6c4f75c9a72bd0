"""Judges of answers: how good the rows that a search returned are downstream, beside exact search."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recallatk.analysis.headline import headline_k
from recallatk.analysis.relevance import absent_ids, query_names, relevance_of_rows, unknown_documents
from recallatk.core import Caution
from recallatk.core.judged import Judged
from recallatk.errors import MismatchError
from recallatk.fingerprint import Hash
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Measurement, Truth

    Rows = NDArray[np.int64]
    Floats = NDArray[np.float64]

MEASURES = ("nDCG", "RR", "Success")


class Judge(Protocol):
    """Gives answers one or more values per query; larger is better."""

    watch: Callable[[int, int], None]
    """Called with the number of questions that are settled, and of all, by a judge that takes long."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values, distinct from those of other judges."""

    @property
    def identity(self) -> str:
        """What it judges by: two judges with the same identity give the same values."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about the values so far, as sentences without a period."""

    @property
    def complete(self) -> bool:
        """Whether it never failed; where it did, a resumed run asks it again."""

    def values(self, rows: Rows) -> dict[str, Floats]:
        """The values of (queries, k) corpus rows, best first and below 0 where there is none.

        One value per query under each name; NaN for a query that is not judged.
        """


class RelevanceJudge:
    """nDCG@k, RR@k (MRR) and Success@k by relevance judgments.

    Args:
        dataset: queries, corpus and judgments.
        k: how many rows of an answer count.
    """

    complete = True

    def __init__(self, dataset: Dataset, k: int) -> None:
        self._dataset, self._k = dataset, k
        self.watch: Callable[[int, int], None] = lambda _done, _of: None
        self.names = tuple(f"{name}@{k}" for name in MEASURES)
        qrels = dataset.qrels or {}
        asked = query_names(dataset)
        self._judged = {query: qrels[query] for query in asked if qrels.get(query)}
        self._unknown_queries = sum(bool(grades) for grades in qrels.values()) - len(self._judged)
        named = dict.fromkeys(document for grades in self._judged.values() for document in grades)
        self._documents, self._unknown = len(named), absent_ids(list(named), dataset.corpus.ids)

    @cached_property
    def identity(self) -> str:
        """The judgments of the queries, and k."""
        judged = {query: dict(sorted(grades.items())) for query, grades in sorted(self._judged.items())}
        return Hash("relevance", list(self.names), judged).text()

    @property
    def notes(self) -> tuple[str, ...]:
        """Ids in the judgments that the data do not have."""
        said = []
        if self._unknown_queries:
            count = counted(self._unknown_queries, "query that is", "queries that are")
            said.append(f"the qrels judge {count} not measured here; they count nowhere")
        missing = unknown_documents(self._judged, self._dataset.corpus.ids)
        return (*said, missing) if missing else tuple(said)

    def require_matching(self) -> None:
        """Refuse judgments of other data: of no query, or of no document of the corpus."""
        if not self._judged:
            found, wanted = next(iter(self._dataset.qrels or {}), ""), query_names(self._dataset)[:1]
            raise MismatchError(
                f"none of the {self._dataset.queries.rows:,} queries has a judgment in the qrels: query ids "
                f"there are like {found!r}, those of the queries like {', '.join(map(repr, wanted))}"
            )
        if len(self._unknown) == self._documents:
            raise MismatchError(
                f"none of the {self._documents:,} judged documents is in the corpus: ids in the qrels are "
                f"like {self._unknown[0]!r}, those of the corpus like {str(self._dataset.corpus.ids[0])!r}"
            )

    def values(self, rows: Rows) -> dict[str, Floats]:
        """The values of corpus rows; NaN for queries without judgments."""
        return relevance_of_rows(rows, self._dataset, self.names, self._k)


def judges_of(dataset: Dataset, at: Sequence[int], *, required: bool = False) -> tuple[Judge, ...]:
    """The judges that the data bring: one by relevance if they have judgments.

    Args:
        dataset: the data.
        at: cutoffs that are measured; the headline's is judged.
        required: refuse judgments that fit no query or no row, rather than leave them out. Judgments that a
            user names must fit; those that lie beside the data may belong to a part that was not sampled.
    """
    k = headline_k(at)
    if not dataset.qrels or k is None:
        return ()
    judge = RelevanceJudge(dataset, k)
    try:
        judge.require_matching()
    except MismatchError:
        if required:
            raise
        return ()
    return (judge,)


def unused_judgments(dataset: Dataset) -> tuple[Caution, ...]:
    """The caution that judgments which lie beside the data fit none of them."""
    if not dataset.qrels:
        return ()
    try:
        RelevanceJudge(dataset, 1).require_matching()
    except MismatchError as problem:
        return (Caution("judgments", f"the judgments beside the data are not used: {problem}"),)
    return ()


class Panel:
    """All judges of a run, with their values of exact search.

    Args:
        judges: the judges.
        truth: the exact ranking of the same queries.
        k: number of neighbors requested, which is as deep as exact search is judged.
    """

    def __init__(self, judges: Sequence[Judge], truth: Truth, k: int) -> None:
        self.judges, self._truth, self._k = tuple(judges), truth, k

    @cached_property
    def identity(self) -> str:
        """What all judges judge by, and the rows of exact search."""
        found = Hash("panel", [each.identity for each in self.judges])
        found.update(np.ascontiguousarray(self._truth.rows[:, : self._k]))
        return found.text()

    @cached_property
    def _exact(self) -> dict[str, Floats]:
        return self._values(self._truth.rows[:, : self._k])

    def _values(self, rows: Rows) -> dict[str, Floats]:
        return {name: values for judge in self.judges for name, values in judge.values(rows).items()}

    def judged(self, measurement: Measurement) -> Judged:
        """The values of a trial's first answers; NaN for queries that were not sent."""
        exact, values = self._exact, self._values(measurement.answers)
        sent = {name: np.where(measurement.asked, each, np.nan) for name, each in values.items()}
        whole = all(each.complete for each in self.judges)
        identity = self.identity if whole else f"{self.identity} incomplete"
        return Judged(identity, sent, exact, tuple(note for each in self.judges for note in each.notes))
