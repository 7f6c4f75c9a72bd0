"""The same content has one fingerprint in every container, and other content another."""

import json
import struct
from dataclasses import replace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recallatk import fingerprint as module
from recallatk.core import ArrayVectors, Dataset, Metric, blocks
from recallatk.datasets import convert, make_corpus, make_queries, open_corpus, queries_from_corpus
from recallatk.filters import parse_filter
from recallatk.fingerprint import (
    fingerprint_ids,
    fingerprint_metadata,
    fingerprint_queries,
    fingerprint_vectors,
    fingerprints,
)

MATRIX = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
quick = settings(deadline=None, derandomize=True, max_examples=60)


def of(array):
    return fingerprint_vectors(ArrayVectors(np.asarray(array)))


def lists(kind, rows=slice(None)):
    return pa.array(list(MATRIX[rows]), kind)


def write_every_format(folder):
    np.save(folder / "a.npy", MATRIX)
    np.save(folder / "fortran.npy", np.asfortranarray(MATRIX))
    np.save(folder / "big.npy", MATRIX.astype(">f4"))
    np.savez(folder / "a.npz", MATRIX)
    np.savez_compressed(folder / "packed.npz", MATRIX)
    variable, fixed = pa.list_(pa.float32()), pa.list_(pa.float32(), 3)
    pq.write_table(pa.table({"vector": lists(variable)}), folder / "list.parquet", row_group_size=7)
    pq.write_table(pa.table({"vector": lists(fixed)}), folder / "fixed.parquet")
    pyarrow.feather.write_feather(pa.table({"vector": lists(fixed)}), folder / "a.feather", chunksize=11)
    (folder / "shards").mkdir()
    for number, rows in enumerate((slice(0, 5), slice(5, 33), slice(33, 40))):
        pq.write_table(pa.table({"vector": lists(variable, rows)}), folder / "shards" / f"{number}.parquet")
    (folder / "a.fbin").write_bytes(struct.pack("<II", 40, 3) + MATRIX.tobytes())
    (folder / "a.fvecs").write_bytes(b"".join(struct.pack("<i", 3) + row.tobytes() for row in MATRIX))
    with h5py.File(folder / "a.hdf5", "w") as file:
        file["train"], file["test"] = MATRIX, MATRIX[:2]
    rows = MATRIX.tolist()
    (folder / "a.jsonl").write_text("".join(json.dumps({"vector": row}) + "\n" for row in rows))
    (folder / "a.csv").write_text("v0,v1,v2\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))
    (folder / "short.csv").write_text("vector\n" + "".join(f"{' '.join(map(str, row))}\n" for row in MATRIX))
    return sorted(folder.iterdir())


def test_one_matrix_has_one_fingerprint_in_every_format(tmp_path):
    paths = write_every_format(tmp_path)
    assert len(paths) == 15
    found = {path.name: fingerprint_vectors(open_corpus(path).vectors) for path in paths}
    assert set(found.values()) == {of(MATRIX)}, found
    assert {fingerprint_ids(open_corpus(path)) for path in paths} == {fingerprint_ids(make_corpus(MATRIX))}
    assert len({fingerprint_metadata(open_corpus(path)) for path in paths}) == 1


@pytest.mark.parametrize(
    "name", ["x.npy", "x.parquet", "x.arrow", "x.fbin", "x.fvecs", "x.jsonl", "x.csv", "x.tsv"]
)
def test_conversion_keeps_fingerprints(tmp_path, name):
    np.save(tmp_path / "in.npy", MATRIX)
    convert(tmp_path / "in.npy", tmp_path / name)
    assert fingerprint_vectors(open_corpus(tmp_path / name).vectors) == of(MATRIX)
    assert fingerprint_ids(open_corpus(tmp_path / name)) == fingerprint_ids(make_corpus(MATRIX))


def test_conversion_keeps_the_fingerprints_of_ids_and_metadata(tmp_path):
    table = pa.table(
        {
            "id": [f"r{i}" for i in range(40)],
            "vector": lists(pa.list_(pa.float32())),
            "n": pa.array([None, *range(39)], pa.int16()),
            "s": pa.array(["", None, *("ä" * i for i in range(38))]).dictionary_encode(),
            "x": pa.array([None, 0.5, *np.arange(38) / 3], pa.float64()),
            "b": [True, False, None, True] * 10,
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    before = open_corpus(tmp_path / "in.parquet")
    for name in ("x.parquet", "x.arrow", "x.jsonl", "x.csv"):
        convert(tmp_path / "in.parquet", tmp_path / name)
        after = open_corpus(tmp_path / name)
        assert fingerprint_ids(after) == fingerprint_ids(before), name
        assert fingerprint_metadata(after) == fingerprint_metadata(before), name


@quick
@given(st.integers(1, 2000))
def test_the_size_of_blocks_does_not_matter(block_bytes):
    state = module.VectorsHash(ArrayVectors(MATRIX))
    for _, block in blocks(ArrayVectors(MATRIX), block_bytes):
        state.update(block)
    assert state.text() == of(MATRIX)


def test_the_layout_of_an_array_does_not_matter():
    wide = np.zeros((40, 9), np.float32)
    wide[:, ::3] = MATRIX
    assert of(np.asfortranarray(MATRIX)) == of(wide[:, ::3]) == of(MATRIX.astype(">f4")) == of(MATRIX)


def test_one_bit_the_type_the_shape_and_the_order_matter():
    bit = MATRIX.copy()
    bit.view(np.uint32)[17, 1] ^= 1
    zero = np.zeros((2, 2), np.float32)
    found = [
        of(MATRIX),
        of(bit),
        of(MATRIX.astype(np.float64)),
        of(MATRIX.reshape(20, 6)),
        of(MATRIX.reshape(60, 2)),
        of(MATRIX[::-1]),
        of(MATRIX[:39]),
        of(np.vstack([MATRIX, MATRIX[:1]])),
        of(MATRIX.view(np.uint8)),
        of(MATRIX.view(np.int8)),
        of(zero),
        of(-zero),
    ]
    assert len(set(found)) == len(found)


def test_fingerprints_stay_what_they_are():
    # Truth on disk is found by these: another value needs another version of the canonical form.
    assert of(np.arange(6, dtype=np.float32).reshape(2, 3)) == "e7eec2290b8590e63838fd484457b592"
    corpus = make_corpus(
        np.ones((2, 1), np.float32), ids=["a", "bc"], metadata={"n": [1, None], "s": ["x", ""]}
    )
    assert fingerprint_ids(corpus) == "07b0721f5b9ec6433b9f863f62359a4a"
    assert fingerprint_metadata(corpus) == "ba764217a753dde7fab2d51317723d94"


def test_a_longer_matrix_tells_what_it_began_with():
    whole, parts = module.fingerprint_prefixes(ArrayVectors(MATRIX), [1, 17, 39, 40, 99])
    assert whole == of(MATRIX)
    assert parts == {length: of(MATRIX[:length]) for length in (1, 17, 39)}


def ids_of(ids):
    return fingerprint_ids(make_corpus(np.ones((len(ids), 1), np.float32), ids=ids))


def test_row_numbers_are_the_integers_from_zero():
    assert (
        fingerprint_ids(make_corpus(MATRIX)) == ids_of(range(40)) == ids_of(pa.array(range(40), pa.uint8()))
    )
    assert fingerprint_ids(make_corpus(MATRIX)) != ids_of(range(1, 41))
    assert fingerprint_ids(make_corpus(MATRIX)) != fingerprint_ids(make_corpus(MATRIX[:39]))


def test_integers_are_no_strings_and_strings_have_ends():
    assert ids_of([1, 2]) != ids_of(["1", "2"])
    assert ids_of(["ab", "c"]) != ids_of(["a", "bc"])
    assert ids_of(["a", "b"]) != ids_of(["b", "a"])
    assert ids_of(["a", "b"]) == ids_of(pa.array(["a", "b"], pa.large_string()))
    assert ids_of(["a", "b"]) == ids_of(pa.array(["a", "b"]).dictionary_encode())


def metadata_of(table):
    table = table if isinstance(table, pa.Table) else pa.table(table)
    return fingerprint_metadata(make_corpus(np.ones((table.num_rows, 1), np.float32), metadata=table))


def test_the_order_of_columns_does_not_matter_and_their_names_do():
    assert metadata_of({"a": [1], "b": ["x"]}) == metadata_of({"b": ["x"], "a": [1]})
    assert metadata_of({"a": [1], "b": ["x"]}) != metadata_of({"b": [1], "a": ["x"]})
    assert metadata_of({"a": [1]}) != metadata_of({"a": [1], "b": ["x"]})


@pytest.mark.parametrize(
    ("values", "types"),
    [
        ([1, None, 3], [pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]),
        ([0.5, None, -2.0], [pa.float16(), pa.float32(), pa.float64()]),
        (
            ["a", None, ""],
            [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
        ),
        ([b"a", None, b"\xff"], [pa.binary(), pa.large_binary(), pa.binary_view()]),
        ([b"ab", None, b"\xff\0"], [pa.binary(), pa.binary(2)]),
        ([[1, 2], None, [3, 4]], [pa.list_(pa.int8()), pa.large_list(pa.int64()), pa.list_(pa.int32(), 2)]),
        ([["a", None], None, []], [pa.list_(pa.string()), pa.list_(pa.dictionary(pa.int8(), pa.string()))]),
        ([{"k": 1}, None, {"k": None}], [pa.struct([("k", pa.int8())]), pa.struct([("k", pa.int64())])]),
    ],
)
def test_the_width_and_the_encoding_of_a_column_do_not_matter(values, types):
    found = [
        metadata_of({"c": pa.array(values).cast(kind) if "view" in str(kind) else pa.array(values, kind)})
        for kind in types
    ]
    assert len(set(found)) == 1


def test_different_columns_have_different_fingerprints():
    columns = [
        pa.array([None, "a"]),
        pa.array(["", "a"]),
        pa.array(["a", None]),
        pa.array(["a", ""]),
        pa.array([None, None], pa.string()),
        pa.array([0, None]),
        pa.array([0, 0]),
        pa.array([0.0, 0.0]),
        pa.array([-0.0, 0.0]),
        pa.array([float("nan"), 0.0]),
        pa.array([None, 0.0]),
        pa.array([False, False]),
        pa.array([None, False]),
        pa.array(["0", "0"]),
        pa.array([b"0", b"0"]),
        pa.array([[], [0]]),
        pa.array([[0], []]),
        pa.array([None, [0]]),
        pa.array([[None], [0]]),
        pa.array([{"k": 0}, {"k": 0}]),
        pa.array([{"j": 0}, {"j": 0}]),
        pa.array([2**63, 1], pa.uint64()),
        pa.array([-(2**63), 1]),
        pa.array([1, 2**63], pa.uint64()),
        pa.array([0, 0], pa.date32()),
        pa.array([0, 0], pa.timestamp("s")),
        pa.array([0, 0], pa.duration("s")),
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array([[("k", 2)], None], pa.map_(pa.string(), pa.int64())),
    ]
    assert len({metadata_of({"c": column}) for column in columns}) == len(columns)


def test_every_nan_is_the_same():
    other = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert metadata_of({"c": other}) == metadata_of({"c": [float("nan")]})


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.text(max_size=4))),
    st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40))),
    st.lists(st.one_of(st.none(), st.floats())),
    st.lists(st.one_of(st.none(), st.booleans())),
    st.lists(st.one_of(st.none(), st.binary(max_size=3))),
    st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=3))),
    st.lists(st.one_of(st.none(), st.fixed_dictionaries({"k": st.one_of(st.none(), st.integers(0, 9))}))),
)


@quick
@given(VALUES.filter(bool), st.data())
def test_where_one_chunk_ends_does_not_matter(values, data):
    whole = pa.array(values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    pieces = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    chunked = pa.chunked_array(pieces, whole.type)
    assert metadata_of(pa.table({"c": chunked})) == metadata_of(pa.table({"c": whole}))


def test_how_many_rows_are_read_at_once_does_not_matter(monkeypatch):
    corpus = make_corpus(
        MATRIX, ids=[f"r{i}" for i in range(40)], metadata={"s": [None, "ab"] * 20, "n": range(40)}
    )
    before = fingerprint_ids(corpus), fingerprint_metadata(corpus)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    assert (fingerprint_ids(corpus), fingerprint_metadata(corpus)) == before


def test_queries_differ_by_vectors_ids_filters_and_own_rows():
    plain = make_queries(MATRIX)
    corpus = make_corpus(MATRIX)
    found = [
        plain,
        make_queries(MATRIX, ids=range(1, 41)),
        make_queries(MATRIX[::-1]),
        plain.where(parse_filter("n > 1")),
        plain.where(parse_filter("n > 2")),
        queries_from_corpus(corpus, 40),
        replace(queries_from_corpus(corpus, 40), corpus_rows=np.arange(40)[::-1].copy()),
    ]
    assert len({fingerprint_queries(each) for each in found}) == len(found)
    assert fingerprint_queries(make_queries(MATRIX, metadata={"text": ["t"] * 40})) == fingerprint_queries(
        plain
    )


def test_metadata_counts_for_a_dataset_only_where_a_filter_reads_it():
    corpora = [make_corpus(MATRIX, metadata={"n": np.arange(40) + i}) for i in range(2)]
    plain = [fingerprints(Dataset(each, make_queries(MATRIX), Metric.L2)) for each in corpora]
    assert plain[0] == plain[1]
    filtered = make_queries(MATRIX).where(parse_filter("n > 1"))
    both = [fingerprints(Dataset(each, filtered, Metric.L2)) for each in corpora]
    assert both[0]["metadata"] != both[1]["metadata"]
    assert set(plain[0]) == {"vectors", "ids", "queries"}
