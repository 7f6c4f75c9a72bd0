"""`gate`: measures a bench file or a collection in use only as far as the verdict needs, and judges it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.adapters.collection import Collection
from recallatk.adapters.target_schemes import is_target
from recallatk.bench.settings import Settings, read_settings
from recallatk.errors import UsageError
from recallatk.goals.relative import RelativeGoal
from recallatk.probing.probe import DEFAULT_K
from recallatk.redaction import without_secrets
from recallatk.regression.baseline_file import write_baseline
from recallatk.regression.benchmark_gate import gate_benchmark, measure_benchmark
from recallatk.regression.collection_gate import gate_collection, measure_collection
from recallatk.regression.gating import AcceptedBaseline, parsed_goals, require_replaceable, since
from recallatk.regression.run_side import run_side
from recallatk.regression.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.analysis.sides import ComparedSide
    from recallatk.bench.progress import Watch
    from recallatk.files import PathLike
    from recallatk.goals.gated import Gated

    Progress = Callable[[int, int], None]

BASELINE = "recall-baseline.json"
_ACCEPTED = (
    "a bench file (.toml), or a collection in use such as postgresql://host/db?table=items. To judge what "
    "was measured already, name the baseline first: recallatk gate BASELINE CANDIDATE"
)


def is_measurable(what: Any) -> bool:
    """Whether `gate` can measure it: a bench file, or a collection in use."""
    if isinstance(what, Collection | Settings):
        return True
    text = os.fspath(what) if isinstance(what, str | os.PathLike) else ""
    return is_target(text) or text.endswith(".toml")


def usual_baseline(what: Any) -> str:
    """The baseline file in the folder of a bench file; for a collection, in the current one."""
    if isinstance(what, str | os.PathLike) and os.fspath(what).endswith(".toml"):
        return str(Path(what).parent / BASELINE)
    return BASELINE


def gate(
    what: Any,
    targets: Sequence[str] = (),
    *,
    baseline: Any = None,
    queries: Any = None,
    at: int | None = None,
    since_first: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    **asked: Any,
) -> Gated:
    """Measure only as much as the verdict needs, and judge it: PASS, FAIL or UNDECIDED.

    Queries are asked in random order, until every goal is decided. Goals on latency and throughput, several
    builds, and several loads need full trials.

    Args:
        what: a bench file, its settings, or what `probe` takes: a URL, `module:function`, an open collection.
        targets: goals, absolute or relative to the baseline. Default: recall at every k at most 0.01 lower.
        baseline: what was accepted. Default: `recall-baseline.json` beside the bench file, or in the current
            folder; it is read only if a goal needs it.
        queries: for a collection, real queries.
        at: for a collection, the cutoff k; by default that of the goals, else that of the baseline.
        since_first: judge against the first baseline in the file too.
        progress: called with the number of queries asked, and of all.
        watch: called with the progress of full trials.
        asked: for a collection, further arguments of `probe`, such as search, settings, truth and max_rate.

    Raises:
        MismatchError: the baseline is of different data.
        UsageError: a goal names nothing that is measured.
    """
    _require_measurable(what)
    goals = parsed_goals(targets)
    bench = None if _is_collection(what) else _settings(what)
    needs = baseline is not None or since_first or not goals
    references = []
    if needs or any(isinstance(each, RelativeGoal) for each in goals):
        known = usual_baseline(what) if baseline is None else baseline
        references = [AcceptedBaseline(_baseline(known)), *since(known, first=since_first)]
    if bench is None:
        return gate_collection(what, queries, goals, references, at=at, progress=progress, **asked)
    _refuse(queries=queries, at=at, **asked)
    return gate_benchmark(*bench, goals, references, progress=progress, watch=watch)


def accept_measured(
    what: Any,
    path: PathLike | None = None,
    *,
    queries: Any = None,
    at: int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    **asked: Any,
) -> ComparedSide:
    """Measure everything, and write it as the baseline of later gates.

    Args:
        what: what `gate` takes.
        path: the file. Default: `recall-baseline.json` beside the bench file, or in the current folder.
        queries: for a collection, real queries.
        at: for a collection, the cutoff k; 10 by default.
        progress: called with the number of queries asked, and of all.
        watch: called with the progress of full trials.
        asked: for a collection, further arguments of `probe`.
    """
    _require_measurable(what)
    file = Path(usual_baseline(what) if path is None else path)
    require_replaceable(file)
    if _is_collection(what):
        side = measure_collection(what, queries, at or DEFAULT_K, progress=progress, **asked)
    else:
        _refuse(queries=queries, at=at, **asked)
        settings, name = _settings(what)
        side = run_side(measure_benchmark(settings, progress=progress, watch=watch), name)
    write_baseline(side, file)
    return side


def _require_measurable(what: Any) -> None:
    if not is_measurable(what):
        raise UsageError(f"{what}: nothing that a gate can measure. Accepted: {_ACCEPTED}")


def _is_collection(what: Any) -> bool:
    return isinstance(what, Collection) or (isinstance(what, str) and is_target(what))


def _settings(what: Any) -> tuple[Settings, str]:
    if isinstance(what, Settings):
        return what, what.name
    return read_settings(what), without_secrets(os.fspath(what))


def _refuse(**given: Any) -> None:
    stated = [name for name, value in given.items() if value is not None]
    if stated:
        raise UsageError(
            f"{', '.join(stated)} cannot be combined with a bench file, which states what to ask"
        )


def _baseline(baseline: Any) -> ComparedSide:
    path = Path(baseline) if isinstance(baseline, str | os.PathLike) else None
    if path is not None and not path.exists():
        raise UsageError(
            f"{path}: no such file, and a goal needs a baseline. Accept one with --accept, or state goals "
            "without a baseline, such as recall@10 >= 0.95"
        )
    return open_source(baseline).side
