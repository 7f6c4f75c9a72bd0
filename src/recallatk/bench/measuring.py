"""Measure one index, or any function that searches, against a truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recallatk.analysis.compatibility import require_complete
from recallatk.bench.cautions import cautions_of
from recallatk.bench.environment import describe_environment
from recallatk.bench.keeping import Kept
from recallatk.bench.load import Questions
from recallatk.bench.plan import Plan, PlannedBuild
from recallatk.bench.running import Manner, Runner
from recallatk.bench.supervising import Limits
from recallatk.core import Caution, Dataset, Load, Metric, Run, Truth
from recallatk.engines import Engine, get_engine
from recallatk.engines.base import require_constraints, require_installed, require_metric, resolved
from recallatk.engines.registry import registered
from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.fingerprint import fingerprint_truth, fingerprints

if TYPE_CHECKING:
    from recallatk.bench.watching import Watch


def measure(
    engine: str | type[Engine] | Callable[..., Any],
    dataset: Dataset,
    truth: Truth | None = None,
    *,
    build: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ({},),
    load: Load | Sequence[Load] | None = None,
    at: Sequence[int] = (1, 10, 100),
    measures: Sequence[str] = (),
    rounds: int = 5,
    builds: int = 1,
    seed: int = 0,
    threads: int = 1,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> Run:
    """Build one index and search it at every setting, under every load.

    An engine by name works in a process of its own. A function, or a class that is not registered, is
    called in this process: its memory is not measured and no limit holds it.

    Args:
        engine: the name of an engine, an Engine class, or a function `search(queries, k, **parameters)`
            that returns ids.
        dataset: what to build from and what to ask.
        truth: the right answers for this dataset; computed where there is none.
        build: build parameters that differ from the defaults.
        search: search parameters; several mappings are several settings.
        load: how queries are put to it, one client and one query at a time by default; several are measured
            one after the other.
        at: the values of k to score; each call asks for the largest.
        measures: what else to measure, for example `"robust(0.9)@10"`.
        rounds: how often every query is asked at every setting.
        builds: how often to build, each time but the first with the rows in another order.
        seed: of every order that is drawn.
        threads: how many threads a search may use.
        limits: what a trial may take.
        watch: called with how far it is.
    """
    found = _engine(engine)
    settings = [search] if isinstance(search, Mapping) else list(search)
    loads = [load or Load()] if load is None or isinstance(load, Load) else list(load)
    if not settings or not loads or rounds < 1 or builds < 1:
        raise UsageError("at least one search setting, one load, one round and one build are needed")
    truth = _truth(dataset, at) if truth is None else truth
    manner = Manner(tuple(at), tuple(measures), rounds, seed, None, threads, None, limits or Limits())
    require_measurable(dataset, truth, at)
    plan = _plan(found, dataset, dict(build or {}), settings, loads, builds, manner.k)
    keeper = Kept(describe_run(dataset, truth, plan, {}))
    runner = Runner(plan, dataset, truth, keeper, manner, watch=watch)
    if isinstance(engine, str) or _is_registered(found):
        runner.run()
    else:
        _run_here(found, runner, dataset, builds)
    return _concluded(runner, keeper)


def _engine(engine: str | type[Engine] | Callable[..., Any]) -> type[Engine]:
    if isinstance(engine, str):
        return get_engine(engine)
    if isinstance(engine, type) and issubclass(engine, Engine):
        return engine
    if not callable(engine):
        raise UsageError(
            f"engine = {engine!r}. Accepted: the name of an engine, an Engine class, or a function"
        )
    from recallatk.engines.callable import Callable as Function

    return Function.of(engine)


def _is_registered(engine: type[Engine]) -> bool:
    return engine.name in registered() and get_engine(engine.name) is engine


def _truth(dataset: Dataset, at: Sequence[int]) -> Truth:
    from recallatk.truth import ground_truth

    if not at or min(at) < 1:
        raise UsageError(f"at = {list(at)}. Accepted: whole numbers from 1")
    return ground_truth(dataset, depth=max(at))


def _plan(
    engine: type[Engine],
    dataset: Dataset,
    build: dict[str, Any],
    settings: Sequence[Mapping[str, Any]],
    loads: Sequence[Load],
    builds: int,
    k: int,
) -> Plan:
    """What is to be done, with every parameter settled."""
    require_installed(engine)
    require_metric(engine, dataset.metric)
    require_filters(engine, dataset)
    built = resolved(engine.name, engine.build_knobs, build)
    searches = [resolved(engine.name, engine.search_knobs, each) for each in settings]
    corpus = dataset.corpus
    known = {"k": min(k, corpus.rows), "rows": corpus.rows, "dimension": corpus.dimension}
    for each in searches:
        require_constraints(engine, **known, **built, **each)
    distinct = tuple(dict.fromkeys(tuple(each.items()) for each in searches))
    return Plan(
        tuple(
            PlannedBuild(engine.name, tuple(built.items()), repeat, distinct, tuple(dict.fromkeys(loads)))
            for repeat in range(builds)
        )
    )


def require_filters(engine: type[Engine], dataset: Dataset) -> None:
    """Refuse queries with filters where the engine could only emulate them."""
    if dataset.queries.filters is not None and not engine.abilities.filters:
        raise EngineError(f"{engine.name} cannot filter while it searches, and these queries have filters")


def require_measurable(dataset: Dataset, truth: Truth, at: Sequence[int]) -> None:
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
    require_complete(truth, dataset.eligibility, max(at))


def describe_run(dataset: Dataset, truth: Truth, plan: Plan, settings: Mapping[str, Any]) -> Run:
    """A run before anything is measured."""
    return Run(
        dataset=dataset.name,
        metric=Metric(dataset.metric),
        fingerprints={**fingerprints(dataset), "truth": fingerprint_truth(truth)},
        environment=describe_environment(),
        measurements=(),
        sampled_from=dataset.corpus.sampled_from,
        planned=plan.trials,
        settings=settings,
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _run_here(engine: type[Engine], runner: Runner, dataset: Dataset, builds: int) -> None:
    if builds > 1:
        raise UsageError(f"builds = {builds}: only engines that are registered are built more than once")
    vectors = dataset.queries.vectors.read(0, dataset.queries.rows)
    filters = None if dataset.queries.filters is None else list(dataset.queries.filters)
    with engine() as made:
        runner.run_here(made, Questions(vectors, runner.k, filters))


def _concluded(runner: Runner, keeper: Kept) -> Run:
    """The run, with what there is to say of it; nothing measured at all is an error."""
    run = keeper.run()
    if not run.measurements and run.failures:
        first = run.failures[0]
        raise EngineError(f"{first.trial}: {first.kind} in {first.phase}: {first.message}")
    keeper.update(seconds=runner.seconds, cautions=conclude(run))
    return keeper.run()


def conclude(run: Run) -> tuple[Caution, ...]:
    """Everything that a reader of the run must know before believing it."""
    return cautions_of(run.measurements, run.environment.get("load_average"), run.environment["cores"])
