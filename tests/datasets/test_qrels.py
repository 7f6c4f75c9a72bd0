"""Relevance judgments in the layouts of BEIR and TREC."""

import pytest

from recallatk.datasets.qrels import find_qrels, read_qrels
from recallatk.errors import FormatError
from recallatk.files import locate


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        path = tmp_path / "qrels.tsv"
        path.write_bytes(text.encode())
        return read_qrels(path)

    return from_text


def test_beir_has_a_header_and_three_columns(read):
    assert read("query-id\tcorpus-id\tscore\n1\td 1\t2\n1\td2\t0\n") == {"1": {"d 1": 2, "d2": 0}}


def test_trec_has_four_columns_and_no_header(read):
    assert read("q1 0 d1 1\nq1 0 d2 -1\nq2  Q0   d1 3\n") == {"q1": {"d1": 1, "d2": -1}, "q2": {"d1": 3}}


def test_line_ends_blank_lines_and_byte_order_marks_do_no_harm(read):
    assert read("\ufeffq1\td1\t1\r\n\r\nq2\td\u2028x\t1\r\n") == {"q1": {"d1": 1}, "q2": {"d\u2028x": 1}}


@pytest.mark.parametrize(
    "line", ["q\td", "q\td\tx", "q\td\t1.5", "q\td\t²", "q 0 d 1 more", "q\td\t" + "9" * 5000]
)
def test_other_lines_are_refused_with_their_row(read, line):
    with pytest.raises(FormatError, match="whole grade") as caught:
        read(f"query-id\tcorpus-id\tscore\nq\td\t1\n{line}\n")
    assert caught.value.row == 2


def test_test_comes_before_dev_and_any_other_split_last(tmp_path):
    folder = tmp_path / "qrels"
    folder.mkdir()
    assert find_qrels(locate(tmp_path)) is None
    for name in ("other", "train", "dev", "test"):
        (folder / f"{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{name}\td\t1\n")
        assert find_qrels(locate(tmp_path))() == {name: {"d": 1}}
    (tmp_path / "qrels.tsv").write_text("q\td\t1\n")
    assert find_qrels(locate(tmp_path))() == {"q": {"d": 1}}
