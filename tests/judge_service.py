"""A judge behind a real HTTP server on this machine, and the function that asks it."""

import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa

from commands import answer_signals
from recallatk import open_dataset
from recallatk.quality import Quality, QualityJudge

QUERIES, ROWS = 12, 40


class JudgeService(ThreadingHTTPServer):
    """A service that scores retrievals, remembers every request, and can fail or hang for some queries."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests, self.times = [], []
        self.failures, self.hangs = {}, set()
        self.delay = 0.0
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/judge"

    def handle_error(self, request, client_address):
        """Clients that hang up or die are part of the tests."""

    @property
    def queries(self):
        """The ids of the queries that were judged, in order."""
        return [each["query"]["id"] for each in self.requests]


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        service = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = body["query"]["id"]
        with service.lock:
            service.times.append(time.monotonic())
            service.requests.append(body)
            service.busy += 1
            service.most_busy = max(service.most_busy, service.busy)
            left = service.failures.get(name, 0)
            service.failures[name] = max(0, left - 1)
        if name in service.hangs:
            service.ended.wait()
        time.sleep(service.delay)
        with service.lock:
            service.busy -= 1
        said = json.dumps({"score": score(body["retrieved"])}).encode()
        self.send_response(503 if left else 200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def score(retrieved):
    """A number that depends on every row and on the order."""
    return sum(int(each["id"][1:]) / each["rank"] for each in retrieved) / 100


def judge(query, retrieved):
    """Ask the service whose address the environment has."""
    body = {
        "query": {"id": query.id, "text": query.text},
        "retrieved": [{"id": each.id, "rank": each.rank, "text": each.text} for each in retrieved],
    }
    request = urllib.request.Request(os.environ["JUDGE_URL"], json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["score"]


def _table(letter, rows, **columns):
    vectors = np.random.default_rng(rows).normal(size=(rows, 4)).astype("f4")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    return pa.table({"id": [f"{letter}{row}" for row in range(rows)], "vector": column, **columns})


def small_dataset():
    """A corpus and queries with texts."""
    corpus = _table("c", ROWS, text=[f"passage {row}" for row in range(ROWS)], year=list(range(ROWS)))
    queries = _table("q", QUERIES, text=[f"what is {row}?" for row in range(QUERIES)])
    return open_dataset(corpus, queries, metric="l2")


def retrievals():
    """Five corpus rows for each query."""
    return np.random.default_rng(0).permuted(np.tile(np.arange(ROWS), (QUERIES, 1)), axis=1)[:, :5]


def judge_all(folder, url, out, **options):
    """Judge every retrieval in this process, and write the values."""
    answer_signals()
    os.environ["JUDGE_URL"] = url
    made = QualityJudge(Quality(judge, cache=folder, version="1", **options), small_dataset(), 5)
    values = made.values(retrievals())["quality"]
    np.save(out, values)
