"""A folder that `tap` wrote opens as queries and as answers, and says what is wrong with it."""

import json
import logging
import shutil
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recallatk
from commands import recallatk as command
from recallatk import RecallError, open_queries, parse_filter, read_answers, tap
from recallatk.capture import CallRecord
from recallatk.capture.log_format import file_name, log_table, parquet_bytes
from recallatk.datasets import parameter_sets


def logged(folder, calls, **options):
    """A log of these calls: keyword arguments of a search."""
    tapped = tap(lambda vector, ids, **named: ids, sample=1.0, to=folder, **options)
    for call in calls:
        tapped(**call)
    assert tapped.log.close() and tapped.log.counts["written"] == len(calls)
    return str(folder)


def call(number, ids=(1, 2), **named):
    return {"vector": np.full(3, number, np.float32), "ids": list(ids), **named}


def test_a_log_is_a_query_set_with_filters_and_columns(tmp_path):
    log = logged(tmp_path, [call(1, filter="price < 20"), call(2, ef=5)], rotate_rows=1)
    queries = open_queries(log)
    assert queries.vectors.read(0, 2).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert queries.filters == (parse_filter("price < 20"), None)
    assert queries.id_column == "query_id" and len(set(queries.ids.to_pylist())) == 2
    assert queries.metadata["parameters"].to_pylist() == ["{}", '{"ef": 5}']


def test_a_log_is_scored_against_the_truth_of_its_queries(tmp_path):
    random = np.random.default_rng(0)
    corpus = random.normal(size=(300, 8)).astype(np.float32)
    asked = random.normal(size=(60, 8)).astype(np.float32)
    exact = np.argsort(((corpus[None] - asked[:, None]) ** 2).sum(axis=2), axis=1)
    tapped = tap(lambda vector, k, number: exact[number, 2 : k + 2], sample=1.0, to=tmp_path / "log",
                 parameters=lambda *arguments: {})  # fmt: skip
    for number, vector in enumerate(asked):
        tapped(vector, 10, number)
    tapped.log.close()
    np.save(tmp_path / "corpus.npy", corpus)
    ran = command("truth", "corpus.npy", "log/", "--metric", "l2", "--out", "truth.parquet", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    for answers in ("log/", "log/?k=10"):
        ran = command("score", "truth.parquet", answers, "--at", "10", "--json", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["measures"]["recall@10"]["value"] == pytest.approx(0.8)


def test_an_audit_reads_production_queries_from_a_log(tmp_path):
    random = np.random.default_rng(0)
    corpus = random.normal(size=(400, 8)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(corpus.ravel()), 8)
    pq.write_table(pa.table({"vector": lists, "price": list(range(400))}), tmp_path / "corpus.parquet")
    np.save(tmp_path / "queries.npy", random.normal(size=(50, 8)).astype(np.float32))
    (tmp_path / "bench.toml").write_text(
        'name = "x"\ndata = {corpus = "corpus.parquet", queries = "queries.npy", metric = "l2"}\n'
        'engine = [{name = "exact"}]\n'
    )
    tapped = tap(lambda vector, where: [1], sample=1.0, to=tmp_path / "log")
    for vector in random.normal(size=(50, 8)).astype(np.float32):
        tapped(vector, where="price < 20")
    tapped.log.close()
    ran = command("audit", "bench.toml", "--production", "log/", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = {each["rule"]: each for each in json.loads(ran.stdout)["findings"]}
    assert "100.0% of the production queries have a filter" in json.dumps(found["R09"])


def mixed(folder):
    calls = [call(n, k=10, ef=64) for n in range(5)] + [call(n, k=10, ef=32) for n in range(5, 8)]
    return logged(folder, [*calls, call(8, k=5)])


def test_parameter_sets_are_listed_by_their_number_of_calls(tmp_path):
    found = parameter_sets(mixed(tmp_path))
    assert [(each.k, each.parameters, each.calls) for each in found] == [
        (10, {"ef": 64}, 5), (10, {"ef": 32}, 3), (5, {}, 1),
    ]  # fmt: skip


def test_mixed_answers_are_refused_with_what_to_type(tmp_path):
    log = mixed(tmp_path / "log")
    with pytest.raises(RecallError) as caught:
        read_answers(log)
    said = str(caught.value)
    assert (
        "3 different parameter sets: k=10&ef=64 (5 calls), k=10&ef=32 (3 calls), k=5&ef=null (1 call)" in said
    )
    assert f"'{log}/?k=10&ef=64'" in said
    # All that the message offers can be typed.
    for text, count in (("k=10&ef=64", 5), ("k=10&ef=32", 3), ("k=5&ef=null", 1), ("ef=null", 1)):
        assert len(read_answers(f"{log}/?{text}")) == count == open_queries(f"{log}/?{text}").rows


def test_a_selection_reads_the_right_rows_from_many_row_groups_and_files(tmp_path):
    random = np.random.default_rng(1)
    efforts = random.integers(0, 3, 2_000).tolist()
    log = logged(tmp_path, [call(n, [n], ef=each) for n, each in enumerate(efforts)], rotate_rows=700)
    for effort in range(3):
        expected = [n for n, each in enumerate(efforts) if each == effort]
        queries, answers = open_queries(f"{log}/?ef={effort}"), read_answers(f"{log}/?ef={effort}")
        assert queries.vectors.read(0, queries.rows)[:, 0].tolist() == expected
        assert queries.vectors.read(100, 203)[:, 0].tolist() == expected[100:203]
        assert queries.vectors.read(50, 60)[:, 0].tolist() == expected[50:60]
        assert answers.ids.to_pylist() == expected
        assert answers.query_ids.equals(queries.ids)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("ef=65", "no call has ef=65. Sets that calls have: k=10&ef=64, k=10&ef=32, k=5&ef=null"),
        ("ef", "'ef' is no selection of calls. Accepted: names and values such as k=10&ef=64"),
        ("filters=all", "filters=all. Accepted: filters=readable"),
    ],
)
def test_selections_that_select_nothing_are_refused(tmp_path, calls, message):
    log = mixed(tmp_path / "log")
    for read in (open_queries, read_answers, parameter_sets):
        with pytest.raises(RecallError, match=message):
            read(f"{log}/?{calls}")


def test_only_a_query_log_can_be_selected_from(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2), np.float32))
    with pytest.raises(RecallError, match="not a query log, so \\?ef=3 selects nothing"):
        open_queries(f"{tmp_path}/?ef=3")
    with pytest.raises(RecallError, match="not a query log"):
        parameter_sets(tmp_path)
    with pytest.raises(RecallError, match="a folder"):
        read_answers(tmp_path)


def test_filters_of_another_system_are_refused_unless_they_are_left_out(tmp_path):
    log = logged(tmp_path / "log", [call(1, filter={"color": "red"}), call(2, filter="price < 3"), call(3)])
    with pytest.raises(RecallError) as caught:
        open_queries(log)
    assert '1 of 3 calls have a filter that recallatk cannot read, such as {"color": "red"}' in str(
        caught.value
    )
    assert f"'{log}/?filters=readable'" in str(caught.value)
    left = open_queries(f"{log}/?filters=readable")
    assert left.vectors.read(0, 2)[:, 0].tolist() == [2, 3]
    # A single file of the log is no way around it.
    (path,) = (tmp_path / "log").iterdir()
    with pytest.raises(RecallError, match="cannot read"):
        open_queries(path)


def test_failed_calls_are_neither_queries_nor_answers(tmp_path):
    def search(vector, k):
        if vector[0] == 2:
            raise ValueError
        return [1]

    tapped = tap(search, sample=1.0, to=tmp_path)
    for number in (1, 2, 3):
        try:
            tapped(np.full(3, number, np.float32), 1)
        except ValueError:
            assert number == 2
    tapped.log.close()
    assert open_queries(tmp_path).vectors.read(0, 2)[:, 0].tolist() == [1, 3]
    assert len(read_answers(tmp_path)) == 2
    assert recallatk.inspect(tmp_path)["details"]["failed calls"] == "1"


def test_damaged_files_are_named_and_skipped(tmp_path, caplog):
    log = logged(tmp_path, [call(n) for n in range(30)], rotate_rows=10)
    first, second, third = sorted(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:-50])
    second.write_bytes(b"")
    with caplog.at_level(logging.WARNING, "recallatk"):
        assert open_queries(log).rows == 10
    assert f"2 damaged files are skipped: {first.name}" in caplog.text and second.name in caplog.text
    third.write_bytes(b"PAR1")
    with pytest.raises(RecallError, match="no call that returned was read"):
        open_queries(log)


def test_damage_inside_a_file_is_an_error_that_names_it(tmp_path):
    log = logged(tmp_path, [call(n) for n in range(50)])
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    place = content.index(np.full(3, 20, np.float32).tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(RecallError, match=path.name):
        open_queries(log).vectors.read(0, 50)


def renamed(path, **columns):
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: path.with_name("notes.txt").write_text("hello"),
            "notes.txt: not a file of a query log",
        ),
        (lambda path: path.with_name("sub").mkdir(), "sub: not a file of a query log"),
        (lambda path: pq.write_table(pa.table({"vector": [[1.0]]}), path), "not a file of a query log"),
        (lambda path: renamed(path, k=pa.array(["10"])), "its columns differ from a query log's"),
        (lambda path: renamed(path, vector=pa.array([[1.0]])), "its columns differ from a query log's"),
        (lambda path: renamed(path, parameters=pa.array(["[1]"])), "the parameters of a call are '\\[1\\]'"),
    ],
)
def test_other_peoples_files_are_refused(tmp_path, spoil, message):
    log = logged(tmp_path, [call(1)])
    (path,) = tmp_path.iterdir()
    spoil(path)
    with pytest.raises(RecallError, match=message):
        parameter_sets(log)


def test_a_log_of_a_newer_version_is_refused(tmp_path):
    log = logged(tmp_path, [call(1)])
    (path,) = tmp_path.iterdir()
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"recallatk.query_log": b'{"version": 2}'}), path)
    with pytest.raises(RecallError, match=r"query log format 2\. Accepted: format 1 or older"):
        open_queries(log)


def test_vectors_of_two_dimensions_are_refused_with_their_numbers(tmp_path):
    calls = [call(1), call(2), {"vector": np.ones(5, np.float32), "ids": [1]}]
    log = logged(tmp_path, calls)
    with pytest.raises(RecallError, match="dimension mismatch") as caught:
        open_queries(log)
    assert "3 (2 calls)" in str(caught.value) and "5 (1 call)" in str(caught.value)


def test_files_of_several_types_are_read_as_one(tmp_path):
    for number, (dtype, ids) in enumerate([("float32", [7]), ("float64", ["a"]), ("float16", [8])]):
        logged(tmp_path / str(number), [{"vector": np.full(2, 0.5, dtype), "ids": ids}])
        shutil.copytree(tmp_path / str(number), tmp_path / "log", dirs_exist_ok=True)
    queries, answers = open_queries(tmp_path / "log"), read_answers(tmp_path / "log")
    assert queries.vectors.read(0, 3).tolist() == [[0.5, 0.5]] * 3 and queries.vectors.dtype == np.float64
    assert sorted(answers.ids.to_pylist()) == ["7", "8", "a"]


def test_a_log_is_no_corpus(tmp_path):
    with pytest.raises(RecallError, match="has no corpus; it has queries"):
        recallatk.open_corpus(logged(tmp_path, [call(1)]))


texts = st.text(st.characters(codec="utf-8"), max_size=20)
records = st.builds(
    CallRecord,
    vector=st.lists(st.floats(-1e9, 1e9, width=32), min_size=3, max_size=3).map(
        lambda v: np.array(v, np.float32)
    ),
    ids=st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=5),
    filter=st.one_of(st.none(), st.builds("price < {}".format, st.integers(0, 99))),
    k=st.one_of(st.none(), st.integers(0, 2**31 - 1)),
    parameters=st.dictionaries(
        texts, st.one_of(st.integers(-99, 99), st.booleans(), st.floats(-1, 1)), max_size=3
    ),
    latency_ms=st.floats(0, 1e6),
    time=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    batch=st.integers(1, 1000),
)


@given(st.lists(records, min_size=1, max_size=8))
def test_what_is_written_is_what_is_read(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("log")
    content = parquet_bytes(log_table(written, [f"q{n}" for n in range(len(written))]))
    (folder / file_name("calls", 1, "00000000", 0)).write_bytes(content)
    queries = open_queries(folder)
    assert np.array_equal(queries.vectors.read(0, len(written)), [each.vector for each in written])
    expected = [None if each.filter is None else parse_filter(each.filter) for each in written]
    assert list(queries.filters) == expected
    columns = queries.metadata.to_pydict()
    assert columns["k"] == [each.k for each in written]
    assert columns["latency_ms"] == [each.latency_ms for each in written]
    assert columns["time"] == [each.time for each in written]
    assert columns["batch"] == [each.batch for each in written]
    sets = parameter_sets(folder)
    assert sum(each.calls for each in sets) == len(written)
    answers = pq.read_table(next(folder.iterdir()))["neighbors"].to_pylist()
    assert answers == [each.ids for each in written]
    if len(sets) == 1:
        assert read_answers(folder).ids.to_pylist() == [one for each in written for one in each.ids]
