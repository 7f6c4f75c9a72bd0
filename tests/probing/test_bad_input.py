"""Collections, corpora and queries that a probe cannot judge: refused in words, without a verdict."""

import json
import shutil
import socket
from contextlib import suppress

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from every_target import EVERY, NUMBERS, QUERIES, ROWS, TEXTS, VECTORS, Service, rows, served
from typer.testing import CliRunner

from recallatk.adapters.attached_collection import FunctionCollection
from recallatk.cli import app
from recallatk.errors import EngineError, MismatchError, RecallError
from recallatk.probing import probe, tune_effort

GOAL = ("--target", "recall@10 >= 0.5", "--max-rate", "none", "--json")


def lists(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stores with text ids, and files with one fault each."""
    place = tmp_path_factory.mktemp("bad input")
    for name in ("duckdb", "lancedb", "function"):
        EVERY[name].make(place)
    np.save(place / "queries.npy", QUERIES)
    zero = QUERIES.copy()
    zero[3] = 0
    np.save(place / "zero.npy", zero)
    holes = pa.array([None, *QUERIES[1:].tolist()], pa.list_(pa.float32(), QUERIES.shape[1]))
    names = [f"q{number}" for number in range(len(QUERIES))]
    holed = pa.array([None, *VECTORS[1:].tolist()], pa.list_(pa.float32(), VECTORS.shape[1]))
    for name, table in {
        "null": pa.table({"vector": holes}),
        "twice": pa.table({"id": ["q1", *names[1:]], "vector": lists(QUERIES)}),
        "nameless": pa.table({"id": [None, *names[1:]], "vector": lists(QUERIES)}),
        "nobody": rows(TEXTS).slice(0, 0),
        "other": rows([f"thing {row}" for row in range(ROWS)]),
        "numbered": rows([row + 10**6 for row in range(ROWS)]),
        "double": rows([TEXTS[1], *TEXTS[1:]]),
        "unnamed": rows([None, *TEXTS[1:]]),
        "holed": rows(TEXTS).set_column(1, "embedding", holed),
        "half": rows(TEXTS).slice(0, ROWS // 4),
    }.items():
        pq.write_table(table, place / f"{name}.parquet")
    return place


@pytest.fixture
def ran(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda command, target, *words: CliRunner().invoke(
        app, [command, EVERY[target].text, *words, *GOAL]
    )


@pytest.mark.parametrize("command", ["probe", "tune"])
@pytest.mark.parametrize("target", ["duckdb", "lancedb", "function"])
@pytest.mark.parametrize(
    ("queries", "corpus", "said"),
    [
        ("null.parquet", None, "null.parquet, row 0: the vector is null"),
        ("twice.parquet", None, "duplicate id q1: row 0 has it too"),
        ("nameless.parquet", None, "row 0: the id is null"),
        ("queries.npy", "nobody.parquet", "nobody.parquet: it has no rows"),
        ("queries.npy", "double.parquet", "duplicate id item 1: row 0 has it too"),
        ("queries.npy", "unnamed.parquet", "row 0: the id is null"),
        ("queries.npy", "holed.parquet", "row 0: the vector is null"),
        ("queries.npy", "other.parquet", "id mismatch: none of the first 20 ids"),
        ("queries.npy", "numbered.parquet", "the corpus has ids such as 1000000. Use the corpus that"),
    ],
)
def test_faulty_files_are_named(ran, command, target, queries, corpus, said):
    more = () if corpus is None else ("--corpus", corpus)
    done = ran(command, target, "--queries", queries, *more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_a_quarter_of_the_rows_is_not_the_corpus_of_a_table(ran):
    done = ran("probe", "lancedb", "--queries", "queries.npy", "--corpus", "half.parquet")
    said = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert "row count mismatch: lancedb://./items has 800 rows, the corpus 200" in said


@pytest.mark.parametrize("truth", [(), ("--truth", "stream"), ("--corpus", "items.parquet")])
def test_a_query_without_direction_has_no_neighbors_by_cosine(ran, truth):
    done = ran("probe", "lancedb", "--queries", "zero.npy", *truth)
    assert done.exit_code == 2
    assert "zero.npy, row 3: a zero vector, for which cosine is undefined" in done.stderr
    assert ran("probe", "duckdb", "--queries", "zero.npy").exit_code in (0, 3)


def test_a_row_without_direction_is_that_of_the_collection(tmp_path):
    vectors = VECTORS.copy()
    vectors[7] = 0
    table = rows(NUMBERS).set_column(1, "embedding", lists(vectors))
    lancedb.connect(tmp_path).create_table("items", table)
    with pytest.raises(RecallError, match=r"lancedb://.*/items\?metric=cosine, row 7: a zero vector"):
        probe(f"lancedb://{tmp_path}/items?metric=cosine", QUERIES, truth="stream", max_rate=None)


def exact_search(query, k, ids=NUMBERS):
    far = np.linalg.norm(VECTORS.astype("f8") - query, axis=1)
    return [ids[row] for row in np.argsort(far)[:k]]


@pytest.mark.parametrize("job", ["probe", "tune"])
def test_a_search_that_breaks_off_gives_no_verdict(job):
    asked = []

    def search(queries, k, ef=50):
        asked.append(1)
        if len(asked) > 7:
            raise ConnectionError("the index is being rebuilt")
        return [exact_search(each, k) for each in queries]

    collection = FunctionCollection.of(search, metric="l2", corpus=rows(NUMBERS), effort="ef:1..100")
    with pytest.raises(EngineError, match="the index is being rebuilt") as caught:
        if job == "probe":
            probe(collection, QUERIES, max_rate=None)
        else:
            tune_effort(collection, QUERIES, ["recall@10 >= 0.2"], max_rate=None)
    if job == "probe":
        assert "No verdict: 7 of 40 queries were scored" in str(caught.value)


def test_a_service_that_drops_its_connections_gives_no_verdict(tmp_path, monkeypatch):
    answered = []

    class Failing(Service):
        def do_POST(self):  # noqa: N802 - as the library calls it
            if len(answered) >= 7:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            else:
                super().do_POST()
                answered.append(1)

        def handle(self):
            with suppress(OSError, ValueError):
                super().handle()

        def finish(self):
            with suppress(OSError, ValueError):
                super().finish()

    monkeypatch.chdir(tmp_path)
    EVERY["http"].make(tmp_path)
    np.save("queries.npy", QUERIES)
    with served(Failing) as port:
        target = EVERY["http"].text.format(port=port)
        words = ("probe", target, "--queries", "queries.npy", "--search", "ef=100")
        done = CliRunner().invoke(app, [*words, "--target", "recall@10 >= 0.999", "--max-rate", "none"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No verdict: 7 of 40 queries were scored" in " ".join(done.stderr.split())


def test_ids_of_another_corpus_are_noticed_and_a_few_new_rows_are_not_refused():
    def search(ids):
        return lambda queries, k: [exact_search(each, k, ids) for each in queries]

    beyond = [2**70 + row for row in range(ROWS)]
    for ids in (list(range(10**6, 10**6 + ROWS)), [f"row {row}" for row in range(ROWS)], beyond):
        collection = FunctionCollection.of(search(ids), metric="l2", corpus=rows(NUMBERS))
        with pytest.raises(MismatchError, match=r"id mismatch: none of the first 20 ids"):
            probe(collection, QUERIES, max_rate=None)
    newer = [number if row % 2 else number + 10**6 for row, number in enumerate(NUMBERS)]
    found = probe(
        FunctionCollection.of(search(newer), metric="l2", corpus=rows(NUMBERS)), QUERIES, max_rate=None
    )
    assert 0.3 < found.recall.value < 0.7 and found.recall.n == len(QUERIES)
    # A number and its decimal text are the same id.
    texts = search([str(number) for number in NUMBERS])
    same = probe(FunctionCollection.of(texts, metric="l2", corpus=rows(NUMBERS)), QUERIES, max_rate=None)
    assert same.recall.value == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": -1}, "0 or more"),
        ({"queries": None, "recent": 5}, "--queries"),
        ({"truth": "stream", "corpus": rows(NUMBERS)}, "--corpus names one source"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    collection = FunctionCollection.of(lambda queries, k: [[1]], metric="l2", corpus=rows(NUMBERS))
    with pytest.raises(RecallError, match=said):
        probe(collection, **{"queries": QUERIES, "max_rate": None, **options})


def test_a_check_that_fails_after_the_last_query_costs_no_verdict(tmp_path):
    class Slow(FunctionCollection):
        exact_mode = True

        def exact(self, vector, depth, condition):
            raise EngineError("exceeded the time limit of 1 s")

    def search(queries, k):
        return [exact_search(each, k, NUMBERS) for each in queries]

    found = probe(Slow.of(search, metric="l2", corpus=rows(NUMBERS)), QUERIES, max_rate=None)
    assert (found.recall.value, found.agreement) == (1, None)


def test_a_table_that_is_deleted_meanwhile_gives_no_partial_verdict(tmp_path):
    """What was opened is either still there, or the probe ends with an error."""
    table = rows(TEXTS)
    lancedb.connect(tmp_path).create_table("items", table)

    def delete(done, _):
        if done == 5:
            shutil.rmtree(tmp_path / "items.lance")

    target = f"lancedb://{tmp_path}/items"
    try:
        found = probe(target, QUERIES, max_rate=None, progress=delete)
    except EngineError as problem:
        assert "No verdict: 5 of 40 queries were scored" in str(problem)
    else:
        assert found.recall.n == len(QUERIES) and found.recall.value == 1


def test_queries_that_cannot_be_scored_are_counted_and_left_out_of_the_verdict(folder, ran):
    filters = ["color = 'none of them'" if number % 4 else "color = 'red'" for number in range(len(QUERIES))]
    pq.write_table(pa.table({"vector": lists(QUERIES), "filter": filters}), folder / "filtered.parquet")
    for target in ("lancedb", "function"):
        done = ran("probe", target, "--queries", "filtered.parquet")
        found = json.loads(done.stdout)
        scored = found["queries"]
        assert 0 < scored <= len(QUERIES) // 4
        assert found["asked"] == scored + found["no_eligible"]
        assert done.exit_code == {"PASS": 0, "FAIL": 1, "UNDECIDED": 3}[found["verdict"]["outcome"]]
    nobody = ran("probe", "lancedb", "--queries", "queries.npy", "--where", "color = 'none of them'")
    assert nobody.exit_code == 2
    assert "no row passes the filters of 40 queries" in " ".join(nobody.stderr.split())
