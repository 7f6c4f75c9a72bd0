"""What a tuning says first: the setting to run and what it keeps, or what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.naming import listed
from recallatk.report.summary import number
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.core import Mean
    from recallatk.core.tuned import Candidate, Tuned

_MIB = 1 << 20


def verdict(tuned: Tuned) -> list[str]:
    """One sentence with the setting and its numbers beside what was asked, and what else must be known."""
    if not tuned.met or tuned.choice is None:
        return _missed(tuned)
    said = f"Run {setting(tuned.choice)}: {_kept(tuned)}; {_taken(tuned, tuned.choice)}."
    if tuned.looks > 1:
        said += f" It is look {tuned.looks} at the held-out queries: settings before it were not confirmed."
    return [said]


def setting(candidate: Candidate) -> str:
    """The engine and all of its parameters, in words."""
    build = [each for each in candidate.build if each[1] != ""]
    search = [each for each in candidate.search if each[1] != ""]
    parts = [f"built with {listed(build)}"] if build else []
    parts += [f"searched with {listed(search)}"] if search else []
    return f"{candidate.engine}{' ' if parts else ''}{', '.join(parts)}"


def mean_in_words(mean: Mean) -> str:
    """The mean with its interval and its queries."""
    among = "" if mean.low is None or mean.high is None else f"{mean.low:.4f} to {mean.high:.4f}, "
    return f"{number(mean.value, '.4f')} ({among}{counted(mean.n, 'query', 'queries')})"


def costs_in_words(candidate: Candidate) -> str:
    """What a setting takes."""
    costs = {name: of_budget(name, candidate) for name in ("p95", "qps", "memory", "build")}
    return ", ".join(_COST_WORDS[name].format(said) for name, said in costs.items() if said != "-")


_COST_WORDS = {"p95": "p95 {}", "qps": "{}", "memory": "memory {}", "build": "built in {}"}


def of_budget(name: str, candidate: Candidate) -> str:
    """What a setting was measured to take of a budget; a dash where it was not."""
    if name == "memory" or name == "size":
        value = getattr(candidate, f"{name}_bytes")
        return "-" if value is None else f"{value / _MIB:,.1f} MiB"
    if name == "build":
        return "-" if candidate.build_seconds is None else f"{candidate.build_seconds:,.1f} s"
    if name == "qps":
        return "-" if candidate.qps is None else f"{candidate.qps:,.0f} queries a second"
    value = candidate.latency_ms.get(name)
    return "-" if value is None else f"{value:.3f} ms"


def _kept(tuned: Tuned) -> str:
    """Each measure on the held-out queries, beside its target."""
    means = list(tuned.validated.items())
    if len(means) != len(tuned.targets):
        said = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in means)
        return f"on held-out queries {said}, for the target {' and '.join(tuned.targets)}"
    pairs = zip(means, tuned.targets, strict=True)
    said = ", ".join(f"{name} {mean_in_words(mean)} for {target}" for (name, mean), target in pairs)
    return f"on held-out queries {said}"


def _taken(tuned: Tuned, candidate: Candidate) -> str:
    """What it takes, with the budget beside it where there is one."""
    budgets = {text.split()[0]: text for text in tuned.budgets}
    names = dict.fromkeys(["p95", "qps", "memory", "build", *budgets])
    said = []
    for name in names:
        value = of_budget(name, candidate)
        if name in budgets:
            word = _COST_WORDS.get(name, f"{name} {{}}").format("not measured" if value == "-" else value)
            said.append(f"{word} for {budgets[name]}")
        elif value != "-":
            said.append(_COST_WORDS[name].format(value))
    return ", ".join(said) or "its costs were not measured"


def _missed(tuned: Tuned) -> list[str]:
    within = f" within {' and '.join(tuned.budgets)}" if tuned.budgets else ""
    lines = [f"No setting was proved to keep {' and '.join(tuned.targets)}{within}."]
    if tuned.binding:
        lines.append(tuned.binding)
    if tuned.nearest is not None:
        measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in tuned.nearest.measures.items())
        said = ", ".join(part for part in (measures, costs_in_words(tuned.nearest)) if part)
        lines.append(f"The nearest miss is {setting(tuned.nearest)}: while choosing {said}.")
    if tuned.validated:
        said = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in tuned.validated.items())
        lines.append(f"The last look at the held-out queries had {said}; there were {tuned.looks}.")
    return lines
