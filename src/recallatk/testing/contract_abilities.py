"""Contract tests of abilities: an engine supports every declared ability, and refuses all others."""

# ruff: noqa: S101 - it is a suite of tests that ships

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recallatk.adapters.base import resolved
from recallatk.errors import EngineError, RecallError
from recallatk.filters import parse_filter
from recallatk.testing.clients import (
    answers_alone,
    answers_during_writes,
    answers_of_a_fork,
    answers_of_threads,
    can_fork,
)
from recallatk.testing.contract_ground import (
    QUERIES,
    ROWS,
    TYPED_FILTERS,
    ContractGround,
    K,
    agreement,
    batch_of,
    configure,
    recall,
    typed,
    vectors_of,
)


class AbilitiesContract(ContractGround):
    """Filters, updates, maintenance, attaching, exact search, threads, clients and forks."""

    def test_threads_change_no_answer(self, making: Any) -> None:
        if not self.kind().abilities.threads:
            pytest.skip("abilities.threads is False: the engine does not control its threads")
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        engine.set_threads(1)
        before = engine.search(batch_of(dataset), K)
        engine.set_threads(2)
        assert agreement(engine.search(batch_of(dataset), K), before) >= 0.99

    def test_clients_search_at_the_same_time_or_are_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        if not self.kind().abilities.clients:
            with pytest.raises(EngineError, match="cannot serve several clients at once"):
                engine.client()
            return
        engine.set_threads(1)
        alone = answers_alone(engine, vectors_of(dataset))
        assert (answers_of_threads(engine, vectors_of(dataset)) == alone).all()
        assert (answers_alone(engine, vectors_of(dataset)) == alone).all(), (
            "closing a client must not close its engine"
        )

    def test_a_forked_copy_searches_on(self, making: Any) -> None:
        if not self.kind().abilities.forks:
            pytest.skip("abilities.forks is False: the engine does not claim to survive a fork")
        if not can_fork():
            pytest.skip("clients are forked on Linux only")
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        engine.set_threads(2)  # as for a build or a batch search
        engine.search(batch_of(dataset), K)
        engine.set_threads(1)
        alone = answers_alone(engine, vectors_of(dataset))
        assert (answers_of_a_fork(engine, vectors_of(dataset)) == alone).all()
        assert (answers_alone(engine, vectors_of(dataset)) == alone).all(), (
            "closing a client must not close its engine"
        )

    def test_filters_are_kept_or_refused(self, making: Any) -> None:
        dataset = self.data()
        texts = ["size < 20", "category = 'group-1' and size >= 5", "size = 3", "size < 0"]
        filters = [None, *map(parse_filter, texts)] * QUERIES
        filters = filters[:QUERIES]
        asked = dataclasses.replace(dataset.queries, filters=tuple(filters))
        dataset = dataclasses.replace(dataset, queries=asked)
        engine = making(dataset, **self.most(dataset))
        if not self.kind().abilities.filters:
            with pytest.raises(EngineError, match="cannot filter"):
                engine.search(batch_of(dataset, filters), K)
            return
        found = engine.search(batch_of(dataset, filters), K)
        query, column = np.nonzero(found >= 0)
        assert dataset.eligibility.allowed(query, found[query, column]).all()
        assert recall(found, dataset) >= 0.95

    def test_each_filter_is_answered_or_refused_with_its_reason(self, making: Any) -> None:
        dataset = typed(self.data())
        engine = making(dataset, **self.most(dataset))
        accepted = []
        for condition in map(parse_filter, TYPED_FILTERS):
            reason = engine.refusal(condition)
            if reason is None:
                accepted.append(condition)
                continue
            assert isinstance(reason, str), f"'{condition}': a reason is text"
            assert reason, f"'{condition}': a refusal needs a reason"
            with pytest.raises(RecallError):
                engine.search(batch_of(dataset, [condition] * QUERIES), K)
        if not accepted:
            assert not self.kind().abilities.filters, "abilities.filters is True, and every filter is refused"
            return
        for start in range(0, len(accepted), QUERIES):
            filters = (accepted[start : start + QUERIES] * QUERIES)[:QUERIES]
            asked = dataclasses.replace(dataset.queries, filters=tuple(filters))
            narrowed = dataclasses.replace(dataset, queries=asked)
            found = engine.search(batch_of(narrowed, filters), K)
            query, column = np.nonzero(found >= 0)
            allowed = narrowed.eligibility.allowed(query, found[query, column])
            assert allowed.all(), f"'{filters[query[~allowed][0]]}' returns rows that it excludes"
            assert recall(found, narrowed) >= 0.95

    def test_exact_search_is_exact_or_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset)
        if not self.kind().abilities.exact_search:
            with pytest.raises(EngineError, match="cannot search exactly"):
                engine.exact_search(batch_of(dataset), K)
            return
        for metric in sorted(self.kind().metrics):
            dataset = self.data(metric=metric)
            engine = making(dataset)
            assert recall(engine.exact_search(batch_of(dataset), K), dataset) >= 0.999, metric

    def test_attaching_is_the_build_of_an_engine_that_attaches_or_is_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        built = resolved(engine.name, engine.build_knobs, self.build)
        if not self.kind().abilities.attaches:
            with pytest.raises(EngineError, match="cannot attach"):
                engine.attach(dataset.corpus, dataset.metric, **built)
            return
        before = engine.search(batch_of(dataset), K)
        engine.attach(dataset.corpus, dataset.metric, **built)
        configure(engine, self.most(dataset))
        assert (engine.search(batch_of(dataset), K) == before).all()

    def test_inserted_and_deleted_rows_are_seen_or_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        if not self.kind().abilities.updates:
            with pytest.raises(EngineError, match="cannot insert"):
                engine.insert(vectors_of(dataset))
            with pytest.raises(EngineError, match="cannot delete"):
                engine.delete(np.arange(1))
            return
        before = engine.search(batch_of(dataset), K)
        engine.insert(vectors_of(dataset))
        found = engine.search(batch_of(dataset), K)
        inserted = np.arange(ROWS, ROWS + QUERIES)
        assert (found == inserted[:, None]).any(axis=1).mean() >= 0.95
        engine.delete(inserted)
        assert agreement(engine.search(batch_of(dataset), K), before) >= 0.95
        engine.delete(np.arange(10))
        after = engine.search(batch_of(dataset), K)
        assert not np.isin(after, np.arange(10)).any()
        assert np.isin(before[before >= 10], after).mean() >= 0.95, "deletes must not renumber other rows"

    def test_a_client_searches_while_rows_come_and_go(self, making: Any) -> None:
        if not self.kind().abilities.reads_during_writes:
            pytest.skip("abilities.reads_during_writes is False: searches during writes cannot be measured")
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        found, inserted = answers_during_writes(engine, vectors_of(dataset), ROWS)
        assert found.min() >= 0
        assert found.max() < ROWS + inserted, "an answer names a row that never existed"

    def test_maintenance_keeps_rows_and_their_numbers(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        if self.kind().abilities.updates:
            engine.insert(vectors_of(dataset))
            engine.delete(np.arange(ROWS, ROWS + QUERIES))
        before = engine.search(batch_of(dataset), K)
        engine.maintain()
        assert agreement(engine.search(batch_of(dataset), K), before) >= 0.95
        if self.kind().abilities.updates:
            engine.insert(vectors_of(dataset))
            again = np.arange(ROWS + QUERIES, ROWS + 2 * QUERIES)
            found = engine.search(batch_of(dataset), K)
            assert (found == again[:, None]).any(axis=1).mean() >= 0.95, "row numbers must not be reused"

    def test_inserted_metadata_is_what_filters_see(self, making: Any) -> None:
        dataset, abilities = self.data(), self.kind().abilities
        if not abilities.updates or not abilities.filters:
            pytest.skip(
                "abilities.updates or abilities.filters is False: filters over inserted rows cannot be tested"
            )
        engine = making(dataset, **self.most(dataset))
        named, other = ["new"] * (QUERIES - 1) + ["old"], [None] * QUERIES
        metadata = pa.table({"category": named, "unknown to the corpus": other})
        engine.insert(vectors_of(dataset), metadata)
        found = engine.search(batch_of(dataset, [parse_filter("category = 'new'")] * QUERIES), QUERIES)
        assert set(found.ravel().tolist()) == {-1, *range(ROWS, ROWS + QUERIES - 1)}
        unset = engine.search(batch_of(dataset, [parse_filter("size >= 0")] * QUERIES), K)
        assert unset.max() < ROWS, "missing columns must be null"
