"""From a target to a setting: filter, prove, compare, validate, and say what was found."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.engines import get_engine
from recallatk.engines.base import installed_version, require_installed, require_metric
from recallatk.engines.registry import registered
from recallatk.errors import EngineError, UsageError, choices
from recallatk.fingerprint import fingerprints
from recallatk.goals import require_answerable, sort_goals
from recallatk.scratch import ScratchFolder, sweep
from recallatk.tune.explaining import PREFERENCES
from recallatk.tune.finalists import compare
from recallatk.tune.halving import larger_rows, part_rows, propose
from recallatk.tune.index_client import IndexPool
from recallatk.tune.journal import JOURNAL_FORMAT, Journal
from recallatk.tune.outcome import conclude
from recallatk.tune.proving import curve, prove
from recallatk.tune.search import Search
from recallatk.tune.sides import Side, part_of, require_enough, split_sides
from recallatk.tune.space import Shape
from recallatk.tune.validating import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.core import Dataset, Truth
    from recallatk.core.tuned import Tuned
    from recallatk.engines import Engine
    from recallatk.files import PathLike
    from recallatk.goals import Budget, Goal, Target
    from recallatk.tune.search import Progress

USUAL_ENGINES = ("faiss-hnsw", "hnswlib", "usearch", "faiss-ivf-flat", "faiss-ivf-pq")


def tune(
    dataset: Dataset,
    *,
    target: str | Goal | Sequence[str | Goal],
    budgets: str | Goal | Sequence[str | Goal] = (),
    prefer: str = "p95",
    engines: Sequence[str] | None = None,
    seconds: float | None = None,
    by: Sequence[str] = (),
    seed: int = 0,
    out: PathLike | None = None,
    truth: Truth | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Tuned:
    """The cheapest setting that keeps every target on queries that it was not chosen by.

    Args:
        dataset: what to build from and what to ask; a third of the queries is held out.
        target: what has to be kept, one or several, for example `"recall@10 >= 0.95"`.
        budgets: what it may take, for example `"p95 <= 5ms"` or `"memory <= 2GiB"`.
        prefer: what the cheapest is: p95, qps, memory or build.
        engines: the names of the engines; by default the usual ones that are installed.
        seconds: how long it may take; the best that is proven by then is what it gives.
        by: columns beside the queries, to look for the worst segment in.
        seed: of every order that is drawn.
        out: a folder for the journal; the same call with it goes on where a killed one was.
        truth: the right answers for this dataset; through the store where there is none.
        watch: called with how far it is.
    """
    wanted, limits = sort_goals([*_several(target), *_several(budgets)])
    _require(wanted, prefer, dataset, seconds)
    found = usable(engines, dataset)
    shape = Shape(dataset.corpus.rows, dataset.corpus.dimension, min(_k(wanted), dataset.corpus.rows))
    journal = Journal(
        None if out is None else Path(out) / _file(dataset, wanted, limits, prefer, seed, found)
    )
    sweep()
    with ScratchFolder() as folder:
        room = IndexPool(dataset, folder, shape.k, seed)
        try:
            # They load their libraries while the truth is computed.
            for engine in () if journal.steps else found:
                room.start(engine.name)
            depth = min(max(each.measure.deepest for each in wanted), shape.rows)
            known = _truth(dataset, depth) if truth is None else truth
            side, held_out = split_sides(dataset, known, seed)
            require_enough(wanted, side)
            require_enough(wanted, held_out)
            parts = [
                part_of(side, rows, depth, seed) for rows in (part_rows(shape.rows), *larger_rows(shape.rows))
            ]
            search = Search(
                room, journal, side, parts, wanted, limits, prefer, shape, len(found), seed, seconds, watch
            )
            return _tuned(search, held_out, found, by)
        finally:
            room.close()


def _tuned(search: Search, held_out: Side, engines: list[type[Engine]], by: Sequence[str]) -> Tuned:
    proposals = propose(search, engines)
    proven = compare(search, prove(search, proposals))
    validated = validate(search, held_out, proven)
    if validated is not None:
        curve(search, validated.proven)
    return conclude(search, held_out, proposals, proven, validated, by)


def usable(names: Sequence[str] | None, dataset: Dataset) -> list[type[Engine]]:
    """The engines that were named, or the usual ones that are installed and fit the data."""
    if names is not None:
        found = [get_engine(each) for each in dict.fromkeys(names)]
        for engine in found:
            require_installed(engine)
            _require_fit(engine, dataset)
        if not found:
            raise UsageError("engines = (). Accepted: at least one")
        return found
    usual = [get_engine(each) for each in USUAL_ENGINES if each in registered()]
    fitting = [each for each in usual if installed_version(each) is not None and _fits(each, dataset)]
    if not fitting:
        raise UsageError(f"none of {choices(USUAL_ENGINES)} is installed and fits these data")
    return fitting


def _require_fit(engine: type[Engine], dataset: Dataset) -> None:
    require_metric(engine, Metric(dataset.metric))
    if engine.abilities.attaches:
        raise EngineError(f"{engine.name} measures what exists already: there is no build to tune")
    if dataset.queries.filters is not None and not engine.abilities.filters:
        raise EngineError(f"{engine.name} cannot filter while it searches, and these queries have filters")


def _fits(engine: type[Engine], dataset: Dataset) -> bool:
    try:
        _require_fit(engine, dataset)
    except EngineError:
        return False
    return True


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _k(targets: Sequence[Target]) -> int:
    # recall1@50 looks for the best in the first 50: as deep as it is asked for.
    return max(max(each.measure.k, getattr(each.measure, "within", 0)) for each in targets)


def _require(targets: Sequence[Target], prefer: str, dataset: Dataset, seconds: float | None) -> None:
    if not targets:
        raise UsageError('no target. Accepted: for example target="recall@10 >= 0.95"')
    if prefer not in PREFERENCES:
        raise UsageError(f"prefer = {prefer!r}. Accepted: {choices(PREFERENCES)}")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds = {seconds!r}. Accepted: above 0")
    if dataset.queries.corpus_rows is not None:
        raise UsageError("these queries are corpus rows, each of which would find itself")
    require_answerable(targets, dataset)
    for each in targets:
        if not each.measure.bounded:
            raise UsageError(f"{each}: {each.measure} has no upper limit, so that no bound can decide it")
        if each.threshold >= 1:
            raise UsageError(f"{each}: no sample of queries can prove 1. Accepted: below 1, such as 0.99")


def _truth(dataset: Dataset, depth: int) -> Truth:
    from recallatk.truth import obtain_truth

    return obtain_truth(dataset, depth=depth).truth


def _file(
    dataset: Dataset, targets: Sequence[Target], budgets: Sequence[Budget], prefer: str, seed: int,
    engines: Sequence[type[Engine]],
) -> str:  # fmt: skip
    """The journal's name: the same call has the same, with more time or less."""
    called = {
        "format": JOURNAL_FORMAT,
        "data": fingerprints(dataset),
        "targets": [str(each) for each in targets],
        "budgets": [str(each) for each in budgets],
        "prefer": prefer,
        "seed": seed,
        "engines": {each.name: installed_version(each) for each in engines},
    }
    digest = blake2b(json.dumps(called, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"journal-{digest}.jsonl"
