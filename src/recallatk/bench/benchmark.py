"""A whole benchmark: data, truth, plan, measurements, and a folder that has them all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.bench.cautions import other_machine
from recallatk.bench.environment import possible_cores
from recallatk.bench.inputs import SETTINGS_FILE, truth_of
from recallatk.bench.measuring import conclude, describe_run, require_measurable
from recallatk.bench.plan import Plan, make_plan
from recallatk.bench.running import Manner, Runner
from recallatk.bench.settings import Settings, open_data, read_settings
from recallatk.bench.settings.problems import Problems
from recallatk.bench.supervising import Limits
from recallatk.files import PathLike, write_text
from recallatk.goals import require_answerable, sort_goals
from recallatk.history import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recallatk.bench.watching import Watch
    from recallatk.core import Dataset, Run

_RUNS = "runs"


def run(
    settings: Settings | PathLike,
    *,
    dataset: Dataset | None = None,
    out: PathLike | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    watch: Watch | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Measure everything that a bench file asks for; begun again, it goes on where it was.

    Args:
        settings: a bench file, or what `read_settings` made of one.
        dataset: its data, where they are open already.
        out: the folder of the run; by default the one that the file names, else `runs/NAME`.
        fresh: remove an earlier run in that folder.
        retry_failed: measure again what had failed.
        watch: called with how far the measurements are.
        progress: called with how far the truth is.
    """
    began = time.monotonic()
    wanted = settings if isinstance(settings, Settings) else read_settings(settings)
    dataset = open_data(wanted) if dataset is None else dataset
    plan = plan_of(wanted, dataset)
    manner = manner_of(wanted)
    truth = truth_of(wanted, dataset, progress)
    computed = time.monotonic() - began
    require_measurable(dataset, truth, manner.at)
    described = describe_run(dataset, truth, plan, _recorded(wanted))
    folder = run_folder(wanted, out)
    with RunFolder.open(folder, described, dataset, fresh=fresh, retry_failed=retry_failed) as keeper:
        write_text(folder / SETTINGS_FILE, wanted.to_toml())
        earlier = dict(keeper.described.seconds)
        runner = Runner(plan, dataset, truth, keeper, manner, logs=folder / "logs", watch=watch)
        try:
            runner.run()
        finally:
            spent = {"truth": computed, **runner.seconds}
            spent["other"] = time.monotonic() - began - sum(spent.values())
            keeper.update(seconds=_added(earlier, spent) if runner.worked else earlier)
        moved = other_machine(keeper.earlier_environment, described.environment) if runner.worked else ()
        if runner.worked:
            machine = {**keeper.described.environment, "load_average_during": runner.loads}
            keeper.update(environment=machine)
        keeper.update(cautions=(*conclude(keeper.run()), *moved))
        return keeper.run()


def _recorded(settings: Settings) -> dict[str, Any]:
    """What a run says of its settings: also what recall is wanted, which the report holds it against."""
    aims = {"target": list(settings.tune.target), "budget": list(settings.tune.budget)}
    return settings.to_dict() | ({"tune": aims} if any(aims.values()) else {})


def _added(earlier: Mapping[str, float], spent: Mapping[str, float]) -> dict[str, float]:
    return {name: earlier.get(name, 0.0) + seconds for name, seconds in spent.items()}


def run_folder(settings: Settings, out: PathLike | None = None) -> Path:
    """Where a run of these settings is kept."""
    folder = Path(out if out is not None else settings.output.folder or Path(_RUNS) / settings.name)
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def plan_of(settings: Settings, dataset: Dataset) -> Plan:
    """Every build and trial that the settings ask for on this data, which must answer its goals."""
    targets, _ = sort_goals([*settings.tune.target, *settings.tune.budget])
    require_answerable(targets, dataset)
    corpus = dataset.corpus
    return make_plan(settings, rows=corpus.rows, dimension=corpus.dimension)


def manner_of(settings: Settings) -> Manner:
    """How the settings want trials to be measured."""
    measure, limits = settings.measure, settings.limits
    _require_cores(settings)
    return Manner(
        at=measure.k,
        measures=measure.measures,
        rounds=measure.rounds,
        seed=measure.seed,
        build_threads=measure.threads.build,
        search_threads=measure.threads.search,
        affinity=measure.affinity,
        limits=Limits(limits.trial, limits.build, limits.memory),
    )


def _require_cores(settings: Settings) -> None:
    """Refuse to pin to cores that this machine does not have: the system would leave them out in silence."""
    possible, problems = possible_cores(), Problems()
    for place, core in enumerate(settings.measure.affinity or ()):
        if possible is not None and core not in possible:
            known = _ranges(possible)
            problems.add(("measure", "affinity", place), f"{core}: no such core here. Accepted: {known}")
    problems.require_none(settings.name)


def _ranges(cores: list[int]) -> str:
    """Core numbers as the system writes them: `0-3,8`."""
    firsts = [core for core in cores if core - 1 not in cores]
    lasts = [core for core in cores if core + 1 not in cores]
    pairs = zip(firsts, lasts, strict=True)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)
