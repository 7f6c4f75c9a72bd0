"""A run as one JSON object: every number of every trial, done, failed or missing."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.cost import price_of
from recallatk.analysis.headline import headline_measure
from recallatk.analysis.weighting import weights_of_run
from recallatk.core import Refusals
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.redaction import public
from recallatk.reporting.trial_lines import trial_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.analysis.row_segments import LostRows, RowSegments
    from recallatk.core import Failure, Mean, Measurement, Run, Trial, Weights
    from recallatk.goals import Verdict
    from recallatk.reporting.engine_segments import EngineSegments
    from recallatk.reporting.missed_neighbors import SettingMisses
    from recallatk.reporting.row_segments import SettingRows
    from recallatk.reporting.trial_lines import TrialLine

_NOT_MEASURED = (
    *("latency_ms", "latency_intervals_ms", "qps", "qps_low", "qps_high", "late", "highest_rate"),
    *("build_seconds", "build_cpu_seconds", "build_threads", "search_threads"),
    *("memory_bytes", "peak_bytes", "size_bytes", "version", "call", "evidence"),
    *("k", "queries", "asked", "scored", "calls", "rounds", "clients", "changed_answers", "warm_up"),
    *("refused", "filters"),
)
_NONE_REFUSED = Refusals(np.empty(0, np.int32), ())


def run_to_dict(
    run: Run,
    verdict: Verdict | None = None,
    segments: Sequence[EngineSegments] = (),
    rows: Sequence[SettingRows] = (),
    missed: Sequence[SettingMisses] = (),
) -> dict[str, Any]:
    """Everything about a run but its answers and single calls, as strict JSON can hold it.

    Args:
        run: what was measured.
        verdict: of its goals, where its truth and data were there to tell; by default what the run tells.
        segments: recall by query columns, of `RunReport.segments`.
        rows: recall by corpus row of one setting per engine, from `RunReport.rows`.
        missed: missed neighbors that mattered of one setting per engine, from `RunReport.missed`.
    """
    found: dict[str, Any] = plain(
        {
            "dataset": run.dataset,
            "metric": run.metric,
            "complete": run.complete,
            "planned": None if run.planned is None else len(run.planned),
            "kept": [trial_numbers(run)[each] for each in run.kept],
            "verdict": (run_verdict(run) if verdict is None else verdict).to_dict(),
            "begun": run.begun,
            "checked": run.checked,
            "timed": run.timed,
            "sampled_from": run.sampled_from,
            "synthetic_filters": run.synthetic,
            **weight_to_dict(weights_of_run(run)),
            "trials": _trials(run),
            "segments": [each.to_dict() for each in segments],
            **_downstream(run),
            **_missed(run, missed),
            "cautions": [asdict(each) for each in run.cautions],
            "seconds": run.seconds,
            "fingerprints": run.fingerprints,
            "models": run.models,
            "environment": run.environment,
            "settings": run.settings,
            **({"by_row": _rows(run, rows) or None} if run.by_row else {}),
        }
    )
    shown: dict[str, Any] = public(found)
    return shown


def _downstream(run: Run) -> dict[str, Any]:
    """The key `downstream`, where answers were judged."""
    if all(each.judged is None for each in run.measurements):
        return {}
    from recallatk.reporting.downstream import downstream_to_dict

    return {"downstream": downstream_to_dict(run)}


def _missed(run: Run, missed: Sequence[SettingMisses]) -> dict[str, Any]:
    """The key `missed`, where the data were there to tell."""
    if not missed:
        return {}
    from recallatk.reporting.missed_neighbors import misses_to_dict

    return {"missed": misses_to_dict(run, missed)}


def _rows(run: Run, rows: Sequence[SettingRows]) -> list[dict[str, Any]]:
    """One entry per engine, with the number of its trial."""
    numbers = trial_numbers(run)
    return [
        {"trial": numbers[each.trial], "engine": each.trial.engine, **row_segments_to_dict(each.found)}
        for each in rows
    ]


def _trials(run: Run) -> list[dict[str, Any]]:
    """In planned order; unplanned trials come last."""
    done: dict[Trial, list[TrialLine]] = {}
    for line in trial_lines(run):
        done.setdefault(line.trial, []).append(line)
    failed, measure = {each.trial: each for each in run.failures}, headline_measure(run)
    found = []
    for trial, number in trial_numbers(run).items():
        found += [
            {**_named(trial, number, "done"), **_measured(line, measure), **_cost(run, line)}
            for line in done.get(trial, ())
        ]
        if trial not in done:
            status = "failed" if trial in failed else "missing"
            found.append({**_named(trial, number, status), **_unmeasured(failed.get(trial))})
    return found


def _named(trial: Trial, number: int, status: str) -> dict[str, Any]:
    return {
        "number": number,
        "engine": trial.engine,
        "build": dict(trial.build),
        "search": dict(trial.search),
        "mode": trial.load.mode,
        "load": asdict(trial.load),
        "repeat": trial.repeat,
        "status": status,
    }


def _cost(run: Run, line: TrialLine) -> dict[str, Any]:
    """The cost of a million queries, where the run has a price."""
    price = price_of(run.settings)
    return {} if price is None else {"cost_per_million": price.per_million(line.qps.median)}


def _unmeasured(failure: Failure | None) -> dict[str, Any]:
    said = {name: getattr(failure, name, None) for name in ("kind", "phase", "message", "log")}
    return {
        "measures": {},
        **dict.fromkeys(_NOT_MEASURED),
        "anomalies": {},
        "pareto": False,
        "failure": None if failure is None else said,
    }


def _measured(line: TrialLine, measure: str | None) -> dict[str, Any]:
    measurement, built, late = line.measurement, line.measurement.build, line.lateness
    return {
        "measures": {name: mean_to_dict(mean) for name, mean in measurement.score.measures.items()},
        "latency_ms": {name: each.value for name, each in line.latency_ms.items()},
        "latency_intervals_ms": {
            name: {"low": each.low, "high": each.high} for name, each in line.latency_ms.items()
        },
        "qps": line.qps.median,
        "qps_low": line.qps.low,
        "qps_high": line.qps.high,
        "late": None
        if late is None
        else {"share": late.share, "p99_ms": late.p99_ms, "worst_ms": late.worst_ms},
        "highest_rate": measurement.highest_rate,
        "build_seconds": built.seconds,
        "build_cpu_seconds": built.cpu_seconds,
        "build_threads": built.threads,
        "search_threads": built.search_threads,
        "memory_bytes": built.memory_bytes,
        "peak_bytes": built.peak_bytes,
        "size_bytes": built.size_bytes,
        "version": built.version,
        "call": built.call,
        "evidence": measurement.exercised,
        "k": measurement.k,
        "queries": len(measurement.answers),
        "asked": line.asked,
        "scored": measurement.score.scored,
        "refused": (measurement.refused or _NONE_REFUSED).to_dict(),
        "filters": _filters(measurement, measure),
        "calls": len(measurement.calls),
        "rounds": measurement.calls.rounds,
        "clients": measurement.calls.clients,
        "changed_answers": line.changed,
        "warm_up": None if measurement.warm_up is None else asdict(measurement.warm_up),
        "anomalies": measurement.score.anomalies,
        "pareto": line.front,
        "failure": None,
        **({"path": _stages(measurement)} if measurement.stages is not None or measurement.own_truth else {}),
    }


def _stages(measurement: Measurement) -> dict[str, Any] | None:
    """What the stages of a path returned and took."""
    from recallatk.reporting.path_stages import stages_to_dict

    return stages_to_dict(measurement)


def _filters(measurement: Measurement, measure: str | None) -> dict[str, Any] | None:
    """Recall and rates of groups of queries by their filters; None without filters."""
    if measurement.filters is None:
        return None
    from recallatk.reporting.filtered import filters_to_dict

    return filters_to_dict(measurement, measure)


def mean_to_dict(mean: Mean) -> dict[str, Any]:
    """A mean with its interval, and the mean by strict ids; of a weighted one also the unweighted mean."""
    found = {"value": mean.value, "low": mean.low, "high": mean.high, "n": mean.n, "ids": mean.ids}
    if mean.effective is None:
        return found
    return {**found, "unweighted": mean.unweighted, "effective_queries": mean.effective}


def weight_to_dict(weights: Weights | None) -> dict[str, Any]:
    """The key `weight`: the query column of the weights and the effective number; nothing without weights."""
    if weights is None:
        return {}
    return {"weight": {"column": weights.column, "effective_queries": weights.effective}}


def row_segments_to_dict(found: RowSegments) -> dict[str, Any]:
    """The documents' side of recall as plain values, for JSON."""
    return {
        "k": found.k,
        "found": mean_to_dict(found.share),
        "columns": {
            column: [
                {
                    "value": each.name,
                    "found": mean_to_dict(each.share),
                    "neighbors": each.neighbors,
                    "queries": each.share.n,
                    "judged": each.judged,
                }
                for each in segments
            ]
            for column, segments in found.columns.items()
        },
        "never_found": _lost(found.never_found),
        "lost_hubs": _lost(found.lost_hubs),
    }


def _lost(lost: LostRows) -> dict[str, Any]:
    return {"count": lost.count, "rows": [asdict(each) for each in lost.rows]}


def plain(value: Any) -> Any:
    """The value in JSON types; non-finite numbers become null."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "items"):
        return _plain_mapping(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return str(value)


def _plain_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): plain(each) for name, each in value.items()}
