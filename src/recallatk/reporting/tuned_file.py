"""The file tuned.json: the outcome of a tuning with the linter's findings, written and read back."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.analysis.cost import MachinePrice, price_of
from recallatk.core import Caution, Mean
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.core.tuned import Attempt, Candidate, ChoiceQuality, ChurnedEffort, Price, Tuned
from recallatk.errors import FormatError
from recallatk.redaction import public
from recallatk.reporting.as_dict import mean_to_dict, plain
from recallatk.reporting.findings import findings_from_dict, findings_to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.core.judgments import Finding
    from recallatk.files import PathLike

# 1: the first.
FORMAT_VERSION = 1
TUNED = "tuned.json"


def tuned_to_dict(tuned: Tuned) -> dict[str, Any]:
    """Everything about a tuning, as strict JSON can hold it."""
    choice = tuned.choice
    found: dict[str, Any] = plain(
        {
            "format_version": FORMAT_VERSION,
            "met": tuned.met,
            "choice": _candidate(choice),
            "validated": {name: mean_to_dict(mean) for name, mean in tuned.validated.items()},
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
            "cost": _cost(tuned),
            "looks": tuned.looks,
            "snippet": tuned.snippet,
            "runner_up": _candidate(tuned.runner_up),
            "no_runner_up": tuned.no_runner_up,
            "nearest": _candidate(tuned.nearest),
            "binding": tuned.binding,
            "front": [_candidate(each) for each in tuned.front],
            "knee": _candidate(tuned.knee),
            "prices": [asdict(each) for each in tuned.prices],
            "worst_segment": _segment(tuned.worst_segment),
            "attempts": [_attempt(each) for each in tuned.attempts],
            "verdict": None if tuned.verdict is None else tuned.verdict.to_dict(),
            "cautions": [asdict(each) for each in tuned.cautions],
            **_weight(tuned),
            **_downstream(tuned),
            **_churn(tuned),
        }
    )
    shown: dict[str, Any] = public(found)
    return shown


def _weight(tuned: Tuned) -> dict[str, Any]:
    """The key `weight` of a weighted tuning."""
    if tuned.weight is None:
        return {}
    return {"weight": {"column": tuned.weight, "effective_queries": tuned.effective_queries}}


def _downstream(tuned: Tuned) -> dict[str, Any]:
    """The key `downstream` of a tuning whose choice was judged."""
    if not tuned.downstream and not tuned.downstream_notes:
        return {}
    measures = [
        {
            "measure": each.measure,
            "exact": mean_to_dict(each.exact),
            "choice": mean_to_dict(each.choice),
            "lost": {"value": each.lost, "low": each.low, "high": each.high},
        }
        for each in tuned.downstream
    ]
    return {"downstream": {"measures": measures, "notes": list(tuned.downstream_notes)}}


def _read_quality(found: Mapping[str, Any]) -> ChoiceQuality:
    lost = found["lost"]
    means = _read_mean(found["exact"]), _read_mean(found["choice"])
    return ChoiceQuality(found["measure"], *means, lost["value"], lost["low"], lost["high"])


def _churn(tuned: Tuned) -> dict[str, Any]:
    """The runbook and what was reached after it; nothing without one."""
    if tuned.churn is None:
        return {}
    efforts = [
        {
            "search": dict(each.search),
            "first": mean_to_dict(each.first),
            "last": mean_to_dict(each.last),
            "outcome": each.outcome,
        }
        for each in tuned.churned
    ]
    lasting = None if tuned.lasting is None else dict(tuned.lasting)
    return {
        "churn": {
            "runbook": tuned.churn,
            "efforts": efforts,
            "lasting": lasting,
            "failure": tuned.churn_failure,
        }
    }


def _read_effort(found: Mapping[str, Any]) -> ChurnedEffort:
    means = _read_mean(found["first"]), _read_mean(found["last"])
    return ChurnedEffort(tuple(found["search"].items()), *means, found["outcome"])


def _cost(tuned: Tuned) -> dict[str, Any] | None:
    """The price, and the cost of a million queries with the choice or the closest setting."""
    price = price_of_tuning(tuned)
    if price is None:
        return None
    shown = tuned.choice or tuned.nearest
    cost = None if shown is None else price.per_million(shown.qps)
    return {"per_hour": price.per_hour, "currency": price.currency, "cost_per_million": cost}


def price_of_tuning(tuned: Tuned) -> MachinePrice | None:
    """The price of the machine; None if not stated."""
    return None if tuned.per_hour is None else MachinePrice(tuned.per_hour, tuned.currency)


def _candidate(candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {
        "engine": candidate.engine,
        **_parameters(candidate),
        "measures": {name: mean_to_dict(mean) for name, mean in candidate.measures.items()},
        "bound": candidate.bound,
        "latency_ms": dict(candidate.latency_ms),
        "qps": candidate.qps,
        "memory_bytes": candidate.memory_bytes,
        "size_bytes": candidate.size_bytes,
        "build_seconds": candidate.build_seconds,
        "version": candidate.version,
        "queries": candidate.queries,
    }


def _parameters(named: Candidate | Attempt) -> dict[str, Any]:
    return {"build": dict(named.build), "search": None if named.search is None else dict(named.search)}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    names = ("rows", "verdict", "why", "bound", "p95_ms", "seconds")
    return {
        "engine": attempt.engine,
        **_parameters(attempt),
        **{name: getattr(attempt, name) for name in names},
    }


def _segment(segment: tuple[str, Mean] | None) -> dict[str, Any] | None:
    return None if segment is None else {"name": segment[0], **mean_to_dict(segment[1])}


def tuned_from_dict(found: Mapping[str, Any], where: str = "tuned.json") -> Tuned:
    """Parse a tuning from its JSON object; redacted values stay redacted.

    Args:
        found: the object.
        where: whose it is, for messages.
    """
    version = found.get("format_version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise FormatError(where, f"a tuning result of format {version!r}", f"format {FORMAT_VERSION}")
    try:
        return _read(found)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        said = f"{type(problem).__name__} {problem}"
        raise FormatError(
            where, f"not a tuning result ({said})", "a file written by recallatk tune"
        ) from None


def _read(found: Mapping[str, Any]) -> Tuned:
    segment = found["worst_segment"]
    price, judged, churn = price_of(found), found.get("downstream") or {}, found.get("churn") or {}
    same = ("prefer", "met", "looks", "binding", "trials", "builds", "seconds", "grid_seconds_estimate")
    return Tuned(
        targets=tuple(found["targets"]),
        budgets=tuple(found["budgets"]),
        choice=_read_candidate(found["choice"]),
        validated=_read_means(found["validated"]),
        nearest=_read_candidate(found["nearest"]),
        runner_up=_read_candidate(found["runner_up"]),
        no_runner_up=found.get("no_runner_up"),
        front=tuple(each for one in found["front"] if (each := _read_candidate(one)) is not None),
        knee=_read_candidate(found["knee"]),
        prices=tuple(Price(**each) for each in found["prices"]),
        worst_segment=None if segment is None else (segment["name"], _read_mean(segment)),
        attempts=tuple(_read_attempt(each) for each in found["attempts"]),
        cautions=tuple(Caution(**each) for each in found["cautions"]),
        snippet=found["snippet"],
        verdict=_read_verdict(found.get("verdict")),
        per_hour=None if price is None else price.per_hour,
        currency=None if price is None else price.currency,
        weight=(found.get("weight") or {}).get("column"),
        effective_queries=(found.get("weight") or {}).get("effective_queries"),
        downstream=tuple(_read_quality(each) for each in judged.get("measures", ())),
        downstream_notes=tuple(map(str, judged.get("notes", ()))),
        churn=churn.get("runbook"),
        churned=tuple(_read_effort(each) for each in churn.get("efforts", ())),
        churn_failure=churn.get("failure"),
        **{name: found[name] for name in same},
    )


def _read_candidate(found: Mapping[str, Any] | None) -> Candidate | None:
    if found is None:
        return None
    same = ("bound", "latency_ms", "qps", "memory_bytes", "size_bytes", "build_seconds", "version", "queries")
    return Candidate(
        found["engine"],
        tuple(found["build"].items()),
        tuple(found["search"].items()),
        measures=_read_means(found["measures"]),
        **{name: found[name] for name in same},
    )


def _read_attempt(found: Mapping[str, Any]) -> Attempt:
    search = found["search"]
    same = ("rows", "verdict", "why", "bound", "p95_ms", "seconds")
    return Attempt(
        found["engine"],
        tuple(found["build"].items()),
        None if search is None else tuple(search.items()),
        **{name: found[name] for name in same},
    )


def _read_verdict(found: Mapping[str, Any] | None) -> Verdict | None:
    if found is None:
        return None
    goals = (GoalResult(**{**each, "outcome": Outcome(each["outcome"])}) for each in found["goals"])
    return Verdict(tuple(goals), found["trial"])


def _read_means(found: Mapping[str, Any]) -> dict[str, Mean]:
    return {name: _read_mean(each) for name, each in found.items()}


def _read_mean(found: Mapping[str, Any]) -> Mean:
    mean = Mean(**{name: found[name] for name in ("value", "ids", "n", "low", "high")})
    return replace(mean, unweighted=found.get("unweighted"), effective=found.get("effective_queries"))


def described(tuned: Tuned, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    """Everything about a tuning, with the linter's findings under `audit`."""
    found = tuned_to_dict(tuned)
    return found if findings is None else {**found, "audit": findings_to_dict(findings)}


def tuned_text(tuned: Tuned, findings: Sequence[Finding] | None = None) -> str:
    """The text of the file."""
    return json.dumps(described(tuned, findings), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def read_tuned(path: PathLike) -> tuple[Tuned, list[Finding] | None]:
    """Read a tuning and the linter's findings; None if the tuning was not linted."""
    where = str(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        raise FormatError(where, "no JSON", "a file written by recallatk tune") from None
    if not isinstance(found, dict):
        raise FormatError(where, "not a JSON object", "a file written by recallatk tune")
    tuned = tuned_from_dict(found, where)
    try:
        findings = None if found.get("audit") is None else findings_from_dict(found["audit"])
    except (KeyError, TypeError, ValueError) as problem:
        raise FormatError(where, f"audit: {problem}", "a file written by recallatk tune") from None
    return tuned, findings
