"""The plan of a run: its trials, with estimates of time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core.trials import called
from recallatk.reporting.document import Document, Form, Section, Sentences, Table, build_sections
from recallatk.reporting.labels import number
from recallatk.reporting.text import render_text
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.pilot import CostEstimate
    from recallatk.bench.plan import Plan
    from recallatk.reporting.document import Builders

_SHOWN = 40


def plan_to_dict(plan: Plan, estimates: Sequence[CostEstimate], out: str) -> dict[str, Any]:
    """The plan with its estimates as plain values; None where the pilot has no estimate."""
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
    """The plan as text for a terminal."""
    return render_text(Document("", build_sections(SECTIONS, described, Form.TEXT)))


def _total(described: dict[str, Any]) -> Section:
    seconds = described["seconds"]
    unknown = any(None in (each["build_seconds"], each["search_seconds"]) for each in described["builds"])
    total = "unknown time" if seconds is None else f"{'at least' if unknown else 'about'} {seconds:,.0f} s"
    trials = counted(described["trials"], "trial", "trials")
    builds = counted(len(described["builds"]), "build", "builds")
    return Section("", [Sentences([f"{trials} on {builds}, {total}, into {described['out']}."])])


def _builds(described: dict[str, Any]) -> Section:
    rows = [_build(each) for each in described["builds"][:_SHOWN]]
    more = len(described["builds"]) - _SHOWN
    table = Table("", ["index", "trials", "build s", "search s", "memory MB"], rows, 1)
    return Section("", [table, Sentences([f"{more:,} more builds"] if more > 0 else [])])


def _build(build: dict[str, Any]) -> list[str]:
    parameters = ", ".join(f"{name}={value}" for name, value in build["build"].items())
    again = f" build {build['repeat'] + 1}" if build["repeat"] else ""
    memory = build["memory_bytes"]
    return [
        f"{called(build['engine'], parameters, '')}{again}",
        str(build["trials"]),
        number(build["build_seconds"], ",.1f"),
        number(build["search_seconds"], ",.1f"),
        number(None if memory is None else memory / 1e6, ",.1f"),
    ]


def _cautions(described: dict[str, Any]) -> Section:
    problems = (f"{each['engine']}: {each['problem']}" for each in described["builds"] if each["problem"])
    lines = [
        "Estimates are extrapolated from builds of a few thousand rows.",
        *(f"Skipped: {each}" for each in described["dropped"]),
        *dict.fromkeys(problems),
    ]
    return Section("", [Sentences(lines)])


SECTIONS: Builders = ((Form.ALL, _total), (Form.ALL, _builds), (Form.ALL, _cautions))
