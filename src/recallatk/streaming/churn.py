"""A runbook replayed on several engines: checked as a whole, then build by build, resumable."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import require_able
from recallatk.adapters.registry import declaration_of, get_engine, registered
from recallatk.analysis.measures import Recall
from recallatk.bench.environment import describe_environment
from recallatk.bench.index_measurement import listed, plan_of
from recallatk.bench.job import Job, TrialSettings, write_data
from recallatk.bench.journal import Journal
from recallatk.bench.measurement import require_separate_queries
from recallatk.bench.plan import Plan
from recallatk.bench.process_usage import Limits
from recallatk.bench.supervisor import WorkerProcess
from recallatk.core import Load
from recallatk.core.churned import Churned
from recallatk.errors import EngineError, MismatchError, UsageError, choices
from recallatk.fingerprint import fingerprints
from recallatk.scratch import ScratchFolder, sweep
from recallatk.streaming.churn_folder import ChurnFolder
from recallatk.streaming.curves import curves_of
from recallatk.streaming.opening import open_runbook
from recallatk.streaming.replay import ChurnProgress, Replay, ReplaySettings
from recallatk.streaming.step_goals import measures_of, read_goals
from recallatk.streaming.step_truths import StepTruths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from recallatk.bench.plan import PlannedBuild
    from recallatk.core import Dataset, Metric
    from recallatk.files import PathLike
    from recallatk.streaming.generators import Generator
    from recallatk.streaming.runbook import Runbook

USUAL_AT = (10,)


def churn(
    runbook: Runbook | Generator | PathLike,
    corpus: Any = None,
    queries: Any = None,
    *,
    metric: Metric | str | None = None, engines: str | Sequence[str] = ("hnswlib",),
    build: Mapping[str, Any] | None = None, search: Mapping[str, Any] | None = None,
    at: int | Sequence[int] = USUAL_AT, goals: str | Sequence[str] = (), concurrent: bool = False,
    recover: bool = True, dataset_name: str | None = None, seed: int = 0, threads: int = 1,
    limits: Limits | None = None, out: PathLike | None = None, fresh: bool = False,
    watch: Callable[[ChurnProgress], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Churned:  # fmt: skip
    """Replay a runbook on engines, and measure recall at every search against the truth of that step.

    Args:
        runbook: a file (TOML, or YAML of big-ann-benchmarks), a kind such as `"growth:steps=10"`, a Generator
            or a Runbook.
        corpus: every row that the runbook ever inserts, in any form that `open_dataset` takes, or a Dataset;
            by default the data that the file names.
        queries: the queries, likewise.
        metric: cosine, ip or l2; a Dataset states its own.
        engines: names of engines that can insert and delete.
        build: build parameters; each engine takes those that it has.
        search: search parameters, likewise; a list of values is a grid.
        at: cutoffs to score; the first is the one of decay, recovery and charts.
        goals: targets and budgets to judge at the last search, such as `"recall@10 >= 0.9"`.
        concurrent: search while another thread writes.
        recover: at the end also maintain and search, then rebuild and search.
        dataset_name: which data set of a YAML file.
        seed: random seed of the order of queries.
        threads: number of threads that a search may use.
        limits: limits on time and memory.
        out: a folder for the journal; the same call with the same folder resumes an interrupted one.
        fresh: remove an earlier replay in that folder.
        watch: called with a ChurnProgress at each step.
        progress: called with the progress of the truth.
    """
    opened, dataset = open_runbook(runbook, corpus, queries, metric=metric, part=dataset_name)
    names = [engines] if isinstance(engines, str) else list(engines)
    timing = TrialSettings(
        at=_cutoffs(at), rounds=1, seed=seed, search_threads=threads, limits=limits or Limits()
    )
    require_updates(names, concurrent=concurrent)
    plan = _plan(names, dataset, build or {}, search or {}, timing)
    return replay_plan(
        opened, dataset, plan, timing, goals=goals, concurrent=concurrent, recover=recover, out=out,
        fresh=fresh, watch=watch, progress=progress,
    )  # fmt: skip


def replay_plan(
    runbook: Runbook, dataset: Dataset, plan: Plan, timing: TrialSettings, *,
    goals: str | Sequence[str] = (), concurrent: bool = False, recover: bool = True,
    out: PathLike | None = None, fresh: bool = False,
    watch: Callable[[ChurnProgress], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Churned:  # fmt: skip
    """Replay a checked runbook on the builds of a plan; the arguments are those of `churn`."""
    require_updates([each.engine for each in plan.builds], concurrent=concurrent)
    _require_data(runbook, dataset, plan, concurrent=concurrent)
    wanted = read_goals([goals] if isinstance(goals, str) else goals)
    whole = runbook.with_recovery() if recover else runbook
    measures = measures_of([Recall(k) for k in timing.at], wanted)
    depth = max(each.deepest for each in measures)
    k = min(max(each.k for each in measures), dataset.corpus.rows)
    sweep()
    with ScratchFolder() as scratch, _folder(out, whole, dataset, timing, concurrent, fresh) as journal:
        truths = StepTruths(dataset, whole, depth, scratch / "truths", every_write=concurrent)
        truths.compute(progress)
        shared = ReplaySettings(
            whole, truths, measures, k, dataset.queries.rows, timing.seed, concurrent, watch or _unwatched
        )
        data = scratch / "data"
        data.mkdir()
        write_data(data, dataset, [get_engine(each.engine) for each in plan.builds])
        replays = _replayed(plan, shared, journal, dataset, timing, scratch, out)
        return Churned(
            dataset=dataset.name,
            metric=str(dataset.metric),
            runbook=runbook.name,
            steps=whole.steps[-1].number,
            queries=dataset.queries.rows,
            at=timing.at,
            curves=tuple(curve for each in replays for curve in curves_of(each, wanted)),
            concurrent=concurrent,
            truth_seconds=truths.seconds,
            fingerprints=fingerprints(dataset),
            environment=describe_environment(),
        )


def _unwatched(_: ChurnProgress) -> None:
    """Nobody watches."""


def _replayed(
    plan: Plan, shared: ReplaySettings, journal: Journal, dataset: Dataset, timing: TrialSettings,
    scratch: Path, out: PathLike | None,
) -> list[Replay]:  # fmt: skip
    """Every build of the plan, one after the other."""
    data, replays = scratch / "data", []

    def start(planned: PlannedBuild) -> WorkerProcess:
        name = f"build-{plan.builds.index(planned) + 1}"
        job = Job(
            planned.engine, dataset.metric, shared.k, timing, declaration=declaration_of(planned.engine)
        )
        log = None if out is None else Path(out) / "logs" / f"{name}.txt"
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
        return WorkerProcess(data, scratch / name, job, log)

    for planned in plan.builds:
        replay = Replay(planned, shared, journal, start)
        replay.run()
        replays.append(replay)
    return replays


def require_updates(names: Sequence[str], *, concurrent: bool) -> None:
    """Refuse engines that cannot insert and delete, all at once, before anything is built."""
    kinds = [get_engine(name) for name in dict.fromkeys(names)]
    unable = [each.name for each in kinds if not each.abilities.updates]
    if unable:
        able = [name for name in registered() if get_engine(name).abilities.updates]
        raise EngineError(f"{choices(unable)} cannot insert and delete rows. Accepted: {choices(able)}")
    unsafe = [each.name for each in kinds if not each.abilities.reads_during_writes]
    if concurrent and unsafe:
        able = [name for name in registered() if get_engine(name).abilities.reads_during_writes]
        raise EngineError(
            f"{choices(unsafe)} cannot be searched while another thread writes. Accepted: {choices(able)}"
        )


def _require_data(runbook: Runbook, dataset: Dataset, plan: Plan, *, concurrent: bool) -> None:
    if runbook.rows != dataset.corpus.rows:
        raise MismatchError(
            f"the runbook was made for a corpus of {runbook.rows:,} rows, this one has "
            f"{dataset.corpus.rows:,}"
        )
    if dataset.queries.filtered:
        raise UsageError("queries with filters are not supported by churn. Omit the filters")
    require_separate_queries(dataset)
    for planned in plan.builds:
        require_able(get_engine(planned.engine), dataset)
        if concurrent and len(planned.searches) > 1:
            raise UsageError(
                f"{planned.engine}: {len(planned.searches)} search settings. Accepted: one, because writes "
                "happen once, and only one setting can be searched during them"
            )


def _plan(
    names: Sequence[str],
    dataset: Dataset,
    build: Mapping[str, Any],
    search: Mapping[str, Any],
    timing: TrialSettings,
) -> Plan:
    """The builds of all engines; each takes the parameters that it has."""
    plans = []
    kinds = [get_engine(name) for name in dict.fromkeys(names)]
    for part, given in (("build", build), ("search", search)):
        known = {knob.name for each in kinds for knob in getattr(each, f"{part}_knobs")}
        for name in given:
            if name not in known:
                raise UsageError(f"{part} parameter {name!r}. The engines have {choices(sorted(known))}")
    for kind in kinds:
        own = {
            part: {name: value for name, value in given.items() if name in {knob.name for knob in knobs}}
            for part, given, knobs in (
                ("build", build, kind.build_knobs),
                ("search", search, kind.search_knobs),
            )
        }
        plans.append(
            plan_of(kind, dataset, listed(own["build"]), listed(own["search"]), (Load(),), 1, timing)
        )
    return Plan(
        tuple(each for plan in plans for each in plan.builds),
        tuple(each for plan in plans for each in plan.dropped),
    )


def _cutoffs(at: int | Sequence[int]) -> tuple[int, ...]:
    found = (at,) if isinstance(at, int) else tuple(at)
    if not found or min(found) < 1:
        raise UsageError(f"at = {at!r}. Accepted: whole numbers from 1")
    return found


@contextmanager
def _folder(
    out: PathLike | None,
    runbook: Runbook,
    dataset: Dataset,
    timing: TrialSettings,
    concurrent: bool,
    fresh: bool,
) -> Iterator[Journal]:
    """The journal of a folder, or one in memory."""
    if out is None:
        yield Journal(None)
        return
    identity = {
        "runbook": runbook.identity,
        **fingerprints(dataset),
        "metric": str(dataset.metric),
        "at": list(timing.at),
        "seed": timing.seed,
        "threads": timing.search_threads,
        "concurrent": concurrent,
    }
    with ChurnFolder.open(Path(out), identity, fresh=fresh) as folder:
        yield folder.journal
