"""The 8-bit scanner: exact sums, the same truth, and float32 wherever codes do not help."""

import sys

import numpy as np
import pytest

from recallatk import make_corpus, make_queries, open_dataset, parse_filter
from recallatk.errors import MissingExtraError, UsageError
from recallatk.fingerprint import fingerprints
from recallatk.truths import backends, ground_truth, integer_product, scanner_blas, scanner_int8
from recallatk.truths.backends import require_backend
from recallatk.truths.checkpoint import Checkpoint
from recallatk.truths.integer_product import IntegerProduct, _is_exact, highest_code
from recallatk.truths.memory_plan import MemoryPlan
from recallatk.truths.scanner_int8 import Int8Scanner
from recallatk.truths.search import ExactSearch


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small tiles, and codes for a few queries too."""
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", 128)
    monkeypatch.setattr(scanner_int8, "_FEW_QUERIES", 1)


@pytest.fixture
def used(monkeypatch):
    """Whether codes were enough, for each call that tried."""
    found = []
    original = Int8Scanner._by_codes

    def by_codes(self, asked, rows):
        hits = original(self, asked, rows)
        found.append(hits is not None)
        return hits

    monkeypatch.setattr(Int8Scanner, "_by_codes", by_codes)
    return found


def bits(truth):
    certificate = truth.certificate
    parts = (truth.rows, truth.scores, truth.tied, certificate.decided, certificate.bounds)
    return [part.tobytes() for part in (*parts, certificate.next_rows, certificate.next_scores)]


def dataset(metric, dtype="float32", rows=3000, filters=None):
    random = np.random.default_rng(3)
    corpus, queries = random.normal(1, 1, (rows, 24)), random.normal(1, 1, (60, 24))
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        corpus, queries = (np.clip(50 * each, limits.min, limits.max) for each in (corpus, queries))
    corpus[100:150] = corpus[99]
    queries[0] = corpus[99]
    records = make_corpus(corpus.astype(dtype), metadata={"n": np.arange(rows)})
    return open_dataset(records, make_queries(queries.astype(dtype), filters=filters), metric=metric)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_every_type_and_metric_has_the_same_truth(used, metric, dtype):
    data = dataset(metric, dtype)
    wanted = bits(ground_truth(data, depth=20, backend="blas"))
    for threads, block_bytes in ((1, None), (2, 1 << 15)):
        found = ground_truth(data, depth=20, backend="int8", threads=threads, block_bytes=block_bytes)
        assert bits(found) == wanted
    # Codes have to be what ruled most rows out.
    assert np.mean(used) > 0.5


def outliers(random, rows):
    found = random.normal(size=(rows, 16))
    found[::50] *= 1e5
    return found


def tiny(random, rows):
    return random.normal(size=(rows, 16)) * 1e-39


def zeros(random, rows):
    found = random.normal(size=(rows, 16))
    found[::3] = 0
    return found


def mixed(random, rows):
    return random.normal(size=(rows, 16)) * 10 ** random.uniform(-5, 5, (rows, 1))


@pytest.mark.parametrize("highest", [255, 127])
@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("kind", [outliers, tiny, zeros, mixed], ids=lambda kind: kind.__name__)
def test_data_that_is_hard_to_code_has_the_same_truth(monkeypatch, kind, metric, highest):
    monkeypatch.setattr(scanner_int8, "highest_code", lambda: highest)
    random = np.random.default_rng(0)
    corpus, queries = (kind(random, rows).astype("float32") for rows in (1500, 40))
    data = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    truths = [bits(ground_truth(data, depth=10, backend=backend)) for backend in ("blas", "int8")]
    assert truths[0] == truths[1]


def test_filters_are_kept(used):
    filters = [None, *map(parse_filter, ["n < 40", "n >= 1400", "n < 2000"])] * 15
    data = dataset("cosine", filters=filters)
    found = ground_truth(data, depth=10, backend="int8")
    assert bits(found) == bits(ground_truth(data, depth=10, backend="blas"))
    assert any(used)


def test_a_computation_begun_by_one_backend_is_finished_by_another(tmp_path):
    data, plan = dataset("l2"), MemoryPlan(500, 60)
    wanted = bits(ground_truth(data, depth=10))
    for first, second in (("int8", "blas"), ("blas", "int8"), ("int8", "jax")):
        checkpoint = Checkpoint(tmp_path / f"{first}-{second}.npz", {}, every_seconds=0)

        def stop(done, _all):
            if done > 60 * 1400:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            searched(data, plan, first, checkpoint, stop)
        again = []
        found = searched(data, plan, second, checkpoint, lambda *step, seen=again: seen.append(step[0]))
        assert again[0] > 60 * 500
        assert bits(found) == wanted


def searched(data, plan, backend, checkpoint, progress):
    search = ExactSearch(data, 10, plan, threads=1, backend=backend, checkpoint=checkpoint, progress=progress)
    return search.run().truth(data, fingerprints(data))


def test_codes_that_leave_too_many_pairs_are_not_tried_again_at_once(used):
    # No code tells these rows apart.
    random = np.random.default_rng(0)
    corpus = (1 + 1e-4 * random.normal(size=(8000, 16))).astype("float32")
    data = open_dataset(make_corpus(corpus), make_queries(corpus[:50]), metric="ip")
    assert bits(ground_truth(data, depth=5, backend="int8", threads=1)) == bits(
        ground_truth(data, depth=5, backend="blas")
    )
    assert not any(used)
    assert len(used) < 15  # of 67 tiles


def saturating(rows, queries, out):
    """Pairs of products added in 16 bits, as kernels without VNNI do."""
    products = rows[:, :, None].astype(np.int64) * queries[None].astype(np.int64)
    if products.shape[1] % 2:
        products = np.pad(products, ((0, 0), (0, 1), (0, 0)))
    pairs = products[:, ::2] + products[:, 1::2]
    out[:] = np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1)


def test_a_kernel_that_saturates_is_found_and_7_bits_are_safe_from_it():
    assert not _is_exact(saturating, integer_product.EIGHT_BITS)
    assert _is_exact(saturating, integer_product.SEVEN_BITS)


def test_products_are_exact_here():
    assert highest_code() in (integer_product.EIGHT_BITS, integer_product.SEVEN_BITS)
    random = np.random.default_rng(0)
    rows = random.integers(0, highest_code() + 1, (37, 3001)).astype(np.uint8)
    queries = random.integers(-128, 128, (3001, 19)).astype(np.int8)
    found = np.empty((37, 19), np.int32)
    IntegerProduct()(rows, queries, found)
    assert (found == rows.astype(np.int64) @ queries.astype(np.int64)).all()


@pytest.mark.parametrize("cost", [0.1, 5.0])
def test_the_automatic_choice_follows_the_pilot_and_changes_no_bit(monkeypatch, used, cost):
    data = dataset("cosine")
    wanted = bits(ground_truth(data, depth=10))
    assert not used
    monkeypatch.setattr(backends, "_SMALL_SCAN", 0)
    measured = []

    def pilot(*arguments):
        measured.append(original(*arguments))
        return cost

    from recallatk.truths import search

    original = search.int8_cost
    monkeypatch.setattr(search, "int8_cost", pilot)
    assert bits(ground_truth(data, depth=10)) == wanted
    assert len(measured) == 1
    assert measured[0] > 0
    # The pilot calls the scanner itself: 6 times.
    assert (len(used) > 6) == (cost < 1)


def test_without_the_extra_the_choice_is_float32_and_the_name_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    integer_product._session.cache_clear()
    highest_code.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match=r"pip install 'recallatk\[fast\]'"):
            ground_truth(dataset("l2"), depth=5, backend="int8")
        monkeypatch.setattr(backends, "_SMALL_SCAN", 0)
        monkeypatch.setattr(backends, "find_spec", lambda _: object())
        assert not backends.may_pay(10**9, 100)
    finally:
        integer_product._session.cache_clear()
        highest_code.cache_clear()


@pytest.mark.parametrize(
    ("backend", "device", "message"),
    [
        ("cuda", None, "no backend 'cuda'. Accepted: auto, blas, faiss, int8 or jax"),
        ("auto", "npu", "no device 'npu'. Accepted: cpu, gpu or tpu"),
        ("int8", "gpu", "backend int8 runs on the cpu, not on a gpu. Accepted: auto or jax"),
        ("auto", "gpu", "no gpu here: JAX finds cpu"),
        ("jax", "tpu", "no tpu here: JAX finds cpu"),
    ],
)
def test_what_is_not_there_is_refused_before_any_work(backend, device, message):
    with pytest.raises(UsageError, match=message):
        require_backend(backend, device)


def test_without_jax_the_device_is_refused_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'recallatk\[jax\]'"):
        ground_truth(dataset("l2"), depth=5, device="gpu")


def test_a_processor_that_cannot_add_exactly_is_an_error_by_name_and_float32_otherwise(monkeypatch):
    monkeypatch.setattr(backends, "highest_code", lambda: None)
    with pytest.raises(UsageError, match="does not add 8-bit products exactly"):
        require_backend("int8")
    assert not backends.may_pay(10**9, 1000)
