"""EngineContract: the tests that every engine must pass, ours and third parties'.

    from recallatk.testing import EngineContract

    class TestMine(EngineContract):
        engine = "mine"

pytest collects the rest. An engine must refuse what it does not declare. Known failures are listed in `gaps`,
and reported when they no longer fail.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from recallatk.adapters import QueryBatch
from recallatk.adapters.base import require_metric, resolved
from recallatk.core import Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.testing.contract_abilities import AbilitiesContract
from recallatk.testing.contract_ground import (
    QUERIES,
    ROWS,
    K,
    agreement,
    batch_of,
    configure,
    fits,
    rebuild,
    recall,
    vectors_of,
)


class EngineContract(AbilitiesContract):
    """Subclass it and name the engine; `build`, `full_effort` and `gaps` adapt the tests to it."""

    # Declarations

    def test_declarations_are_sound(self) -> None:
        kind = self.kind()
        knobs = [*kind.build_knobs, *kind.search_knobs]
        assert kind.name
        assert kind.metrics <= frozenset(Metric)
        assert len({knob.name for knob in knobs}) == len(knobs), "two knobs have the same name"
        for knob in knobs:
            assert knob.accepts(knob.default), f"{knob.name}: the default is not an accepted value"
            assert knob.scale in ("log", "linear")
        assert kind.abilities.clients or not kind.abilities.forks, "abilities.forks needs abilities.clients"

    def test_unknown_parameters_are_refused(self) -> None:
        kind = self.kind()
        for knobs in (kind.build_knobs, kind.search_knobs):
            with pytest.raises(UsageError, match="no parameter 'no such knob'"):
                resolved(kind.name, knobs, {"no such knob": 1})

    def test_metrics_that_it_does_not_have_are_refused(self) -> None:
        for metric in Metric:
            if metric in self.kind().metrics:
                require_metric(self.kind(), metric)
                continue
            with pytest.raises(EngineError, match=f"does not support the metric {metric}"):
                require_metric(self.kind(), metric)

    def test_it_says_its_version_and_size(self, making: Any) -> None:
        engine = making(self.data())
        assert engine.version() is None or isinstance(engine.version(), str)
        for size in (engine.size_bytes(), engine.memory_bytes()):
            assert size is None or size > 0

    def test_it_says_what_a_call_is_and_where_its_index_lives(self, making: Any) -> None:
        engine = making(self.data())
        assert isinstance(engine.call(), str)
        assert engine.call()
        assert isinstance(engine.in_process(), bool)

    # Answers

    def test_answers_have_their_shape_and_type(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        for count in (1, QUERIES):
            found = engine.search(QueryBatch(vectors_of(dataset)[:count]), K)
            assert isinstance(found, np.ndarray)
            assert found.dtype == np.int64
            assert found.shape == (count, K)

    def test_rows_are_known_and_distinct(self, making: Any) -> None:
        dataset = self.data(duplicates=40)
        found = making(dataset, **self.most(dataset)).search(batch_of(dataset), K)
        assert found.min() >= 0
        assert found.max() < ROWS
        assert all(len(set(line)) == K for line in found.tolist())

    def test_a_query_alone_is_answered_as_in_a_batch(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        together = engine.search(batch_of(dataset), K)
        alone = np.concatenate([engine.search(QueryBatch(each[None]), K) for each in vectors_of(dataset)])
        assert agreement(together, alone) >= 0.99

    def test_at_full_effort_it_agrees_with_exact_search(self, making: Any) -> None:
        for metric in sorted(self.kind().metrics):
            dataset = self.data(metric=metric)
            found = making(dataset, **self.most(dataset)).search(batch_of(dataset), K)
            assert recall(found, dataset) >= 0.99, metric

    def test_more_effort_does_not_cost_recall(self, making: Any) -> None:
        knobs = [knob for knob in self.kind().search_knobs if knob.effort]
        if not knobs:
            pytest.skip("no search knob is marked as effort")
        dataset = self.data()
        most = self.most(dataset)
        engine = making(dataset, **most)
        for knob in knobs:
            top = most[knob.name]
            recalls = []
            for share in (0.01, 0.1, 0.5, 1.0):
                value = knob.plain(max(knob.low, top * share))
                if fits(self.kind(), dataset, {**self.build, **most, knob.name: value}):
                    configure(engine, {**most, knob.name: value})
                    recalls.append(recall(engine.search(batch_of(dataset), K), dataset))
            assert recalls == sorted(recalls) or max(recalls) - recalls[-1] <= 0.02, (knob.name, recalls)

    def test_the_best_row_comes_first(self, making: Any) -> None:
        metric = next((each for each in (Metric.L2, Metric.COSINE) if each in self.kind().metrics), None)
        if metric is None:
            pytest.skip("with inner product, a row need not be its own nearest neighbor")
        dataset = self.data(metric=metric)
        rows = dataset.corpus.vectors.read(0, QUERIES)
        dataset = open_dataset(dataset.corpus, make_queries(rows), metric=metric)
        found = making(dataset, **self.most(dataset)).search(QueryBatch(rows), K)
        assert (found[:, 0] == np.arange(QUERIES)).mean() >= 0.99

    # Odd data

    def test_more_neighbours_than_rows_are_padded_at_the_end(self, making: Any) -> None:
        dataset = self.data(rows=5)
        found = making(dataset, **self.most(dataset)).search(batch_of(dataset), K)
        assert found.shape[1] <= K
        assert all(sorted(line[:5]) == list(range(5)) and set(line[5:]) <= {-1} for line in found.tolist())

    def test_one_neighbour_and_one_row(self, making: Any) -> None:
        dataset = self.data()
        assert making(dataset, **self.most(dataset)).search(batch_of(dataset), 1).shape == (QUERIES, 1)
        single = self.data(rows=1)
        assert (making(single).search(batch_of(single), 1) == 0).all()

    def test_float16_and_int8_corpora(self, making: Any) -> None:
        for dtype in ("float16", "int8"):
            dataset = self.data(dtype=dtype)
            found = making(dataset, **self.most(dataset)).search(batch_of(dataset), K)
            assert recall(found, dataset) >= 0.95, dtype

    def test_ids_may_be_strings_numbers_or_missing(self, making: Any) -> None:
        vectors = self.data().corpus.vectors.read(0, ROWS)
        for ids in (None, [f"ключ {row}" for row in range(ROWS)], list(range(10_000, 10_000 + ROWS))):
            dataset = self.data()
            dataset = dataclasses.replace(dataset, corpus=make_corpus(vectors, ids))
            found = making(dataset, **self.most(dataset)).search(batch_of(dataset), K)
            assert recall(found, dataset) >= 0.95

    # Behavior

    def test_building_again_forgets(self, making: Any) -> None:
        first, second = self.data(), self.data(rows=60, seed=1)
        engine = making(first)
        rebuild(engine, second, self.build, self.most(second))
        found = engine.search(batch_of(second), K)
        assert found.max() < 60
        assert recall(found, second) >= 0.95

    def test_two_engines_do_not_disturb_each_other(self, making: Any) -> None:
        first, second = self.data(), self.data(rows=80, seed=1)
        one = making(first, **self.most(first))
        before = one.search(batch_of(first), K)
        other = making(second, **self.most(second))
        other.search(batch_of(second), K)
        other.close()
        assert agreement(one.search(batch_of(first), K), before) >= 0.99

    def test_inputs_are_left_alone(self, making: Any) -> None:
        dataset = self.data()
        rows, queries = dataset.corpus.vectors.read(0, ROWS).copy(), vectors_of(dataset)
        kept = queries.copy()
        queries.setflags(write=False)
        making(dataset).search(QueryBatch(queries), K)
        assert (dataset.corpus.vectors.read(0, ROWS) == rows).all()
        assert (queries == kept).all()

    def test_closing_twice_is_harmless(self, making: Any) -> None:
        engine = making(self.data())
        engine.close()
        engine.close()
        self.kind()().close()

    def test_it_shows_that_its_index_answered(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset)
        if not self.kind().abilities.attaches:
            assert engine.exercised(), "the build alone must give evidence, before any search"
            engine.build(
                dataset.corpus, dataset.metric, **resolved(engine.name, engine.build_knobs, self.build)
            )
            assert engine.exercised(), "and before configure"
            configure(engine, {})
        engine.search(batch_of(dataset), K)
        assert engine.exercised()
        engine.close()
        with pytest.raises(RecallError):
            engine.exercised()
        with pytest.raises(RecallError):
            self.kind()().exercised()
