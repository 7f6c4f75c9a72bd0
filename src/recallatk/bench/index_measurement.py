"""Measure one index against the ground truth: an engine by name, an index object, or a search function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from recallatk.adapters import Engine, get_engine
from recallatk.adapters.base import require_able, require_installed
from recallatk.adapters.live import LiveIndex
from recallatk.adapters.registry import live_engine, registered
from recallatk.analysis.filtered import DEPTH, filter_facts
from recallatk.analysis.score import USUAL
from recallatk.bench.downstream import judges_of
from recallatk.bench.job import TrialSettings
from recallatk.bench.load import Questions
from recallatk.bench.measurement import (
    conclude,
    describe_run,
    labels_of,
    require_measurable,
    require_separate_queries,
)
from recallatk.bench.plan import Plan, PlannedBuild
from recallatk.bench.process_usage import Limits
from recallatk.bench.run_sink import MemorySink
from recallatk.bench.runner import Runner
from recallatk.bench.settings.grid import combine, read_axes
from recallatk.bench.settings.problems import Problems
from recallatk.core import Caution, Dataset, Load, Metric, Run, Truth
from recallatk.deprecation import deprecated
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.bench.progress import Watch
    from recallatk.core.trials import Parameters
    from recallatk.filters import Filter

    Settings = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_ACCEPTED = (
    "the name of an engine, an Engine class, a function search(queries, k), or an index object of faiss, "
    "hnswlib, usearch, voyager, annoy, scann, pynndescent, scikit-learn, LanceDB, Chroma or Qdrant"
)


def measure(
    index: Any,
    corpus: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    truth: Any = None,
    qrels: Any = None,
    build: Settings | None = None,
    search: Settings | None = None,
    load: Load | Sequence[Load] | None = None,
    at: int | Sequence[int] | None = None,
    measures: str | Sequence[str] = (),
    rounds: int = 5,
    builds: int = 1,
    seed: int = 0,
    weight: str | None = None,
    threads: int = 1,
    limits: Limits | None = None,
    explain: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Measure recall, latency and throughput of one index at every setting, under every load.

    A registered engine is built and searched in a worker process. Anything else is searched in this process:
    memory is not measured, and limits do not apply. An index object is not rebuilt and keeps its parameters.

    Args:
        index: an engine's name or class, an index object, or a function `search(queries, k, **parameters)`.
        corpus: the corpus vectors in any form that `open_dataset` takes, or a Dataset.
        queries: the query vectors, likewise; leave out with a Dataset.
        metric: cosine, ip or l2; a Dataset states its own.
        where: one filter for all queries.
        truth: the ground truth, or a file that holds it; computed by default.
        qrels: relevance judgments, a file or grades by query id and corpus id; adds downstream quality.
        build: build parameters; a list of values is a grid, several mappings are several builds.
        search: search parameters, likewise.
        load: how clients send queries, one or several loads; one client and one query at a time by default.
        at: cutoffs to score, 1, 10 and 100 by default; each call requests the largest.
        measures: further measures, for example `"robust(0.9)@10"`.
        rounds: number of times each query is sent at each setting.
        builds: number of builds; each but the first inserts the rows in another order.
        seed: random seed for the order of rows, trials and queries.
        weight: query column to weight means by, such as the number of times each query was asked.
        threads: number of threads that a search may use.
        limits: limits on time and memory of a trial.
        explain: collect evidence on why neighbors were missed, for `recallatk.explain`.
        watch: called with a Progress after each step.
    """
    if isinstance(queries, Truth):
        deprecated("a truth as the third argument of measure", "measure(index, dataset, truth=truth)")
        queries, truth = None, queries
    dataset, searches = _dataset(corpus, queries, metric, where, qrels), _listed(search)
    extra, held_to = (measures,) if isinstance(measures, str) else tuple(measures), _limits(limits)
    _require_numbers(rounds, builds, threads, seed)
    timing = TrialSettings(_cutoffs(at), extra, rounds, seed, None, threads, None, held_to, explain, weight)
    engine = _engine(index, searches)
    plan = _plan(engine, dataset, _listed(build), searches, _loads(load), builds, timing)
    return _measured(engine, dataset, truth, plan, timing, watch, judged=qrels is not None)


def _measured(
    engine: type[Engine],
    dataset: Dataset,
    truth: Any,
    plan: Plan,
    timing: TrialSettings,
    watch: Watch | None,
    *,
    judged: bool,
) -> Run:
    judges = judges_of(dataset, timing.at, required=judged)
    known = _truth(truth, dataset, timing.at)
    require_measurable(dataset, known, timing.at)
    sink = MemorySink(describe_run(dataset, known, plan, {}))
    filters = filter_facts(dataset, _unfiltered(dataset, timing.k) if truth is None else None)
    runner = Runner(plan, dataset, known, sink, timing, watch=watch, filters=filters, judges=judges)
    if _is_registered(engine):
        runner.run()
        return _concluded(runner, sink)
    runner.run_here(engine, _questions(engine, runner.k, dataset))
    return _concluded(runner, sink, *_scan(engine), _in_this_process(engine))


def _dataset(
    corpus: Any, queries: Any, metric: Metric | str | None, where: Filter | str | None, qrels: Any
) -> Dataset:
    from recallatk.datasets import open_dataset

    if isinstance(corpus, Dataset) and queries is not None:
        raise UsageError(
            "a Dataset already has queries. Call measure(index, dataset) or measure(index, corpus, queries)"
        )
    return open_dataset(corpus, queries, metric=metric, where=where, qrels=qrels)


def _listed(settings: Any) -> list[Mapping[str, Any]]:
    """Parameters as a list of grids; None is the grid of all defaults."""
    given = [settings or {}] if settings is None or isinstance(settings, Mapping) else settings
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, Mapping) for each in given)
    ):
        raise UsageError(f'{settings!r} is not a dict of parameters. Accepted: {{"nprobe": [1, 8]}}')
    return [{name: _values(value) for name, value in each.items()} for each in given]


def _values(value: Any) -> Any:
    """Convert arrays and ranges of values to lists."""
    return list(value) if isinstance(value, range) else value.tolist() if hasattr(value, "tolist") else value


def _require_numbers(rounds: Any, builds: Any, threads: Any, seed: Any) -> None:
    """Refuse counts below 1 and a negative seed."""
    _require_counts(1, rounds=rounds, builds=builds, threads=threads)
    _require_counts(0, seed=seed)


def _require_counts(least: int, **given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
            raise UsageError(f"{name} = {value!r}. Accepted: whole numbers from {least}")


def _limits(given: Any) -> Limits:
    if given is not None and not isinstance(given, Limits):
        raise UsageError(f"limits = {given!r}. Accepted: recallatk.Limits(…)")
    return given or Limits()


def _cutoffs(at: Any) -> tuple[int, ...]:
    if at is None:
        return USUAL
    given = [at] if isinstance(at, Integral) else at
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, Integral) for each in given)
    ):
        raise UsageError(f"at = {at!r}. Accepted: whole numbers, such as at=[1, 10]")
    return tuple(int(each) for each in given)


def _loads(load: Any) -> tuple[Load, ...]:
    given = [load or Load()] if load is None or isinstance(load, Load) else load
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, Load) for each in given)
    ):
        raise UsageError(
            f'load = {load!r}. Accepted: a Load, such as recallatk.Load("throughput", clients=4)'
        )
    return tuple(dict.fromkeys(given))


def _engine(index: Any, searches: Sequence[Mapping[str, Any]]) -> type[Engine]:
    if isinstance(index, str):
        return get_engine(index)
    if isinstance(index, type) and issubclass(index, Engine):
        return index
    found = live_engine(index, {name for each in searches for name in each})
    if found is not None:
        return found
    if isinstance(index, type):
        raise UsageError(f"{index.__name__} is a class. Pass an index that holds the corpus, or a function")
    if not callable(index):
        raise UsageError(f"cannot measure an object of type {type(index).__name__}. Accepted: {_ACCEPTED}")
    from recallatk.adapters.callable import Callable as Function

    return Function.of(index)


def _is_registered(engine: type[Engine]) -> bool:
    return engine.name in registered() and get_engine(engine.name) is engine


def _truth(given: Any, dataset: Dataset, at: Sequence[int]) -> Truth:
    if isinstance(given, Truth):
        return given
    from recallatk.api import ground_truth, load_truth

    if given is not None:
        return load_truth(given, corpus=dataset.corpus, metric=dataset.metric)
    if not at or min(at) < 1:
        raise UsageError(f"at = {list(at)}. Accepted: whole numbers from 1")
    return ground_truth(dataset, depth=max(at))


def _unfiltered(dataset: Dataset, k: int) -> Truth | None:
    """The truth of the queries without their filters; None if they have none."""
    from recallatk.api import ground_truth

    if not dataset.queries.filtered:
        return None
    without = replace(dataset, queries=dataset.queries.where(None))
    return ground_truth(without, depth=min(max(DEPTH, k), dataset.corpus.rows))


def _plan(
    engine: type[Engine],
    dataset: Dataset,
    builds: Sequence[Mapping[str, Any]],
    searches: Sequence[Mapping[str, Any]],
    loads: tuple[Load, ...],
    repeats: int,
    timing: TrialSettings,
) -> Plan:
    """The plan for one engine, with grids expanded and parameters resolved."""
    if not builds or not searches or not loads or repeats < 1 or timing.rounds < 1:
        raise UsageError("at least one search setting, one load, one round and one build are needed")
    if repeats > 1 and not _is_registered(engine):
        raise UsageError(f"builds = {repeats}: only registered engines are built more than once")
    require_separate_queries(dataset)
    require_installed(engine)
    require_able(engine, dataset)
    corpus, problems = dataset.corpus, Problems()
    known = {
        "k": min(max(timing.at, default=1), corpus.rows),
        "rows": corpus.rows,
        "dimension": corpus.dimension,
    }
    planned: dict[Parameters, dict[Parameters, None]] = {}
    dropped: dict[str, None] = {}
    for build in builds:
        for search in searches:
            axes, found = read_axes(engine, build, search)
            problems.include(found, ())
            combined = combine(engine, axes, known)
            for each in () if found.found else combined.refused:
                problems.add((), each)
            dropped |= {
                f"{counted(n, 'combination', 'combinations')} skipped: {why}": None
                for why, n in combined.dropped.items()
            }
            for parameters, settings in combined.builds:
                planned.setdefault(parameters, {}).update(dict.fromkeys(settings))
    problems.require_none(engine.name)
    return Plan(
        tuple(
            PlannedBuild(engine.name, parameters, repeat, tuple(settings), loads)
            for parameters, settings in planned.items()
            for repeat in range(repeats)
        ),
        tuple(dropped),
    )


def _questions(engine: type[Engine], k: int, dataset: Dataset) -> Questions:
    vectors = engine.prepared(dataset.queries.vectors.read(0, dataset.queries.rows), dataset.metric)
    filters = None if dataset.queries.filters is None else list(dataset.queries.filters)
    return Questions(vectors, k, filters)


def _scan(engine: type[Engine]) -> Iterator[Caution]:
    """The caution that an index object has no index to measure, or one that lacks rows."""
    scanned = engine().scanned() if issubclass(engine, LiveIndex) else None
    if scanned is not None:
        yield Caution(
            "scan",
            f"{engine.name} scans {scanned}. Its recall and latency are not those of an index",
        )


def _in_this_process(engine: type[Engine]) -> Caution:
    return Caution(
        "in process",
        f"{engine.name} was searched in the process that called measure: its memory was not measured, no "
        "limit applied, and other work of the process adds to latencies",
    )


def _concluded(runner: Runner, sink: MemorySink, *more: Caution) -> Run:
    """The run with its cautions; a run without any measurement is an error."""
    run = sink.run()
    if not run.measurements and run.failures:
        first = run.failures[0]
        problem = runner.problem
        # The user's own exception is what helps, not our wrapping of it.
        cause = problem.__cause__ if isinstance(problem, RecallError) and problem.__cause__ else problem
        raise EngineError(f"{first.trial}: {first.kind} in {first.phase}: {first.message}") from cause
    left_out = tuple(Caution("dropped", text) for text in runner.plan.dropped)
    labels = labels_of(runner.dataset)
    sink.update(seconds=runner.seconds, cautions=(*labels, *conclude(run), *left_out, *more))
    return sink.run()
