"""The outcome of a tuning in sentences and tables: verdict, settings and attempts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recallatk.core import Trial
from recallatk.goals.target import is_loss
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut, fitted, listed, number, with_margin
from recallatk.reporting.text import printable
from recallatk.reporting.tuned_file import price_of_tuning
from recallatk.units import counted, mebibytes

if TYPE_CHECKING:
    from recallatk.core import Mean
    from recallatk.core.tuned import Attempt, Candidate, Tuned
    from recallatk.reporting.charts.tuned_curve import TunedCurve
    from recallatk.reporting.labels import Naming

MIB = 1 << 20
_COST_WORDS = {"p95": "p95 {}", "qps": "{}", "memory": "memory {}", "build": "build {}"}
_NUMBERS = ("p95 ms", "QPS", "memory MiB", "build s", "queries")
_COSTS = {
    "p95": "p95",
    "qps": "time per query",
    "memory": "memory",
    "build": "build time",
    "cost": "cost per query",
}
_COST_AXES = {"p95": "p95 ms", "qps": "QPS", "memory": "MiB", "build": "build s"}
_CELL, _REASON, _LONGER_CELL = 60, 90, 120
# The columns of marks and of labels.
_WORDS = 2
# The page lists this many attempts to stay small; tuned.json has all.
MOST_ATTEMPTS = 300
_PAGE_NAMES = {
    "p95 ms": "p95 (ms)",
    "memory MiB": "Memory (MiB)",
    "build s": "Build (s)",
}


def verdict(tuned: Tuned) -> list[str]:
    """The setting with its numbers and goals; where none meets them, the reason and the nearest miss."""
    if not tuned.met or tuned.choice is None:
        return _missed(tuned)
    said = f"Run {setting(tuned.choice)}. Held out: {_kept(tuned)}; {_taken(tuned, tuned.choice)}."
    if tuned.looks > 1:
        said += (
            f" The held-out queries were used {tuned.looks} times: validation rejected "
            f"{counted(tuned.looks - 1, 'other setting', 'other settings')}."
        )
    return [said]


def setting(candidate: Candidate) -> str:
    """The engine and all of its parameters, in words."""
    build = [each for each in candidate.build if each[1] != ""]
    search = [each for each in candidate.search if each[1] != ""]
    parts = [f"build {listed(build)}"] if build else []
    parts += [f"search {listed(search)}"] if search else []
    return f"{candidate.engine} ({'; '.join(parts)})" if parts else candidate.engine


def mean_in_words(mean: Mean) -> str:
    """The mean with its margin and the number of queries."""
    return f"{with_margin(mean)} ({counted(mean.n, 'query', 'queries')})"


def costs_in_words(tuned: Tuned, candidate: Candidate) -> str:
    """Costs of a setting in words."""
    costs = {name: of_budget(name, candidate) for name in ("p95", "qps", "memory", "build")}
    said = [_COST_WORDS[name].format(value) for name, value in costs.items() if value != "-"]
    return ", ".join([*said, *_priced(tuned, candidate)])


def _priced(tuned: Tuned, candidate: Candidate) -> list[str]:
    """The cost of queries with a setting, if the machine has a price."""
    price = price_of_tuning(tuned)
    said = None if price is None else price.said(candidate.qps)
    return [] if said is None else [said]


def cost_axis(tuned: Tuned) -> str:
    """The preferred cost with its unit, as a terminal writes it."""
    price = price_of_tuning(tuned)
    if tuned.prefer == "cost" and price is not None:
        return price.unit
    return _COST_AXES.get(tuned.prefer, tuned.prefer)


def of_budget(name: str, candidate: Candidate) -> str:
    """The measured cost that a budget limits; a dash if not measured."""
    if name in ("memory", "size"):
        value = getattr(candidate, f"{name}_bytes")
        return "-" if value is None else mebibytes(value)
    if name == "build":
        return number(candidate.build_seconds, ",.1f", "s")
    if name == "qps":
        return number(candidate.qps, ",.0f", "queries per second")
    return number(candidate.latency_ms.get(name), ".3f", "ms")


def _kept(tuned: Tuned) -> str:
    """Each measure on the held-out queries, beside its target."""
    means = list(tuned.validated.items())
    if len(means) != len(tuned.targets):
        said = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in means)
        return f"{said}, target {' and '.join(tuned.targets)}"
    pairs = zip(means, tuned.targets, strict=True)
    return ", ".join(f"{name} {mean_in_words(mean)}, target {target}" for (name, mean), target in pairs)


def _taken(tuned: Tuned, candidate: Candidate) -> str:
    """Costs of a setting, each with its budget where there is one."""
    budgets = {text.split()[0]: text for text in tuned.budgets}
    names = dict.fromkeys(["p95", "qps", "memory", "build", *budgets])
    said = []
    for name in names:
        value = of_budget(name, candidate)
        if name in budgets:
            word = _COST_WORDS.get(name, f"{name} {{}}").format("not measured" if value == "-" else value)
            said.append(f"{word} (budget {budgets[name]})")
        elif value != "-":
            said.append(_COST_WORDS[name].format(value))
    return ", ".join([*said, *_priced(tuned, candidate)]) or "costs not measured"


def _missed(tuned: Tuned) -> list[str]:
    within = f" within {' and '.join(tuned.budgets)}" if tuned.budgets else ""
    lines = [f"No setting was shown to meet {' and '.join(tuned.targets)}{within}."]
    if tuned.binding:
        lines.append(tuned.binding)
    if tuned.nearest is not None:
        measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in tuned.nearest.measures.items())
        said = ", ".join(part for part in (measures, costs_in_words(tuned, tuned.nearest)) if part)
        lines.append(f"Nearest miss: {setting(tuned.nearest)}. Tuning queries: {said}.")
    if tuned.validated:
        said = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in tuned.validated.items())
        times = counted(tuned.looks, "validation", "validations")
        lines.append(f"Last validation on held-out queries: {said}. {times} in total.")
    return lines


def trial_of(candidate: Candidate) -> Trial:
    """The trial of a setting."""
    return Trial(candidate.engine, tuple(candidate.build), tuple(candidate.search))


def marks_of(tuned: Tuned, candidate: Candidate) -> list[str]:
    """Roles of a setting in the outcome: choice, runner-up, knee, nearest miss."""
    named = {
        "choice": tuned.choice,
        "runner-up": tuned.runner_up,
        "knee": tuned.knee,
        "nearest miss": tuned.nearest,
    }
    trial = trial_of(candidate)
    return [word for word, each in named.items() if each is not None and trial_of(each) == trial]


def held(tuned: Tuned) -> list[Candidate]:
    """Every setting of the outcome once, the front first; the choice as the verdict describes it."""
    found: dict[Trial, Candidate] = {}
    for each in (tuned.choice, *tuned.front, tuned.runner_up, tuned.knee, tuned.nearest):
        if each is not None:
            found.setdefault(trial_of(each), each)
    front = dict.fromkeys(trial_of(each) for each in tuned.front)
    return [found[each] for each in (*front, *(other for other in found if other not in front))]


def front_rows(tuned: Tuned) -> list[Candidate]:
    """The front by ascending recall, with the choice in its place if the final timing left it off."""
    rows = list(tuned.front)
    choice = tuned.choice
    if choice is None or trial_of(choice) in map(trial_of, rows):
        return rows
    measure = measure_of(tuned) or ""
    reached = _value(choice, measure)
    place = next((at for at, each in enumerate(rows) if _value(each, measure) > reached), len(rows))
    return [*rows[:place], choice, *rows[place:]]


def _value(candidate: Candidate, measure: str) -> float:
    mean = candidate.measures.get(measure)
    value = 0.0 if mean is None or mean.value is None else mean.value
    return -value if is_loss(measure) else value


def measure_of(tuned: Tuned) -> str | None:
    """The measure of the first target; None where nothing was measured."""
    return next((name for each in held(tuned) for name in each.measures), None)


def other_measures(tuned: Tuned) -> list[str]:
    """The measures of the targets after the first, in their order."""
    return list(dict.fromkeys(name for each in held(tuned) for name in each.measures))[1:]


def bound_name(measure: str | None) -> str:
    """Name of the decision bound: a recall is "at least" it, a loss "at most"."""
    return "at most" if is_loss(measure or "") else "at least"


def number_names(tuned: Tuned, measure: str | None) -> list[str]:
    """The names of `numbers`."""
    price, others = price_of_tuning(tuned), map(short, other_measures(tuned))
    return [bound_name(measure), *others, *_NUMBERS, *([] if price is None else [price.unit])]


def numbers(tuned: Tuned, candidate: Candidate) -> list[str]:
    """Measured values of a setting, in the order of `number_names`."""
    memory, price = candidate.memory_bytes, price_of_tuning(tuned)
    return [
        number(candidate.bound, ".4f"),
        *(with_margin(candidate.measures.get(name)) for name in other_measures(tuned)),
        number(candidate.latency_ms.get("p95"), ".3f"),
        number(candidate.qps, ",.0f"),
        number(None if memory is None else memory / MIB, ",.1f"),
        number(candidate.build_seconds, ",.1f"),
        f"{candidate.queries:,}",
        *([] if price is None else [number(price.per_million(candidate.qps), ".3g")]),
    ]


def about_front(tuned: Tuned, names: Naming, measure: str) -> list[str]:
    """What the front is, what its settings share, and its knee."""
    if not tuned.front:
        return []
    lines = [
        f"No other measured setting is as good in both {measure} and {_cost(tuned)}. All numbers are for "
        "the tuning queries, not the held-out queries."
    ]
    lines += [f"All {name} settings: {same}." for name in names.engines if (same := _same(names, name))]
    if tuned.knee is not None:
        label = names.label(trial_of(tuned.knee))
        better = "Lower" if is_loss(measure) else "Higher"
        lines.append(f"Knee: {label}. {better} {measure} gets more expensive beyond it.")
    return [*lines, *about_choice(tuned)]


def about_choice(tuned: Tuned) -> list[str]:
    """Why the choice is not on the front; nothing where it is."""
    if len(front_rows(tuned)) == len(tuned.front):
        return []
    cautions = [f"Caution: {each.message}." for each in tuned.cautions if each.kind == "off-front"]
    same = (
        f"The choice has the lowest effort that meets the target; more effort takes the same {_cost(tuned)}."
    )
    return cautions or ([same] if tuned.prefer in ("memory", "build") else [])


def shared_parameters(names: Naming) -> str:
    """Parameters that all settings of an engine share, engine by engine."""
    several = len(names.engines) > 1
    found = {name: _same(names, name) for name in names.engines}
    return "; ".join(f"{f'{name} ' if several else ''}{same}" for name, same in found.items() if same)


def about_prices(tuned: Tuned, measure: str) -> list[str]:
    """What more of the measure costs from one round number to the next."""
    if not tuned.prices:
        return []
    steps = "; ".join(f"{each.low:g} to {each.high:g}: {each.ratio:.2f}×" for each in tuned.prices)
    return [f"{measure} costs {_cost(tuned)}. {steps}.", *about_noise(tuned)]


def about_noise(tuned: Tuned) -> list[str]:
    """A caution where the machine was noisy, for text that compares latencies."""
    return [f"Caution: {each.message}." for each in tuned.cautions if each.kind == "noise"]


def _cost(tuned: Tuned) -> str:
    return _COSTS.get(tuned.prefer, tuned.prefer)


def _same(names: Naming, engine: str) -> str:
    """Parameters that all settings of an engine share, which labels omit."""
    said = names.engine(engine).removeprefix(engine)
    return said[1:-1] if said.endswith(")") else said.removeprefix("()")


def front_table(tuned: Tuned, names: Naming, measure: str) -> Table:
    """The front and the choice, with marks for choice, runner-up and knee, without empty columns."""
    shown = front_rows(tuned)
    labels = fitted([names.label(trial_of(each)) for each in shown], _CELL)
    rows = []
    for each, label in zip(shown, labels, strict=True):
        mean = each.measures.get(measure)
        cells = [with_margin(mean), number(None if mean is None else mean.unweighted, ".3f")]
        rows.append([" ".join(marks_of(tuned, each)), label, *cells, *numbers(tuned, each)])
    return _without_empty(["", "setting", measure, "unweighted", *number_names(tuned, measure)], rows)


def weighting(tuned: Tuned) -> list[str]:
    """What means, bounds and targets are weighted by; empty if all queries count the same."""
    if tuned.weight is None:
        return []
    effective = number(tuned.effective_queries, ",.3g")
    return [
        f"All means and bounds are weighted by {tuned.weight}: the tuning queries are worth {effective} "
        "of equal weight."
    ]


def _without_empty(header: list[str], rows: list[list[str]]) -> Table:
    """The table without empty columns."""
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    words = sum(place < _WORDS for place in kept)
    return Table("Front", [header[each] for each in kept], [[row[e] for e in kept] for row in rows], words)


def settings_table(curve: TunedCurve) -> Table:
    """Every setting that the chart shows, the front first, and those that it cannot show."""
    measure = curve.measure or ""
    rows = []
    for candidate, point in zip(curve.candidates, curve.points, strict=True):
        marks = [*(["front"] if point["costFront"] else []), *marks_of(curve.tuned, candidate)]
        value = with_margin(candidate.measures.get(measure))
        rows.append([point["label"], ", ".join(marks), value, *numbers(curve.tuned, candidate)])
    header = ["Setting", "Role", short(measure) or "recall"]
    others = [short(name) for name in other_measures(curve.tuned)]
    names = number_names(curve.tuned, measure)
    header += [name if name in others else page_name(name) for name in names]
    return Table("All settings measured on the whole corpus, the front first", header, rows, 2)


def short(text: str) -> str:
    """Text truncated to a cell."""
    return cut(printable(text), _LONGER_CELL)


def page_name(name: str) -> str:
    """The name of a column as the page writes it."""
    return _PAGE_NAMES.get(name, name[:1].upper() + name[1:])


def price_table(tuned: Tuned) -> Table:
    """Cost ratio of each round number to the one before."""
    rows = [[f"{each.low:g}", f"{each.high:g}", f"{each.ratio:.2f}×"] for each in tuned.prices]
    return Table("Interpolated between measured settings", ["From", "To", "Cost ratio"], rows, 2, "narrow")


def tried_table(tuned: Tuned) -> Table:
    """Attempts grouped by engine, kind and outcome, with the most common reason."""
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    most = max((each.rows for each in tuned.attempts), default=0)
    for each in tuned.attempts:
        what = "build" if each.search is None else "setting"
        what += " on a sample" if each.rows < most else ""
        groups.setdefault((each.engine, what, each.verdict), []).append(each)
    rows = [
        [*key, _reason(members), f"{len(members):,}", f"{sum(each.seconds for each in members):,.1f}"]
        for key, members in groups.items()
    ]
    return Table("Tried and skipped", ["engine", "what", "outcome", "reason", "times", "seconds"], rows, 4)


def _reason(members: list[Attempt]) -> str:
    reasons = Counter(each.why for each in members if each.why)
    if not reasons:
        return "-"
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    return f"{cut(reasons.most_common(1)[0][0], _REASON)}{more}"


def attempts_table(tuned: Tuned) -> Table:
    """Every attempt, in order."""
    rows = [
        [
            short(each.engine),
            short(listed(each.build)) or "-",
            "(build)" if each.search is None else short(listed(each.search)) or "-",
            short(each.verdict),
            each.why or "-",
            f"{each.rows:,}",
            number(each.bound, ".4f"),
            number(each.p95_ms, ".3f"),
            number(each.seconds, ",.1f"),
        ]
        for each in tuned.attempts[:MOST_ATTEMPTS]
    ]
    bound = page_name(bound_name(measure_of(tuned)))
    header = ["Engine", "Build", "Search", "Outcome", "Reason", "Rows", bound, "p95 (ms)", "Seconds"]
    return Table("Every attempt, in order", header, rows, 5, "tall")
