"""Engines that drive a library in this process: the contract, and what is special about each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recallatk.adapters import QueryBatch
from recallatk.adapters.base import require_constraints
from recallatk.adapters.registry import get_engine
from recallatk.core import Dataset, Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract
from recallatk.testing.clients import answers_of_threads
from recallatk.testing.contract_ground import (
    Gap,
    K,
    Kind,
    agreement,
    batch_of,
    data,
    rebuild,
    recall,
    vectors_of,
)

LIBRARIES = ("usearch", "hnswlib", "voyager", "annoy", "pynndescent", "scann")
BUILDS: dict[str, dict[str, Any]] = {"scann": {"num_leaves": 10}}
TOO_FEW = Gap(Kind.UPSTREAM, "scann learns its codes from 16 rows at least")


class TestUsearch(EngineContract):
    engine = "usearch"


class TestHnswlib(EngineContract):
    engine = "hnswlib"


class TestVoyager(EngineContract):
    engine = "voyager"


class TestAnnoy(EngineContract):
    engine = "annoy"


@pytest.mark.timeout(1800)  # numba compiles it, for minutes where everything is slow
class TestPyNNDescent(EngineContract):
    engine = "pynndescent"


class TestScann(EngineContract):
    engine = "scann"
    build = BUILDS["scann"]
    full_effort = {"leaves_to_search": 10}  # noqa: RUF012
    gaps = {  # noqa: RUF012
        "test_more_neighbours_than_rows_are_padded_at_the_end": TOO_FEW,
        "test_one_neighbour_and_one_row": TOO_FEW,
    }


def built(name: str, dataset: Dataset, build: dict[str, Any] | None = None, **search: Any) -> Any:
    engine = get_engine(name)()
    rebuild(engine, dataset, {**BUILDS.get(name, {}), **(build or {})}, search)
    return engine


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_evidence_is_the_index_and_then_what_searches_did(name: str) -> None:
    dataset = data()
    with built(name, dataset) as engine:
        held = engine.exercised()
        assert "300" in held
        engine.search(batch_of(dataset), K)
        assert engine.exercised().startswith(f"{held}; ")
        assert get_engine(name).distribution in engine.version()


@pytest.mark.parametrize("name", ["usearch", "hnswlib", "voyager", "annoy", "scann", "faiss-hnsw"])
def test_no_search_of_any_thread_is_lost_from_the_count(name: str) -> None:
    dataset = data()
    with built(name, dataset) as engine:
        answers_of_threads(engine, vectors_of(dataset))
        assert engine.searched == 5 * len(vectors_of(dataset))


def test_clients_of_pynndescent_count_for_themselves() -> None:
    dataset = data()
    with built("pynndescent", dataset) as engine:
        client = engine.client()
        client.search(batch_of(dataset), K)
        client.close()
        assert "walks" not in engine.exercised()
        with pytest.raises(EngineError, match="no index is built"):
            client.exercised()


@pytest.mark.parametrize("name", ["usearch", "hnswlib", "voyager"])
def test_rows_keep_their_numbers_once_they_were_updated(name: str) -> None:
    dataset = data()
    asked = vectors_of(dataset)
    with built(name, dataset) as engine:
        engine.insert(asked)
        engine.delete(np.arange(4, 300))
        assert (engine.search(QueryBatch(asked), 1)[:, 0] == np.arange(300, 324)).all()
        engine.insert(asked + 1)
        assert (engine.search(QueryBatch(asked + 1), 1)[:, 0] == np.arange(324, 348)).all()
        found = engine.search(QueryBatch(asked[:1]), 100)
        assert (found >= 0).sum() == 4 + 24 + 24


@pytest.mark.parametrize("name", ["usearch", "hnswlib", "voyager", "annoy", "pynndescent"])
def test_one_thread_builds_the_same_index_twice(name: str) -> None:
    dataset = data(rows=2000)
    least = {knob.name: knob.low for knob in get_engine(name).search_knobs}
    least |= {"ef": K} if "ef" in least else {}
    with built(name, dataset, **least) as one, built(name, dataset, **least) as other:
        found = one.search(batch_of(dataset), K)
        assert recall(found, dataset) < 1, "an index that finds everything tells nothing"
        assert (other.search(batch_of(dataset), K) == found).all()


@pytest.mark.parametrize("name", ["usearch", "hnswlib", "voyager"])
def test_rows_that_are_deleted_leave_room_for_padding(name: str) -> None:
    dataset = data()
    with built(name, dataset) as engine:
        engine.delete(np.arange(4, 300))
        for asked in (vectors_of(dataset), vectors_of(dataset)[:1]):
            found = engine.search(QueryBatch(asked), K)
            assert found.shape == (len(asked), K)
            assert (np.sort(found[:, :4]) == np.arange(4)).all()
            assert (found[:, 4:] == -1).all()


@pytest.mark.parametrize("name", ["hnswlib", "voyager"])
def test_an_ef_below_k_is_refused(name: str) -> None:
    require_constraints(get_engine(name), ef=K, k=K)
    with pytest.raises(UsageError, match="ef of at least k, but has ef = 9, k = 10"):
        require_constraints(get_engine(name), ef=9, k=K)


def test_fewer_bits_make_usearch_smaller_and_cost_it_recall() -> None:
    dataset = data(rows=2000, metric=Metric.COSINE, seed=2)
    sizes, recalls = {}, {}
    for storage in ("f32", "f16", "bf16", "i8", "b1"):
        with built("usearch", dataset, {"storage": storage}, expansion=1000) as engine:
            sizes[storage] = engine.size_bytes()
            recalls[storage] = recall(engine.search(batch_of(dataset), K), dataset)
    assert sizes["f32"] > sizes["f16"] == sizes["bf16"] > sizes["i8"] > sizes["b1"]
    assert recalls["f32"] >= recalls["bf16"] > recalls["i8"] > 0.5 > recalls["b1"] > 0.05


def test_usearch_forgets_lengths_when_it_stores_i8() -> None:
    dataset = data(metric=Metric.L2)
    with built("usearch", dataset, {"storage": "i8"}, expansion=1000) as engine:
        assert recall(engine.search(batch_of(dataset), K), dataset) < 0.9


def test_usearch_compares_signs_where_it_keeps_one_bit() -> None:
    """Of 13 dimensions, so that the last byte has bits to spare."""
    vectors = np.random.default_rng(0).normal(size=(400, 13)).astype("float32")
    dataset = open_dataset(make_corpus(vectors), make_queries(vectors[:20]), metric="cosine")
    signs = vectors > 0
    differ = (signs[:20, None] != signs[None]).sum(axis=2)
    with built("usearch", dataset, {"storage": "b1"}, expansion=1000) as engine:
        for found in (
            engine.search(QueryBatch(vectors[:20]), K),
            engine.exact_search(QueryBatch(vectors[:20]), K),
        ):
            theirs = np.take_along_axis(differ, found, axis=1)
            assert (np.sort(theirs) == np.sort(differ, axis=1)[:, :K]).mean() >= 0.95


def unreachable() -> Dataset:
    """Two crowds of equal rows, which graphs of few neighbours do not join."""
    rows = np.repeat(np.eye(2, 8, dtype=np.float32), 100, axis=0)
    return open_dataset(make_corpus(rows), make_queries(rows[:3]), metric="l2")


@pytest.mark.parametrize(("name", "said"), [("hnswlib", "at ef = 200: raise ef"), ("voyager", "ef = 200")])
def test_a_graph_that_cannot_be_crossed_is_an_error_that_names_ef(name: str, said: str) -> None:
    dataset = unreachable()
    build = {"M": 2, "ef_construction": 10}
    with built(name, dataset, build, ef=200) as engine, pytest.raises(EngineError, match=said):
        engine.search(batch_of(dataset), 150)


def test_annoy_sees_new_rows_after_a_rebuild_only() -> None:
    dataset = data()
    asked = vectors_of(dataset)
    more = np.concatenate([dataset.corpus.vectors.read(0, 300), asked])
    larger = open_dataset(make_corpus(more), make_queries(asked), metric="l2")
    with built("annoy", dataset) as engine:
        with pytest.raises(EngineError, match="annoy cannot insert rows"):
            engine.insert(asked)
        assert engine.search(QueryBatch(asked), K).max() < 300
        rebuild(engine, larger, {}, {"search_k": 100_000})
        assert (engine.search(QueryBatch(asked), K)[:, 0] == np.arange(300, 300 + len(asked))).all()


def test_measuring_the_size_of_annoy_changes_no_answer() -> None:
    dataset = data()
    with built("annoy", dataset) as engine:
        before = engine.search(batch_of(dataset), K)
        assert engine.size_bytes() == engine.size_bytes() > 300 * 16 * 4
        assert (engine.search(batch_of(dataset), K) == before).all()


def test_pynndescent_takes_fewer_rows_than_neighbours() -> None:
    for rows in (2, 20, 31):
        dataset = data(rows=rows)
        with built("pynndescent", dataset, epsilon=0.5) as engine:
            assert recall(engine.search(batch_of(dataset), K), dataset) == 1
            assert f"graph of {rows} nodes" in engine.exercised()


def test_voyager_says_what_values_its_one_byte_storage_takes() -> None:
    with pytest.raises(EngineError, match="voyager rejects these vectors"):
        built("voyager", data(), {"storage": "i8"})
    dataset = data(metric=Metric.COSINE)
    with built("voyager", dataset, {"storage": "e4m3"}, ef=300) as engine:
        assert 0.5 < recall(engine.search(batch_of(dataset), K), dataset) < 1


def test_scann_refuses_what_it_cannot_learn_from() -> None:
    with pytest.raises(UsageError, match="at least 16 rows"):
        require_constraints(get_engine("scann"), rows=15)
    with pytest.raises(EngineError, match="an index of 5 rows"):
        built("scann", data(rows=5))


def test_scann_answers_a_batch_in_parallel_alike() -> None:
    dataset = data()
    with built("scann", dataset, leaves_to_search=10) as engine:
        before = engine.search(batch_of(dataset), K)
        engine.set_threads(2)
        assert agreement(engine.search(batch_of(dataset), K), before) == 1
