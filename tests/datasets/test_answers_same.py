"""The same answers are the same answers, whichever file they stand in."""

from hypothesis import given
from hypothesis import strategies as st
from test_answers import TABLES, lists, written

from recallatk.datasets import read_answers


def write_run(path, queries, answers):
    lines = [
        f"{query} Q0 {each} {rank} {-rank} tag\n"
        for query, ids in zip(queries, answers, strict=True)
        for rank, each in enumerate(ids)
    ]
    path.write_text("".join(lines))


WHOLE = st.integers(-(2**63), 2**63 - 1)
# What every one of the formats can hold: a run has no spaces in its ids, and text has no types.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=5).map(
    "w{}".format
)


@given(st.data())
def test_the_same_answers_are_the_same_in_every_format(tmp_path_factory, data):
    kind = data.draw(st.sampled_from([WHOLE, WORDS]))
    answers = data.draw(st.lists(st.lists(kind, min_size=1, max_size=4), min_size=1, max_size=5))
    queries = data.draw(
        st.lists(
            data.draw(st.sampled_from([WHOLE, WORDS])),
            min_size=len(answers),
            max_size=len(answers),
            unique=True,
        )
    )
    folder = tmp_path_factory.mktemp("same")
    paths = [written(folder, suffix, {"query_id": queries, "neighbors": answers}) for suffix in TABLES]
    write_run(folder / "answers.run", queries, answers)
    for path in [*paths, folder / "answers.run"]:
        found = read_answers(path)
        assert lists(found) == answers
        assert found.query_ids.to_pylist() == queries


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.text("ab1", min_size=1).map("d{}".format), st.integers(0, 5)),
        min_size=1,
    )
)
def test_one_answer_a_row_is_grouped_as_a_loop_would(tmp_path_factory, rows):
    expected = {}
    for query, each, _ in sorted(rows, key=lambda row: row[2]):
        expected.setdefault(query, []).append(each)
    order = list(dict.fromkeys(query for query, _, _ in rows))
    folder = tmp_path_factory.mktemp("long")
    queries, neighbors, ranks = (list(column) for column in zip(*rows, strict=True))
    for suffix in TABLES:
        columns = {"query_id": queries, "neighbor": neighbors, "rank": ranks}
        found = read_answers(written(folder, suffix, columns))
        assert found.query_ids.to_pylist() == order
        assert lists(found) == [expected[query] for query in order]
