"""EngineContract: the tests that every engine has to pass, ours and everybody's.

    from recallatk.testing import EngineContract

    class TestMine(EngineContract):
        engine = "mine"

pytest collects the rest. What an engine says that it cannot do must be refused; what it fails to do stands in
`gaps`, and is reported when it no longer fails.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from recallatk.core import Dataset, Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset
from recallatk.engines.base import Engine, require_installed, require_metric, resolved
from recallatk.engines.registry import get_engine
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.filters import parse_filter
from recallatk.testing import asking
from recallatk.testing.asking import (
    QUERIES,
    ROWS,
    K,
    agreement,
    configure,
    fits,
    rebuild,
    recall,
    vectors_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recallatk.testing.gaps import Gap


class EngineContract:
    """Subclass it, name the engine, and say what the tests need to know of it."""

    engine: ClassVar[str | type[Engine]]
    build: ClassVar[Mapping[str, Any]] = {}
    """Build parameters for indexes of some hundred rows."""
    full_effort: ClassVar[Mapping[str, Any]] = {}
    """Search parameters at which it finds (nearly) all; beside these, effort knobs are at their top."""
    gaps: ClassVar[Mapping[str, Gap]] = {}
    """By the name of a test why it is known to fail."""

    @pytest.fixture(autouse=True)
    def _expect_gaps(self, request: Any) -> None:
        gap = self.gaps.get(request.node.originalname or request.node.name)
        if gap is not None:
            request.node.add_marker(pytest.mark.xfail(strict=True, reason=str(gap)))

    @pytest.fixture
    def making(self) -> Iterator[Any]:
        """Builds engines and closes them all at the end."""
        made: list[Engine] = []

        def make(dataset: Dataset, build: Mapping[str, Any] | None = None, **search: Any) -> Engine:
            engine = self.kind()()
            made.append(engine)
            rebuild(engine, dataset, {**self.build, **(build or {})}, search)
            return engine

        yield make
        for engine in made:
            engine.close()

    def kind(self) -> type[Engine]:
        """The class that is tested."""
        found = get_engine(self.engine) if isinstance(self.engine, str) else self.engine
        require_installed(found)
        return found

    def data(self, **options: Any) -> Dataset:
        """A small dataset under a metric that the engine has."""
        known = self.kind().metrics
        metric = Metric.L2 if Metric.L2 in known else min(known)
        return asking.data(**{"metric": metric, **options})

    def most(self, dataset: Dataset) -> dict[str, Any]:
        """Search parameters of the highest effort that goes with the data."""
        kind = self.kind()
        built = resolved(kind.name, kind.build_knobs, self.build)
        effort = {knob.name: knob.high for knob in kind.search_knobs if knob.effort}
        for name in list(effort):
            while effort[name] > 1 and not fits(kind, dataset, {**built, name: effort[name]}):
                effort[name] = effort[name] // 2 if isinstance(effort[name], int) else effort[name] / 2
        return {**effort, **self.full_effort}

    # What it declares

    def test_declarations_are_sound(self) -> None:
        kind = self.kind()
        knobs = [*kind.build_knobs, *kind.search_knobs]
        assert kind.name
        assert kind.metrics <= frozenset(Metric)
        assert len({knob.name for knob in knobs}) == len(knobs), "two knobs have one name"
        for knob in knobs:
            assert knob.accepts(knob.default), f"{knob.name}: its default is not among what it accepts"
            assert knob.scale in ("log", "linear")

    def test_unknown_parameters_are_refused(self) -> None:
        kind = self.kind()
        for knobs in (kind.build_knobs, kind.search_knobs):
            with pytest.raises(UsageError, match="no parameter 'no such knob'"):
                resolved(kind.name, knobs, {"no such knob": 1})

    def test_metrics_that_it_does_not_have_are_refused(self) -> None:
        for metric in frozenset(Metric) - self.kind().metrics:
            with pytest.raises(EngineError, match=f"cannot search by {metric}"):
                require_metric(self.kind(), metric)

    def test_it_says_its_version_and_size(self, making: Any) -> None:
        engine = making(self.data())
        assert engine.version() is None or isinstance(engine.version(), str)
        size = engine.size_bytes()
        assert size is None or size > 0

    # What it answers

    def test_answers_have_their_shape_and_type(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        for count in (1, QUERIES):
            found = engine.search(vectors_of(dataset)[:count], K)
            assert isinstance(found, np.ndarray)
            assert found.dtype == np.int64
            assert found.shape == (count, K)

    def test_rows_are_known_and_distinct(self, making: Any) -> None:
        dataset = self.data(duplicates=40)
        found = making(dataset, **self.most(dataset)).search(vectors_of(dataset), K)
        assert found.min() >= 0
        assert found.max() < ROWS
        assert all(len(set(line)) == K for line in found.tolist())

    def test_a_query_alone_is_answered_as_in_a_batch(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        together = engine.search(vectors_of(dataset), K)
        alone = np.concatenate([engine.search(each[None], K) for each in vectors_of(dataset)])
        assert agreement(together, alone) >= 0.99

    def test_at_full_effort_it_agrees_with_exact_search(self, making: Any) -> None:
        for metric in sorted(self.kind().metrics):
            dataset = self.data(metric=metric)
            found = making(dataset, **self.most(dataset)).search(vectors_of(dataset), K)
            assert recall(found, dataset) >= 0.99, metric

    def test_more_effort_does_not_cost_recall(self, making: Any) -> None:
        knobs = [knob for knob in self.kind().search_knobs if knob.effort]
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
                    recalls.append(recall(engine.search(vectors_of(dataset), K), dataset))
            assert recalls == sorted(recalls) or max(recalls) - recalls[-1] <= 0.02, (knob.name, recalls)

    def test_the_best_row_comes_first(self, making: Any) -> None:
        dataset = self.data()
        rows = dataset.corpus.vectors.read(0, QUERIES)
        if Metric.L2 not in self.kind().metrics:
            return  # of the other metrics a row need not be its own nearest
        dataset = open_dataset(dataset.corpus, make_queries(rows), metric="l2")
        found = making(dataset, **self.most(dataset)).search(rows, K)
        assert (found[:, 0] == np.arange(QUERIES)).mean() >= 0.99

    # Odd data

    def test_more_neighbours_than_rows_are_padded_at_the_end(self, making: Any) -> None:
        dataset = self.data(rows=5)
        found = making(dataset, **self.most(dataset)).search(vectors_of(dataset), K)
        assert found.shape[1] <= K
        assert all(sorted(line[:5]) == list(range(5)) and set(line[5:]) <= {-1} for line in found.tolist())

    def test_one_neighbour_and_one_row(self, making: Any) -> None:
        dataset = self.data()
        assert making(dataset, **self.most(dataset)).search(vectors_of(dataset), 1).shape == (QUERIES, 1)
        single = self.data(rows=1)
        assert (making(single).search(vectors_of(single), 1) == 0).all()

    def test_float16_and_int8_corpora(self, making: Any) -> None:
        for dtype in ("float16", "int8"):
            dataset = self.data(dtype=dtype)
            found = making(dataset, **self.most(dataset)).search(vectors_of(dataset), K)
            assert recall(found, dataset) >= 0.95, dtype

    def test_ids_may_be_strings_numbers_or_missing(self, making: Any) -> None:
        vectors = self.data().corpus.vectors.read(0, ROWS)
        for ids in (None, [f"ключ {row}" for row in range(ROWS)], list(range(10_000, 10_000 + ROWS))):
            dataset = self.data()
            dataset = dataclasses.replace(dataset, corpus=make_corpus(vectors, ids))
            found = making(dataset, **self.most(dataset)).search(vectors_of(dataset), K)
            assert recall(found, dataset) >= 0.95

    # How it behaves

    def test_building_again_forgets(self, making: Any) -> None:
        first, second = self.data(), self.data(rows=60, seed=1)
        engine = making(first)
        rebuild(engine, second, self.build, self.most(second))
        found = engine.search(vectors_of(second), K)
        assert found.max() < 60
        assert recall(found, second) >= 0.95

    def test_two_engines_do_not_disturb_each_other(self, making: Any) -> None:
        first, second = self.data(), self.data(rows=80, seed=1)
        one = making(first, **self.most(first))
        before = one.search(vectors_of(first), K)
        other = making(second, **self.most(second))
        other.search(vectors_of(second), K)
        other.close()
        assert agreement(one.search(vectors_of(first), K), before) >= 0.99

    def test_inputs_are_left_alone(self, making: Any) -> None:
        dataset = self.data()
        rows, queries = dataset.corpus.vectors.read(0, ROWS).copy(), vectors_of(dataset)
        kept = queries.copy()
        queries.setflags(write=False)
        making(dataset).search(queries, K)
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
        with pytest.raises(RecallError):
            engine.exercised()
        engine.search(vectors_of(dataset), K)
        assert engine.exercised()
        engine.close()
        with pytest.raises(RecallError):
            engine.exercised()
        with pytest.raises(RecallError):
            self.kind()().exercised()

    def test_threads_change_no_answer(self, making: Any) -> None:
        if not self.kind().abilities.threads:
            return  # it says that it has no say in them
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        engine.set_threads(1)
        before = engine.search(vectors_of(dataset), K)
        engine.set_threads(2)
        assert agreement(engine.search(vectors_of(dataset), K), before) >= 0.99

    # What it can do beside searching, or refuses

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
                engine.search(vectors_of(dataset), K, filters)
            return
        found = engine.search(vectors_of(dataset), K, filters)
        query, column = np.nonzero(found >= 0)
        assert dataset.eligibility.allowed(query, found[query, column]).all()
        assert recall(found, dataset) >= 0.95

    def test_exact_search_is_exact_or_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset)
        if not self.kind().abilities.exact_search:
            with pytest.raises(EngineError, match="cannot search exactly"):
                engine.exact_search(vectors_of(dataset), K)
            return
        for metric in sorted(self.kind().metrics):
            dataset = self.data(metric=metric)
            engine = making(dataset)
            assert recall(engine.exact_search(vectors_of(dataset), K), dataset) >= 0.999, metric

    def test_saving_and_loading_change_nothing(self, making: Any, tmp_path: Path) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        if not self.kind().abilities.saves:
            with pytest.raises(EngineError, match="cannot save"):
                engine.save(tmp_path)
            return
        for metric in sorted(self.kind().metrics):
            folder = tmp_path / metric
            folder.mkdir()
            self._save_and_load(making, self.data(metric=metric), folder)

    def _save_and_load(self, making: Any, dataset: Dataset, folder: Path) -> None:
        engine = making(dataset, **self.most(dataset))
        before = engine.search(vectors_of(dataset), K)
        engine.save(folder)
        engine.close()
        with self.kind()() as again:
            built = resolved(again.name, again.build_knobs, self.build)
            again.load(folder, dataset.corpus, dataset.metric, **built)
            configure(again, self.most(dataset))
            assert agreement(again.search(vectors_of(dataset), K), before) >= 0.99

    def test_inserted_and_deleted_rows_are_seen_or_refused(self, making: Any) -> None:
        dataset = self.data()
        engine = making(dataset, **self.most(dataset))
        if not self.kind().abilities.updates:
            with pytest.raises(EngineError, match="cannot insert"):
                engine.insert(vectors_of(dataset))
            with pytest.raises(EngineError, match="cannot delete"):
                engine.delete(np.arange(1))
            return
        before = engine.search(vectors_of(dataset), K)
        engine.insert(vectors_of(dataset))
        found = engine.search(vectors_of(dataset), K)
        inserted = np.arange(ROWS, ROWS + QUERIES)
        assert (found == inserted[:, None]).any(axis=1).mean() >= 0.95
        engine.delete(inserted)
        assert agreement(engine.search(vectors_of(dataset), K), before) >= 0.95
        engine.delete(np.arange(10))
        after = engine.search(vectors_of(dataset), K)
        assert not np.isin(after, np.arange(10)).any()
        assert np.isin(before[before >= 10], after).mean() >= 0.95, "the others keep their numbers"
