"""Running a benchmark against the ground truth, with resume."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recallatk.analysis.compatibility import require_complete, require_same_models
from recallatk.analysis.headline import beyond_corpus
from recallatk.bench.benchmark import Benchmark
from recallatk.bench.cautions import cautions_of, other_machine
from recallatk.bench.downstream import unused_judgments
from recallatk.bench.environment import describe_environment, possible_cores
from recallatk.bench.grown_settings import settings_of_folder
from recallatk.bench.job import TrialSettings, inputs_digest
from recallatk.bench.process_usage import Limits
from recallatk.bench.quality import quality_judge
from recallatk.bench.recorded_benchmark import BENCH_FILE
from recallatk.bench.runner import Runner
from recallatk.bench.settings import Settings, read_settings
from recallatk.bench.settings.problems import Problems
from recallatk.core import Caution, Dataset, Metric, Run, Truth
from recallatk.core.measured import LARGE_K, SYNTHETIC_FILTERS
from recallatk.errors import MismatchError, UsageError
from recallatk.files import PathLike, write_text
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.storage import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from recallatk.bench.plan import Plan
    from recallatk.bench.progress import Watch


def run(
    settings: Benchmark | Settings | PathLike,
    *,
    dataset: Dataset | None = None, out: PathLike | None = None, fresh: bool = False,
    retry_failed: bool = False, explain: bool = False, by: str | Sequence[str] | None = None,
    by_row: str | Sequence[str] | None = None, weight: str | None = None,
    watch: Watch | None = None, progress: Callable[[int, int], None] | None = None,
) -> Run:  # fmt: skip
    """Measure every setting of a benchmark; resume an interrupted run.

    Args:
        settings: a bench file, the result of `read_settings`, or an open Benchmark.
        dataset: the data, if open already.
        out: the run folder; by default the one in the bench file, else `runs/NAME`.
        fresh: remove an earlier run in that folder.
        retry_failed: measure failed trials again.
        explain: collect evidence on why neighbors were missed, even if the settings do not ask for it.
        by: query columns to group queries by; by default those that the file names.
        by_row: corpus columns to group true neighbors by; by default those that the file names.
        weight: query column to weight means by; by default the one that the file names.
        watch: called with the progress of the measurements.
        progress: called with the progress of the truth.
    """
    began = time.monotonic()
    benchmark = _opened(settings, dataset, by=by, by_row=by_row, weight=weight)
    dataset, plan, timing = benchmark.dataset, benchmark.plan, trial_settings_of(benchmark.settings)
    timing = replace(timing, explain=timing.explain or explain)
    judge = quality_judge(benchmark.settings, dataset)
    truth = benchmark.truth(progress)
    require_measurable(dataset, truth, timing.at)
    filters = benchmark.filter_facts(progress)
    computed = time.monotonic() - began
    described = describe_run(dataset, truth, plan, _recorded(benchmark.settings, dataset))
    folder = benchmark.folder(out)
    with RunFolder.open(folder, described, dataset, fresh=fresh, retry_failed=retry_failed) as sink:
        repeated = settings_of_folder(benchmark.settings, folder, sink.finished, dataset)
        write_text(folder / BENCH_FILE, repeated.to_toml())
        earlier = dict(sink.described.seconds)
        runner = Runner(
            plan, dataset, truth, sink, timing, logs=folder / "logs", watch=watch, filters=filters,
            judges=(*benchmark.judges, *filter(None, [judge])),
        )  # fmt: skip
        try:
            runner.run()
        finally:
            spent = {"truth": computed, **runner.seconds}
            spent["other"] = time.monotonic() - began - sum(spent.values())
            sink.update(seconds=_added(earlier, spent) if runner.worked else earlier)
        moved = other_machine(sink.earlier_environment, described.environment) if runner.worked else ()
        if runner.worked:
            machine = {**sink.described.environment, "load_average_during": runner.loads}
            sink.update(environment=machine)
        sink.update(cautions=(*labels_of(dataset, timing.at), *conclude(sink.run()), *moved))
        return sink.run()


def _opened(given: Benchmark | Settings | PathLike, dataset: Dataset | None, **changes: Any) -> Benchmark:
    """The benchmark with these keys of its `[measure]` in place of those that it states."""
    stated = {name: value for name, value in changes.items() if value is not None}
    if isinstance(given, Benchmark):
        if stated:
            raise UsageError(
                f"{', '.join(stated)} cannot be combined with a Benchmark. State it in its settings"
            )
        return given
    settings = given if isinstance(given, Settings) else read_settings(given)
    for name in {"by", "by_row"} & set(stated):
        stated[name] = distinct_names(name, stated[name])
    measure = settings.measure.model_copy(update=stated)
    return Benchmark(settings.model_copy(update={"measure": measure}), dataset)


def distinct_names(argument: str, given: Any) -> tuple[str, ...]:
    """Names that an argument states, one or several, each once."""
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(each, str) and each for each in found):
        raise UsageError(f"{argument} = {given!r}. Accepted: a name or a list of names")
    return tuple(dict.fromkeys(found))


def _recorded(settings: Settings, dataset: Dataset) -> dict[str, Any]:
    """Settings as a run records them, with goals and price, and what paths read besides vectors."""
    plain = settings.to_dict()
    for path, entry in zip(plain.get("path", ()), settings.path, strict=False):
        path["inputs"] = inputs_digest(entry.engine, dataset)
    aims = {"target": list(settings.tune.target), "budget": list(settings.tune.budget)}
    price = settings.cost.model_dump(exclude_none=True)
    return plain | ({"tune": aims} if any(aims.values()) else {}) | ({"cost": price} if price else {})


def _added(earlier: Mapping[str, float], spent: Mapping[str, float]) -> dict[str, float]:
    return {name: earlier.get(name, 0.0) + seconds for name, seconds in spent.items()}


def trial_settings_of(settings: Settings) -> TrialSettings:
    """Trial settings from the settings of a benchmark."""
    measure, limits = settings.measure, settings.limits
    _require_cores(settings)
    return TrialSettings(
        at=measure.at,
        measures=measure.measures,
        rounds=measure.rounds,
        seed=measure.seed,
        build_threads=measure.threads.build,
        search_threads=measure.threads.search,
        affinity=measure.affinity,
        limits=Limits(limits.trial, limits.build, limits.memory, limits.explain),
        explain=measure.explain,
        weight=measure.weight,
    )


def _require_cores(settings: Settings) -> None:
    """Refuse to pin to cores that this machine does not have: the system would ignore them silently."""
    possible, problems = possible_cores(), Problems()
    for place, core in enumerate(settings.measure.affinity or ()):
        if possible is not None and core not in possible:
            known = _ranges(possible)
            problems.add(("measure", "affinity", place), f"{core}: no such core here. Accepted: {known}")
    problems.require_none(settings.name)


def _ranges(cores: list[int]) -> str:
    """Core numbers in the kernel's notation: `0-3,8`."""
    firsts = [core for core in cores if core - 1 not in cores]
    lasts = [core for core in cores if core + 1 not in cores]
    pairs = zip(firsts, lasts, strict=True)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)


def require_separate_queries(dataset: Dataset) -> None:
    """Refuse queries that are corpus rows."""
    if dataset.queries.corpus_rows is not None:
        raise UsageError(
            "the queries are corpus rows, so every query would find itself, and engines cannot exclude a "
            "row per query. Accepted: queries held out from the corpus"
        )


def require_measurable(dataset: Dataset, truth: Truth, at: Sequence[int]) -> None:
    """Before any build, refuse queries that cannot be scored and a truth for other data."""
    require_separate_queries(dataset)
    if not at or not 1 <= min(at) <= max(at) <= truth.depth:
        raise UsageError(f"at = {list(at)}. Accepted: from 1 to {truth.depth}, the depth of the truth")
    if truth.metric not in (None, dataset.metric):
        raise MismatchError(f"metric mismatch: the truth uses {truth.metric}, the dataset {dataset.metric}")
    if len(truth) != dataset.queries.rows:
        raise MismatchError(f"the truth has {len(truth):,} queries, the dataset {dataset.queries.rows:,}")
    beyond = truth.overflow[1] if truth.overflow else truth.rows
    if max(truth.rows.max(initial=-1), beyond.max(initial=-1)) >= dataset.corpus.rows:
        raise MismatchError(f"the truth names rows beyond the corpus of {dataset.corpus.rows}")
    require_same_models(truth, dataset.models)
    found = fingerprints(dataset)
    other = [part for part, text in truth.fingerprints.items() if found.get(part) != text]
    if other:
        raise MismatchError(f"the truth was computed for different data: {', '.join(other)} differ")
    require_complete(truth, dataset.eligibility, max(at))


def describe_run(dataset: Dataset, truth: Truth, plan: Plan, settings: Mapping[str, Any]) -> Run:
    """The record of a run before its first measurement."""
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
        models=dataset.models,
    )


def labels_of(dataset: Dataset, cutoffs: Sequence[int]) -> tuple[Caution, ...]:
    """What every result on these data must say.

    Args:
        dataset: the data.
        cutoffs: the values of k of recall@k.
    """
    synthetic = (SYNTHETIC_FILTERS,) if dataset.queries.synthetic else ()
    said = beyond_corpus(cutoffs, dataset.corpus.rows)
    large = [Caution(LARGE_K, said)] if said else []
    return (*synthetic, *large, *unused_judgments(dataset))


def conclude(run: Run) -> tuple[Caution, ...]:
    """The cautions for a finished run."""
    return cautions_of(run.measurements, run.environment.get("load_average"), run.environment["cores"])
