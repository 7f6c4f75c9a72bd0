"""Answers in text without types: cells of CSV files and lines of TREC runs."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.datasets import inspect, open_corpus, read_answers
from recallatk.datasets.formats import trec
from recallatk.errors import BadValueError, FormatError


def lists(answers):
    return [
        part.tolist() for part in np.split(np.array(answers.ids.to_pylist(), object), answers.offsets[1:-1])
    ]


def from_csv(folder, cells, name="answers.csv"):
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    (folder / name).write_text("neighbors,n\n" + "".join(f"{cell},1\n" for cell in quoted), encoding="utf-8")
    return read_answers(folder / name)


def from_run(folder, text):
    (folder / "x.run").write_text(text, encoding="utf-8")
    return read_answers(folder / "x.run")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("3 5 -1", [3, 5, -1]),
        ("3;5", [3, 5]),
        ("3 ; 5 ;", [3, 5]),
        ("|3|5|", [3, 5]),
        ("3\t5\n7", [3, 5, 7]),
        ("[3, 5]", [3, 5]),
        (" [3,5 ,\t7 ] ", [3, 5, 7]),
        ("[3, null, 5]", [3, None, 5]),
        ("[3.0, 5, NaN]", [3, 5, None]),
        ('["3", "5"]', [3, 5]),
        ("9", [9]),
        ("[]", []),
        ("[ ]", []),
        ("", []),
        ("  ", []),
        ("007 12", ["007", "12"]),
        ("+7", ["+7"]),
        ("-0", ["-0"]),
        ("9223372036854775807", [2**63 - 1]),
        ("9223372036854775808", ["9223372036854775808"]),
        ("1.0 2.0", ["1.0", "2.0"]),
        ("null", ["null"]),
        ('["a b", "c,d", "e;f|g"]', ["a b", "c,d", "e;f|g"]),
        ('["a\\"b", "\\u00e9"]', ['a"b', "é"]),
        ('["null", null, 7]', ["null", None, "7"]),
        ('[""]', [""]),
        ('["", "a", ""]', ["", "a", ""]),
        ('["\\n", ""]', ["\n", ""]),
        ("日本 né", ["日本", "né"]),
    ],
)
def test_a_cell_of_ids(tmp_path, cell, expected):
    assert lists(from_csv(tmp_path, [cell])) == [expected]


def test_one_id_that_is_no_number_makes_all_of_them_text(tmp_path):
    assert lists(from_csv(tmp_path, ["1 2", "[3, 4]", '["5", "x"]', ""])) == [
        ["1", "2"],
        ["3", "4"],
        ["5", "x"],
        [],
    ]


def test_query_ids_are_texts_unless_all_are_plain_numbers(tmp_path):
    path = tmp_path / "x.csv"
    for written, expected in (("1 2 30", [1, 2, 30]), ("01 2 3", ["01", "2", "3"])):
        path.write_text("query_id,neighbors\n" + "".join(f"{each},7\n" for each in written.split()))
        assert read_answers(path).query_ids.to_pylist() == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tsv", "qid\tneighbors\tscores\n7\t[1, 2]\t[0.5, 2e-1]\n"),
        ("x.csv", "qid;neighbors;scores\n7;1|2;0.5|0.2\n"),
        ("x.csv", "\ufeffqid,neighbors,scores\r\n7,1 2,0.5 0.2\r\n"),
        ("x.csv", 'qid|neighbors|scores\n7|1;2|"[0.5, ""0.2""]"\n'),
    ],
)
def test_delimiters_and_scores(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    answers = read_answers(tmp_path / name)
    assert lists(answers) == [[1, 2]]
    assert answers.query_ids.to_pylist() == [7]
    assert answers.scores.tolist() == [0.5, 0.2]


def test_scores_may_be_missing_or_beyond_all_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('neighbors,scores\n1 2 3 4,"[NaN, null, -Infinity, 1.5]"\n,\n')
    np.testing.assert_array_equal(read_answers(path).scores, [np.nan, np.nan, -np.inf, 1.5])
    path.write_text("neighbors,scores\n1 2,\n3,\n")
    assert read_answers(path).scores is None


def test_what_stands_beside_the_answers_has_a_type(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        'neighbors,count,share,good,code,vector\n1,3,0.5,true,007,"[0.1, 0.2]"\n2,,1,false,1,"[1]"\n'
    )
    assert read_answers(path).columns.to_pydict() == {
        "count": [3, None],
        "share": [0.5, 1.0],
        "good": [True, False],
        "code": ["007", "1"],
    }


@pytest.mark.parametrize(
    ("cell", "kind", "found"),
    [
        ("3,5", FormatError, "a comma outside of a JSON list"),
        ("['a', 'b']", FormatError, "\"['a', 'b']\" is not a JSON list"),
        ("[1 2 3]", FormatError, "'[1 2 3]' is not a JSON list"),
        ("[1, 2", FormatError, "'[1, 2' is not a JSON list"),
        ("[007]", FormatError, "is not a JSON list"),
        ("[[1], [2]]", FormatError, "'[1]' within the list"),
        ('[{"id": 1}]', FormatError, "within the list"),
        ("[true]", FormatError, "'True' within the list"),
        ("[" * 5000, FormatError, "is not a JSON list"),
        ("[3, 3.5]", BadValueError, "3.5 is not an id"),
        ("[1e300]", BadValueError, "is not an id"),
        ("a\x1fb", FormatError, "a control character"),
        ('["a\\u001fb"]', FormatError, "a control character"),
    ],
)
def test_a_cell_that_is_no_list_is_named_with_its_row(tmp_path, cell, kind, found):
    with pytest.raises(kind, match=re.escape(found)) as caught:
        from_csv(tmp_path, ["1", "[2]", cell, "4"])
    assert caught.value.row == 2
    assert "in the column 'neighbors'" in str(caught.value)
    assert caught.value.where == str(tmp_path / "answers.csv")


def test_the_row_is_counted_through_all_of_a_large_file(tmp_path):
    cells = ["[1, 2, 3, 4, 5, 6, 7, 8, 9]"] * 400_000
    with pytest.raises(FormatError, match="row 400000: a comma"):
        from_csv(tmp_path, [*cells, "1,2"])


@given(
    st.lists(
        st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x1d\x1e\x1f"))),
        min_size=1,
    )
)
def test_json_cells_are_what_a_json_parser_makes_of_them(tmp_path_factory, rows):
    rows = [*rows, ["no number"]]
    for ascii_only in (True, False):
        cells = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
        assert lists(from_csv(tmp_path_factory.mktemp("cells"), cells)) == rows


def test_a_run_is_ordered_by_score_then_rank_then_line(tmp_path):
    answers = from_run(
        tmp_path,
        "q2 Q0 d1 1 0.5 tag\n"
        "q1  Q0\td9   1 1e-3 tag\r\n"
        "\n"
        "q2 Q0 d2 4 0.75 tag\n"
        "q2 Q0 d3 3 0.5 tag\n"
        "  q2 Q0 d4 2 0.5 tag  \n"
        "q2 Q0 d5 3 0.5 tag\n"
        "q1 Q0 d8 2 inf tag",
    )
    assert answers.query_ids.to_pylist() == ["q2", "q1"]
    assert lists(answers) == [["d2", "d1", "d4", "d3", "d5"], ["d8", "d9"]]
    assert answers.scores.tolist() == [0.75, 0.5, 0.5, 0.5, 0.5, float("inf"), 0.001]
    assert (answers.columns, answers.name) == (None, str(tmp_path / "x.run"))


@pytest.mark.parametrize(
    ("documents", "kind"), [(["1", "20"], pa.int64()), (["1", "02"], pa.string()), (["1", "x"], pa.string())]
)
def test_ids_of_a_run_are_numbers_only_when_all_are(tmp_path, documents, kind):
    answers = from_run(tmp_path, "".join(f"7 Q0 {each} 1 1 t\n" for each in documents))
    assert answers.ids.type == kind
    assert answers.query_ids.to_pylist() == [7]
    assert list(map(str, lists(answers)[0])) == list(map(str, documents))


@pytest.mark.parametrize("name", ["x.run", "x.trec", "x.RES", "x.txt"])
def test_a_run_is_told_by_its_ending_or_by_the_user(tmp_path, name):
    (tmp_path / name).write_text("\ufeff1 Q0 7 1 0.5 me\n", encoding="utf-8")
    answers = read_answers(tmp_path / name, format="trec" if name == "x.txt" else None)
    assert answers.query_ids.to_pylist() == [1]
    assert lists(answers) == [[7]]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("1 Q0 7 1 nan me", "the score is 'nan' in '1 Q0 7 1 nan me'"),
        ("1 Q0 7 1 high me", "the score is 'high'"),
        ("1 Q0 7 first 0.5 me", "the rank is 'first'"),
        ("1 Q0 7 1 0.5", "'1 Q0 7 1 0.5'"),
        ("1 Q0 7 1 0.5 my tag", "'1 Q0 7 1 0.5 my tag'"),
        ("what else", "'what else'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, monkeypatch, line, found):
    monkeypatch.setattr(trec, "_BLOCK_BYTES", 32)
    before = "1 Q0 5 1 0.5 me\n\n2 Q0 5 1 0.5 me\n3 Q0 5 1 0.5 me\n"
    with pytest.raises(FormatError, match=re.escape(found)) as caught:
        from_run(tmp_path, f"{before}{line}\n1 Q0 8 1 0.5 me\n")
    assert caught.value.row == 4
    assert "query, Q0, document, rank, score and tag" in str(caught.value)


def test_small_blocks_change_nothing(tmp_path, monkeypatch):
    text = "".join(f"q{i % 7} Q0 d{i} {i} {(i * 13) % 50} t\n" for i in range(300))
    whole = from_run(tmp_path, text)
    monkeypatch.setattr(trec, "_BLOCK_BYTES", 100)
    assert lists(from_run(tmp_path, text)) == lists(whole)


def test_a_run_that_is_no_text_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.run"
    path.write_bytes(b"1 Q0 5 1 0.5 me\n2 Q0 \xff 1 0.5 me\n")
    with pytest.raises(FormatError, match="row 1: invalid UTF-8"):
        read_answers(path)
    monkeypatch.setattr(trec, "_BLOCK_BYTES", 100)
    path.write_bytes(b"x" * 1000)
    with pytest.raises(FormatError, match="a line of more than 100 bytes"):
        read_answers(path)
    path.write_bytes(b" \n\n \t\n")
    with pytest.raises(FormatError, match="it has no lines"):
        read_answers(path)


@pytest.mark.parametrize("open_as", [open_corpus, inspect])
def test_a_run_holds_no_vectors(tmp_path, open_as):
    (tmp_path / "x.run").write_text("1 Q0 7 1 0.5 me\n")
    with pytest.raises(FormatError, match=r"a TREC run, which holds answers, not vectors.*read_answers"):
        open_as(tmp_path / "x.run")


def test_a_run_in_a_folder_of_vectors_is_passed_over(tmp_path, same):
    matrix = np.eye(3, dtype="float32")
    np.save(tmp_path / "corpus.npy", matrix)
    np.save(tmp_path / "queries.npy", matrix)
    (tmp_path / "queries.run").write_text("1 Q0 7 1 0.5 me\n")
    same(open_corpus(tmp_path), matrix)
    (tmp_path / "queries.npy").unlink()
    same(open_corpus(tmp_path), matrix)


def test_lines_of_objects_are_no_run(tmp_path):
    (tmp_path / "x.res").write_text('{"neighbors": [1, 2]}\n')
    assert lists(read_answers(tmp_path / "x.res")) == [[1, 2]]
