"""Reranking: the exact order by whole vectors, or the order that a function of the user gives."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.adapters.callable import found_function, raised_at
from recallatk.core import Metric
from recallatk.errors import EngineError, kind_of
from recallatk.pair_scores import norms, pair_scores
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.core import Corpus
    from recallatk.pipeline.path import Rerank


class ExactOrder:
    """Scores and order by whole vectors in float64, as ground truth has them."""

    def __init__(self, corpus: Corpus, metric: Metric) -> None:
        whole = corpus.vectors.read(0, corpus.rows)
        # A mapped file would not count as memory of the path, which has to hold its vectors somewhere.
        self.vectors = np.array(whole) if isinstance(whole, np.memmap) else np.asarray(whole)
        self.metric = metric
        self.norms = norms(self.vectors) if metric is Metric.COSINE else None

    def scores(self, queries: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Score of each row for its query, (queries, width); NaN for padding."""
        found = np.full(rows.shape, np.nan)
        known = rows >= 0
        place, _ = np.nonzero(known)
        if not len(place):
            return found
        listed = rows[known]
        values = pair_scores(self.metric, queries, place, self.vectors, listed)
        if self.norms is not None:
            values /= norms(queries)[place] * self.norms[listed]
        found[known] = values
        return found

    def order(self, queries: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of each query from best to worst; ties by row, padding last."""
        scores = self.scores(queries, rows)
        keys = scores if self.metric is Metric.L2 else -scores
        ordered = np.lexsort((rows, keys), axis=1)
        return np.take_along_axis(rows, ordered, axis=1)


class RerankQuery(NamedTuple):
    """The query that a reranking function gets."""

    row: int | None
    """Its number in the query set."""
    text: str | None
    vector: NDArray[Any]


class RerankCandidate(NamedTuple):
    """A row that a reranking function has to place; a tuple, because a call makes a hundred of them."""

    id: Any
    """The user's id, or the row number if there are none."""
    rank: int
    """Its place so far, from 1."""
    text: str | None


class FunctionOrder:
    """The order of a function `rerank(query, candidates)`.

    It returns one score per candidate, higher is better; or a mapping from ids to scores; or candidates or
    text ids in their new order.
    """

    def __init__(self, path: str, stage: Rerank, corpus: Corpus, column: str | None) -> None:
        self.path, self.stage = path, stage
        self.function: Callable[..., Any] = self._found(stage.by) if isinstance(stage.by, str) else stage.by
        self.ids = None if corpus.id_column is None else corpus.ids.to_pylist()
        self.texts: list[str | None] | None = None
        if column is not None:
            self.texts = corpus.columns.read([column], 0, corpus.rows)[column].to_pylist()

    def _found(self, name: str) -> Callable[..., Any]:
        try:
            return found_function(f"{self.path}: stage {self.stage.name}", name)
        except EngineError as problem:
            module = name.partition(":")[0]
            hint = f"Correct rerank = {name!r}, or put {module}.py into the current folder"
            raise EngineError(f"{problem}. {hint}") from problem

    def order(self, batch: QueryBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of each query in the order of the function; padding last."""
        found = np.full_like(rows, -1)
        for place, line in enumerate(rows):
            known = line[line >= 0]
            if len(known):
                ordered = self._ordered(batch, place, known)
                found[place, : len(ordered)] = ordered
        return found

    def _ordered(self, batch: QueryBatch, place: int, known: NDArray[np.int64]) -> NDArray[np.int64]:
        query = RerankQuery(
            None if batch.rows is None else int(batch.rows[place]),
            None if batch.texts is None else batch.texts[place],
            batch.vectors[place],
        )
        candidates = [
            RerankCandidate(
                row if self.ids is None else self.ids[row],
                rank,
                None if self.texts is None else self.texts[row],
            )
            for rank, row in enumerate(known.tolist(), 1)
        ]
        try:
            with _within(self.stage.timeout):
                returned = self.function(query, candidates)
        except _OverdueError:
            hint = f"Make it faster, or raise timeout = {self.stage.timeout:g}"
            raise self._refused(query, f"it took longer than {self.stage.timeout:g} s. {hint}") from None
        except (Exception, SystemExit) as problem:
            said = f"it raised {type(problem).__name__}: {problem}{raised_at(problem)}. Correct the function"
            raise self._refused(query, said) from problem
        return known[self._places(query, candidates, returned)]

    def _places(
        self, query: RerankQuery, candidates: list[RerankCandidate], returned: Any
    ) -> NDArray[np.int64]:
        """The places of the candidates in their new order, from what the function returned."""
        plain = returned.tolist() if hasattr(returned, "tolist") else returned
        if isinstance(plain, Mapping):
            self._require_given(query, candidates, plain)
            missing = [each.id for each in candidates if each.id not in plain]
            if missing:
                raise self._refused(query, f"it left out candidate {missing[0]!r}. Score every candidate")
            plain = [plain[each.id] for each in candidates]
        if not isinstance(plain, list | tuple):
            raise self._refused(query, f"it returned {kind_of(returned)}. Return one score per candidate")
        if plain and all(isinstance(each, str | RerankCandidate) for each in plain):
            return self._listed(query, candidates, plain)
        if len(plain) != len(candidates):
            scores = counted(len(plain), "score", "scores")
            given = counted(len(candidates), "candidate", "candidates")
            raise self._refused(query, f"it returned {scores} for {given}. Return one score per candidate")
        whole = len(plain) > 1 and all(type(each) is int for each in plain)
        if whole and set(plain) == {each.id for each in candidates}:
            # Whole numbers cannot be told from scores, and ids are no scores that anyone means.
            raise self._refused(
                query,
                "it returned the ids, which as numbers are scores. Return candidates in their new order",
            )
        try:
            values = np.array(plain, np.float64).reshape(len(candidates))
        except (TypeError, ValueError):
            raise self._refused(query, f"it returned {plain[0]!r:.40} as a score. Return numbers") from None
        if np.isnan(values).any():
            worst = candidates[int(np.isnan(values).argmax())].id
            raise self._refused(query, f"the score of candidate {worst!r} is NaN. Return numbers")
        return np.argsort(-values, kind="stable")

    def _listed(
        self, query: RerankQuery, candidates: list[RerankCandidate], returned: list[Any] | tuple[Any, ...]
    ) -> NDArray[np.int64]:
        """Candidates or ids in their new order; those left out follow in their old order."""
        ids = [each.id if isinstance(each, RerankCandidate) else each for each in returned]
        self._require_given(query, candidates, ids)
        places = {str(each.id): place for place, each in enumerate(candidates)}
        first = dict.fromkeys(places[str(each)] for each in ids)
        return np.array([*first, *(each for each in range(len(candidates)) if each not in first)], np.int64)

    def _require_given(self, query: RerankQuery, candidates: list[RerankCandidate], ids: Any) -> None:
        given = {str(each.id) for each in candidates}
        strangers = [each for each in ids if str(each) not in given]
        if strangers:
            said = f"it returned the id {strangers[0]!r:.60}, which is not a candidate"
            raise self._refused(query, f"{said}. Return only ids that it was given")

    def _refused(self, query: RerankQuery, said: str) -> EngineError:
        number = "" if query.row is None else f", query {query.row}"
        name = (
            self.stage.by
            if isinstance(self.stage.by, str)
            else getattr(self.stage.by, "__name__", "function")
        )
        return EngineError(f"{self.path}: stage {self.stage.name} ({name}){number}: {said}")


class _OverdueError(BaseException):
    """The time of one call is over; no `except Exception` of the user's code catches it."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Interrupt the block after this time; only the main thread of a system with timers can."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise _OverdueError

    before = signal.signal(signal.SIGALRM, ring)
    started = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            # The program has a timer of its own, which goes on as if nothing had happened.
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, left - (time.monotonic() - started)), interval)
