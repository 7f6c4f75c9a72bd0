"""Truth on disk: what is written comes back, and nothing else is taken for it."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk import make_corpus, make_queries, open_dataset, save_truth
from recallatk.core import Origin, Truth
from recallatk.core.truth import Decision
from recallatk.errors import FormatError, RecallError, UsageError
from recallatk.filters import Equals
from recallatk.fingerprint import fingerprint_truth
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth, load_truth, verify_truth

KEY = b"recallatk.truth"


def assert_same(found, truth):
    assert (found.rows == truth.rows).all()
    assert found.rows.dtype == np.int64
    for name in ("scores", "eligible"):
        one, other = getattr(found, name), getattr(truth, name)
        assert (one is None and other is None) or one.tobytes() == other.tobytes()
    assert (found.overflow is None) == (truth.overflow is None)
    for one, other in zip(found.overflow or (), truth.overflow or (), strict=True):
        assert list(one) == list(other)
    assert found.metric is truth.metric
    assert found.origin is truth.origin
    assert found.fingerprints == truth.fingerprints
    assert found.corpus_rows == truth.corpus_rows
    named = np.concatenate([truth.rows.reshape(-1), *(truth.overflow or ())[1:]])
    if truth.query_ids is not None:
        assert found.query_ids.equals(truth.query_ids)
    if truth.row_ids is not None:
        assert found.ids_of(named).equals(truth.ids_of(named))
    assert fingerprint_truth(found) == fingerprint_truth(truth)


@pytest.mark.parametrize("ids", [None, [f"é {i}" for i in range(200)], list(range(1000, 1200))])
def test_a_truth_comes_back_as_it_was_written(tmp_path, ids):
    vectors = np.random.default_rng(0).integers(-2, 3, (200, 3)).astype("int8")
    filters = [Equals("n", 0), Equals("n", 7), None]
    corpus = make_corpus(vectors, ids, {"n": np.arange(200) % 4})
    dataset = open_dataset(corpus, make_queries(vectors[:3], ["a", "b", "c"], filters=filters), metric="l2")
    truth = ground_truth(dataset, depth=60)
    assert list(truth.eligible) == [50, 0, 200]
    assert len(truth.overflow[1])
    save_truth(truth, tmp_path / "truth.parquet")
    assert_same(load_truth(tmp_path / "truth.parquet"), truth)
    assert truth.corpus_rows == 200

    table = pq.read_table(tmp_path / "truth.parquet")
    assert table["query_id"].to_pylist() == ["a", "b", "c"]
    assert [len(each) for each in table["neighbors"].to_pylist()] == [50, 0, 60]
    named = corpus.ids.to_pylist()
    assert table["neighbors"].to_pylist()[2] == [named[row] for row in truth.rows[2]]
    bounds, tied = truth.overflow
    assert table["tied_rows"].to_pylist() == [list(tied[bounds[i] : bounds[i + 1]]) for i in range(3)]
    assert table["tied_neighbors"].to_pylist() == [
        [named[row] for row in rows] for rows in table["tied_rows"].to_pylist()
    ]


def test_a_truth_of_somebody_else_comes_back_without_what_it_does_not_know(tmp_path):
    truth = Truth(np.array([[3, 1, -1], [-1, -1, -1]]), None, None, None, Origin.IMPORTED)
    save_truth(truth, tmp_path / "t.parquet")
    assert_same(load_truth(tmp_path / "t.parquet"), truth)


def test_a_truth_in_which_no_query_may_return_anything_comes_back(tmp_path):
    dataset = tiny_dataset(20, 2)
    dataset = open_dataset(dataset.corpus, dataset.queries, metric="ip", where="size > 1000")
    truth = ground_truth(dataset, depth=5)
    assert (truth.rows == -1).all()
    save_truth(truth, tmp_path / "t.parquet")
    assert_same(load_truth(tmp_path / "t.parquet"), truth)


@pytest.mark.parametrize(
    ("query_ids", "row_ids"),
    [
        (["first", "second é"], [f"row {i}" for i in range(60)]),
        ([70, -3], list(range(5000, 5060))),
        (None, None),
        (["a", "b"], list(range(60, 0, -1))),
    ],
)
def test_a_truth_keeps_the_ids_of_queries_and_of_neighbors_and_of_ties_beyond_the_depth(
    tmp_path, query_ids, row_ids
):
    # 40 copies of one vector, of which the depth holds 3.
    vectors = np.concatenate([np.arange(20)[:, None] + 5, np.ones((40, 1))]).astype("float32")
    corpus = make_corpus(vectors, row_ids)
    queries = make_queries(np.array([[1], [24]], "float32"), query_ids)
    truth = ground_truth(open_dataset(corpus, queries, metric="l2"), depth=3)
    save_truth(truth, tmp_path / "t.parquet")
    for each in (truth, load_truth(tmp_path / "t.parquet")):
        assert each.query_ids.to_pylist() == (query_ids or [0, 1])
        named = row_ids or list(range(60))
        assert each.ids_of(each.rows[0]).to_pylist() == named[20:23]
        assert each.ids_of(each.rows[1]).to_pylist() == [named[19], named[18], named[17]]
        assert each.ids_of(each.overflow[1]).to_pylist() == named[23:60]
        assert each.ids_of(np.array([-1])).to_pylist() == [None]
        if row_ids is not None:
            # Rows that the truth does not name, and rows that are not there.
            assert each.ids_of(np.array([0, 60, 2**40])).to_pylist() == [None] * 3
        assert each.corpus_rows == 60


def test_a_truth_without_ids_is_written_with_row_numbers(tmp_path):
    truth = Truth(np.array([[3, 1], [7, -1]]), None, None, None, Origin.IMPORTED)
    save_truth(truth, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table["query_id"].to_pylist() == [0, 1]
    assert table["neighbors"].to_pylist() == table["rows"].to_pylist() == [[3, 1], [7]]
    found = load_truth(tmp_path / "t.parquet")
    assert found.corpus_rows is None
    assert found.ids_of(np.array([7, 1, -1])).to_pylist() == [7, 1, None]


@pytest.fixture
def written(tmp_path):
    dataset = tiny_dataset(30, 3, duplicates=10)
    truth = ground_truth(dataset, depth=4)
    path = tmp_path / "truth.parquet"
    save_truth(truth, path)
    return path, truth


def rewritten(path, change):
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[KEY])
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(change(header))}), path)


def test_a_newer_format_is_refused_with_the_way_out(written):
    path, _ = written
    rewritten(path, lambda header: {**header, "format_version": 6, "depth": "something new"})
    with pytest.raises(FormatError, match=r"truth format 6.*format 5 or older.*pip install --upgrade"):
        load_truth(path)


def test_what_an_older_certificate_calls_exact_is_not_held_against_it(written, tmp_path):
    path, truth = written
    dataset = tiny_dataset(30, 3, duplicates=10)
    # Before format 4, rows that the truth does not name counted too.
    decided = np.full(3, Decision.EXACT, np.uint8)
    save_truth(replace(truth, certificate=replace(truth.certificate, decided=decided)), path)
    assert not verify_truth(load_truth(path), dataset).right
    rewritten(path, lambda header: {**header, "format_version": 3})
    older = load_truth(path)
    assert verify_truth(older, dataset).right
    save_truth(older, tmp_path / "copy.parquet")
    assert verify_truth(load_truth(tmp_path / "copy.parquet"), dataset).right


@pytest.mark.parametrize(
    "change",
    [
        lambda header: [],
        lambda header: {},
        lambda header: {**header, "format_version": None},
        lambda header: {**header, "metric": "hamming"},
        lambda header: {**header, "depth": 1},
        lambda header: {name: value for name, value in header.items() if name != "origin"},
    ],
)
def test_a_damaged_header_is_refused(written, change):
    path, _ = written
    rewritten(path, change)
    with pytest.raises(FormatError, match=r"truth\.parquet"):
        load_truth(path)


def test_other_files_are_no_truth(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        load_truth(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("PAR1, honestly")
    (tmp_path / "empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"rows": [[1]]}), tmp_path / "foreign.parquet")
    table = pa.table({"other": [1]}).replace_schema_metadata({KEY: json.dumps({"format_version": 1})})
    pq.write_table(table, tmp_path / "bare.parquet")
    for name in ("text", "empty", "foreign", "bare"):
        said = f"{name}.parquet: cannot be read as truth file of this tool: "
        with pytest.raises(FormatError, match=said):
            load_truth(tmp_path / f"{name}.parquet")


def test_no_cut_and_no_flipped_byte_gives_other_neighbors(written):
    path, truth = written
    whole = path.read_bytes()
    refused = 0
    damaged = [whole[:length] for length in range(0, len(whole), 97)]
    random = np.random.default_rng(0)
    for position in random.choice(len(whole), 1000, replace=False):
        damaged.append(whole[:position] + bytes([whole[position] ^ 0x21]) + whole[position + 1 :])
    for data in damaged:
        path.write_bytes(data)
        try:
            found = load_truth(path)
        except RecallError:
            refused += 1
        else:
            assert (found.rows == truth.rows).all()
            assert found.scores.tobytes() == truth.scores.tobytes()
    assert refused > len(damaged) / 3


def test_a_write_that_fails_leaves_the_old_file(written, monkeypatch):
    path, truth = written
    before = path.read_bytes()

    def broken(table, target, **options):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        save_truth(truth, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_float32_and_float64_of_an_older_certificate_are_not_compared(written):
    path, truth = written
    dataset = tiny_dataset(30, 3, duplicates=10)
    other = np.where(truth.certificate.decided == Decision.FLOAT32, Decision.FLOAT64, Decision.FLOAT32)
    decided = np.where(truth.certificate.decided == Decision.EXACT, Decision.EXACT, other).astype(np.uint8)
    assert (decided != Decision.EXACT).any()
    save_truth(replace(truth, certificate=replace(truth.certificate, decided=decided)), path)
    assert not verify_truth(load_truth(path), dataset).right
    rewritten(path, lambda header: {**header, "format_version": 4})
    assert verify_truth(load_truth(path), dataset).right
