"""One dataset has one truth, to the last bit: whatever the blocks, tiles, threads, budget, kernel or file."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact_order

from examples import examples
from recallatk import (
    convert,
    make_corpus,
    make_queries,
    open_corpus,
    open_dataset,
    open_queries,
    parse_filter,
)
from recallatk.core.truth import Decision
from recallatk.fingerprint import fingerprints
from recallatk.truths import ground_truth, memory_plan, scanner_blas, scanner_faiss, scanner_int8, sweep
from recallatk.truths.memory_plan import MemoryPlan, plan
from recallatk.truths.search import ExactSearch
from recallatk.truths.thresholds import Survivors

METRICS = ("cosine", "ip", "l2")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of the usual size for faiss take longer to allocate than all that is tested here."""
    monkeypatch.setattr(scanner_faiss, "_TILE_BYTES", 1 << 14)
    monkeypatch.setattr(scanner_int8, "_FEW_QUERIES", 1)


@pytest.fixture
def tiny_tiles(monkeypatch):
    """Several tiles and batches where there would be one of each."""
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", 16)
    monkeypatch.setattr(scanner_faiss, "_TILE_BYTES", 1)
    for module in (scanner_blas, memory_plan, sweep):
        monkeypatch.setattr(module, "BATCH_QUERIES", 3)


@pytest.fixture
def thinned(monkeypatch):
    """How many pairs each thinning dropped."""
    dropped = []
    original = Survivors.thin

    def thin(self, floors, errors):
        before = int(self.counts.sum())
        original(self, floors, errors)
        dropped.append(before - int(self.counts.sum()))

    monkeypatch.setattr(Survivors, "thin", thin)
    return dropped


def copies(random, rows):
    return random.integers(-2, 3, (40, 6))[random.integers(0, 40, rows)].astype("float32") + 0.5


def far(random, rows):
    found = random.normal(1000, 1, (rows, 12)).astype("float32")
    found[-rows // 3 :] = found[: rows // 3 + (rows % 3 > 0)]
    return found


def bytes_of(random, rows):
    return random.integers(-128, 128, (rows, 5)).astype("int8") | 1


def close(random, rows):
    """Rows that floating point adds up to different sums, though their products with a level query tie."""
    numbers = random.normal(size=7)
    return np.array([random.permutation(numbers) for _ in range(rows)])


DATA = (copies, far, bytes_of, close)
ALL_DATA = pytest.mark.parametrize("data", DATA, ids=lambda data: data.__name__)


# Any two of tiles, threads and kernel come together.
EACH_TWO_TOGETHER = pytest.mark.parametrize(
    ("tiles", "threads", "backend"),
    [
        (16, 1, "blas"),
        (16, 2, "faiss"),
        (2048, 2, "blas"),
        (2048, 1, "faiss"),
        (16, 2, "int8"),
        (2048, 1, "jax"),
    ],
)


def made(data, metric, rows=500, queries=8, filters=None):
    random = np.random.default_rng(5)
    corpus, asked = data(random, rows), data(random, queries)
    asked[0], asked[1] = 3, corpus[7]
    records = make_corpus(corpus, metadata={"n": np.arange(rows)})
    return open_dataset(records, make_queries(asked, filters=filters), metric=metric)


def bits(truth):
    """Everything a truth says, as bytes."""
    proof = truth.certificate
    parts = {
        "rows": truth.rows,
        "scores": truth.scores,
        "tied": truth.tied,
        "tie_counts": truth.tie_counts,
        "offsets": truth.overflow[0],
        "beyond": truth.overflow[1],
        "eligible": truth.eligible,
        "next_rows": proof.next_rows,
        "next_scores": proof.next_scores,
        "bounds": proof.bounds,
        "decided": proof.decided,
    }
    said = {name: (part.dtype.name, part.shape, part.tobytes()) for name, part in parts.items()}
    return {**said, "fingerprints": dict(truth.fingerprints)}


def searched(dataset, depth, plan, **arguments):
    search = ExactSearch(dataset, depth, plan, **{"threads": 1, "backend": "blas", **arguments})
    return search.run().truth(dataset, fingerprints(dataset))


@cache
def usual_bits(data, metric, depth):
    """What is said of some data where nobody asks for anything special."""
    return bits(ground_truth(made(data, metric, rows=350), depth=depth))


@ALL_DATA
@pytest.mark.parametrize("metric", METRICS)
@examples(10)
@given(
    st.sampled_from([7, 500, 4096, 1 << 20, None]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["256MiB", "300MiB", "1GiB", None]),
    st.sampled_from(["blas", "faiss", "int8", "jax"]),
    st.sampled_from([1, 10, 40]),
)
def test_no_argument_changes_a_bit(metric, data, block_bytes, threads, memory, backend, depth):
    again = ground_truth(
        made(data, metric, rows=350),
        depth=depth,
        block_bytes=block_bytes,
        threads=threads,
        memory=memory,
        backend=backend,
    )
    assert bits(again) == usual_bits(data, metric, depth)


@pytest.mark.parametrize("metric", METRICS)
def test_a_budget_that_cuts_the_corpus_and_the_queries_changes_no_bit(metric):
    random = np.random.default_rng(6)
    corpus, queries = (random.normal(10, 1, (rows, 128)).astype("float32") for rows in (12_000, 300))
    corpus[6000:7000] = corpus[5000]
    queries[:5] = corpus[5000]
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    plans = [plan(dataset, 1000, memory, 2) for memory in ("256MiB", "1GiB")]
    assert plans[1] == MemoryPlan(12_000, 300, 2)
    assert plans[0].group_queries < 300
    small, large = (
        ground_truth(dataset, depth=1000, memory=memory, threads=2) for memory in ("256MiB", "1GiB")
    )
    assert bits(small) == bits(large)


@pytest.mark.usefixtures("tiny_tiles")
@ALL_DATA
@pytest.mark.parametrize("metric", METRICS)
def test_no_plan_changes_a_bit(metric, data, thinned):
    filters = [None, *map(parse_filter, ["n < 3", "n >= 40", "n < 400", "n > 990"]), None, None, None]
    dataset = made(data, metric, rows=1000, filters=filters)
    first = bits(searched(dataset, 5, MemoryPlan(1000, 8)))
    thinned.clear()
    # Each plan with each kernel and each number of threads, and each kernel with each number of threads.
    kernels = ["blas"] * 3 + ["faiss"] * 3 + ["int8"] * 3
    ways = zip([(64, 3), (333, 1), (1000, 2)] * 3, [1, 3, 1] * 3, kernels, strict=True)
    for (block_rows, group), threads, backend in ways:
        found = searched(dataset, 5, MemoryPlan(block_rows, group), threads=threads, backend=backend)
        assert bits(found) == first
    # Every end of a sweep is a thinning too; the tables also filled up on the way.
    sweeps = 3 * 3 * 8
    assert len(thinned) > sweeps
    assert sum(thinned) > 0


@pytest.mark.parametrize("seed", range(8))
def test_a_candidate_with_a_wide_bound_far_below_the_last_one_changes_no_bit(seed):
    # Rows of all norms with scores that float64 just tells apart. Whether the last one, which is much longer
    # and no neighbor, is still a candidate depends on whether its block comes on its own.
    random = np.random.default_rng(seed)
    near = np.column_stack([1 - random.permutation(199) * 3e-13, 10 ** random.uniform(-2, 2, 199)])
    corpus = np.vstack([near, [-random.uniform(1.2, 3.2), 1e6]])
    dataset = open_dataset(make_corpus(corpus), make_queries(np.array([[1.0, 0.0]])), metric="ip")
    said = [bits(searched(dataset, 3, MemoryPlan(block_rows, 1))) for block_rows in (16, 50, 200)]
    assert said[0] == said[1] == said[2]


@pytest.mark.usefixtures("tiny_tiles")
@pytest.mark.parametrize("backend", ["blas", "faiss", "int8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_thinning_drops_nothing_that_is_needed_where_every_block_is_better_than_the_last(
    threads, backend, thinned
):
    # Worst first: every row is a hit when it comes, and the best are the last.
    corpus = np.arange(3000, 0, -1, dtype="float32")[:, None] / 7
    dataset = open_dataset(make_corpus(corpus), make_queries(np.zeros((7, 1), "float32")), metric="l2")
    truth = searched(dataset, 4, MemoryPlan(100, 5), threads=threads, backend=backend)
    assert (truth.rows == [2999, 2998, 2997, 2996]).all()
    assert (truth.certificate.next_rows == 2995).all()
    assert sum(count > 0 for count in thinned) > 20


@EACH_TWO_TOGETHER
def test_queries_that_float32_gives_up_are_exact(monkeypatch, tiles, threads, backend):
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", tiles)
    random = np.random.default_rng(2)
    corpus, queries = (random.normal(1000, 1, (rows, 8)) for rows in (500, 5))
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="cosine")
    truth = searched(dataset, 3, MemoryPlan(120, 2), threads=threads, backend=backend)
    assert (truth.certificate.decided == Decision.FLOAT64).all()
    for query, rows, after in zip(queries, truth.rows, truth.certificate.next_rows, strict=True):
        order = exact_order("cosine", query, corpus, range(500))
        assert [*rows, after] == [row for _, row in order[:4]]


@EACH_TWO_TOGETHER
@pytest.mark.parametrize("metric", METRICS)
def test_thousands_of_ties_are_counted_and_the_first_thousand_named(
    monkeypatch, metric, tiles, threads, backend
):
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", tiles)
    random = np.random.default_rng(9)
    which = random.permutation(np.repeat([0, 1, 2], [4, 2500, 1500]))
    corpus = np.array([[5, 0], [4, 3], [0, 5]], "int8")[which]
    queries = np.array([[5, 0], [4, 3], [0, 5], [5, 1]], "int8")
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    truth = searched(dataset, 6, MemoryPlan(999, 3), threads=threads, backend=backend)
    orders = [(0, 1), (1,), (2,), (0, 1)]
    offsets, beyond = truth.overflow
    for number, kinds in enumerate(orders):
        ranked = np.concatenate([np.flatnonzero(which == kind) for kind in kinds])
        assert truth.rows[number].tolist() == ranked[:6].tolist()
        assert truth.tie_counts[number] == len(ranked) - 6
        assert beyond[offsets[number] : offsets[number + 1]].tolist() == ranked[6:1006].tolist()
        assert truth.certificate.next_rows[number] == ranked[6]
        assert truth.tied[number].tolist() == [place not in (0, 4 * (len(kinds) - 1)) for place in range(6)]
        assert truth.certificate.decided[number] == Decision.EXACT


@pytest.mark.parametrize(
    "endings", [("npy", "parquet", "arrow", "fbin"), ("npy", "parquet", "arrow", "i8bin")]
)
@pytest.mark.parametrize("metric", METRICS)
def test_the_container_changes_no_bit(tmp_path, metric, endings):
    random = np.random.default_rng(3)
    data = far if "fbin" in endings else bytes_of
    for name, rows in (("corpus", 400), ("queries", 6)):
        np.save(tmp_path / f"made-{name}.npy", data(random, rows))
        for ending in endings:
            convert(tmp_path / f"made-{name}.npy", tmp_path / f"{name}.{ending}")
    said = []
    for ending, block_bytes in itertools.product(endings, [None, 999]):
        corpus, queries = (
            open_corpus(tmp_path / f"corpus.{ending}"),
            open_queries(tmp_path / f"queries.{ending}"),
        )
        dataset = open_dataset(corpus, queries, metric=metric)
        said.append(bits(ground_truth(dataset, depth=10, block_bytes=block_bytes)))
    assert all(each == said[0] for each in said)
