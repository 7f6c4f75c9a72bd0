"""Data at the ends of number types, on which bounds once let rows in twice or out."""

import os
import subprocess
import sys

import numpy as np
import pytest

from recallatk import ground_truth, open_dataset
from recallatk.truths.candidates import known_floors
from recallatk.truths.shard_scan import ShardWork, scan_shard

FIRST_IMPORT = """
import numpy as np
from recallatk import ground_truth
rows = np.random.default_rng(0).standard_normal((3000, 16)).astype("f4")
ground_truth(rows, rows[:64] + 1, metric="l2", depth=5, backend="int8", store=False, threads=1)
import faiss
print(faiss.omp_get_max_threads())
"""


@pytest.fixture
def outliers():
    random = np.random.default_rng(0)
    rows = random.standard_normal((2_000, 16)).astype(np.float32)
    rows[::50] *= 15
    queries = random.standard_normal((64, 16)).astype(np.float32)
    queries[0] *= 1e8
    return rows, queries


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_loose_rows_count_once_for_a_query_of_another_size(outliers, metric):
    rows, queries = outliers
    found, plain = (
        ground_truth(rows, queries, metric=metric, depth=5, backend=backend, store=False, threads=1)
        for backend in ("int8", "blas")
    )
    assert (found.rows == plain.rows).all()
    assert (found.scores == plain.scores).all()
    assert (found.certificate.next_scores == plain.certificate.next_scores).all()


def test_an_update_finds_rows_above_floors_that_float32_cannot_hold():
    old = np.full((6, 2), -1e30, np.float32) * np.arange(1, 7, dtype=np.float32)[:, None]
    new = np.ones((50, 2), np.float32) * np.arange(1, 51, dtype=np.float32)[:, None]
    query = np.full((1, 2), 1e10, np.float32)
    options = {"metric": "ip", "depth": 3, "store": False}
    earlier = ground_truth(old, query, **options)
    whole = np.concatenate([old, new])
    updated = ground_truth(whole, query, since=earlier, metric="ip", depth=3)
    assert updated.rows.tolist() == ground_truth(whole, query, **options).rows.tolist() == [[55, 54, 53]]


def test_a_shard_of_other_magnitude_keeps_its_rows():
    random = np.random.default_rng(1)
    far, near = random.standard_normal((20, 4)) * 1e22, random.standard_normal((20, 4))
    queries = random.standard_normal((6, 4)).astype(np.float32)
    whole = open_dataset(np.concatenate([far, near]).astype(np.float32), queries, metric="l2")
    parts = [open_dataset(part.astype(np.float32), queries, metric="l2") for part in (far, near)]
    work = ShardWork(np.array(queries), whole.metric, 3)
    first = scan_shard(work, parts[0].corpus, 0, parts[0].eligibility)
    floors = known_floors(whole.metric, first, 4)
    second = scan_shard(work, parts[1].corpus, 20, parts[1].eligibility, floors)
    expected = ground_truth(whole, depth=3, store=False)
    for query, rows in enumerate(expected.rows):
        there = second.rows[second.offsets[query] : second.offsets[query + 1]]
        assert set(rows) <= set(there)


def test_a_scan_leaves_the_threads_of_faiss_as_they_were():
    usual = "import faiss; print(faiss.omp_get_max_threads())"
    before, after = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (usual, FIRST_IMPORT)
    )
    assert after == before


def test_the_products_of_8_bits_start_no_telemetry(tmp_path):
    code = "from recallatk.truths.integer_product import highest_code; print(highest_code())"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert list(tmp_path.iterdir()) == [], "ONNX Runtime keeps the session of its telemetry there"
