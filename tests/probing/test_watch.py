"""Watches: probes at regular times, outages waited out, hooks, history and metrics that others read."""

import json
import re
import signal
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recallatk as package
from recallatk.datasets.opening import open_queries
from recallatk.datasets.sampling import latest_queries
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.probing import watch
from recallatk.reporting.metrics import ProbeMetrics
from recallatk.reporting.probe import look_to_text

prometheus = pytest.importorskip("prometheus_client.parser", reason="the extra prometheus is not installed")

from commands import command, recallatk  # noqa: E402  # isort: skip

ROWS, DIMENSION, K = 500, 8, 10
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"


class Service:
    """A real HTTP service that finds some of the rows, and can go away and come back."""

    def __init__(self, vectors):
        self.kept, self.asked, service = ROWS, threading.Event(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                service.asked.set()
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scores = vectors[: service.kept] @ np.array(asked["vector"], "f4")
                found = json.dumps(
                    {"ids": np.argsort(-scores, kind="stable")[: asked["k"]].tolist()}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

            def log_message(self, *_):
                pass

        self.handler, self.port = Handler, 0
        self.start()

    def start(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), self.handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def shop(tmp_path):
    """A folder with a corpus and queries, and the service that searches them."""
    random = np.random.default_rng(0)
    vectors = random.normal(size=(ROWS, DIMENSION)).astype("f4")
    np.save(tmp_path / "corpus.npy", vectors)
    np.save(tmp_path / "queries.npy", random.normal(size=(80, DIMENSION)).astype("f4"))
    service = Service(vectors)
    service.folder = tmp_path
    service.target = f"http://127.0.0.1:{service.port}/search?metric=ip&corpus={tmp_path / 'corpus.npy'}"
    yield service
    service.stop()


def started(shop, *words):
    return subprocess.Popen(
        command("watch", shop.target, "--queries", "queries.npy", "--max-rate", "none", *words),
        cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_one_look_ends_with_the_code_of_its_verdict(shop):
    words = ("watch", shop.target, "--queries", "queries.npy", "--max-rate", "none", "--once")
    passed = recallatk(*words, "--target", "recall@10 >= 0.5", "--history", "h.db", cwd=shop.folder)
    assert passed.returncode == 0, passed.stderr
    assert "PASS. recall@10 1.0" in passed.stdout
    shop.kept = 100
    failed = recallatk(*words, "--target", "recall@10 >= 0.9", "--history", "h.db", "--json", cwd=shop.folder)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["probe"]["verdict"]["outcome"] == "FAIL"
    undecided = recallatk(*words, "--target", "recall@10 >= 0.2", "--recent", "3", cwd=shop.folder)
    assert undecided.returncode == 3
    (trend,) = package.history(shop.folder / "h.db")
    assert [each.verdict for each in trend.entries] == ["PASS", "FAIL"]


def test_a_look_says_the_figures_of_other_goals_and_why_it_is_undecided(shop):
    words = ("watch", shop.target, "--queries", "queries.npy", "--max-rate", "none", "--once")
    said = recallatk(*words, "--target", "p50 <= 5s", "--target", "recall@10 >= 0.5", cwd=shop.folder).stdout
    assert re.search(r"PASS\. recall@10 1\.0.* queries\. p50 <= 5s: met: \S+ \(\S+ to \S+\)\.$", said.strip())
    assert "recall@10 >= 0.5" not in said
    shop.kept = 250
    few = recallatk(*words, "--target", "recall@10 >= 0.5", "--recent", "5", cwd=shop.folder).stdout
    assert "UNDECIDED" in few and "more queries would decide" in few


def test_a_look_without_queries_says_that_rows_cannot_pass(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("f4")
    np.save(tmp_path / "corpus.npy", vectors)
    index = faiss.IndexFlatL2(DIMENSION)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "my.index"))
    target = f"faiss://{tmp_path / 'my.index'}?metric=l2&corpus={tmp_path / 'corpus.npy'}"
    [look] = watch(target, looks=1, max_rate=None, goals=["recall@10 >= 0.5"], sample=50)
    said = look_to_text(look, last=True)
    assert "UNDECIDED" in said and "rows of the collection are easier than real queries" in said


def test_a_watch_survives_an_outage_and_ends_on_a_failed_target(shop):
    with started(shop, "--every", "1s", "--target", "recall@10 >= 0.9", "--textfile", "m.prom") as watching:
        assert "PASS" in watching.stdout.readline()
        shop.stop()
        assert any("no probe:" in watching.stdout.readline() for _ in range(3))
        failed = value(shop.folder / "m.prom", "recallatk_failed_probes_total")
        assert failed >= 1
        # What the last probe found stays, with its time.
        assert value(shop.folder / "m.prom", "recallatk_recall_ratio", bound="mean") == 1.0
        shop.start()
        assert any("PASS" in watching.stdout.readline() for _ in range(5))
        shop.kept = 50
        rest = watching.stdout.read()
        assert "FAIL" in rest.splitlines()[-1]
        assert watching.wait() == 1
        assert value(shop.folder / "m.prom", "recallatk_target_met") == 0.0


def test_a_hook_is_run_on_each_failure_and_the_watch_goes_on(shop):
    shop.kept = 50
    hook = (
        'printf "%s %s\\n" "$RECALLATK_VERDICT" "$RECALLATK_RECALL" >> "hook log"; cat >> probes.json; exit 7'
    )
    with started(
        shop, "--every", "1s", "--target", "recall@10 >= 0.9", "--on-fail", hook, "--listen", "127.0.0.1:0"
    ) as watching:
        url = re.search(r"http://127\S+", watching.stderr.readline())[0]
        for _ in range(2):
            assert "FAIL" in watching.stdout.readline()
        time.sleep(0.2)
        with urllib.request.urlopen(url) as served:
            families = {
                each.name for each in prometheus.text_string_to_metric_families(served.read().decode())
            }
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(20) == 143
        assert "ended with 7" in watching.stderr.read()
    assert "recallatk_recall_ratio" in families
    lines = (shop.folder / "hook log").read_text().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("FAIL 0.") for line in lines)
    first, _ = json.JSONDecoder().raw_decode((shop.folder / "probes.json").read_text())
    assert first["verdict"]["outcome"] == "FAIL"


@pytest.mark.parametrize(("word", "code"), [("probe", 130), ("watch", 130)])
def test_control_c_ends_with_a_word_and_no_advice_to_resume(shop, word, code):
    with subprocess.Popen(
        command(word, shop.target, "--queries", "queries.npy", "--max-rate", "2/s"),
        cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert shop.asked.wait(60)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert said.splitlines()[-1] == "recallatk: stopped"


def test_the_first_look_must_succeed_and_later_ones_come_soon_after_an_outage(shop):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 1:
            shop.stop()
        if len(waits) == 4:
            shop.start()

    queries = np.load(shop.folder / "queries.npy")
    looks = list(watch(shop.target, queries, every=3600, looks=6, max_rate=None, sleep=sleep))
    assert [each.probed is None for each in looks] == [False, True, True, True, False, False]
    assert waits[1:4] == [10, 20, 40]
    assert all(3590 < each <= 3600 for each in (waits[0], waits[4]))
    assert looks[1].problem
    shop.stop()
    try:
        with pytest.raises(EngineError):
            next(watch(shop.target, queries, max_rate=None))
    finally:
        shop.start()
    with pytest.raises(RecallError, match="more than 0"):
        next(watch(shop.target, queries, every=0))


@pytest.mark.parametrize("away", ["my.index", "corpus.npy", "queries.npy"])
@pytest.mark.parametrize("damage", ["missing", "half written"])
def test_a_file_that_is_written_anew_is_an_outage_but_not_at_the_first_look(tmp_path, away, damage):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(ROWS, DIMENSION)).astype("f4")
    np.save(tmp_path / "corpus.npy", vectors)
    np.save(tmp_path / "queries.npy", random.normal(size=(20, DIMENSION)).astype("f4"))
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "my.index"))
    target = f"faiss://{tmp_path / 'my.index'}?metric=ip&corpus={tmp_path / 'corpus.npy'}"
    file = tmp_path / away
    whole, waits = file.read_bytes(), []

    def damaged():
        file.unlink()
        if damage == "half written":
            file.write_bytes(whole[: len(whole) // 2])

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            damaged()
        if len(waits) == 4:
            file.write_bytes(whole)

    given = {"queries": tmp_path / "queries.npy", "max_rate": None}
    looks = list(watch(target, every=3600, looks=5, sleep=sleep, goals=["recall@10 >= 0.2"], **given))
    assert [each.probed is None for each in looks] == [False, False, True, True, False]
    assert waits[2:4] == [10, 20] and away in looks[2].problem
    damaged()
    with pytest.raises(RecallError, match=re.escape(away)):
        next(watch(target, **given))


def test_a_mistake_that_waiting_does_not_mend_ends_the_watch_at_any_look(shop):
    def sleep(_):
        np.save(shop.folder / "queries.npy", np.zeros((4, DIMENSION + 1), "f4") + 1)

    looks = watch(shop.target, shop.folder / "queries.npy", max_rate=None, sleep=sleep)
    assert next(looks).probed is not None
    with pytest.raises(RecallError, match="dimension"):
        next(looks)


def test_the_latest_queries_are_those_of_the_latest_times(tmp_path):
    vectors = list(np.random.default_rng(0).normal(size=(6, 4)).astype("f4"))
    times = pa.array([50, 10, None, 40, 30, 20], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": list("abcdef"), "vector": vectors, "time": times}), tmp_path / "q.parquet")
    queries = open_queries(tmp_path / "q.parquet")
    assert latest_queries(queries, 3).ids.to_pylist() == ["a", "d", "e"]
    assert latest_queries(queries, 9) is queries
    np.save(tmp_path / "q.npy", np.array(vectors))
    plain = latest_queries(open_queries(tmp_path / "q.npy"), 2)
    assert np.array_equal(plain.vectors.read(0, 2), np.array(vectors)[-2:])
    with pytest.raises(UsageError, match="1 or more"):
        latest_queries(queries, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "everywhere:9"), "not an IP address"),
        (("--listen", "127.0.0.1"), "not an address"),
        (("--every", "0s"), "duration"),
        (("--recent", "0"), "1 or more"),
        (("--textfile", "missing/m.prom", "--once"), "cannot be written"),
    ],
)
def test_mistakes_are_said_before_or_beside_the_first_look(shop, words, said):
    done = recallatk(
        "watch", shop.target, "--queries", "queries.npy", "--max-rate", "none", *words, cwd=shop.folder
    )
    assert said in done.stderr
    assert done.returncode == (0 if "--textfile" in words else 2)


def value(path, name, **labels):
    """The value of one sample, read with Prometheus' own parser."""
    for family in prometheus.text_string_to_metric_families(path.read_text()):
        for each in family.samples:
            if each.name == name and labels.items() <= each.labels.items():
                return each.value
    raise AssertionError(name)


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are(shop, tmp_path):
    metrics = ProbeMetrics()
    metrics.observe(package.probe(shop.target, np.load(shop.folder / "queries.npy"), max_rate=None))
    metrics.write(tmp_path / "m.prom")
    families = list(prometheus.text_string_to_metric_families((tmp_path / "m.prom").read_text()))
    samples = {each.name: each.labels for family in families for each in family.samples}
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [each["query"] for each in dashboard["templating"]["list"]]
    used = {name for text in asked for name in re.findall(r"recallatk_\w+", text)}
    assert used <= set(samples)
    known = {"le", *(label for labels in samples.values() for label in labels)}
    wanted = {label for text in asked for label in re.findall(r"(\w+)=~?\"", text)}
    assert wanted <= known
    gauges = {
        name for name in samples if not name.endswith(("_bucket", "_sum", "_count", "_created", "_total"))
    }
    assert gauges <= used


def test_a_hook_without_a_target_is_refused_because_it_could_never_run():
    ran = recallatk("watch", "module:search", "--once", "--on-fail", "true")
    assert ran.returncode == 2
    assert '--target "recall@10 >= 0.95"' in ran.stderr
