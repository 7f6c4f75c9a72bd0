"""Every binary format gives any range of rows, in any order, as numpy slicing does."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from writers import (
    numbers,
    write_arrow,
    write_hdf5,
    write_npy,
    write_npz,
    write_parquet,
    write_vecs,
    write_xbin,
)

import recallatk

ROWS = 97
MATRIX = numbers(ROWS, 5)
IDS = [f"doc{row}" for row in range(ROWS)]


def _shards(folder, write, ending):
    for number, (start, stop) in enumerate([(0, 40), (40, 41), (41, ROWS)]):
        write(folder / f"part-{number}.{ending}", MATRIX[start:stop], id=IDS[start:stop])
    return folder / f"part-*.{ending}"


WRITERS = {
    "npy": lambda d: write_npy(d / "a.npy", MATRIX),
    "npy by columns": lambda d: write_npy(d / "a.npy", np.asfortranarray(MATRIX)),
    "npy big-endian": lambda d: write_npy(d / "a.npy", MATRIX.astype(">f4")),
    "npz": lambda d: write_npz(d / "a.npz", MATRIX, ids=np.array(IDS)),
    "npz by columns": lambda d: write_npz(d / "a.npz", np.asfortranarray(MATRIX), ids=np.array(IDS)),
    "npz compressed": lambda d: write_npz(d / "a.npz", MATRIX, compressed=True, ids=np.array(IDS)),
    "fvecs": lambda d: write_vecs(d / "a.fvecs", MATRIX),
    "fbin": lambda d: write_xbin(d / "a.fbin", MATRIX),
    "fbin wide": lambda d: write_xbin(d / "a.fbin", MATRIX, wide=True),
    "parquet": lambda d: write_parquet(d / "a.parquet", MATRIX, row_group_rows=13, id=IDS),
    "parquet, one group": lambda d: write_parquet(d / "a.parquet", MATRIX, kind="fixed", id=IDS),
    "parquet shards": lambda d: _shards(d, write_parquet, "parquet"),
    "arrow": lambda d: write_arrow(d / "a.arrow", MATRIX, batch_rows=13, id=IDS),
    "arrow, one batch": lambda d: write_arrow(d / "a.arrow", MATRIX, kind="fixed", id=IDS),
    "arrow compressed": lambda d: write_arrow(
        d / "a.arrow", MATRIX, batch_rows=30, compression="zstd", id=IDS
    ),
    "arrow stream": lambda d: write_arrow(d / "a.arrow", MATRIX, batch_rows=13, stream=True, id=IDS),
    "arrow shards": lambda d: _shards(d, write_arrow, "arrow"),
    "hdf5": lambda d: write_hdf5(d / "a.hdf5", MATRIX, MATRIX[:3]),
    "hdf5 in chunks": lambda d: write_hdf5(d / "a.hdf5", MATRIX, MATRIX, storage={"chunks": (10, 3)}),
}
every_format = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
ranges = st.lists(st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted), min_size=1, max_size=12)


@pytest.fixture
def corpus(tmp_path, write, monkeypatch):
    # Small units, so that ranges cross them.
    monkeypatch.setattr("recallatk.datasets.formats.parquet._BATCH_ROWS", 7)
    monkeypatch.setattr("recallatk.datasets.formats.arrow.BLOCK_BYTES", 200)
    return recallatk.open_corpus(write(tmp_path))


@every_format
@given(ranges=ranges)
def test_any_ranges_in_any_order_are_those_of_the_matrix(corpus, ranges):
    for start, stop in ranges:
        block = corpus.vectors.read(start, stop)
        assert block.dtype == np.float32
        np.testing.assert_array_equal(block, MATRIX[start:stop])
        if corpus.id_column is not None:
            assert corpus.read_ids(start, stop).to_pylist() == IDS[start:stop]


@every_format
@pytest.mark.parametrize("step", [1, 13, 20, ROWS])
def test_reading_on_gives_every_row_once(corpus, step):
    parts = [corpus.vectors.read(start, min(start + step, ROWS)).copy() for start in range(0, ROWS, step)]
    np.testing.assert_array_equal(np.concatenate(parts), MATRIX)


@every_format
def test_an_empty_range_has_the_width_of_the_matrix(corpus):
    for row in (0, 50, ROWS):
        assert corpus.vectors.read(row, row).shape == (0, 5)


@every_format
def test_several_threads_read_one_file(corpus):
    wrong = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(25):
            start, stop = sorted(generator.integers(0, ROWS + 1, 2).tolist())
            if not np.array_equal(corpus.vectors.read(start, stop), MATRIX[start:stop]):
                wrong.append((start, stop))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_going_on_in_one_giant_row_group_decodes_it_once(tmp_path, monkeypatch):
    from recallatk.datasets.formats.parquet import ParquetShard

    opened = []
    whole = ParquetShard.batches
    monkeypatch.setattr(ParquetShard, "batches", lambda *given: opened.append(given) or whole(*given))
    corpus = recallatk.open_corpus(write_parquet(tmp_path / "a.parquet", MATRIX, kind="fixed"))
    opened.clear()
    for start in range(0, ROWS, 10):
        corpus.vectors.read(start, min(start + 10, ROWS))
    assert len(opened) == 1


def test_opening_a_table_decodes_no_more_than_its_first_batch(tmp_path):
    matrix = numbers(50_000, 64)
    path = write_parquet(tmp_path / "a.parquet", matrix, options={"use_dictionary": False})
    before = pa.default_memory_pool().bytes_allocated()
    corpus = recallatk.open_corpus(path)
    assert corpus.vectors.shape == (50_000, 64)
    assert pa.default_memory_pool().bytes_allocated() - before < matrix.nbytes / 2
