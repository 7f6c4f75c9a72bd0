"""A correct little engine that can do everything, and engines that differ from it by one fault each."""

import copy
import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from recallatk.adapters.base import Abilities, Engine
from recallatk.adapters.batch import QueryBatch, completed
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError
from recallatk.filters.eligibility import eligibility


class Little(Engine):
    """Compares everything with everything, in float64; with less effort, the first rows only."""

    name = "little"
    metrics = frozenset(Metric)
    abilities = Abilities(
        filters=True,
        updates=True,
        threads=True,
        deterministic=True,
        exact_search=True,
        clients=True,
        forks=True,
        reads_during_writes=True,
    )
    search_knobs = (Knob("percent", default=100, low=1, high=100, effort=True),)

    def __init__(self):
        self.vectors = self.deleted = self.metric = self.corpus = None
        self.percent, self.answered = 100, 0

    def build(self, corpus, metric, **parameters):
        self.corpus, self.metric, self.answered = corpus, metric, 0
        self.vectors = np.array(corpus.vectors.read(0, corpus.rows), np.float64)
        self.metadata = [corpus.metadata]
        self.deleted = np.zeros(corpus.rows, bool)

    def configure(self, **parameters):
        self.percent = parameters["percent"]

    def nearest(self, batch, k):
        return self.ranked(batch, k, -(-len(self.vectors) * self.percent // 100))

    def exact_search(self, batch, k):
        return self.ranked(batch, k, len(self.vectors))

    def ranked(self, batch, k, looked_at):
        scores = self.scores(np.asarray(batch.vectors, np.float64))
        # A writer may have added rows since.
        scores[:, self.deleted[: scores.shape[1]]] = -np.inf
        scores[:, looked_at:] = -np.inf
        if batch.filters is not None:
            scores[~self.allowed(batch.filters)] = -np.inf
        self.answered += len(scores)
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        found = np.full((len(scores), k), -1, np.int64)
        found[:, : rows.shape[1]] = np.where(np.take_along_axis(scores, rows, 1) == -np.inf, -1, rows)
        return found

    def scores(self, queries):
        vectors = self.vectors
        if self.metric is Metric.L2:
            return -np.linalg.norm(queries[:, None] - vectors[None], axis=2)
        products = queries @ vectors.T
        return products / np.linalg.norm(vectors, axis=1) if self.metric is Metric.COSINE else products

    def allowed(self, filters):
        rows = len(self.vectors)
        told = eligibility(tuple(filters), pa.concat_tables(self.metadata), None, rows)
        query, row = np.divmod(np.arange(len(filters) * rows), rows)
        return told.allowed(query, row).reshape(len(filters), rows)

    def exercised(self):
        if self.vectors is None:
            raise self.unbuilt()
        return f"{self.answered} queries compared with {len(self.vectors)} rows"

    def insert(self, vectors, metadata=None):
        self.metadata.append(completed(metadata, self.metadata[0].schema, len(vectors)))
        self.deleted = np.concatenate([self.deleted, np.zeros(len(vectors), bool)])
        self.vectors = np.concatenate([self.vectors, np.asarray(vectors, np.float64)])

    def delete(self, rows):
        self.deleted[rows] = True

    def size_bytes(self):
        return self.vectors.nbytes

    def close(self):
        self.vectors = None


class OnlyCosine(Little):
    """As correct, and refuses what it does not declare."""

    metrics = frozenset([Metric.COSINE])

    def build(self, corpus, metric, **parameters):
        if metric not in self.metrics:
            raise EngineError(f"little does not support the metric {metric}")
        super().build(corpus, metric, **parameters)


class Modest(Little):
    """As correct, and says of itself that it can do little."""

    abilities = dataclasses.replace(Little.abilities, threads=False, forks=False, reads_during_writes=False)
    search_knobs = ()

    def configure(self, **parameters):
        pass


CAUGHT = {}


def caught_by(test):
    """The test of the contract that has to fail."""
    return lambda kind: CAUGHT.setdefault(kind, test) and kind


@caught_by("test_declarations_are_sound")
class DefaultOutOfRange(Little):
    search_knobs = (Knob("percent", default=100, low=1, high=50, effort=True),)


@caught_by("test_it_says_its_version_and_size")
class NoSize(Little):
    def size_bytes(self):
        return 0


@caught_by("test_answers_have_their_shape_and_type")
class Int32(Little):
    def nearest(self, batch, k):
        return super().nearest(batch, k).astype(np.int32)


@caught_by("test_rows_are_known_and_distinct")
class DuplicateIds(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        found[:, -1] = found[:, 0]
        return found


@caught_by("test_a_query_alone_is_answered_as_in_a_batch")
class DependsOnTheBatch(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        found[-1] = found[0]
        return found


@caught_by("test_at_full_effort_it_agrees_with_exact_search")
class IgnoresTheMetric(Little):
    def build(self, corpus, metric, **parameters):
        super().build(corpus, Metric.L2, **parameters)


@caught_by("test_more_effort_does_not_cost_recall")
class EffortThatLies(Little):
    def configure(self, **parameters):
        self.percent = 101 - parameters["percent"]


@caught_by("test_the_best_row_comes_first")
class OffByOneRows(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        return np.where(found < 0, found, (found + 1) % len(self.vectors))


@caught_by("test_more_neighbours_than_rows_are_padded_at_the_end")
class PaddingInFront(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        return np.take_along_axis(found, np.argsort(found >= 0, axis=1, kind="stable"), 1)


@caught_by("test_one_neighbour_and_one_row")
class NeedsTwoRows(Little):
    def build(self, corpus, metric, **parameters):
        if corpus.rows < 2:
            raise EngineError("little: it needs two rows")
        super().build(corpus, metric, **parameters)


@caught_by("test_float16_and_int8_corpora")
class ComparesInTheStoredType(Little):
    def scores(self, queries):
        dtype = self.corpus.vectors.dtype
        return -np.square(queries.astype(dtype)[:, None] - self.vectors.astype(dtype)).sum(-1, float)


@caught_by("test_ids_may_be_strings_numbers_or_missing")
class ReturnsIds(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        ids = self.corpus.ids
        return found if isinstance(ids[0].as_py(), str) else ids.to_numpy()[found]


@caught_by("test_building_again_forgets")
class ForgetsNothing(Little):
    def build(self, corpus, metric, **parameters):
        before = self.vectors
        super().build(corpus, metric, **parameters)
        if before is not None:
            self.insert(before)


@caught_by("test_two_engines_do_not_disturb_each_other")
class SharesItsRows(Little):
    shared = None

    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, **parameters)
        SharesItsRows.shared = self.vectors

    def scores(self, queries):
        self.vectors = SharesItsRows.shared
        return super().scores(queries)

    def close(self):
        SharesItsRows.shared = self.vectors = None


@caught_by("test_inputs_are_left_alone")
class ScalesTheQueries(Little):
    def nearest(self, batch, k):
        batch.vectors *= 1
        return super().nearest(batch, k)


@caught_by("test_inputs_are_left_alone")
class ScalesTheCorpus(Little):
    def build(self, corpus, metric, **parameters):
        rows = corpus.vectors.read(0, corpus.rows)
        super().build(corpus, metric, **parameters)
        rows += 1


@caught_by("test_closing_twice_is_harmless")
class ClosesOnce(Little):
    def close(self):
        if self.vectors is None:
            raise EngineError("little: it is closed")
        super().close()


@caught_by("test_it_shows_that_its_index_answered")
class AlwaysExercised(Little):
    def exercised(self):
        return "it surely did"


@caught_by("test_threads_change_no_answer")
class ThreadsLoseRows(Little):
    def set_threads(self, count):
        self.percent = 100 // count


@caught_by("test_a_client_searches_while_rows_come_and_go")
class NamesRowsToCome(Little):
    """A writer and its clients share a list, which copies of the engine keep."""

    def __init__(self):
        super().__init__()
        self.writing = []

    def insert(self, vectors, metadata=None):
        self.writing.append(len(vectors))
        time.sleep(0.05)
        self.writing.clear()
        super().insert(vectors, metadata)

    def nearest(self, batch, k):
        return super().nearest(batch, k) + 10**6 * len(self.writing)


@caught_by("test_filters_are_kept_or_refused")
class IgnoresFilters(Little):
    def nearest(self, batch, k):
        return super().nearest(QueryBatch(batch.vectors), k)


@caught_by("test_filters_are_kept_or_refused")
class FiltersAfterwards(Little):
    def nearest(self, batch, k):
        found = super().nearest(QueryBatch(batch.vectors), k)
        if batch.filters is None:
            return found
        kept = np.take_along_axis(self.allowed(batch.filters), found, 1)
        return np.where(kept, found, -1)


@caught_by("test_filters_are_kept_or_refused")
class RefusesNoFilters(IgnoresFilters):
    abilities = Abilities(updates=True, threads=True, exact_search=True)

    def search(self, batch, k):
        return self.nearest(batch, k)


@caught_by("test_exact_search_is_exact_or_refused")
class ExactSearchIsNot(Little):
    def exact_search(self, batch, k):
        return self.ranked(batch, k, len(self.vectors) // 2)


@caught_by("test_inserted_and_deleted_rows_are_seen_or_refused")
class InsertsAreNotSeen(Little):
    def insert(self, vectors, metadata=None):
        pass


@caught_by("test_inserted_and_deleted_rows_are_seen_or_refused")
class DeletesAreNotSeen(Little):
    def delete(self, rows):
        pass


@caught_by("test_two_engines_do_not_disturb_each_other")
class SharesItsRowsForGood(SharesItsRows):
    def scores(self, queries):
        self.vectors = SharesItsRows.shared
        self.deleted = np.zeros(len(self.vectors), bool)
        return Little.scores(self, queries)

    def close(self):
        self.vectors = None


@caught_by("test_it_shows_that_its_index_answered")
class EvidenceOutlivesTheIndex(Little):
    def exercised(self):
        if self.corpus is None:
            raise self.unbuilt()
        return f"{self.answered} queries compared with {self.corpus.rows} rows"


@caught_by("test_it_shows_that_its_index_answered")
class NoEvidenceBeforeASearch(Little):
    def exercised(self):
        if not self.answered:
            raise EngineError("little: nothing was searched yet")
        return super().exercised()


@caught_by("test_it_says_what_a_call_is_and_where_its_index_lives")
class SaysNothingOfItsCalls(Little):
    def call(self):
        return ""


@caught_by("test_declarations_are_sound")
class ForksWithoutClients(Little):
    abilities = dataclasses.replace(Little.abilities, clients=False)


@caught_by("test_clients_search_at_the_same_time_or_are_refused")
class ClientsMixTheirQueries(Little):
    """The query stands where every thread writes it."""

    asked = None

    def scores(self, queries):
        self.asked = queries
        time.sleep(0.0001)
        return super().scores(self.asked)


@caught_by("test_clients_search_at_the_same_time_or_are_refused")
class ClientsCloseTheIndex(Little):
    def client(self):
        other = copy.copy(self)
        other.close = self.close
        return other


@caught_by("test_clients_search_at_the_same_time_or_are_refused")
class ClientsAreNotConfigured(Little):
    def client(self):
        other = copy.copy(self)
        other.configure(percent=1)
        return other


@caught_by("test_clients_search_at_the_same_time_or_are_refused")
class RefusesNoClients(Little):
    abilities = dataclasses.replace(Little.abilities, clients=False, forks=False)

    def client(self):
        return self


@caught_by("test_a_forked_copy_searches_on")
class BoundToItsProcess(Little):
    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, **parameters)
        self.process = os.getpid()

    def nearest(self, batch, k):
        if os.getpid() != self.process:
            raise EngineError("little: this is another process")
        return super().nearest(batch, k)


@caught_by("test_a_forked_copy_searches_on")
class WaitsForItsThread(Little):
    """A thread of its own answers, which a forked copy does not have."""

    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, **parameters)
        self.worker = self.worker or ThreadPoolExecutor(1)

    worker = None

    def nearest(self, batch, k):
        return self.worker.submit(super().nearest, batch, k).result()


@caught_by("test_a_forked_copy_searches_on")
class ForksLoseRows(Little):
    def build(self, corpus, metric, **parameters):
        super().build(corpus, metric, **parameters)
        self.process = os.getpid()

    def client(self):
        other = copy.copy(self)
        other.percent = 100 if os.getpid() == self.process else 10
        return other


@caught_by("test_inserted_and_deleted_rows_are_seen_or_refused")
class RenumbersAfterDeletes(Little):
    def delete(self, rows):
        self.vectors = np.delete(self.vectors, rows, axis=0)
        self.deleted = np.delete(self.deleted, rows)


@caught_by("test_exact_search_is_exact_or_refused")
class ExactSearchByL2(Little):
    def exact_search(self, batch, k):
        self.metric = Metric.L2
        return super().exact_search(batch, k)


@caught_by("test_filters_are_kept_or_refused")
class PadsFiltersWithOthers(Little):
    def nearest(self, batch, k):
        found = super().nearest(batch, k)
        others = super().nearest(QueryBatch(batch.vectors), k)
        return found if batch.filters is None else np.where(found < 0, others, found)


@caught_by("test_attaching_is_the_build_of_an_engine_that_attaches_or_is_refused")
class AttachesUnannounced(Little):
    def attach(self, corpus, metric, **parameters):
        self.build(corpus, metric, **parameters)


@caught_by("test_maintenance_keeps_rows_and_their_numbers")
class MaintenanceRenumbers(Little):
    def maintain(self):
        self.vectors, self.deleted = self.vectors[~self.deleted], np.zeros((~self.deleted).sum(), bool)


@caught_by("test_inserted_metadata_is_what_filters_see")
class LosesInsertedMetadata(Little):
    def insert(self, vectors, metadata=None):
        super().insert(vectors)


@caught_by("test_each_filter_is_answered_or_refused_with_its_reason")
class RefusesInWordsOnly(Little):
    def refusal(self, condition):
        return "little dislikes it" if "word" in condition.columns() else None


@caught_by("test_each_filter_is_answered_or_refused_with_its_reason")
class AcceptsWhatItCannotDo(Little):
    def nearest(self, batch, k):
        if any(each and "flag" in each.columns() for each in batch.filters or ()):
            raise EngineError("little: it has no booleans")
        return super().nearest(batch, k)
