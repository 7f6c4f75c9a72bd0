"""JSON Lines as other programs write it, and everything that is refused with its row."""

import json
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from text_damage import damaged
from writers import numbers

import recallatk
from recallatk.datasets import convert, open_corpus
from recallatk.datasets.formats import jsonl
from recallatk.errors import BadValueError, FormatError, RecallError, UsageError

SIGNS = [b"\0", b'"', b"[", b"}", b"\n", b"\xef\xbb\xbf", b"NaN", b"-", b"\\"]


@pytest.fixture
def write(tmp_path):
    """A file of the given objects or raw lines."""

    def written(*lines, name="rows.jsonl", end="\n", before=""):
        text = end.join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        path = tmp_path / name
        path.write_bytes((before + text + end).encode())
        return path

    return written


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(jsonl, "_BLOCK_BYTES", 256)


def refusal(path, error=FormatError):
    """Open and read everything; the error that this ends in."""
    with pytest.raises(error) as caught:
        read_all(path)
    return caught.value


def read_all(path):
    corpus = open_corpus(path)
    return corpus.vectors.read(0, corpus.rows), corpus.ids.to_pylist(), corpus.metadata.to_pydict()


def test_ids_vectors_and_metadata_are_read(write, same):
    matrix = numbers(3, 4)
    path = write(
        {"id": "a", "vector": matrix[0].tolist(), "color": "red", "size": 1},
        {"id": "b", "vector": matrix[1].tolist(), "color": None, "size": 2},
        {"id": "ü", "vector": matrix[2].tolist(), "color": "", "size": None},
    )
    corpus = open_corpus(path)
    same(corpus, matrix)
    assert corpus.ids.to_pylist() == ["a", "b", "ü"]
    assert corpus.metadata.to_pydict() == {"color": ["red", None, ""], "size": [1, 2, None]}


def test_integer_ids_stay_integers_and_string_ids_strings(write):
    assert read_all(write({"id": 7, "vector": [1.0]}, {"id": -2, "vector": [2.0]}))[1] == [7, -2]
    assert read_all(write({"_id": "007", "vector": [1.0]}, {"_id": "7", "vector": [2.0]}))[1] == ["007", "7"]


def test_ids_that_look_like_dates_stay_text(write):
    path = write({"id": "2020-01-01", "vector": [1]}, {"id": "2020-01-02", "vector": [2]})
    assert read_all(path)[1] == ["2020-01-01", "2020-01-02"]


def test_texts_that_look_like_dates_in_one_block_only_stay_text(write, small_blocks):
    rows = [{"id": i, "vector": [i + 1], "day": "2020-01-01 10:00:00"} for i in range(20)]
    path = write(*rows, {"id": 20, "vector": [1], "day": "never", "more": {"when": ["2020-01-01"]}})
    metadata = read_all(path)[2]
    assert metadata["day"] == ["2020-01-01 10:00:00"] * 20 + ["never"]
    assert metadata["more"][-1] == {"when": ["2020-01-01"]}


def test_types_of_metadata_are_inferred(write):
    row = {"id": 1, "vector": [1], "b": True, "i": 3, "f": 0.5, "s": "x", "l": ["p", "q"], "o": {"k": 1}}
    schema = open_corpus(write(row)).metadata.schema
    assert [str(schema.field(name).type) for name in "bifs"] == ["bool", "int64", "double", "string"]
    assert open_corpus(write(row)).metadata.to_pylist()[0]["l"] == ["p", "q"]
    assert open_corpus(write(row)).metadata.to_pylist()[0]["o"] == {"k": 1}


def test_a_key_that_is_null_everywhere_is_text(write):
    corpus = open_corpus(write({"vector": [1], "n": None}, {"vector": [2], "n": None}))
    assert corpus.metadata.schema.field("n").type == pa.string()
    assert corpus.metadata["n"].null_count == 2


def test_objects_without_keys_are_no_column(write, tmp_path):
    path = write({"_id": "a", "vector": [1], "metadata": {}}, {"_id": "b", "vector": [2], "metadata": {}})
    assert open_corpus(path).metadata_names == []
    convert(path, tmp_path / "out.parquet")


def test_a_key_that_first_appears_in_a_later_block_is_null_before(write, small_blocks):
    rows = [{"id": i, "vector": [i, 1]} for i in range(40)]
    rows[35]["late"] = "here"
    metadata = read_all(write(*rows))[2]
    assert metadata["late"] == [None] * 35 + ["here"] + [None] * 4


def test_integers_then_floats_are_floats(write, small_blocks):
    rows = [{"id": i, "vector": [i, 1], "x": i} for i in range(30)]
    rows.append({"id": 30, "vector": [0.5, 1], "x": 0.25})
    vectors, _, metadata = read_all(write(*rows))
    assert metadata["x"] == [*map(float, range(30)), 0.25]
    assert vectors[30].tolist() == [0.5, 1]


def test_byte_order_mark_blank_lines_and_crlf_do_no_harm(write):
    path = write(
        {"id": 1, "vector": [1]}, "", "   ", {"id": 2, "vector": [2]}, end="\r\n", before="\ufeff\r\n"
    )
    assert read_all(path)[1] == [1, 2]


def test_a_last_line_without_an_end_is_read(tmp_path):
    path = tmp_path / "x.ndjson"
    path.write_text('{"id": 1, "vector": [1]}\n{"id": 2, "vector": [2]}')
    assert read_all(path)[1] == [1, 2]


def test_the_only_list_of_numbers_is_the_vector_and_float32(write):
    corpus = open_corpus(write({"id": 1, "dense": [1, 2]}, {"id": 2, "dense": [3, 4]}))
    assert corpus.vectors.dtype == np.float32
    assert corpus.vectors.read(0, 2).tolist() == [[1, 2], [3, 4]]


def test_a_column_can_be_named(write):
    path = write({"key": "k", "a": [1, 2], "b": [3, 4]}, {"key": "l", "a": [5, 6], "b": [7, 8]})
    with pytest.raises(UsageError, match="--vector-column"):
        open_corpus(path)
    corpus = open_corpus(path, vector_column="b", id_column="key")
    assert corpus.vectors.read(0, 2).tolist() == [[3, 4], [7, 8]]
    assert corpus.vectors.dtype == np.float32
    assert corpus.ids.to_pylist() == ["k", "l"]


@pytest.mark.parametrize("block_bytes", [64, 257, 4096])
def test_any_range_of_a_long_file_is_what_numpy_slices(write, monkeypatch, block_bytes):
    monkeypatch.setattr(jsonl, "_BLOCK_BYTES", block_bytes)
    matrix = np.random.default_rng(1).standard_normal((120, 5)).astype(np.float32)
    path = write(*({"id": f"r{i}", "vector": row.tolist(), "n": i} for i, row in enumerate(matrix)))
    corpus = open_corpus(path)
    order = random.Random(2)
    for _ in range(25):
        start = order.randrange(121)
        stop = order.randrange(start, 121)
        np.testing.assert_array_equal(corpus.vectors.read(start, stop), matrix[start:stop])
        assert corpus.columns.read(["n"], start, stop)["n"].to_pylist() == list(range(start, stop))
        assert corpus.read_ids(start, stop).to_pylist() == [f"r{i}" for i in range(start, stop)]


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    )
)
def test_every_float32_survives_being_written_and_read(tmp_path, matrix):
    np.save(tmp_path / "in.npy", matrix)
    convert(tmp_path / "in.npy", tmp_path / "out.jsonl")
    convert(tmp_path / "out.jsonl", tmp_path / "back.npy")
    assert np.load(tmp_path / "back.npy").tobytes() == matrix.tobytes()


def test_what_is_written_is_json_that_others_read(write, tmp_path):
    row = {"id": "ä", "vector": [0.5, 1.0], "text": 'say "hi"\nthere', "n": None, "t": True, "l": [1, 2]}
    convert(write(row), tmp_path / "out.jsonl")
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [row]


def test_a_ragged_vector_is_refused_with_its_row(write):
    problem = refusal(write({"vector": [1, 2]}, {"vector": [3, 4]}, {"vector": [5]}))
    assert problem.row == 2
    assert "1 numbers" in str(problem)
    assert "rows.jsonl" in str(problem)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('{"vector": [1, "x"]}', "changed from number to string"),
        ('{"vector": "x"}', "changed from array to string"),
        ('{"vector": [[1, 2]]}', "changed from number to array"),
        ('{"vector": [1, 2]', "is not an object"),
        ('{"vector": [1 2]}', "Missing a comma"),
        ("[1, 2]", "is not an object"),
        ("17", "is not an object"),
        ('{"vector": [1, 1e999]}', "too big"),
        ('{"vector": [1, 2], "vector": [1, 2]}', "twice"),
        ('{"vector": [1, 2], "s": 5}', "changed from string to number"),
        ('{"vector": [1, 2], "s": "\\ud800"}', "surrogate"),
        ('{"vector": [1, 2], "deep": ' + "[" * 150 + "]" * 150 + "}", "levels"),
    ],
)
@pytest.mark.parametrize("block_bytes", [64, 4 << 20])
def test_bad_lines_are_refused_with_their_row(write, monkeypatch, bad, said, block_bytes):
    monkeypatch.setattr(jsonl, "_BLOCK_BYTES", block_bytes)
    good = [{"vector": [i, 2.5], "s": "text"} for i in range(10)]
    problem = refusal(write(*good, bad, *good))
    assert problem.row == 10
    assert said in str(problem) or block_bytes == 64
    assert problem.where.endswith("rows.jsonl")


@pytest.mark.parametrize(
    ("bad", "said", "error"),
    [
        ('{"vector": null}', "null", FormatError),
        ('{"s": "no vector"}', "null", FormatError),
        ('{"vector": [1, null]}', "null", FormatError),
        ('{"vector": []}', "0 numbers", FormatError),
        ('{"vector": [NaN, 1]}', "nan at position 0", BadValueError),
        ('{"vector": [1, Infinity]}', "inf at position 1", BadValueError),
        ('{"vector": [1, 1e39]}', "inf at position 1", BadValueError),
    ],
)
def test_bad_vectors_are_refused_with_their_row(write, bad, said, error):
    good = [{"vector": [i, 2.5]} for i in range(10)]
    problem = refusal(write(*good, bad, *good), error)
    assert problem.row == 10
    assert said in str(problem)


def test_bytes_that_are_no_text_are_refused_with_their_row(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"vector": [1], "s": "a"}\n{"vector": [1], "s": "\xff"}\n')
    assert refusal(path).row == 1


def test_a_repeated_or_missing_id_is_refused(write):
    again = write({"id": 1, "vector": [1]}, {"id": 2, "vector": [1]}, {"id": 1, "vector": [1]})
    assert refusal(again, BadValueError).row == 2
    assert refusal(write({"id": "a", "vector": [1]}, {"vector": [1]}), BadValueError).row == 1


def test_a_file_of_blank_lines_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("\n \n\n")
    assert "no lines" in str(refusal(path))


def test_a_file_without_vectors_says_which_keys_it_has(write):
    assert "text: string" in str(refusal(write({"id": "a", "text": "b"})))


def test_very_deep_nesting_does_not_end_the_process(tmp_path):
    path = tmp_path / "deep.jsonl"
    path.write_bytes(b'{"vector": ' + b'["]",' * 60_000 + b"1" + b"]" * 60_000 + b"}\n")
    program = "import sys, recallatk; recallatk.open_corpus(sys.argv[1])"
    ran = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1].startswith("recallatk.errors.FormatError")


def test_brackets_within_texts_are_no_nesting(write):
    assert read_all(write({"vector": [1], "s": "[{" * 500 + '\\"'}))[2]["s"] == ["[{" * 500 + '\\"']


def test_damaged_files_are_read_or_refused_and_nothing_else(tmp_path):
    chance = random.Random(5)
    rows = [
        {"id": f"r{i}", "vector": [i / 7, -i, 1e-3], "s": "a,é", "n": i, "o": {"k": [i]}} for i in range(12)
    ]
    whole = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
    path = tmp_path / "x.jsonl"
    outcomes = set()
    for _ in range(300):
        path.write_bytes(damaged(whole, chance, SIGNS))
        try:
            read_all(path)
            recallatk.inspect(path)
            outcomes.add("read")
        except RecallError as problem:
            assert str(path) in str(problem)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
