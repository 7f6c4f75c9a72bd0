"""CSV and TSV as other programs write them, and everything that is refused with its row."""

import csv
import io
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from text_damage import damaged
from writers import numbers

import recallatk
from commands import recallatk as command
from recallatk.datasets import convert, open_corpus
from recallatk.datasets.formats import csv as csv_format
from recallatk.errors import BadValueError, FormatError, RecallError

SIGNS = [b"\0", b'"', b",", b"\r", b"\n", b"\xef\xbb\xbf", b"NaN", b"\t", b";"]


@pytest.fixture
def write(tmp_path):
    """A file of raw text."""

    def written(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.fixture
def write_rows(write):
    """A file as the csv module writes it."""

    def written(*rows, name="rows.csv", **dialect):
        text = io.StringIO()
        csv.writer(text, **dialect).writerows(rows)
        return write(text.getvalue(), name)

    return written


def refusal(path, error=FormatError):
    with pytest.raises(error) as caught:
        read_all(path)
    return caught.value


def read_all(path, **options):
    corpus = open_corpus(path, **options)
    return corpus.vectors.read(0, corpus.rows).tolist(), corpus.ids.to_pylist(), corpus.metadata.to_pydict()


@pytest.mark.parametrize(
    "style", ["[0.5, 1, -2]", "0.5 1 -2", "[0.5 1 -2]", "0.5;1;-2", "( 0.5 , 1 , -2 )", "[0.5\n 1\n -2]"]
)
def test_a_vector_may_be_written_in_several_ways(write_rows, style):
    path = write_rows(["id", "vector", "color"], ["a", style, "red"], ["b", style, ""])
    assert read_all(path) == ([[0.5, 1, -2]] * 2, ["a", "b"], {"color": ["red", None]})


def test_numbered_columns_are_the_vector_in_the_order_of_their_numbers(write_rows):
    path = write_rows(["v1", "id", "v0", "n", "v2"], [1, "a", 0.5, 9, 2], [4, "b", 3.5, 8, 5])
    assert read_all(path) == ([[0.5, 1, 2], [3.5, 4, 5]], ["a", "b"], {"n": [9, 8]})


def test_more_than_ten_numbered_columns_are_in_order(write_rows, same):
    matrix = numbers(4, 12)
    path = write_rows([f"dim_{i}" for i in range(1, 13)], *matrix.tolist())
    same(open_corpus(path), matrix)


def test_numbers_without_a_header_are_vectors(write_rows, same):
    matrix = numbers(5, 3)
    same(open_corpus(write_rows(*matrix.tolist())), matrix)


@pytest.mark.parametrize("delimiter", [", ", ";", "\t", "|"])
def test_what_numpy_writes_as_text_is_read(tmp_path, same, delimiter):
    matrix = numbers(5, 3)
    np.savetxt(tmp_path / "x.csv", matrix, delimiter=delimiter, fmt="%.9g")
    same(open_corpus(tmp_path / "x.csv"), matrix)


@pytest.mark.parametrize(
    ("name", "delimiter"), [("rows.tsv", "\t"), ("rows.csv", ";"), ("rows.csv", "|"), ("rows.csv", "\t")]
)
def test_other_delimiters_are_read(write_rows, name, delimiter):
    path = write_rows(
        ["id", "vector", "s"], [1, "0.5 1", "x,y"], [2, "1 2", "z"], name=name, delimiter=delimiter
    )
    assert read_all(path) == ([[0.5, 1], [1, 2]], [1, 2], {"s": ["x,y", "z"]})


def test_ids_that_are_whole_numbers_are_integers_and_others_come_back_as_written(write_rows):
    def ids(*cells, name="id", **options):
        path = write_rows([name, "vector"], *([cell, f"[{i + 1}]"] for i, cell in enumerate(cells)))
        return read_all(path, **options)[1]

    assert ids("1", "-2", "30") == [1, -2, 30]
    assert ids("007", "8") == ["007", "8"]
    assert ids("1.50", "2") == ["1.50", "2"]
    assert ids("true", "false") == ["true", "false"]
    assert ids("12345678901234567890", "1") == ["12345678901234567890", "1"]
    assert ids("1.50", "007", name="key", id_column="key") == ["1.50", "007"]
    assert ids("1", "2", name="key", id_column="key") == [1, 2]


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "-2", ""], "int64", [1, -2, None]),
        (["1", "2.5", ""], "double", [1.0, 2.5, None]),
        (["1e3", "nan", "inf"], "double", None),
        (["true", "false", ""], "bool", [True, False, None]),
        (["true", "1", ""], "string", ["true", "1", None]),
        (["01067", "12", ""], "string", ["01067", "12", None]),
        (["+49171", "12", ""], "string", ["+49171", "12", None]),
        (["12345678901234567890", "1", ""], "string", ["12345678901234567890", "1", None]),
        (["2020-01-01", "", "x"], "string", ["2020-01-01", None, "x"]),
        (["", "", ""], "string", [None, None, None]),
        (["0", "-0.0", "0.5"], "double", [0.0, -0.0, 0.5]),
    ],
)
def test_types_of_metadata_are_inferred(write_rows, cells, kind, values):
    path = write_rows(["vector", "column"], *(["[1]", cell] for cell in cells))
    column = open_corpus(path).metadata["column"]
    assert str(column.type) == kind
    if values is not None:
        assert column.to_pylist() == values


def test_quoted_nothing_is_empty_text_and_nothing_is_null(write):
    path = write('id,vector,s\n1,"[1, 2]",""\n2,"[3, 4]",\n3,"[3, 4]",x\n')
    assert read_all(path)[2] == {"s": ["", None, "x"]}


def test_byte_order_mark_blank_lines_and_crlf_do_no_harm(write):
    path = write("\ufeff\r\n\r\nid,vector,s\r\n1,1 2,a\r\n\r\n2,3 4,b\r\n\r\n")
    assert read_all(path) == ([[1, 2], [3, 4]], [1, 2], {"s": ["a", "b"]})
    assert refusal(write("\n\nid,vector\n1,1 2\n2,3 4\n3\n")).row == 2


def test_old_line_ends_and_a_last_line_without_one_are_read(write):
    assert read_all(write("id,vector\r1,1 2\r2,3 4"))[0] == [[1, 2], [3, 4]]


def test_quoted_delimiters_line_breaks_and_quotes_stay_text(write_rows):
    texts = ["a,b", "line\nbreak", 'say "hi"', "\r\n", "  spaces  "]
    path = write_rows(
        ["id", "vector", "text, quoted"], *([i, "[1, 2]", text] for i, text in enumerate(texts))
    )
    assert read_all(path)[2] == {"text, quoted": texts}


@pytest.mark.parametrize("block_bytes", [128, 1000, 8 << 20])
def test_any_range_of_a_long_file_is_what_numpy_slices(write_rows, monkeypatch, block_bytes):
    monkeypatch.setattr(csv_format, "_BLOCK_BYTES", block_bytes)
    matrix = np.random.default_rng(1).standard_normal((200, 3)).astype(np.float32)
    rows = [[f"r{i}", " ".join(map(str, row)), i, "two\nlines"] for i, row in enumerate(matrix)]
    corpus = open_corpus(write_rows(["id", "vector", "n", "s"], *rows))
    order = random.Random(2)
    for _ in range(25):
        start = order.randrange(201)
        stop = order.randrange(start, 201)
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
    for name in ("out.csv", "out.TSV"):
        convert(tmp_path / "in.npy", tmp_path / name)
        convert(tmp_path / name, tmp_path / "back.npy")
        assert np.load(tmp_path / "back.npy").tobytes() == matrix.tobytes()


@given(st.lists(st.decimals(-10, 10, allow_nan=False).map(str), min_size=1, max_size=5))
def test_decimal_text_is_the_same_float32_in_csv_and_jsonl(tmp_path, texts):
    (tmp_path / "x.csv").write_text("vector\n" + " ".join(texts) + "\n")
    (tmp_path / "x.jsonl").write_text('{"vector": [' + ", ".join(texts) + "]}\n")
    read = [open_corpus(tmp_path / name).vectors.read(0, 1).tobytes() for name in ("x.csv", "x.jsonl")]
    assert read[0] == read[1]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=5))
def test_every_text_survives_being_written_and_read(tmp_path, texts):
    made = [{"id": i, "vector": [1.0], "s": text, "n": None} for i, text in enumerate(["word", *texts])]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps(row) for row in made))
    convert(tmp_path / "in.jsonl", tmp_path / "out.csv")
    assert read_all(tmp_path / "out.csv")[2] == {"s": ["word", *texts], "n": [None] * len(made)}
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert [row["s"] for row in csv.DictReader(file)] == ["word", *texts]


def test_metadata_types_survive_being_written_and_read(tmp_path):
    table = pa.table(
        {
            "id": ["a", "b", "c"],
            "vector": pa.array([[1], [2], [3]], pa.list_(pa.float32())),
            "whole": [1, None, 3],
            "real": [1.0, 0.1, None],
            "truth": [True, None, False],
            "code": ["007", None, "8"],
        }
    )
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    convert(tmp_path / "in.parquet", tmp_path / "out.csv")
    assert open_corpus(tmp_path / "out.csv").metadata.equals(open_corpus(tmp_path / "in.parquet").metadata)


@pytest.mark.parametrize(
    ("bad", "said", "error"),
    [
        ('5,"[1, 2, 3]"', "3 numbers", FormatError),
        ('5,"[1, x]"', "'x' in the vector", FormatError),
        ('5,"[1, , 2]"', "an empty cell in the vector", FormatError),
        ('5,"[1, 1_0]"', "'1_0' in the vector", FormatError),
        ("5,[]", "an empty cell in the vector", FormatError),
        ("5,", "null", FormatError),
        ("5", "got 1", FormatError),
        ("5,1 2,3", "got 3", FormatError),
        ("5,nan 1", "nan at position 0", BadValueError),
        ("5,1 -inf", "-inf at position 1", BadValueError),
        ("5,1 1e39", "inf at position 1", BadValueError),
    ],
)
@pytest.mark.parametrize("block_bytes", [64, 8 << 20])
def test_bad_rows_are_refused_with_their_row(write, monkeypatch, bad, said, error, block_bytes):
    monkeypatch.setattr(csv_format, "_BLOCK_BYTES", block_bytes)
    good = "".join(f"{i},{i} 1.5\n" for i in range(20))
    problem = refusal(write(f"id,vector\n{good}{bad}\n{good}"), error)
    assert (problem.row, problem.where[-8:]) == (20, "rows.csv")
    assert said in str(problem)


@pytest.mark.parametrize(
    ("bad", "said", "error"),
    [
        ("x,1", "'x' in the vector", FormatError),
        (",1", "an empty cell in the vector", FormatError),
        ("1", "got 1", FormatError),
        ("nan,1", "nan at position 0", BadValueError),
    ],
)
@pytest.mark.parametrize("header", ["v0,v1\n", ""])
def test_bad_cells_of_numbered_columns_are_refused_with_their_row(write, bad, said, error, header):
    good = "".join(f"{i},1.5\n" for i in range(3))
    problem = refusal(write(f"{header}{good}{bad}\n{good}"), error)
    assert problem.row == 3
    assert said in str(problem)


def test_two_columns_of_one_name_are_refused(write):
    assert "the same name" in str(refusal(write("id,vector,s,s\n1,1 2,a,b\n")))


def test_a_file_without_vectors_says_which_columns_it_has(write):
    assert "id, text" in str(refusal(write("id,text\na,b\n")))


def test_a_header_without_rows_and_nothing_but_blank_lines_are_refused(write):
    assert "no rows" in str(refusal(write("id,vector\n")))
    assert "no rows" in str(refusal(write("\n\r\n")))


def test_bytes_that_are_no_text_are_refused(write):
    problem = refusal(write(b"id,vector,s\n1,1 2,a\n1,1 2,\xff\xfe\n"))
    assert problem.row == 1
    assert "UTF8" in str(problem)
    assert refusal(write(b"id,vector\n1,1 2\n2,3 4,\xff\n")).row == 1


def test_a_header_cell_beyond_any_measure_is_refused(write):
    refusal(write("v" * 200_000 + ",vector\n1,2\n"))
    refusal(write("a" + "1" * 5000 + ",b\nx,y\n"))


def test_a_row_that_fits_no_block_is_refused(write, monkeypatch):
    monkeypatch.setattr(csv_format, "_BLOCK_BYTES", 64)
    refusal(write("id,vector\n1,1 2\n" + "2," + "1 " * 500 + "\n"))


def test_damaged_files_are_read_or_refused_and_nothing_else(tmp_path):
    chance = random.Random(6)
    lines = ["id,vector,s,n"] + [f'r{i},"[{i / 7}, {-i}, 1e-3]","a,é\n""",{i}' for i in range(12)]
    wide = ["v0,v1,s", *(f"{i},{i / 3},x" for i in range(12))]
    path = tmp_path / "x.csv"
    outcomes = set()
    for number in range(400):
        path.write_bytes(damaged("\n".join(wide if number % 2 else lines).encode(), chance, SIGNS))
        try:
            read_all(path)
            recallatk.inspect(path)
            outcomes.add("read")
        except RecallError as problem:
            assert str(path) in str(problem)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def wide_file(write, columns, rows=3):
    """Very many columns beside a vector: whole numbers, and a few that are something else."""
    odd = {0: "x", columns // 2: "1.5", columns - 1: "true"}
    lines = [",".join(["id", "vector", *(f"a_long_name_of_a_column_{i}" for i in range(columns))])]
    lines += [
        ",".join([str(row), f'"[{row}, 1]"', *(odd.get(i, str(i + row)) for i in range(columns))])
        for row in range(rows)
    ]
    return write("\n".join(lines))


def passes(path, monkeypatch):
    """How often a file is read through to describe it."""
    count = 0
    stream = csv_format.CsvText.stream

    def counted(*arguments, **options):
        nonlocal count
        count += 1
        return stream(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(csv_format.CsvText, "stream", counted)
        recallatk.inspect(path)
    return count


def test_a_wide_file_is_read_as_often_as_a_narrow_one(write, monkeypatch):
    assert passes(wide_file(write, 2_000), monkeypatch) <= passes(wide_file(write, 16), monkeypatch)


def test_a_file_of_very_many_columns_is_described(write):
    # The names alone are longer than the head in which a file's first row is looked for.
    columns = 40_000
    path = wide_file(write, columns)
    ran = command("inspect", path, "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["rows"], found["dimension"], len(found["columns"])) == (3, 2, columns)
    kinds = list(found["columns"].values())
    odd = {kinds[place] for place in (0, columns // 2, columns - 1)}
    assert odd == {"string", "double", "bool"}
    assert kinds.count("int64") == columns - 3


def test_a_vector_of_very_many_numbered_columns_is_read(write):
    numbered = ",".join(f"v{i}" for i in range(60_000))
    path = write(f"id,{numbered}\n" + "".join(f"{row},{','.join(['0.5'] * 60_000)}\n" for row in range(2)))
    corpus = open_corpus(path)
    assert (corpus.dimension, corpus.metadata_names) == (60_000, [])
    assert (corpus.vectors.read(0, 2) == 0.5).all()


@given(
    st.lists(
        st.lists(st.sampled_from(["1", "1.5", "true", "x", "", "007"]), min_size=6, max_size=6), min_size=1
    )
)
def test_types_of_columns_do_not_depend_on_their_neighbors(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("types")
    names = [f"c{letter}" for letter in "abcdef"]

    def kinds(columns):
        lines = [",".join(["vector", *(names[i] for i in columns)])]
        lines += [",".join(["[1 2]", *(row[i] for i in columns)]) for row in rows]
        (folder / "x.csv").write_text("\n".join(lines))
        schema = open_corpus(folder / "x.csv").columns.schema
        return [str(schema.field(names[i]).type) for i in columns]

    assert kinds(range(6)) == [kinds([i])[0] for i in range(6)]
