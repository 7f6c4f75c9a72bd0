"""The measuring process: builds one index, searches it, and writes down every call.

Started as `python -m recallatk.bench.worker FOLDER` with thread counts in the environment. It says how
far it is on standard output, one JSON object a line.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.job import Job, Result, read_corpus, read_job, read_vectors, write_result
from recallatk.bench.memory import private_bytes
from recallatk.core import Metric
from recallatk.engines import Engine, get_engine
from recallatk.errors import EngineError
from recallatk.filters import filter_from_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Calls before the clock counts, so that caches and branch predictors have seen the index.
_WARM_UP_CALLS = 100


def work(folder: Path) -> None:
    """Do the job of a folder."""
    job = read_job(folder)
    corpus = read_corpus(folder)
    queries = np.array(read_vectors(folder, "queries"))
    with get_engine(job.engine)() as engine:
        engine.set_threads(job.build_threads)
        steps = 1 + job.rounds * len(job.searches)
        _say(0, steps)
        before = private_bytes()
        started = time.perf_counter()
        engine.build(corpus, Metric(job.metric), **job.build)
        seconds = time.perf_counter() - started
        memory = max(0, private_bytes() - before)
        _say(1, steps)
        engine.set_threads(job.search_threads)
        answers, latencies, exercised = _search_all(engine, job, queries)
        result = Result(seconds, memory, engine.size_bytes(), engine.version(), exercised)
    write_result(folder, result, answers, latencies)


def _search_all(
    engine: Engine, job: Job, queries: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Every configuration once per round, in an order drawn anew for each round."""
    count = len(job.searches)
    answers = np.full((count, len(queries), job.k), -1, np.int64)
    latencies = np.zeros((count, job.rounds, len(queries)), np.int64)
    exercised = [""] * count
    arguments = _arguments(job, len(queries))
    shuffled = random.Random(job.seed)  # noqa: S311
    gc.collect()
    gc.freeze()
    gc.disable()
    for turn in range(job.rounds):
        for step, number in enumerate(shuffled.sample(range(count), count)):
            engine.configure(**job.searches[number])
            for query in range(min(_WARM_UP_CALLS, len(queries))):
                engine.search(queries[query : query + 1], *arguments[query])
            _timed_calls(engine, queries, arguments, answers[number], latencies[number, turn])
            exercised[number] = engine.exercised()
            _say(2 + turn * count + step, 1 + job.rounds * count)
    return answers, latencies, exercised


def _arguments(job: Job, queries: int) -> list[tuple[Any, ...]]:
    """What each call says beside the query: k, and what may be returned where that is not everything."""
    if job.filters is None:
        return [(job.k,)] * queries
    return [(job.k,) if each is None else (job.k, [filter_from_json(each)]) for each in job.filters]


def _timed_calls(
    engine: Engine,
    queries: NDArray[np.float32],
    arguments: list[tuple[Any, ...]],
    answers: NDArray[np.int64],
    latencies: NDArray[np.int64],
) -> None:
    """One query at a time, one latency each."""
    clock = time.perf_counter_ns
    for query in range(len(queries)):
        asked, beside = queries[query : query + 1], arguments[query]
        started = clock()
        found = engine.search(asked, *beside)
        latencies[query] = clock() - started
        _require_rows(found, beside[0])
        answers[query, : found.shape[1]] = found[0]


def _require_rows(found: Any, k: int) -> None:
    """Refuse an answer that is no row of row numbers: numpy would make it fit."""
    if not isinstance(found, np.ndarray):
        raise EngineError(f"a query was answered with a {type(found).__name__}, not an array of row numbers")
    if found.dtype.kind not in "iu" or found.ndim != 2 or len(found) != 1 or found.shape[1] > k:
        shown = f"an array of {found.dtype} and shape {found.shape}"
        raise EngineError(f"one query for {k} neighbours was answered with {shown}")


def _say(done: int, total: int) -> None:
    sys.stdout.write(json.dumps({"done": done, "total": total}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    work(Path(sys.argv[1]))
