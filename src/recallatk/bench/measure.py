"""Measure one index at several search settings against a truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recallatk.analysis import score
from recallatk.bench.environment import describe_environment, usable_cores
from recallatk.bench.job import Job, Result, read_result, write_job
from recallatk.core import Build, Dataset, Measurement, Run, Trial, Truth
from recallatk.engines import Engine, get_engine
from recallatk.engines.base import require_constraints, require_installed, require_metric, resolved
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.fingerprint import fingerprint_truth, fingerprints

TIMED = (
    "one library call per query for its top {k}, one client, {threads} search thread; "
    "build on {build} threads"
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Progress = Callable[[int, int], None]


def measure(
    dataset: Dataset,
    truth: Truth,
    *,
    engine: str = "faiss-hnsw",
    build: Mapping[str, Any] | None = None,
    search: Sequence[Mapping[str, Any]] = ({},),
    at: Sequence[int] = (1, 10, 100),
    rounds: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Build one index in a process of its own and search it at every setting, query by query.

    Args:
        dataset: what to build from and what to ask.
        truth: the right answers for this dataset.
        engine: the name of the engine.
        build: build parameters that differ from the defaults.
        search: one mapping of search parameters per setting to measure.
        at: the values of k to score; the largest is what each call asks for.
        rounds: how often every query is asked at every setting.
        seed: of the order in which settings take turns.
        progress: called with the steps done (the build, then each setting in each round) and all there are.
    """
    _require_measurable(dataset, truth, at)
    if not search or rounds < 1:
        raise UsageError("at least one search setting and one round are needed")
    job = _job(engine, dataset, dict(build or {}), search, max(at), rounds, seed)
    result, answers, latencies = _in_own_process(job, dataset, progress)
    built = _build(job, result)
    measurements = tuple(
        Measurement(
            trial=Trial(engine, built.parameters, tuple(settings.items())),
            build=built,
            k=job.k,
            answers=found,
            latencies_ns=calls,
            exercised=evidence,
            score=score(found, truth, at, eligibility=dataset.eligibility, row_numbers=True),
        )
        for settings, found, calls, evidence in zip(
            job.searches, answers, latencies, result.exercised, strict=True
        )
    )
    return Run(
        dataset=dataset.name,
        metric=dataset.metric,
        fingerprints={**fingerprints(dataset), "truth": fingerprint_truth(truth)},
        environment=describe_environment(),
        timed=TIMED.format(k=job.k, threads=job.search_threads, build=job.build_threads),
        measurements=measurements,
        sampled_from=dataset.corpus.sampled_from,
    )


def _job(
    engine: str,
    dataset: Dataset,
    build: dict[str, Any],
    search: Sequence[Mapping[str, Any]],
    k: int,
    rounds: int,
    seed: int,
) -> Job:
    """What the worker is to do, with every parameter settled."""
    made = get_engine(engine)
    require_installed(made)
    require_metric(made, dataset.metric)
    built = resolved(engine, made.build_knobs, build)
    searches = [resolved(engine, made.search_knobs, each) for each in search]
    k = min(k, dataset.corpus.rows)
    for each in searches:
        known = {"k": k, "rows": dataset.corpus.rows, "dimension": dataset.corpus.dimension}
        require_constraints(made, **known, **built, **each)
    return Job(
        engine=engine,
        metric=dataset.metric,
        build=built,
        searches=searches,
        k=k,
        rounds=rounds,
        seed=seed,
        build_threads=usable_cores(),
        search_threads=1,
        filters=_filters(made, dataset),
        needs_ids=made.abilities.attaches,
    )


def _filters(engine: type[Engine], dataset: Dataset) -> list[dict[str, Any] | None] | None:
    """The filters of the queries, for engines that take them into account."""
    if dataset.queries.filters is None:
        return None
    if not engine.abilities.filters:
        raise EngineError(f"{engine.name} cannot filter while it searches, and these queries have filters")
    return [None if each is None else each.to_json() for each in dataset.queries.filters]


def _require_measurable(dataset: Dataset, truth: Truth, at: Sequence[int]) -> None:
    """Refuse what could not be scored, and a truth of other data, before anything is built."""
    if dataset.queries.corpus_rows is not None:
        raise UsageError(
            "these queries are corpus rows, each of which would find itself: no engine can be told to leave "
            "it out"
        )
    if not at or not 1 <= min(at) <= max(at) <= truth.depth:
        raise UsageError(f"at = {list(at)}. Accepted: from 1 to {truth.depth}, the depth of the truth")
    if truth.metric not in (None, dataset.metric):
        raise MismatchError(f"a truth by {truth.metric}, and a dataset by {dataset.metric}")
    if len(truth) != dataset.queries.rows:
        raise MismatchError(f"a truth of {len(truth)} queries, and a dataset of {dataset.queries.rows}")
    beyond = truth.overflow[1] if truth.overflow else truth.rows
    if max(truth.rows.max(initial=-1), beyond.max(initial=-1)) >= dataset.corpus.rows:
        raise MismatchError(f"the truth names rows beyond the corpus of {dataset.corpus.rows}")
    found = fingerprints(dataset)
    other = [part for part, text in truth.fingerprints.items() if found.get(part) != text]
    if other:
        raise MismatchError(f"the truth was made from other data: {', '.join(other)} differ")


def _build(job: Job, result: Result) -> Build:
    return Build(
        engine=job.engine,
        version=result.version,
        parameters=tuple(job.build.items()),
        threads=job.build_threads,
        seconds=result.build_seconds,
        memory_bytes=result.memory_bytes,
        size_bytes=result.size_bytes,
    )


def _in_own_process(job: Job, dataset: Dataset, progress: Progress | None) -> tuple[Result, Any, Any]:
    with tempfile.TemporaryDirectory(prefix="recallatk-") as name:
        folder = Path(name)
        write_job(folder, job, dataset)
        _run_worker(folder, job, progress)
        return read_result(folder)


def _run_worker(folder: Path, job: Job, progress: Progress | None) -> None:
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(job.build_threads))}
    # -P: a file in the user's folder must not be imported in place of a library.
    command = [sys.executable, "-P", "-m", "recallatk.bench.worker", str(folder)]
    log = folder / "stderr.txt"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            encoding="utf-8",
            errors="replace",
        ) as worker,
    ):
        try:
            for line in worker.stdout or ():
                said = _said(line)
                if progress is not None and said is not None:
                    progress(*said)
        except BaseException:
            worker.kill()
            raise
    if worker.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise EngineError(f"{job.engine} ended with {_ending(worker.returncode)}: {tail[0]}")


def _said(line: str) -> tuple[int, int] | None:
    """What the worker says of its progress; other lines are the engine's own."""
    try:
        said = json.loads(line)
        return said["done"], said["total"]
    except (ValueError, TypeError, KeyError):
        return None


def _ending(code: int) -> str:
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
    except ValueError:
        return f"code {code}"
