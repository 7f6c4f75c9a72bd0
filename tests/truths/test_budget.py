"""Memory: sizes as people write them, what follows from them, and whether a computation keeps to it."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import make_queries
from recallatk.core import Corpus, Dataset, Metric
from recallatk.errors import UsageError
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth, obtain_truth
from recallatk.truths.memory_plan import SMALLEST, MemoryPlan, heavy_queries, plan
from recallatk.units import parse_size

UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
SPACES = st.sampled_from(["", " ", "  "])


@given(st.integers(0, 2**53))
def test_a_number_of_bytes_is_that_many(size):
    assert parse_size(size) == parse_size(str(size)) == parse_size(f" {size} B") == size


@given(
    st.integers(0, 5000), st.sampled_from([*UNITS]), st.sampled_from(["", "b", "ib"]), st.booleans(), SPACES
)
def test_units_are_powers_of_1024_however_they_are_written(count, unit, ending, upper, space):
    text = f"{count}{space}{unit}{ending if unit else ''}"
    assert parse_size(text.upper() if upper else text) == count << UNITS[unit]


@given(st.integers(0, 2000), st.integers(0, 3), st.sampled_from(["k", "m", "g", "t"]))
def test_fractions_are_cut_to_whole_bytes(whole, quarters, unit):
    text = f"{whole}.{quarters * 25:02}{unit}iB"
    assert parse_size(text) == (4 * whole + quarters << UNITS[unit]) // 4


@pytest.mark.parametrize(
    "size", ["", " ", "GiB", "-1GiB", "1 Gi B", "1e9", "1,000", "1.GiB", ".5GiB", "1PiB", "1GiBs", "0x10"]
)
def test_what_is_no_size_is_refused_with_what_is(size):
    with pytest.raises(UsageError, match=r"is not a size\. Accepted: .*GiB"):
        parse_size(size)


@pytest.mark.parametrize("size", [None, True, [], b"1GiB"])
def test_things_that_are_neither_text_nor_number_are_refused(size):
    with pytest.raises(UsageError, match="Accepted: "):
        parse_size(size)


def test_a_size_beyond_all_numbers_is_refused_too():
    with pytest.raises(UsageError):
        parse_size("9" * 400)


@pytest.mark.parametrize("memory", [0, -1, SMALLEST - 1, "1MiB", "255.9MiB"])
def test_less_than_the_smallest_budget_is_refused(tmp_path, memory):
    for call in (ground_truth, lambda dataset, **options: obtain_truth(dataset, store=tmp_path, **options)):
        with pytest.raises(UsageError, match=r"a memory budget of .* bytes. Accepted: 256 MiB or more"):
            call(tiny_dataset(), memory=memory)
    assert list(tmp_path.iterdir()) == []


def test_the_smallest_budget_is_enough():
    dataset = tiny_dataset()
    assert (ground_truth(dataset, memory="256MiB").rows == ground_truth(dataset, memory=None).rows).all()


@dataclass(frozen=True)
class Shape:
    """A matrix of which only the size is of interest."""

    shape: tuple[int, int]
    dtype: np.dtype


def shaped(rows, queries, dimension, dtype="float32"):
    asked = make_queries(np.ones((1, dimension), "float32"))
    object.__setattr__(asked, "vectors", Shape((queries, dimension), np.dtype("float32")))
    return Dataset(
        Corpus("corpus", Shape((rows, dimension), np.dtype(dtype)), asked.columns), asked, Metric.L2
    )


SHAPES = {
    "rows": st.integers(1, 10**9),
    "queries": st.integers(1, 10**6),
    "dimension": st.integers(1, 4096),
    "dtype": st.sampled_from(["int8", "float16", "float32", "float64"]),
}


@given(
    **SHAPES, depth=st.integers(1, 1000), threads=st.integers(1, 64), memory=st.integers(SMALLEST, 1 << 40)
)
def test_blocks_and_groups_are_never_empty_and_grow_with_the_budget(
    rows, queries, dimension, dtype, depth, threads, memory
):
    dataset = shaped(rows, queries, dimension, dtype)
    small, large = (plan(dataset, depth, size, threads) for size in (memory, 2 * memory))
    assert 1 <= small.group_queries <= large.group_queries <= queries
    assert 1 <= small.block_rows <= rows
    assert 1 <= large.block_rows <= rows
    assert small.block_rows <= large.block_rows


@given(**SHAPES, depth=st.integers(1, 1000), memory=st.integers(256 << 20, 1 << 36))
def test_what_is_held_is_smaller_than_the_budget(rows, queries, dimension, dtype, depth, memory):
    found = plan(shaped(rows, queries, dimension, dtype), depth, memory, threads=2)
    # Two blocks, of which one is being read, and for each query and thread a table of candidates.
    blocks = (1 if found.block_rows == rows else 2) * found.block_rows * dimension * np.dtype(dtype).itemsize
    tables = found.group_queries * (depth + 1) * 6 * 8
    assert blocks + tables < memory


def test_a_corpus_that_fits_is_one_block_and_others_are_not():
    for rows, whole in ((100_000, True), (1_000_000, False)):
        dataset = shaped(rows, 100, 256)
        assert (plan(dataset, 10, "1GiB", 2).block_rows == rows) is whole
    assert plan(shaped(1_000_000, 100, 256), 10, "8GiB", 2) == MemoryPlan(1_000_000, 100, 2)


def test_a_block_size_that_is_asked_for_is_what_is_taken():
    dataset = shaped(1_000_000, 100, 256)
    assert plan(dataset, 10, None, 2, block_bytes=1 << 20).block_rows == 1024
    assert plan(dataset, 10, None, 2, block_bytes=1).block_rows == 1


@given(st.integers(1, 10**6), st.integers(1, 10**9))
def test_queries_that_hold_all_rows_come_in_smaller_groups(group, rows):
    heavy = heavy_queries(group, rows)
    assert heavy >= 1
    assert heavy == 1 or heavy * rows <= group * 600


SCRIPT = """
import json, re
from pathlib import Path
from recallatk import open_dataset
from recallatk.truths import obtain_truth

def kibibytes(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

# Whatever is imported or started when it is first used belongs to the baseline.
small = open_dataset("small.npy", "queries.npy", metric="l2")
obtain_truth(small, depth=10, store="warm", memory="256MiB", threads=2)
dataset = open_dataset("corpus.npy", "queries.npy", metric="l2")
before = kibibytes("VmRSS")
found = obtain_truth(dataset, depth=100, store="store", memory="256MiB", threads=2, checkpoint_seconds=0.5)
print(json.dumps([before, kibibytes("VmHWM"), found.truth.rows[:, 0].tolist()]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much was used")
def test_a_computation_stays_within_its_budget(tmp_path):
    random = np.random.default_rng(0)
    rows, width = 400_000, 256
    corpus = np.lib.format.open_memmap(tmp_path / "corpus.npy", "w+", np.float32, (rows, width))
    for start in range(0, rows, 20_000):
        corpus[start : start + 20_000] = random.random((20_000, width), np.float32)
    np.save(tmp_path / "small.npy", corpus[:2000])
    places = random.integers(0, rows, 200)
    np.save(tmp_path / "queries.npy", corpus[places])
    corpus.flush()
    del corpus
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    (tmp_path / "corpus.npy").unlink()
    before, most, found = json.loads(done.stdout)
    assert found == places.tolist()
    assert (most - before) * 1024 < 256 << 20
