"""What a run would measure and what that may take, before it is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.text import aligned, printable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.pilot import Estimate
    from recallatk.bench.plan import Plan

_SHOWN = 40


def plan_to_dict(plan: Plan, estimates: Sequence[Estimate], out: str) -> dict[str, Any]:
    """The plan with its estimates as plain values; None where the pilot could not tell."""
    builds: list[dict[str, Any]] = [
        {
            "engine": each.planned.engine,
            "build": dict(each.planned.parameters),
            "repeat": each.planned.repeat,
            "trials": len(each.planned.trials),
            "loads": [str(load) for load in each.planned.loads],
            "build_seconds": each.build_seconds,
            "search_seconds": each.search_seconds,
            "memory_bytes": None if each.memory_bytes is None else int(each.memory_bytes),
            "problem": each.problem,
        }
        for each in estimates
    ]
    parts = [(each["build_seconds"], each["search_seconds"]) for each in builds]
    known = [part for pair in parts for part in pair if part is not None]
    memory = [each["memory_bytes"] for each in builds if each["memory_bytes"] is not None]
    return {
        "builds": builds,
        "trials": len(plan.trials),
        "dropped": list(plan.dropped),
        "seconds": sum(known) if known else None,
        "memory_bytes": max(memory, default=None),
        "out": out,
    }


def plan_to_text(described: dict[str, Any]) -> str:
    """The same for people."""
    rows = [["index", "trials", "build s", "search s", "memory MB"]]
    for each in described["builds"][:_SHOWN]:
        parameters = ", ".join(f"{name}={value}" for name, value in each["build"].items())
        again = f" build {each['repeat'] + 1}" if each["repeat"] else ""
        rows.append(
            [
                f"{each['engine']}({parameters}){again}",
                str(each["trials"]),
                _about(each["build_seconds"]),
                _about(each["search_seconds"]),
                _about(None if each["memory_bytes"] is None else each["memory_bytes"] / 1e6),
            ]
        )
    more = len(described["builds"]) - _SHOWN
    seconds = described["seconds"]
    unknown = any(None in (each["build_seconds"], each["search_seconds"]) for each in described["builds"])
    total = "unknown time" if seconds is None else f"{'at least' if unknown else 'about'} {seconds:,.0f} s"
    trials = counted(described["trials"], "trial", "trials")
    builds = counted(len(described["builds"]), "build", "builds")
    lines = [
        f"{trials} on {builds}, {total}, into {described['out']}.",
        "",
        *aligned(rows),
        *([f"and {more:,} more"] if more > 0 else []),
        "",
        "Estimates from builds of a few thousand rows; loads at a stated rate or length take that long.",
        *(f"Left out: {each}" for each in described["dropped"]),
        *dict.fromkeys(
            f"{each['engine']}: {each['problem']}" for each in described["builds"] if each["problem"]
        ),
    ]
    return "\n".join(printable(line) for line in lines)


def _about(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
