"""The engines that attach to what exists: a function, a service and a program over exact search."""

import json
import os
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from recallatk import ground_truth, make_corpus, make_queries, open_dataset, score
from recallatk.core import Knob
from recallatk.engines import get_engine
from recallatk.engines.base import resolved
from recallatk.engines.callable import Callable
from recallatk.engines.command import Command
from recallatk.engines.exact import Exact
from recallatk.engines.http import Http
from recallatk.errors import EngineError, UsageError
from recallatk.testing import EngineContract, tiny_dataset


def searcher(corpus, metric):
    """Exact search that returns the user's ids."""
    engine = Exact()
    engine.build(corpus, metric)
    ids = corpus.ids.to_pylist()

    def search(queries, k):
        found = engine.search(np.asarray(queries, np.float32), k)
        return [[ids[row] for row in line if row >= 0] for line in found.tolist()]

    return search


class Service(ThreadingHTTPServer):
    """A search service with one index for each path, which can be slow, busy or broken."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.indexes, self.failures, self.requests, self.connections = {}, [], [], set()
        self.delay = 0.0
        self.drops = False
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes, and the second would wait for the first to be acknowledged.
    disable_nagle_algorithm = True

    def version_string(self):
        return "Little/1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        self.server.connections.add(self.client_address)
        time.sleep(self.server.delay)
        status, headers, said = 200, {}, None
        if self.server.failures:
            status, headers, said = self.server.failures.pop(0)
        if said is None:
            (ids,) = self.server.indexes[self.path]([body["vector"]], body["k"])
            said = json.dumps({"hits": [{"_id": each} for each in ids]})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said.encode())))
        self.end_headers()
        self.wfile.write(said.encode())
        self.close_connection = self.server.drops

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def shared_service():
    with Service() as server:
        # It looks this often whether it shall end.
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        ServedHttp.server = server
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def service(shared_service):
    shared_service.failures, shared_service.delay, shared_service.drops = [], 0.0, False
    shared_service.requests.clear()
    shared_service.connections.clear()
    yield shared_service
    shared_service.delay = 0.0


class CalledFunction(Callable):
    """The function searches whatever the test builds."""

    def build(self, corpus, metric, **parameters):
        search = searcher(corpus, metric)
        type(self).function = staticmethod(lambda queries, k, **_: search(queries, k))
        super().build(corpus, metric, **parameters)


class ServedHttp(Http):
    """The service has an index of whatever the test builds."""

    server = None

    def build(self, corpus, metric, **parameters):
        path = f"/index-{len(self.server.indexes)}"
        self.server.indexes[path] = searcher(corpus, metric)
        super().build(corpus, metric, **{**parameters, "url": self.server.url + path})


PROGRAM = """
import json, os, sys, time
import numpy as np

vectors, ids = np.load(sys.argv[1] + ".npy"), json.load(open(sys.argv[1] + ".json"))
metric = sys.argv[2]
if metric == "cosine":
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
for line in sys.stdin:
    asked = json.loads(line)
    query = np.array(asked["query"])
    difference = vectors - query
    scores = (difference * difference).sum(axis=1) if metric == "l2" else -vectors @ query
    print(json.dumps({"ids": [ids[i] for i in np.argsort(scores, kind="stable")[: asked["k"]]]}), flush=True)
"""


class StartedCommand(Command):
    """The program has an index of whatever the test builds."""

    folder = None
    count = 0

    def build(self, corpus, metric, **parameters):
        type(self).count += 1
        data = self.folder / f"data-{self.count}"
        np.save(f"{data}.npy", np.array(corpus.vectors.read(0, corpus.rows), np.float64))
        (self.folder / f"{data.name}.json").write_text(json.dumps(corpus.ids.to_pylist()))
        command = f"'{sys.executable}' '{self.folder / 'program.py'}' '{data}' {metric}"
        super().build(corpus, metric, **{**parameters, "command": command})


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    StartedCommand.folder = tmp_path_factory.mktemp("program")
    (StartedCommand.folder / "program.py").write_text(PROGRAM)


class TestCallable(EngineContract):
    engine = CalledFunction


@pytest.mark.usefixtures("service")
class TestHttp(EngineContract):
    engine = ServedHttp
    build: ClassVar = {"ids": "hits[]._id"}


@pytest.mark.usefixtures("program")
class TestCommand(EngineContract):
    engine = StartedCommand


# Ids


def three_rows(ids):
    corpus = make_corpus(np.eye(3, dtype="float32"), ids)
    return open_dataset(corpus, make_queries(np.eye(3, dtype="float32")[:2]), metric="l2")


def attached(kind, dataset, build=None, search=None):
    engine = kind()
    try:
        engine.build(dataset.corpus, dataset.metric, **resolved(kind.name, kind.build_knobs, build or {}))
        engine.configure(**resolved(kind.name, kind.search_knobs, search or {}))
    except BaseException:
        engine.close()
        raise
    return engine


def returning(*lines):
    return Callable.of(lambda queries, k: list(lines)[: len(queries)])


def found(dataset, *lines, k=3):
    return attached(returning(*lines), dataset).search(np.eye(3)[: len(lines)], k).tolist()


def test_unknown_ids_repeats_and_short_answers_are_counted_by_scoring():
    dataset = three_rows(["a", "b", "c"])
    engine = attached(returning(["a", "nobody", "a"], ["b"]), dataset)
    answers = engine.search(np.eye(3)[:2], 3)
    assert answers.tolist() == [[0, 3, 0], [1, -1, -1]]
    scored = score(answers, ground_truth(dataset, depth=3), [3], row_numbers=True)
    assert {name: scored.anomalies[name] for name in ("unknown", "duplicate", "short", "padding")} == {
        "unknown": 1,
        "duplicate": 1,
        "short": 2,
        "padding": 2,
    }


def test_gaps_before_the_end_are_no_rows():
    assert found(three_rows(["a", "b", "c"]), [None, "b", None]) == [[3, 1, -1]]
    assert found(three_rows(None), [-1, 2, -1]) == [[3, 2, -1]]


def test_what_stands_beyond_k_is_not_looked_at():
    assert found(three_rows(["a", "b", "c"]), ["c", "b", "a"], k=2) == [[2, 1]]


@pytest.mark.parametrize(
    ("ids", "said", "rows"),
    [
        ([7, 8, 9], ["8", 9, np.int32(7)], [1, 2, 0]),
        ([7, 8, 9], ["08", "x", 70], [3, 3, 3]),
        (["7", "8", "9"], [8, "9", np.str_("7")], [1, 2, 0]),
        (None, ["1", 2, "0"], [1, 2, 0]),
        (None, [3, -2, "x"], [3, 3, 3]),
    ],
)
def test_ids_are_matched_as_the_users_ids(ids, said, rows):
    assert found(three_rows(ids), said) == [rows]


@pytest.mark.parametrize("odd", [1.5, True, ["a"], {"a": 1}])
def test_ids_of_another_kind_are_refused(odd):
    with pytest.raises(EngineError, match=r"an id is a .*Accepted: strings and whole numbers"):
        found(three_rows(["a", "b", "c"]), [odd])


def test_a_target_of_other_data_is_no_evidence():
    engine = attached(returning(["x-1", "x-2"]), three_rows(["a", "b", "c"]))
    engine.search(np.eye(3)[:1], 2)
    with pytest.raises(EngineError, match=r"of the 2 ids .* the corpus has none: it says 'x-1', .* as 'a'"):
        engine.exercised()


# Functions


@pytest.mark.parametrize(
    "answer",
    [
        [["b", "a"]],
        np.array([["b", "a"]]),
        [np.array(["b", "a"], object)],
        [pa.array(["b", "a"])],
        ([["b", "a"]], [[0.1, 0.2]]),
        (np.array([["b", "a"]]), np.zeros((1, 2))),
    ],
    ids=["lists", "array", "objects", "arrow", "scores", "arrays"],
)
def test_functions_may_return_lists_or_arrays_with_or_without_scores(answer):
    engine = attached(Callable.of(lambda queries, k: answer), three_rows(["a", "b", "c"]))
    assert engine.search(np.eye(3)[:1], 2).tolist() == [[1, 0]]
    assert "queries answered by <lambda>; what its index did is not known" in engine.exercised()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "it returned a NoneType"),
        ("ab", "it returned a str"),
        (["a"], "for a query it returned a str"),
        (([], [], []), "a tuple of 3"),
        ([["a"], ["b"]], "it answered 1 queries with 2 lists of ids"),
    ],
)
def test_functions_that_return_something_else_are_refused(answer, said):
    with pytest.raises(EngineError, match=said):
        attached(Callable.of(lambda queries, k: answer), three_rows(["a", "b", "c"]))


def test_functions_take_declared_knobs_or_any_parameters():
    heard = []

    def search(queries, k, **parameters):
        heard.append(parameters)
        return [["a"]] * len(queries)

    dataset = three_rows(["a", "b", "c"])
    knobbed = Callable.of(search, name="mine", knobs=[Knob("ef", default=5, low=1, high=9, effort=True)])
    assert knobbed.name == "mine"
    attached(knobbed, dataset, search={"ef": 7})
    with pytest.raises(UsageError, match=r"mine: ef = 10\. Accepted: whole numbers from 1 to 9"):
        attached(knobbed, dataset, search={"ef": 10})
    attached(Callable.of(search), dataset, search={"parameters": '{"nprobe": 3, "mode": "fast"}'})
    assert heard == [{"ef": 7}, {"nprobe": 3, "mode": "fast"}]
    for odd, said in (("[1]", "Accepted: a JSON object"), ("{", "is no JSON")):
        with pytest.raises(UsageError, match=said):
            attached(Callable.of(search), dataset, search={"parameters": odd})


def test_a_function_is_found_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_search.py").write_text(
        "class Mine:\n    @staticmethod\n    def search(queries, k):\n        return [['b']] * len(queries)\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    dataset = three_rows(["a", "b", "c"])
    engine = attached(get_engine("callable"), dataset, {"function": "my_search:Mine.search"})
    assert engine.search(np.eye(3), 1).tolist() == [[1], [1], [1]]
    assert "3 queries answered by my_search:Mine.search" in engine.exercised()
    for text, kind, said in (
        ("", UsageError, "Accepted: module:function"),
        ("my_search", UsageError, "Accepted: module:function"),
        ("no_such_module:f", EngineError, "cannot be imported"),
        ("my_search:nobody", EngineError, "cannot be imported"),
        ("my_search:number", EngineError, "is a int and cannot be called"),
    ):
        with pytest.raises(kind, match=said):
            attached(Callable, dataset, {"function": text})


def test_what_a_function_raises_is_said():
    def search(queries, k):
        raise ValueError("no such collection")

    with pytest.raises(EngineError, match="search: search: it raised ValueError: no such collection"):
        attached(Callable.of(search), three_rows(None))


def test_an_engine_that_is_attached_to_nothing_says_so():
    for kind in (Callable, Http, Command):
        with pytest.raises(EngineError, match="attached to nothing"):
            kind().search(np.eye(3), 1)


# Services


@pytest.fixture
def asking(service):
    """Attaches to the service's index of three rows."""
    dataset = three_rows(["a", "b", "c"])
    service.indexes["/three"] = searcher(dataset.corpus, dataset.metric)
    made = []

    def ask(search=None, **build):
        build = {"url": f"{service.url}/three", "ids": "hits[]._id", "timeout": 5.0, **build}
        made.append(attached(Http, dataset, build, search))
        return made[-1]

    yield ask
    for engine in made:
        engine.close()


QUERIES = np.eye(3, dtype="float32")


def test_one_connection_serves_all_queries(service, asking):
    engine = asking()
    assert engine.search(QUERIES, 1).tolist() == [[0], [1], [2]]
    for _ in range(20):
        engine.search(QUERIES[:1], 2)
    assert len(service.requests) == 24
    assert len(service.connections) == 1
    assert engine.exercised() == (
        f"23 queries answered by {service.url}/three, the last with status 200; "
        "what its index did is not known"
    )
    assert engine.version() == "Little/1"


def test_a_connection_that_the_service_closed_is_opened_again(service, asking):
    service.drops = True
    engine = asking()
    assert engine.search(QUERIES, 1).tolist() == [[0], [1], [2]]
    assert len(service.connections) == 4


def test_the_body_is_what_the_template_says(service, asking):
    engine = asking(
        {"parameters": '{"ef": 40, "flags": ["x"], "where": "é"}'},
        body=json.dumps(
            {
                "vector": "$vector",
                "k": "$k",
                "deep": [{"ef": "$ef", "flags": "$flags"}],
                "text": "v:($vector, k:${k}, $where) costs 3 $$",
                "same": 1.5,
            }
        ),
    )
    engine.search(QUERIES[:1], 2)
    assert service.requests[-1][2] == {
        "vector": [1.0, 0.0, 0.0],
        "k": 2,
        "deep": [{"ef": 40, "flags": ["x"]}],
        "text": "v:([1.0, 0.0, 0.0], k:2, é) costs 3 $",
        "same": 1.5,
    }


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"body": '{"vector": "$vectr"}'}, r"body has \$vectr, and parameters do not"),
        ({"body": '{"vector": "5 $"}'}, r"A dollar is written as \$\$"),
        ({"body": "{"}, "body is no JSON"),
        ({"body": "[]"}, "Accepted: a JSON object"),
        ({"ids": "hits["}, "is no JMESPath"),
        ({"url": ""}, "Accepted: http://host/path"),
        ({"url": "ftp://host/"}, "Accepted: http://host/path"),
        ({"url": "http://host:port/"}, "Accepted: http://host/path"),
        ({"url": "http://me:hush@localhost/"}, "has a user in it"),
        ({"url": "http://localhost/a b"}, "%XX"),
        ({"headers": '{"X": "a\\nb"}'}, "cannot be sent"),
        ({"headers": '{"X Y": "a"}'}, "cannot be sent"),
        ({"headers": '{"Authorization": "Bearer hush"}'}, "Take it from the environment"),
        ({"url": "http://localhost/?api_key=hush"}, "api_key in url may hold a secret"),
        ({"headers": '{"X": "${RECALLATK_NO_SUCH}"}'}, "no variable RECALLATK_NO_SUCH"),
        ({"method": "DELETE"}, "Accepted: POST, GET, PUT"),
    ],
)
def test_parameters_that_cannot_be_are_refused(asking, build, said):
    with pytest.raises(UsageError, match=said) as caught:
        asking(**build)
    assert "hush" not in str(caught.value)


def test_secrets_come_from_the_environment_and_are_never_shown(service, asking, monkeypatch):
    monkeypatch.setenv("MY_KEY", 'hush "hush"/key')
    service.indexes["/three?key=k%20k"] = service.indexes["/three"]
    monkeypatch.setenv("MY_QUERY", "k%20k")
    engine = asking(
        url=f"{service.url}/three?key=${{MY_QUERY}}", headers='{"Authorization": "Bearer ${MY_KEY}"}'
    )
    engine.search(QUERIES[:1], 1)
    path, headers, _ = service.requests[-1]
    assert path == "/three?key=k%20k"
    assert headers["Authorization"] == 'Bearer hush "hush"/key'
    assert "k%20k" not in engine.exercised()
    echo = "x" * 150 + json.dumps(headers) + headers["Authorization"] + path
    for status in (401, 200):
        service.failures = [(status, {}, echo)]
        with pytest.raises(EngineError) as caught:
            engine.search(QUERIES[:1], 1)
        shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
        assert "hush" not in str(caught.value)
        assert "k%20k" not in shown


def test_a_failure_says_its_status_and_the_beginning_of_its_body(service, asking):
    engine = asking()
    service.failures = [(404, {}, "no index\n  three " + "x" * 1000)]
    with pytest.raises(EngineError, match=r"http: http://.*/three: status 404: no index three x") as caught:
        engine.search(QUERIES[:1], 1)
    assert len(str(caught.value)) < 300
    assert engine.search(QUERIES[:1], 1).tolist() == [[0]]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("<html>", "what is no JSON: <html>"),
        ('{"found": []}', r"'hits\[\]\._id' finds no list of ids in: \{\"found\": \[\]\}"),
        ("", "what is no JSON: nothing"),
    ],
)
def test_answers_without_ids_are_refused(service, asking, said, reason):
    engine = asking()
    service.failures = [(200, {}, said)]
    with pytest.raises(EngineError, match=reason):
        engine.search(QUERIES[:1], 1)


def test_an_empty_answer_is_a_short_one(service, asking):
    engine = asking()
    service.failures = [(200, {}, '{"hits": []}')]
    assert engine.search(QUERIES[:1], 2).tolist() == [[-1, -1]]


def test_a_busy_service_is_asked_again_when_it_says(service, asking):
    engine = asking()
    date = formatdate(time.time() - 60, usegmt=True)
    service.failures = [
        (429, {"Retry-After": "0"}, ""),
        (503, {"Retry-After": date}, ""),
        (503, {"Retry-After": "soon"}, ""),
    ]
    assert engine.search(QUERIES[:1], 1).tolist() == [[0]]
    assert "and 3 requests again because it was busy" in engine.exercised()
    assert len(service.connections) == 1


def test_a_service_that_stays_busy_is_given_up(service, asking):
    engine = asking()
    service.failures = [(429, {"Retry-After": "0"}, "too many")] * 50
    with pytest.raises(EngineError, match="status 429: too many"):
        engine.search(QUERIES[:1], 1)
    assert len(service.requests) == 1 + 6
    service.failures = [(503, {"Retry-After": "3600"}, "")]
    with pytest.raises(EngineError, match="status 503, and it asks to wait 3,600 s"):
        engine.search(QUERIES[:1], 1)


def test_a_service_that_is_silent_is_given_up_and_can_be_asked_again(service, asking):
    engine = asking(timeout=0.5)
    service.delay = 1.0
    with pytest.raises(EngineError, match=r"no answer within 0\.5 s"):
        engine.search(QUERIES[:1], 1)
    service.delay = 0.0
    assert engine.search(QUERIES[1:2], 1).tolist() == [[1]]


def test_a_service_that_is_not_there_is_an_error_when_attaching(asking):
    with pytest.raises(EngineError, match=r"http: http://127\.0\.0\.1:9/x: it cannot be reached: "):
        asking(url="http://127.0.0.1:9/x")


# Programs


@pytest.fixture
def starting(tmp_path):
    """Starts a program of some lines of Python on three rows."""
    made = []

    def start(code, search=None, timeout=10.0):
        (tmp_path / "it is mine.py").write_text(f"import json, os, sys, time\n{code}\n")
        command = f"'{sys.executable}' '{tmp_path / 'it is mine.py'}'"
        build = {"command": command, "timeout": timeout}
        made.append(attached(Command, three_rows(["a", "b", "c"]), build, search))
        return made[-1]

    yield start
    for engine in made:
        engine.close()


LOOP = "for line in sys.stdin:\n    asked = json.loads(line)\n    {}\n    sys.stdout.flush()"
ANSWER = 'print(json.dumps({"ids": ["b", "a"]}))'


def test_a_program_hears_query_k_and_parameters(starting, tmp_path):
    heard = tmp_path / "heard"
    code = LOOP.format(f"open({str(heard)!r}, 'a').write(line); {ANSWER}")
    engine = starting(code, {"parameters": '{"ef": 5}'})
    assert engine.search(QUERIES[:1], 3).tolist() == [[1, 0, -1]]
    assert json.loads(heard.read_text().splitlines()[-1]) == {
        "query": [1.0, 0.0, 0.0],
        "k": 3,
        "parameters": {"ef": 5},
    }
    assert engine.exercised().startswith("1 queries answered by ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('no license')", "it ended with code 1. Last line of its standard error: no license"),
        ("sys.stderr.write('a\\nb\\n\\n'); os._exit(3)", "it ended with code 3. .* error: b$"),
        ("os.kill(os.getpid(), 9)", "it ended with signal 9$"),
        ("sys.stderr.write('loading\\n')\n" + LOOP.format("print('ready')"), "no JSON: ready. .* loading$"),
        (LOOP.format("print('[1]')"), r'it wrote \[1\]\. Accepted: \{"ids": \[\.\.\.\]\}'),
        (LOOP.format('print(\'{"ids": "a"}\')'), "Accepted"),
        (LOOP.format("os.write(1, b'\\xff\\n')"), "no JSON"),
        ("1/0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_program_that_fails_is_an_error_with_its_last_words(starting, code, said):
    with pytest.raises(EngineError, match=said):
        starting(code)


def test_a_program_that_crashes_later_stays_ended(starting):
    engine = starting(LOOP.format(f"{ANSWER} if asked['k'] < 3 else sys.exit('too many')"))
    engine.search(QUERIES, 2)
    with pytest.raises(EngineError, match=r"it ended with code 1. .*: too many"):
        engine.search(QUERIES, 3)
    with pytest.raises(EngineError, match="it was ended"):
        engine.search(QUERIES, 2)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_program_that_hangs_is_ended_with_all_it_started(starting, tmp_path):
    code = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
sys.stderr.write("waiting for a lock\\n")
sys.stderr.flush()
time.sleep(60)
"""
    started = time.monotonic()
    with pytest.raises(EngineError, match=r"no answer within 3 s\. .* error: waiting for a lock"):
        starting(code, timeout=3.0)
    assert time.monotonic() - started < 15
    own, child = map(int, (tmp_path / "pids").read_text().split())
    assert not alive(own)
    for _ in range(50):
        # A child of the child is collected by the system, in its own time.
        if not alive(child) or "Z" in (state(child) or "Z"):
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the program started is still there")


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def test_a_program_that_does_not_read_is_ended_too(starting):
    dataset = tiny_dataset(5, 1, 100_000)
    engine = Command()
    build = {"command": f"'{sys.executable}' -c 'import time; time.sleep(60)'", "timeout": 0.5}
    engine.build(dataset.corpus, dataset.metric, **build)
    with pytest.raises(EngineError, match=r"no answer within 0\.5 s"):
        engine.configure(parameters="{}")
    engine.close()


def test_closing_ends_the_program_and_leaves_nothing(starting, tmp_path):
    pid, ended = tmp_path / "pid", tmp_path / "ended"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n" + LOOP.format(ANSWER)
    engine = starting(f"{code}\nopen({str(ended)!r}, 'w').write('by itself')")
    assert sum(each.name == "command" for each in threading.enumerate()) == 2
    engine.close()
    engine.close()
    assert not alive(int(pid.read_text()))
    assert ended.read_text() == "by itself"
    assert not any(each.name == "command" for each in threading.enumerate())


def test_commands_that_cannot_be_are_refused():
    dataset = three_rows(None)
    for command, kind, said in (
        ("", UsageError, "needs command"),
        ("'open", UsageError, "cannot be split"),
        ("/no/such/program", EngineError, "/no/such/program: it cannot be started: No such file"),
    ):
        with pytest.raises(kind, match=said):
            attached(Command, dataset, {"command": command})
