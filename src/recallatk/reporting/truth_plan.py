"""The plan of a ground truth as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.document import Document, Form, Section, Sentences, Table
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.api.truth_plan import TruthPlan

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_THOUSANDS = ("", "k", "M", "G", "T", "P", "E", "Z")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def plan_document(plan: TruthPlan) -> Document:
    """The plan: one column for each size of corpus, and how many queries are enough."""
    asked = counted(plan.queries, "query", "queries")
    lead = (
        f"{plan.name}: {plan.lines[0].rows:,} rows of {plan.dimension:,} {plan.dtype}, {asked}, depth "
        f"{plan.depth:,}, {plan.metric}. Nothing was computed but a pilot of a few seconds."
    )
    here = f"this machine, {counted(plan.threads, 'thread', 'threads')}"
    there = counted(plan.workers, "Ray worker", "Ray workers")
    header = ["", "at hand", *(_rows(line.rows) for line in plan.lines[1:])]
    table = Table("", header, [row for row in _table(plan, here, there) if row], words=1)
    return Document(
        "", [Section("", [Sentences([lead]), table, Sentences(_notes(plan))], headed=Form.MARKDOWN)]
    )


def _table(plan: TruthPlan, here: str, there: str) -> list[list[str]]:
    lines = plan.lines
    priced = plan.price is not None
    return [
        ["bytes of vectors", *(_bytes(line.corpus_bytes) for line in lines)],
        ["bytes read here", *(_bytes(line.read_bytes) for line in lines)],
        ["passes over the vectors", *(f"{line.read_bytes // line.corpus_bytes:,}" for line in lines)],
        ["operations", *(f"{_scaled(line.operations)}FLOP" for line in lines)],
        [f"memory, {here}", *(_bytes(line.memory_bytes) for line in lines)],
        [f"time, {here}", *(_time(line.seconds) for line in lines)],
        ["cost", *(_cost(line.cost, plan) for line in lines)] if priced else [],
        ["memory, each Ray worker", *(_bytes(line.worker_memory_bytes) for line in lines)],
        [f"time, {there}", *(_time(line.worker_seconds) for line in lines)],
        ["tasks", *(f"{line.tasks:,}" for line in lines)],
        ["cost", *(_cost(line.worker_cost, plan) for line in lines)] if priced else [],
    ]


def _notes(plan: TruthPlan) -> list[str]:
    enough = plan.enough
    sequential = "more than 20,000" if enough.sequential is None else f"about {enough.sequential:,}"
    notes = [
        f"Fewer queries are the cheapest way to scale: operations and their time shrink with their "
        "number; bytes of vectors and the memory of workers do not. "
        f"{enough.at_most:,} queries give recall within ±{enough.precision:g} whatever its distribution, "
        f"about {enough.usual:,} with a usual spread of 0.2 (--sample {enough.usual}).",
        f"A sequential test that stops as soon as it can (probe, tune, gate) needs {sequential} to tell a "
        f"recall of {0.9 + enough.precision:g} from a target of 0.9.",
    ]
    if enough.usual > plan.queries:
        notes.append(f"There are {counted(plan.queries, 'query', 'queries')} here, fewer than that.")
    return notes


def _rows(count: int) -> str:
    return f"{_scaled(count).replace(' ', '').replace('G', 'B')} rows"


def _scaled(value: float, step: int = 1000) -> str:
    number = 0
    while value >= step and number < len(_THOUSANDS) - 1:
        value, number = value / step, number + 1
    return f"{value:.3g} {_THOUSANDS[number]}"


def _bytes(size: float) -> str:
    number = 0
    while size >= 1024 and number < len(_SIZES) - 1:
        size, number = size / 1024, number + 1
    return f"{size:.3g} {_SIZES[number]}" if size < 1000 else f"{size:,.0f} {_SIZES[number]}"


def _time(seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:,.0f} days"


def _cost(cost: float | None, plan: TruthPlan) -> str:
    currency = "" if plan.price is None or plan.price.currency is None else f" {plan.price.currency}"
    if cost is None:
        return "-"
    return f"{cost:,.2f}{currency}" if cost >= 1 else f"{cost:.2g}{currency}"
