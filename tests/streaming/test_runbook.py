"""Runbooks from files: big-ann-benchmarks' YAML and our own TOML, and what is refused with step and line."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import make_corpus
from recallatk.core.churned import Operation
from recallatk.errors import UsageError
from recallatk.streaming.runbook import Step, resolve
from recallatk.streaming.runbook_file import RunbookFile, runbook_text

VECTORS = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
IDS = [f"d{row}" for row in range(20)]
CORPUS = make_corpus(VECTORS, IDS, pa.table({"tenant": ["a", "b"] * 10}))
BIG_ANN = """\
random-xs:
  max_pts: 15
  1:
    operation: "insert"
    start: 0
    end: 10
  2:
    operation: search
  3:
    operation: replace
    tags_start: 2
    tags_end: 4
    ids_start: 12
    ids_end: 14
  4:
    operation: delete
    start: 0
    end: 3
  5:
    operation: insert
    start: 0
    end: 2
  6:
    operation: search
  gt_url: "https://nowhere.invalid/truth"
"""


def opened(tmp_path, text, suffix=".toml", part=None):
    path = tmp_path / f"book{suffix}"
    path.write_text(text)
    book = RunbookFile(path, part)
    return resolve(book.steps(CORPUS), CORPUS.rows, book.name, str(path))


def live(book):
    """The vectors that are live at the end, by a simulation of the writes."""
    rows = set()
    for step in book.steps:
        assert set(step.deleted.tolist()) <= rows
        rows -= set(step.deleted.tolist())
        assert not set(step.inserted.tolist()) & rows
        rows |= set(step.inserted.tolist())
        assert step.live == len(rows)
    return rows


def test_a_runbook_of_big_ann_benchmarks_is_replayed_by_its_tags(tmp_path):
    book = opened(tmp_path, BIG_ANN, ".yaml")
    assert [str(each.operation) for each in book.steps] == [
        *("insert", "search", "replace", "delete", "insert", "search")
    ]
    replaced, deleted = book.steps[2], book.steps[3]
    assert replaced.deleted.tolist() == [2, 3]
    assert replaced.inserted.tolist() == [12, 13]
    # Tag 2 stands for vector 12 by now.
    assert deleted.deleted.tolist() == [0, 1, 12]
    assert live(book) == {0, 1, 4, 5, 6, 7, 8, 9, 13}


def test_our_own_format_names_rows_in_four_ways(tmp_path):
    book = opened(
        tmp_path,
        """
        step = [
            {operation = "insert", start = 0, end = 6},
            {operation = "insert", ids = ["d7", "d8"]},
            {operation = "insert", rows = [11]},
            {operation = "delete", where = "tenant = 'a'"},
            {operation = "search"},
            {operation = "insert", where = "tenant = 'b'"},
            {operation = "replace", tags = [1], rows = [0]},
            {operation = "maintain"},
            {operation = "rebuild"},
            {operation = "search"},
        ]
        """,
    )
    assert book.steps[3].deleted.tolist() == [0, 2, 4, 8]
    assert live(book) == {0, *range(3, 20, 2)}


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            ["insert 0 5", "delete 3 7", "search"],
            "step 2, line 4: deletes 2 rows (the first: 5), not in the index",
        ),
        (["insert 0 5", "insert 4 6", "search"], "step 2, line 4: inserts row 4 again"),
        (["search"], "step 1, line 1: searches an empty index. The first step must insert rows"),
        (
            ["insert 0 5", "delete 0 5", "search"],
            "step 3, line 7: searches an empty index: all rows are deleted",
        ),
        (["delete 0 5", "search"], "step 1, line 1: deletes rows, and there are none yet"),
        (["insert 0 21", "search"], "step 1, line 1: names row 20. The corpus has rows 0 to 19"),
        (["insert 0 99999999999", "search"], "The corpus has rows 0 to 19"),
        (["insert -3 4", "search"], "step 1, line 1: names row -1"),
        (["insert 5 5", "search"], "step 1, line 1: end = 5 after start = 5"),
        (["insert 0 5"], "no step searches"),
    ],
)
def test_what_cannot_be_done_is_refused_with_step_and_line(tmp_path, steps, said):
    tables = []
    for step in steps:
        operation, *ends = step.split()
        tables += ["[[step]]", f'operation = "{operation}"']
        tables += [f"start = {ends[0]}; end = {ends[1]}".replace("; ", "\n")] if ends else []
        tables = "\n".join(tables).split("\n")
    # Three lines to a step with rows, two to one without.
    lines = [place for place, line in enumerate(tables, 1) if line == "[[step]]"]
    with pytest.raises(UsageError) as refused:
        opened(tmp_path, "\n".join(tables))
    number = int(said.split()[1].strip(",:")) if said.startswith("step") else None
    if number is not None:
        _, _, rest = said.partition(": ")
        said = f"step {number}, line {lines[number - 1]}: {rest}"
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BIG_ANN.replace("  4:\n", "  5:\n", 1), "line 15: step 5 stands where step 4 belongs"),
        (BIG_ANN.replace("  1:\n", "  one:\n"), "line 3: no key 'one'"),
        (BIG_ANN.replace("    end: 10\n", ""), "step 1, line 3: insert needs start and end"),
        (BIG_ANN.replace("operation: search", "operation: look", 1), "step 2, line 7: operation"),
        (BIG_ANN.replace("    end: 10", "    end: [1, 2]"), "step 1, line 3: end is no single value"),
        (BIG_ANN.replace("ids_end: 14", "ids_end: 15"), "step 3, line 9: replaces 2 rows by 3 new vectors"),
        (BIG_ANN.replace("ids_start: 12", "ids_start: 5").replace("ids_end: 14", "ids_end: 7"),
         "step 3, line 9: inserts the vectors of 2 rows (the first: 5), in the index already"),
        (BIG_ANN + "other:\n  1:\n    operation: search\n", "2 data sets. Name one: --dataset random-xs"),
        ("- 1\n- 2\n", "not a mapping"),
        ("a: [", "not YAML"),
        ("a: &x [*x]\n", "not a mapping"),
        ("a: !!python/object/apply:os.system ['false']\n", "not a mapping"),
        ("random-xs:\n  gt_url: x\n", "random-xs has no steps"),
    ],
)  # fmt: skip
def test_bad_yaml_is_refused_with_step_and_line(tmp_path, text, said):
    with pytest.raises(UsageError) as refused:
        opened(tmp_path, text, ".yaml")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no steps. Accepted: [[step]] tables, or one [generate] table"),
        ("[[step]]\noperation = 3", "step 1, line 1: operation: 3. Accepted: insert, delete"),
        (
            "[[step]]\noperation = 'insert'\nstrat = 1",
            "step 1, line 1: strat: no such key. Did you mean start?",
        ),
        ("[[step]]\noperation = 'search'\nrows = [1]", "step 1, line 1: search takes no rows"),
        ("[[step]]\noperation = 'insert'\nrows = [1, 1]", "step 1, line 1: names row 1 twice"),
        ("[[step]]\noperation = 'insert'\nids = ['d1', 'x']", "step 1, line 1: the corpus has no id 'x'"),
        ("[[step]]\noperation = 'insert'\nwhere = 'size > 3'", "step 1, line 1: no corpus column 'size'"),
        ("[generate]\nkind = 'growth'\n[[step]]\noperation = 'search'", "cannot be combined"),
        ("step = 3 4", "not TOML"),
    ],
)
def test_bad_toml_is_refused(tmp_path, text, said):
    with pytest.raises(UsageError) as refused:
        opened(tmp_path, text)
    assert said in str(refused.value)


def test_all_problems_are_said_at_once(tmp_path):
    steps = "".join(
        f"[[step]]\noperation = '{name}'\nrows = [{row}]\n"
        for name, row in [("insert", 1), ("insert", 1), ("delete", 2)]
    )
    with pytest.raises(UsageError) as refused:
        opened(tmp_path, steps)
    assert "2 problems" in str(refused.value)
    assert "line 4" in str(refused.value)
    assert "line 7" in str(refused.value)


@given(
    st.lists(
        st.tuples(st.sampled_from(["insert", "delete"]), st.sets(st.integers(0, 9), min_size=1)), max_size=6
    )
)
def test_steps_become_live_rows_like_those_of_a_set(changes):
    steps, rows = [Step(1, Operation.INSERT, np.array([10]))], {10}
    for operation, some in changes:
        possible = some - rows if operation == "insert" else some & rows
        if possible:
            steps.append(Step(len(steps) + 1, Operation(operation), np.array(sorted(possible))))
            rows = rows | possible if operation == "insert" else rows - possible
    steps.append(Step(len(steps) + 1, Operation.SEARCH))
    book = resolve(steps, 20, "", "")
    assert live(book) == rows
    assert book.identity == resolve(steps, 20, "another name", "").identity
    assert book.identity != resolve(steps, 21, "", "").identity


def test_written_steps_are_read_back(tmp_path):
    steps = [
        Step(1, Operation.INSERT, np.arange(5)),
        Step(2, Operation.INSERT, np.array([7, 9])),
        Step(3, Operation.REPLACE, np.array([11]), np.array([0])),
        Step(4, Operation.REPLACE, np.arange(12, 16), np.array([1, 2, 7, 9])),
        Step(5, Operation.SEARCH),
    ]
    text = runbook_text(steps, 'a "month"', {"metric": "cosine"})
    book = opened(tmp_path, text)
    assert book.name == 'a "month"'
    assert book.identity == resolve(steps, CORPUS.rows, "", "").identity
