"""The settings of a tuning in words and cells: what each is to the outcome, and what was measured of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Trial
from recallatk.goals.target import is_loss
from recallatk.report.summary import number

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate, Tuned
    from recallatk.report.naming import Naming

MIB = 1 << 20
_NUMBERS = ("p95 ms", "QPS", "memory MiB", "build s", "queries")
_COSTS = {"p95": "p95", "qps": "time per query", "memory": "memory", "build": "build time"}


def trial_of(candidate: Candidate) -> Trial:
    """The setting alone."""
    return Trial(candidate.engine, tuple(candidate.build), tuple(candidate.search))


def marks_of(tuned: Tuned, candidate: Candidate) -> list[str]:
    """What a setting is to the outcome, in words."""
    named = {
        "choice": tuned.choice,
        "runner-up": tuned.runner_up,
        "knee": tuned.knee,
        "nearest miss": tuned.nearest,
    }
    trial = trial_of(candidate)
    return [word for word, each in named.items() if each is not None and trial_of(each) == trial]


def held(tuned: Tuned) -> list[Candidate]:
    """Every setting of the outcome once, the front first; of the choice what the verdict says of it."""
    found: dict[Trial, Candidate] = {}
    for each in (tuned.choice, *tuned.front, tuned.runner_up, tuned.knee, tuned.nearest):
        if each is not None:
            found.setdefault(trial_of(each), each)
    front = dict.fromkeys(trial_of(each) for each in tuned.front)
    return [found[each] for each in (*front, *(other for other in found if other not in front))]


def measure_of(tuned: Tuned) -> str | None:
    """The measure of the first target; None where nothing was measured."""
    return next((name for each in held(tuned) for name in each.measures), None)


def bound_name(measure: str | None) -> str:
    """What the decision bound of a measure says: a recall is at least that, a loss at most."""
    return "at most" if is_loss(measure or "") else "at least"


def number_names(measure: str | None) -> list[str]:
    """The names of `numbers`."""
    return [bound_name(measure), *_NUMBERS]


def numbers(candidate: Candidate) -> list[str]:
    """What a setting was measured to do, in the order of the names."""
    memory = candidate.memory_bytes
    return [
        number(candidate.bound, ".4f"),
        number(candidate.latency_ms.get("p95"), ".3f"),
        number(candidate.qps, ",.0f"),
        number(None if memory is None else memory / MIB, ",.1f"),
        number(candidate.build_seconds, ",.1f"),
        f"{candidate.queries:,}",
    ]


def about_front(tuned: Tuned, names: Naming, measure: str) -> list[str]:
    """What the front is, what its settings share, and its knee."""
    if not tuned.front:
        return []
    lines = [
        f"No other setting that was measured is as good in both {measure} and {_cost(tuned)}. All on the "
        "queries to choose by; held-out ones were not asked."
    ]
    lines += [f"All of {name}: {same}." for name in names.engines if (same := _same(names, name))]
    if tuned.knee is not None:
        label = names.label(trial_of(tuned.knee))
        better = "less" if is_loss(measure) else "more"
        lines.append(f"Knee, a suggestion: {label}. Beyond it {better} {measure} costs more.")
    return lines


def about_prices(tuned: Tuned, measure: str) -> list[str]:
    """What more of the measure costs from one round number to the next."""
    if not tuned.prices:
        return []
    steps = "; ".join(f"from {each.low:g} to {each.high:g} costs {each.ratio:.2f}x" for each in tuned.prices)
    return [f"The price of {measure} in {_cost(tuned)}: {steps}.", *about_noise(tuned)]


def about_noise(tuned: Tuned) -> list[str]:
    """That the machine was noisy, if it was, for wherever latencies stand beside each other."""
    return [f"Caution: {each.message}." for each in tuned.cautions if each.kind == "noise"]


def _cost(tuned: Tuned) -> str:
    return _COSTS.get(tuned.prefer, tuned.prefer)


def _same(names: Naming, engine: str) -> str:
    """What all settings of an engine have in common, and their lines leave out."""
    said = names.engine(engine).removeprefix(engine)
    return said[1:-1] if said.endswith(")") else said.removeprefix("()")
