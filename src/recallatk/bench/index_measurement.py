"""Measure one index against the ground truth: an engine by name, an index object, or a search function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from recallatk.adapters import Engine, get_engine
from recallatk.adapters.base import require_able
from recallatk.adapters.installation import require_installed
from recallatk.adapters.live import LiveIndex
from recallatk.adapters.registry import declare, live_engine, registered
from recallatk.analysis.filtered import DEPTH, filter_facts
from recallatk.analysis.query_groupings import require_groupable
from recallatk.analysis.row_segments import require_corpus_columns
from recallatk.analysis.score import USUAL
from recallatk.bench.downstream import judges_of
from recallatk.bench.job import TrialSettings, query_sparse
from recallatk.bench.load import Questions
from recallatk.bench.measurement import (
    conclude,
    describe_run,
    distinct_names,
    labels_of,
    require_measurable,
    require_separate_queries,
)
from recallatk.bench.plan import Plan, PlannedBuild
from recallatk.bench.process_usage import Limits
from recallatk.bench.quality import given_judge
from recallatk.bench.run_sink import MemorySink
from recallatk.bench.runner import Runner
from recallatk.bench.settings.grid import combine, read_axes
from recallatk.bench.settings.problems import Problems
from recallatk.core import Caution, Dataset, Load, Metric, Run, Truth
from recallatk.deprecation import deprecated
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.pipeline.lexical import query_texts
from recallatk.pipeline.path import Path
from recallatk.pipeline.path_engine import PathEngine, path_engine, truth_depth
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.bench.downstream import Judge
    from recallatk.bench.progress import Watch
    from recallatk.core.trials import Parameters
    from recallatk.filters import Filter

    Settings = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_ACCEPTED = (
    "the name of an engine, an Engine class, a Path, a function search(queries, k), or an index object of "
    "faiss, hnswlib, usearch, voyager, annoy, scann, pynndescent, scikit-learn, LanceDB, Chroma or Qdrant"
)


def measure(
    index: Any,
    corpus: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None, where: Filter | str | None = None,
    truth: Any = None, qrels: Any = None, quality: Any = None,
    build: Settings | None = None, search: Settings | None = None, load: Load | Sequence[Load] | None = None,
    at: int | Sequence[int] | None = None, measures: str | Sequence[str] = (),
    rounds: int = 5, builds: int = 1, seed: int = 0,
    by: str | Sequence[str] = (), by_row: str | Sequence[str] = (), weight: str | None = None,
    threads: int = 1, limits: Limits | None = None, explain: bool = False, watch: Watch | None = None,
) -> Run:  # fmt: skip
    """Measure recall, latency and throughput of one index at every setting, under every load.

    A registered engine is built and searched in a worker process. Anything else is searched in this process:
    memory is not measured, and limits do not apply. An index object is not rebuilt and keeps its parameters.

    Args:
        index: an engine's name or class, a Path, an index object, or a function
            `search(queries, k, **parameters)` that returns ids.
        corpus: the corpus vectors in any form that `open_dataset` takes, or a Dataset.
        queries: the query vectors, likewise; leave out with a Dataset.
        metric: cosine, ip or l2; a Dataset states its own.
        where: one filter for all queries.
        truth: the ground truth, or a file that holds it; computed by default.
        qrels: relevance judgments, a file or grades by query id and corpus id; adds downstream quality.
        quality: a function `quality(query, retrieved) -> float`, its `module:function`, or a `Quality`.
        build: build parameters; a list of values is a grid, several mappings are several builds.
        search: search parameters, likewise.
        load: how clients send queries, one or several loads; one client and one query at a time by default.
        at: cutoffs to score, 1, 10 and 100 by default; each call requests the largest.
        measures: further measures, for example `"robust(0.9)@10"`.
        rounds: number of times each query is sent at each setting.
        builds: number of builds; each but the first inserts the rows in another order.
        seed: random seed for the order of rows, trials and queries.
        by: query columns, or other groups that `[measure] by` of a bench file takes, for segments in reports.
        by_row: corpus columns to group true neighbors by in reports.
        weight: query column to weight means by, such as the number of times each query was asked.
        threads: number of threads that a search may use.
        limits: limits on time and memory of a trial.
        explain: collect evidence on why neighbors were missed, for `recallatk.explain`.
        watch: called with a Progress after each step.
    """
    queries, truth = _without_truth(queries, truth)
    dataset, searches = _dataset(corpus, queries, metric, where, qrels), listed(search)
    engine = _engine(index, searches)
    extra, held_to = (measures,) if isinstance(measures, str) else tuple(measures), _limits(limits)
    cutoffs, grouped = _cutoffs(at, engine), _grouped(dataset, by, by_row, weight)
    timing = TrialSettings(cutoffs, extra, rounds, seed, None, threads, None, held_to, explain, weight)
    plan = plan_of(engine, dataset, listed(build), searches, _loads(load), builds, timing)
    relevance = judges_of(dataset, cutoffs, required=qrels is not None)
    judges = (*relevance, *filter(None, [given_judge(quality, dataset, timing.k)]))
    return _measured(engine, dataset, truth, plan, timing, grouped, watch, judges)


def _without_truth(queries: Any, truth: Any) -> tuple[Any, Any]:
    """Queries and truth, of which the second once took the place of the first."""
    if not isinstance(queries, Truth):
        return queries, truth
    deprecated("a truth as the third argument of measure", "measure(index, dataset, truth=truth)")
    return None, queries


def _measured(
    engine: type[Engine],
    dataset: Dataset,
    truth: Any,
    plan: Plan,
    timing: TrialSettings,
    settings: Mapping[str, Any],
    watch: Watch | None,
    judges: Sequence[Judge],
) -> Run:
    known = _truth(truth, dataset, timing.at, _path_depth(engine, plan, timing.k))
    require_measurable(dataset, known, timing.at)
    sink = MemorySink(describe_run(dataset, known, plan, settings))
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


def _grouped(dataset: Dataset, by: Any, by_row: Any, weight: str | None) -> dict[str, Any]:
    """Groups and weight as a run records them, which reports read; unknown columns are refused."""
    segments, columns = distinct_names("by", by), distinct_names("by_row", by_row)
    for name in segments:
        require_groupable(
            name,
            dataset.queries.metadata_names,
            weighted=weight is not None,
            filtered=dataset.queries.filtered,
        )
    require_corpus_columns(dataset.corpus, columns)
    stated = {"by": list(segments), "by_row": list(columns), "weight": weight}
    given = {name: value for name, value in stated.items() if value}
    return {"measure": given} if given else {}


def listed(settings: Any) -> list[Mapping[str, Any]]:
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


def _cutoffs(at: Any, engine: type[Engine]) -> tuple[int, ...]:
    most = engine.path.k if issubclass(engine, PathEngine) else None
    if at is None:
        return USUAL if most is None else (*(each for each in USUAL if each < most), most)
    given = [at] if isinstance(at, Integral) else at
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, Integral) for each in given)
    ):
        raise UsageError(f"at = {at!r}. Accepted: whole numbers, such as at=[1, 10]")
    found = tuple(int(each) for each in given)
    if most is not None and found and max(found) > most:
        raise UsageError(f"at = {max(found)}: the path {engine.name} returns {most} rows. Raise its k")
    return found


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
    if isinstance(index, Path):
        made = path_engine(index)
        return declare(made) if index.portable else made
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
    """Whether a worker process can make the engine by its name."""
    known = engine.name in registered() or engine.declaration is not None
    return known and get_engine(engine.name) is engine


def _path_depth(engine: type[Engine], plan: Plan, k: int) -> int:
    """Depth of the truth that a path needs to compare its lists with exact ones."""
    if not issubclass(engine, PathEngine):
        return 0
    return max(truth_depth(engine, dict(each.search), k) for each in plan.trials)


def _truth(given: Any, dataset: Dataset, at: Sequence[int], depth: int) -> Truth:
    if isinstance(given, Truth):
        return given
    from recallatk.api import ground_truth, load_truth

    if given is not None:
        return load_truth(given, corpus=dataset.corpus, metric=dataset.metric)
    if not at or min(at) < 1:
        raise UsageError(f"at = {list(at)}. Accepted: whole numbers from 1")
    return ground_truth(dataset, depth=max(*at, min(depth, dataset.corpus.rows)))


def _unfiltered(dataset: Dataset, k: int) -> Truth | None:
    """The truth of the queries without their filters; None if they have none."""
    from recallatk.api import ground_truth

    if not dataset.queries.filtered:
        return None
    without = replace(dataset, queries=dataset.queries.where(None))
    return ground_truth(without, depth=min(max(DEPTH, k), dataset.corpus.rows))


def plan_of(
    engine: type[Engine],
    dataset: Dataset,
    builds: Sequence[Mapping[str, Any]],
    searches: Sequence[Mapping[str, Any]],
    loads: tuple[Load, ...],
    repeats: int,
    timing: TrialSettings,
) -> Plan:
    """The plan for one engine, with grids expanded and parameters resolved."""
    _require_numbers(timing.rounds, repeats, timing.search_threads, timing.seed)
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
            axes, found = read_axes(engine, *_stated(engine, build, search))
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


def _stated(
    engine: type[Engine], build: Mapping[str, Any], search: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The given parameters; those of a path also have what its stages state."""
    if not issubclass(engine, PathEngine):
        return build, search
    of_build, of_search = engine.knobs.given()
    return {**of_build, **build}, {**of_search, **search}


def _questions(engine: type[Engine], k: int, dataset: Dataset) -> Questions:
    vectors = engine.prepared(dataset.queries.vectors.read(0, dataset.queries.rows), dataset.metric)
    filters = None if dataset.queries.filters is None else list(dataset.queries.filters)
    texts = query_texts(dataset.queries) if engine.inputs.texts else None
    source = engine.inputs.sparse
    return Questions(vectors, k, filters, texts, None if source is None else query_sparse(dataset, source))


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
    labels = labels_of(runner.dataset, runner.settings.at)
    sink.update(seconds=runner.seconds, cautions=(*labels, *conclude(run), *left_out, *more))
    return sink.run()
