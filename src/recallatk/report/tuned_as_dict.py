"""A tuning as one JSON object: the choice, what it was proved to do, and all that was tried."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recallatk.history.redaction import public
from recallatk.report.as_dict import plain

if TYPE_CHECKING:
    from recallatk.core import Mean


# What tuning found is described in the room beside this one, which may not be imported here.
def tuned_to_dict(tuned: Any) -> dict[str, Any]:
    """Everything about a tuning, as strict JSON can hold it."""
    choice = tuned.choice
    found: dict[str, Any] = plain(
        {
            "met": tuned.met,
            "choice": _candidate(choice),
            "validated": {name: _mean(mean) for name, mean in tuned.validated.items()},
            "latency_ms": None if choice is None else dict(choice.latency_ms),
            "qps": getattr(choice, "qps", None),
            "memory_bytes": getattr(choice, "memory_bytes", None),
            "size_bytes": getattr(choice, "size_bytes", None),
            "build_seconds": getattr(choice, "build_seconds", None),
            "trials": tuned.trials,
            "builds": tuned.builds,
            "seconds": tuned.seconds,
            "grid_seconds_estimate": tuned.grid_seconds_estimate,
            "targets": tuned.targets,
            "budgets": tuned.budgets,
            "prefer": tuned.prefer,
            "looks": tuned.looks,
            "snippet": tuned.snippet,
            "runner_up": _candidate(tuned.runner_up),
            "nearest": _candidate(tuned.nearest),
            "binding": tuned.binding,
            "front": [_candidate(each) for each in tuned.front],
            "knee": _candidate(tuned.knee),
            "prices": [asdict(each) for each in tuned.prices],
            "worst_segment": _segment(tuned.worst_segment),
            "attempts": [_attempt(each) for each in tuned.attempts],
            "cautions": [asdict(each) for each in tuned.cautions],
        }
    )
    return found


def _candidate(candidate: Any) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {
        "engine": candidate.engine,
        **_parameters(candidate),
        "measures": {name: _mean(mean) for name, mean in candidate.measures.items()},
        "bound": candidate.bound,
        "latency_ms": dict(candidate.latency_ms),
        "qps": candidate.qps,
        "memory_bytes": candidate.memory_bytes,
        "size_bytes": candidate.size_bytes,
        "build_seconds": candidate.build_seconds,
        "version": candidate.version,
        "queries": candidate.queries,
    }


def _parameters(named: Any) -> dict[str, Any]:
    search = None if named.search is None else public(plain(dict(named.search)))
    return {"build": public(plain(dict(named.build))), "search": search}


def _attempt(attempt: Any) -> dict[str, Any]:
    names = ("rows", "verdict", "why", "bound", "p95_ms", "seconds")
    return {
        "engine": attempt.engine,
        **_parameters(attempt),
        **{name: getattr(attempt, name) for name in names},
    }


def _segment(segment: tuple[str, Mean] | None) -> dict[str, Any] | None:
    return None if segment is None else {"name": segment[0], **_mean(segment[1])}


def _mean(mean: Mean) -> dict[str, Any]:
    return {"value": mean.value, "low": mean.low, "high": mean.high, "n": mean.n, "ids": mean.ids}
