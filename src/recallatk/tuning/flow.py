"""From a target to a setting: split the queries, then screen, build, compare, validate and explain."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk import api
from recallatk.adapters import Engine, get_engine
from recallatk.adapters.base import require_able, require_metric
from recallatk.adapters.installation import installed_version, require_installed
from recallatk.adapters.registry import registered
from recallatk.analysis.cost import parse_price
from recallatk.analysis.filtered import filter_facts
from recallatk.analysis.weighting import query_columns, weights_by_query
from recallatk.bench.journal import Journal
from recallatk.bench.measurement import require_separate_queries
from recallatk.datasets import open_dataset
from recallatk.errors import EngineError, UsageError, choices
from recallatk.goals import Goal, Target, require_answerable, sort_goals
from recallatk.scratch import ScratchFolder, sweep
from recallatk.truths import obtain_truth
from recallatk.tuning.candidates import COST, PREFERENCES
from recallatk.tuning.final_timing import draw_curve
from recallatk.tuning.finalists import compare
from recallatk.tuning.full_builds import build_fully, by_cost
from recallatk.tuning.index_client import IndexPool
from recallatk.tuning.journal_name import journal_name
from recallatk.tuning.lasting_effort import after_runbook, checked_runbook
from recallatk.tuning.outcome import Found, conclude
from recallatk.tuning.path_space import depth_for_paths, engine_to_tune
from recallatk.tuning.query_split import Side, require_enough, split_sides
from recallatk.tuning.screening import parts_of, screen
from recallatk.tuning.search_space import Shape
from recallatk.tuning.study import Study, TuningProgress
from recallatk.tuning.validation import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.analysis.cost import MachinePrice
    from recallatk.core import Dataset, FilterFacts, Metric, Truth
    from recallatk.core.tuned import Tuned
    from recallatk.files import PathLike
    from recallatk.pipeline import Path as RetrievalPath

USUAL_ENGINES = ("faiss-hnsw", "hnswlib", "usearch", "faiss-ivf-flat", "faiss-ivf-pq")


def tune(
    dataset: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    target: str | Goal | Sequence[str | Goal] = (),
    budgets: str | Goal | Sequence[str | Goal] = (),
    prefer: str = "p95", engines: Sequence[str | RetrievalPath] | None = None,
    seconds: float | None = None, by: Sequence[str] = (), weight: str | None = None, seed: int = 0,
    out: PathLike | None = None, truth: Truth | None = None, qrels: Any = None,
    price: str | MachinePrice | None = None, churn: Any = None,
    watch: Callable[[TuningProgress], None] | None = None,
) -> Tuned:  # fmt: skip
    """Find the cheapest setting that meets every target, validated on held-out queries.

    Args:
        dataset: a Dataset, or a corpus in any form that `open_dataset` takes.
        queries: the queries, if the first argument is a corpus; a third of them are held out.
        metric: cosine, ip or l2; a Dataset states its own.
        target: one or more quality targets, for example `"recall@10 >= 0.95"`.
        budgets: limits on cost, for example `"p95 <= 5ms"` or `"memory <= 2GiB"`.
        prefer: the cost to minimize: p95, qps, memory, build, or cost, which needs a price.
        engines: names of engines, or paths; by default the usual engines that are installed. Parameters that
            a path states stay within their values.
        seconds: the time limit; the result is the best setting proven by then.
        by: query columns in which to find the worst segment.
        weight: query column to weight all means and bounds by, such as the times each query was asked.
        seed: random seed for the query split and every order.
        out: a folder for the journal; the same call with the same folder resumes an interrupted one.
        truth: the ground truth of this dataset; by default from the store, or computed.
        qrels: relevance judgments, as in `open_dataset`, for a target such as `"nDCG@10 loss <= 0.01"`.
        price: the price of the machine, for example `"0.34/h"`; adds the cost of a million queries.
        churn: a runbook, as in `recallatk.churn`, after which more effort of the build may meet the targets.
        watch: called with a `TuningProgress` from time to time.
    """
    dataset = open_dataset(dataset, queries, metric=metric, qrels=qrels)
    targets, limits = sort_goals([*_several(target), *_several(budgets)])
    _require(targets, prefer, dataset, seconds)
    priced, shape = _price(price, prefer), _shape(dataset, targets)
    found, left_out = usable(engines, dataset, updates=churn is not None)
    book = None if churn is None else checked_runbook(churn, dataset, targets, found)
    weights = weights_by_query(query_columns(truth, dataset), weight, dataset.queries.rows)
    journal = _journal(out, journal_name(dataset, targets, limits, prefer, seed, found, weights))
    sweep()
    with ScratchFolder() as folder, closing(IndexPool(dataset, folder, shape.k, seed, engines=found)) as pool:
        _start(pool, () if journal.steps else found)
        deepest = max(each.measure.deepest for each in targets)
        depth = max(deepest, min(depth_for_paths(found, shape.k), shape.rows))
        known = obtain_truth(dataset, depth=depth).truth if truth is None else truth
        side, held_out = split_sides(dataset, known, seed, weights, _facts(dataset, targets))
        require_enough(targets, side, held_out)
        study = Study(
            pool=pool, journal=journal, side=side, parts=parts_of(side, depth, seed), watch=watch, seed=seed,
            targets=targets, budgets=limits, prefer=prefer, shape=shape, engines=found, seconds=seconds,
            left_out=left_out)  # fmt: skip
        outcome = _tuned(study, held_out, by)
    if book is not None:
        outcome = after_runbook(outcome, held_out.dataset, book, targets, seed=seed, out=out)
    return outcome if priced is None else replace(outcome, per_hour=priced.per_hour, currency=priced.currency)


def _journal(out: PathLike | None, name: str) -> Journal:
    return Journal(None if out is None else Path(out) / name)


def _shape(dataset: Dataset, targets: Sequence[Target]) -> Shape:
    rows = dataset.corpus.rows
    return Shape(rows, dataset.corpus.dimension, min(_k(targets), rows))


def _start(pool: IndexPool, engines: Sequence[type[Engine]]) -> None:
    """Let engines load their libraries while the truth is computed."""
    for engine in engines:
        pool.start(engine.name)


def _price(price: str | MachinePrice | None, prefer: str) -> MachinePrice | None:
    """The price of the machine, which a preference for cost needs."""
    if prefer == COST and price is None:
        raise UsageError('prefer="cost" needs the price of the machine. State it: price="0.34/h"')
    return parse_price(price) if isinstance(price, str) else price


def _facts(dataset: Dataset, targets: Sequence[Target]) -> FilterFacts | None:
    """What the filters admit, with correlations if a target names one; None without filters."""
    if not dataset.queries.filtered:
        return None
    if not any(each.needs_correlation for each in targets):
        return filter_facts(dataset)
    return api.filter_facts(dataset)


def _tuned(study: Study, held_out: Side, by: Sequence[str]) -> Tuned:
    """Screen, build, compare, validate and explain; `build_fully` bisects the effort of each build."""
    proposals, trail = screen(study)
    builds, trail = build_fully(study, proposals, trail)
    proven, trail = compare(study, by_cost(study, builds), trail)
    validated, proven, trail = validate(study, held_out, proven, trail)
    if validated is not None:
        trail = draw_curve(study, proven[validated.place], trail)
    return conclude(study, held_out, Found(proposals, builds, proven, validated, trail), by)


def _distinct(given: Sequence[str | RetrievalPath]) -> list[str | RetrievalPath]:
    """Every engine once, by its name; two paths of one name are refused."""
    paths = [each for each in given if not isinstance(each, str)]
    twice = next((one.name for one in paths for two in paths if one.name == two.name and one != two), None)
    if twice is not None:
        raise UsageError(f"two paths are called {twice}. Give one of them another name")
    return list({each if isinstance(each, str) else each.name: each for each in given}.values())


def usable(
    names: Sequence[str | RetrievalPath] | None, dataset: Dataset, *, updates: bool = False
) -> tuple[list[type[Engine]], dict[str, str]]:
    """The named engines, or the usual ones that are installed and fit the data.

    Named engines that cannot filter are left out of filtered data if another remains: the second value has
    the reason for each. With `updates`, the usual ones are those that can insert and delete.
    """
    if names is not None:
        found = [engine_to_tune(each) for each in _distinct(names)]
        for engine in found:
            require_installed(engine)
            _require_fit(engine, dataset)
        if not found:
            raise UsageError("engines = (). Accepted: at least one engine")
        return _able(found, dataset)
    usual = [get_engine(each) for each in USUAL_ENGINES if each in registered()]
    usual = [each for each in usual if each.abilities.updates or not updates]
    fitting = [each for each in usual if installed_version(each) is not None and _fits(each, dataset)]
    if not fitting:
        raise UsageError(f"none of {choices(USUAL_ENGINES)} is installed and supports this data")
    return fitting, {}


def _able(engines: Sequence[type[Engine]], dataset: Dataset) -> tuple[list[type[Engine]], dict[str, str]]:
    """The engines that can answer every query, and why the others are left out."""
    reasons: dict[str, str] = {}
    for engine in engines:
        try:
            require_able(engine, dataset, every_query=True)
        except EngineError as problem:
            reasons[engine.name] = str(problem)
    able = [each for each in engines if each.name not in reasons]
    if able:
        return able, reasons
    can = [each for each in USUAL_ENGINES if each in registered() and _fits(get_engine(each), dataset)]
    raise EngineError(f"{'; '.join(reasons.values())}. Accepted: engines that can, such as {choices(can)}")


def _require_fit(engine: type[Engine], dataset: Dataset) -> None:
    if engine.abilities.attaches:
        raise EngineError(f"{engine.name} attaches to an existing index: there is no build to tune")
    require_metric(engine, dataset.metric)


def _fits(engine: type[Engine], dataset: Dataset) -> bool:
    try:
        _require_fit(engine, dataset)
        require_able(engine, dataset, every_query=True)
    except EngineError:
        return False
    return True


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _k(targets: Sequence[Target]) -> int:
    # recall1@50 looks for the best row among the first 50 answers.
    return max(max(each.measure.k, getattr(each.measure, "within", 0)) for each in targets)


def _require(targets: Sequence[Target], prefer: str, dataset: Dataset, seconds: float | None) -> None:
    if not targets:
        raise UsageError('no target given. Accepted: for example target="recall@10 >= 0.95"')
    if prefer not in PREFERENCES:
        raise UsageError(f"prefer = {prefer!r}. Accepted: {choices(PREFERENCES)}")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds = {seconds!r}. Accepted: above 0")
    require_separate_queries(dataset)
    require_answerable(targets, dataset)
    for each in targets:
        if not each.measure.bounded:
            raise UsageError(
                f"{each}: {each.measure} has no upper limit, so no confidence bound can decide it"
            )
        if each.threshold >= 1:
            raise UsageError(f"{each}: no number of queries can prove 1. Accepted: below 1, such as 0.99")
