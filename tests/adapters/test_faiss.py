"""The contract over the engines of faiss, and what is special to each."""

import dataclasses
from typing import ClassVar

import faiss
import numpy as np
import pytest

from recallatk import ground_truth, score
from recallatk.adapters import QueryBatch, get_engine
from recallatk.adapters.base import require_constraints, resolved
from recallatk.errors import EngineError, FilterError, UsageError
from recallatk.filters import parse_filter
from recallatk.testing import EngineContract, tiny_dataset
from recallatk.testing.contract_ground import Gap, Kind, batch_of

CODES = Gap(Kind.NEVER, "16 codes cannot be learned from fewer rows")
LOSSY = Gap(Kind.NEVER, "codes of few bits lose what tells near rows apart")
GRAPH = Gap(Kind.UPSTREAM, "faiss makes no graph of 100 rows or fewer")
WITHOUT_CODES = {
    "test_more_neighbours_than_rows_are_padded_at_the_end": CODES,
    "test_one_neighbour_and_one_row": CODES,
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small indexes on machines with other work: threads that wait for each other take minutes."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


class TestExact(EngineContract):
    engine = "exact"


class TestFaissHnsw(EngineContract):
    engine = "faiss-hnsw"


class TestFaissIvfFlat(EngineContract):
    engine = "faiss-ivf-flat"
    build: ClassVar = {"nlist": 16}


class TestFaissIvfSq8(EngineContract):
    engine = "faiss-ivf-sq8"
    build: ClassVar = {"nlist": 16}
    gaps: ClassVar = {"test_at_full_effort_it_agrees_with_exact_search": LOSSY}


class TestFaissIvfPq(EngineContract):
    engine = "faiss-ivf-pq"
    build: ClassVar = {"nlist": 16, "M": 8, "nbits": 4}
    gaps: ClassVar = WITHOUT_CODES


class TestFaissIvfPqByCodesAlone(EngineContract):
    engine = "faiss-ivf-pq"
    build: ClassVar = {"nlist": 16, "M": 8, "nbits": 4}
    full_effort: ClassVar = {"k_factor": 0}
    gaps: ClassVar = WITHOUT_CODES | {
        "test_at_full_effort_it_agrees_with_exact_search": LOSSY,
        "test_float16_and_int8_corpora": LOSSY,
        "test_ids_may_be_strings_numbers_or_missing": LOSSY,
        "test_building_again_forgets": LOSSY,
        "test_filters_are_kept_or_refused": LOSSY,
        "test_each_filter_is_answered_or_refused_with_its_reason": LOSSY,
    }


class TestFaissPqFastScan(EngineContract):
    engine = "faiss-pq-fastscan"
    build: ClassVar = {"M": 8}
    gaps: ClassVar = WITHOUT_CODES


class TestFaissSq(EngineContract):
    engine = "faiss-sq"
    gaps: ClassVar = {"test_at_full_effort_it_agrees_with_exact_search": LOSSY}


class TestFaissSqOfHalfFloats(EngineContract):
    engine = "faiss-sq"
    build: ClassVar = {"type": "SQfp16"}


class TestFaissNsg(EngineContract):
    engine = "faiss-nsg"
    gaps: ClassVar = {
        "test_rows_are_known_and_distinct": Gap(
            Kind.UPSTREAM, "faiss makes no graph where rows are repeated"
        ),
        "test_more_neighbours_than_rows_are_padded_at_the_end": GRAPH,
        "test_one_neighbour_and_one_row": GRAPH,
        "test_building_again_forgets": GRAPH,
        "test_two_engines_do_not_disturb_each_other": GRAPH,
    }


class TestFaissFactory(EngineContract):
    engine = "faiss-factory"
    full_effort: ClassVar = {"parameters": "efSearch=512"}


def built(name, dataset, build=None, **search):
    engine = get_engine(name)()
    engine.build(dataset.corpus, dataset.metric, **resolved(name, engine.build_knobs, build or {}))
    engine.configure(**resolved(name, engine.search_knobs, search))
    return engine


def queries_of(dataset):
    return dataset.queries.vectors.read(0, dataset.queries.rows)


def recall_of(engine, dataset):
    found = engine.search(batch_of(dataset), 10)
    return score(truth=ground_truth(dataset, depth=10), answers=found, at=[10], row_numbers=True)["recall@10"]


@pytest.mark.parametrize(
    ("name", "build", "search"),
    [
        ("faiss-ivf-pq", {"nlist": 16, "M": 4, "nbits": 4}, {"nprobe": 16}),
        ("faiss-pq-fastscan", {"M": 4}, {}),
    ],
)
def test_ranking_again_by_the_vectors_finds_more(name, build, search):
    dataset = tiny_dataset(2000, 40, 16, metric="l2")
    engine = built(name, dataset, build)
    recalls = []
    for k_factor in (0, 2, 100):
        engine.configure(k_factor=k_factor, **search)
        recalls.append(recall_of(engine, dataset))
    assert recalls[0] < recalls[1] - 0.05 < recalls[1] < recalls[2]
    assert recalls[2] >= 0.99
    bare = built(name, dataset, {**build, "refine": "none"}, k_factor=0, **search)
    assert recall_of(bare, dataset) == recalls[0]
    assert bare.size_bytes() < engine.size_bytes() / 2
    with pytest.raises(EngineError, match="cannot rerank without full vectors"):
        bare.configure(k_factor=2, **search)


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("faiss-ivf-flat", {"nprobe": 32, "nlist": 16}, "nprobe of at most nlist, but has nprobe = 32"),
        ("faiss-ivf-pq", {"M": 5, "dimension": 16}, "an M that divides the dimension"),
        ("faiss-ivf-pq", {"nbits": 8, "rows": 255}, "at least 2\\^nbits rows"),
        ("faiss-ivf-pq", {"refine": "none", "k_factor": 1}, "k_factor = 0 with refine = none"),
        ("faiss-pq-fastscan", {"rows": 15}, "at least 16 rows"),
        ("faiss-nsg", {"R": 96, "rows": 128}, "more than 100 rows and more than R \\+ 32"),
        ("faiss-nsg", {"search_L": 300, "rows": 299}, "search_L of at most the number of rows"),
    ],
)
def test_parameters_that_cannot_be_together_are_refused(name, known, said):
    with pytest.raises(UsageError, match=said):
        require_constraints(get_engine(name), **known)


def test_what_faiss_refuses_is_said_without_its_source():
    dataset = tiny_dataset(10, 2, 16)
    with pytest.raises(EngineError) as caught:
        built("faiss-pq-fastscan", dataset)
    assert str(caught.value) == (
        "faiss-pq-fastscan: Number of training points (10) should be at least as large "
        "as number of clusters (16)"
    )
    with pytest.raises(EngineError, match=r"^faiss-factory: could not parse index string Nonsense$"):
        built("faiss-factory", dataset, {"factory": "Nonsense"})
    with pytest.raises(EngineError, match="could not set parameter nprobe"):
        built("faiss-factory", dataset, parameters="nprobe=4")


def test_a_factory_index_is_trained_and_forgets_earlier_parameters():
    dataset = tiny_dataset(2000, 40, 16, metric="l2")
    engine = built("faiss-factory", dataset, {"factory": "IVF32,PQ4x4,RFlat"})
    least = recall_of(engine, dataset)
    engine.configure(parameters="nprobe=32,k_factor_rf=100")
    assert recall_of(engine, dataset) >= 0.99
    assert engine.exercised() == "IndexRefineFlat of 2,000 rows; 40 queries answered"
    engine.configure(parameters="")
    assert recall_of(engine, dataset) == least < 0.7
    engine.configure(parameters="ht=20")
    with pytest.raises(EngineError, match="ht was set before"):
        engine.configure(parameters="nprobe=2")


@pytest.mark.parametrize("name", ["exact", "faiss-ivf-flat", "faiss-hnsw"])
def test_filtered_answers_are_those_of_the_rows_that_the_mask_allows(name):
    dataset = tiny_dataset(400, 12, 8, metric="l2")
    texts = ("size < 3", "category = 'group-1'", "size < 0", None)
    filters = [None if text is None else parse_filter(text) for text in texts] * 3
    asked = dataclasses.replace(dataset.queries, filters=tuple(filters))
    truth = ground_truth(dataclasses.replace(dataset, queries=asked), depth=10)
    full = {"exact": {}, "faiss-ivf-flat": {"nprobe": 16}, "faiss-hnsw": {"ef": 400}}[name]
    engine = built(name, dataset, {"nlist": 16} if "ivf" in name else {}, **full)
    found = engine.search(batch_of(dataset, filters), 10)
    assert (found[2::4] == -1).all()
    for row, condition in zip(found, filters, strict=True):
        mask = np.ones(400, bool) if condition is None else condition.mask(dataset.corpus.metadata)
        allowed = set(np.flatnonzero(mask).tolist())
        assert set(row.tolist()) - {-1} <= allowed
        assert (row >= 0).sum() == min(10, len(allowed))
    assert score(truth=truth, answers=found, at=[10], row_numbers=True)["recall@10"] == 1.0
    with pytest.raises(FilterError):
        engine.search(QueryBatch(queries_of(dataset)[:1], [parse_filter("nowhere = 1")]), 10)


def test_the_lists_that_were_visited_are_the_evidence():
    dataset = tiny_dataset(400, 12, 8)
    engine = built("faiss-ivf-flat", dataset, {"nlist": 16}, nprobe=4)
    assert engine.exercised() == "400 rows in 16 lists"
    engine.search(batch_of(dataset), 10)
    assert engine.exercised().startswith("400 rows in 16 lists; 4 lists and ")


def test_a_walk_that_would_never_end_is_refused_or_cut_short():
    dataset = tiny_dataset(150, 3, 8)
    engine = built("faiss-nsg", dataset)
    with pytest.raises(EngineError, match="search_L = 151 exceeds the number of rows"):
        engine.configure(search_L=151)
    found = engine.search(batch_of(dataset), 200)
    assert found.shape == (3, 200)
    assert (found[:, 150:] == -1).all()
    with pytest.raises(EngineError, match="a corpus of 100 rows"):
        built("faiss-nsg", tiny_dataset(100, 3, 8))


def test_fewer_rows_than_lists_make_as_many_lists_as_rows():
    engine = built("faiss-ivf-flat", tiny_dataset(7, 3, 4))
    assert engine.inverted().nlist == 7


def test_numbers_of_deleted_rows_are_not_given_again():
    dataset = tiny_dataset(100, 4, 8, metric="l2")
    engine = built("faiss-ivf-flat", dataset, {"nlist": 4}, nprobe=4)
    engine.delete(np.arange(90, 100))
    engine.insert(queries_of(dataset))
    assert engine.search(batch_of(dataset), 1)[:, 0].tolist() == [100, 101, 102, 103]


@pytest.mark.parametrize("name", ["faiss-hnsw", "faiss-ivf-pq", "faiss-nsg", "faiss-sq"])
def test_one_thread_builds_the_same_index_again(name):
    dataset = tiny_dataset(500, 4, 8)
    build, search = ({"nlist": 8, "nbits": 4}, {"nprobe": 8}) if "ivf" in name else ({}, {})
    written = []
    for _ in range(2):
        engine = built(name, dataset, build, **search)
        written.append(faiss.serialize_index(engine.index).tobytes())
    assert written[0] == written[1]
