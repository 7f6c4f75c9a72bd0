"""Notes, failures and cautions of a run: what was timed, on which machine, ties, anomalies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode
from recallatk.core.measured import SHOWN_FIRST
from recallatk.redaction import public
from recallatk.reporting.labels import cut, number, weighted_by
from recallatk.reporting.run_tables import FRONT, in_order
from recallatk.reporting.trial_lines import measure_names, prices
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from recallatk.core import Caution, Failure, Run, Weights
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.trial_lines import TrialLine

_LISTED = 6
_MOST_KEPT = 5
_LONGEST_EVIDENCE = _LONGEST_MESSAGE = 300
# Format of evidence from engines that may bypass the index: `317 of 476 calls (66.6%)`.
_SHARE = re.compile(r"\d (?:calls|queries) \((\d+(?:\.\d+)?)%\)")


def notes(run: Run, lines: list[TrialLine], names: Naming) -> list[str]:
    """One or two sentences per fact that a reader must know."""
    if not lines:
        return [*_unchecked(run), *_sample(run), _machine(run)]
    ordered = [
        line
        for mode in Mode
        for line in in_order([each for each in lines if each.trial.load.mode is mode], headline_measure(run))
    ]
    return [
        *_unchecked(run),
        *_sample(run),
        f"Timed: {run.timed}.",
        *_asked(ordered),
        *_engines(ordered, names),
        _machine(run),
        *_evidence(ordered, names),
        *_front(run, ordered),
        *_margins(ordered),
        *_ties(run, ordered),
        *_odd(ordered, names),
        *_time(run),
    ]


def _unchecked(run: Run) -> list[str]:
    if run.checked:
        return []
    return ["The run has format 1 or 2, which has no checksums: damage to its files goes unnoticed."]


def _sample(run: Run) -> list[str]:
    if run.sampled_from is None:
        return []
    return [
        f"The corpus is a sample of {run.sampled_from:,} rows. Recall on a sample does not carry over to the "
        "whole corpus."
    ]


def _asked(lines: list[TrialLine]) -> list[str]:
    queries = _span(len(line.measurement.answers) for line in lines)
    rounds = _span(line.measurement.calls.rounds for line in lines)
    return [f"Queries: {queries}, rounds: {rounds}."]


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _engines(lines: list[TrialLine], names: Naming) -> list[str]:
    versions = {
        name: list(dict.fromkeys(each.measurement.build.version or name for each in members))
        for name, members in _by_engine(lines, names).items()
    }
    found = {name: " and ".join(each) for name, each in versions.items() if each}
    if len(found) == 1:
        return [f"Engine: {next(iter(found.values()))}."]
    listed = ", ".join(name if said == name else f"{name} ({said})" for name, said in found.items())
    return [f"Engines: {listed}."]


def _by_engine(lines: list[TrialLine], names: Naming) -> dict[str, list[TrialLine]]:
    found: dict[str, list[TrialLine]] = {name: [] for name in names.engines}
    for line in lines:
        found[line.trial.engine].append(line)
    return found


def _machine(run: Run) -> str:
    processor, cores = (run.environment.get(name, "unknown") for name in ("processor", "cores"))
    return f"Machine: {processor}, {cores} cores."


def _evidence(lines: list[TrialLine], names: Naming) -> list[str]:
    said = []
    for name, members in _by_engine(lines, names).items():
        if not members:
            continue
        # The setting whose index answered the smallest share of its calls represents its engine.
        ordered = sorted(members, key=lambda line: index_share(line.measurement.exercised))
        texts = list(dict.fromkeys(line.measurement.exercised for line in ordered))
        whose = f", {name}" if len(names.engines) > 1 else ""
        others = counted(len(texts) - 1, "other setting", "other settings")
        more = f" (similar at {others})" if len(texts) > 1 else ""
        if len({index_share(each) for each in texts}) > 1:
            whose += f", lowest at {names.label(ordered[0].trial)}"
            more = f"; up to {index_share(texts[-1]):.1%} at other settings"
        shown = "the engine gives no evidence" if texts[0] is None else cut(texts[0], _LONGEST_EVIDENCE)
        said.append(f"Index use{whose}: {shown}{more}.")
    return said


def index_share(evidence: str | None) -> float:
    """The share of calls that the index answered, as the evidence states it; 1 where it states none."""
    found = _SHARE.search(evidence or "")
    return 1.0 if found is None else float(found[1]) / 100


def _front(run: Run, lines: list[TrialLine]) -> list[str]:
    weighed = prices(lines)
    if not weighed or len(lines) < 2:
        return []
    refused = " Settings that refused more queries than others are not on it." if _differ(lines) else ""
    return [
        f"{FRONT} marks the Pareto front by {headline_measure(run)} and {', '.join(weighed)}, separately for "
        f"each load.{refused}"
    ]


def _differ(lines: list[TrialLine]) -> bool:
    """Whether some settings refused more queries than others."""
    return len({line.refused for line in lines}) > 1


def _margins(lines: list[TrialLine]) -> list[str]:
    """What the margins are; nothing for a run that was saved without intervals."""
    means = [mean for line in lines for mean in line.measurement.score.measures.values()]
    return ["±: 95 % interval over queries."] if any(mean.low is not None for mean in means) else []


def _ties(run: Run, lines: list[TrialLine]) -> list[str]:
    """Strict-id values of the measures that boundary ties change."""
    said = []
    for name in measure_names(run):
        means = [mean for mean in (line.measurement.score.measures.get(name) for line in lines) if mean]
        differ = [mean for mean in means if mean.ids is not None and mean.ids != mean.value]
        if differ and len(lines) > _LISTED:
            said.append(
                f"{name} by strict ids, which breaks ties by row number, differs in {len(differ):,} trials; "
                "--json has all."
            )
        elif differ:
            listed = ", ".join(number(mean.ids, ".4f") for mean in means)
            said.append(f"{name} by strict ids, which breaks ties by row number: {listed}.")
    return said


def _odd(lines: list[TrialLine], names: Naming) -> list[str]:
    return [
        *_refused(lines, names),
        *_each("Answer anomalies at", lines, names, _odd_answers),
        *_each("Answers differ between calls at", lines, names, _changed),
        *_each("Queries never sent at", lines, names, _not_asked),
        *_each("Warm-up did not settle at", lines, names, _unsettled),
    ]


def _each(said: str, lines: list[TrialLine], names: Naming, find: Callable[[TrialLine], str]) -> list[str]:
    """One note per trial in which something was found, up to a readable number."""
    found = [(line, what) for line in lines if (what := find(line))]
    more = len(found) - _LISTED
    notes = [f"{said} {names.label(line.trial)}: {what}." for line, what in found[:_LISTED]]
    return [*notes, f"{said} {more:,} more trials; --json has all."] if more > 0 else notes


def doubts(run: Run, lines: list[TrialLine], names: Naming) -> list[str]:
    """What every reader must know: k beyond the corpus, refused filters, odd answers, missing checksums."""
    return [
        *(each.message for each in run.cautions if each.kind in SHOWN_FIRST),
        *_unchecked(run),
        *_refused(lines, names),
        *_each("Answer anomalies at", lines, names, _odd_answers),
    ]


def _refused(lines: list[TrialLine], names: Naming) -> list[str]:
    """The refused filters of each engine, once where its settings refuse the same, and who answered them."""
    found: dict[tuple[str, str], list[TrialLine]] = {}
    for line in lines:
        if line.measurement.refused is not None:
            said = line.measurement.refused.why_in_words
            found.setdefault((line.trial.engine, said), []).append(line)
    differ = "means not comparable, " if _differ(lines) else ""
    notes = []
    for (engine, said), members in found.items():
        alone = len(members) == 1 < sum(line.trial.engine == engine for line in lines)
        whose = names.label(members[0].trial) if alone else engine
        refused = members[0].measurement.refused
        count = "" if refused is None else refused.count_in_words
        why = cut(said, _LONGEST_MESSAGE)
        notes.append(f"{whose}: {differ}{count}. Its means leave them out. Refused: {why}.")
    return notes


def _odd_answers(line: TrialLine) -> str:
    odd = {kind: count for kind, count in line.measurement.score.anomalies.items() if count}
    return ", ".join(f"{kind} {count:,}" for kind, count in odd.items())


def _changed(line: TrialLine) -> str:
    return f"{line.changed:,} of {len(line.measurement.calls):,} calls" if line.changed else ""


def _not_asked(line: TrialLine) -> str:
    return f"{line.not_asked:,} of {len(line.measurement.answers):,}" if line.not_asked else ""


def _unsettled(line: TrialLine) -> str:
    warm_up = line.measurement.warm_up
    return (
        "" if warm_up is None or warm_up.settled else f"latency still changed after {warm_up.calls:,} calls"
    )


def _time(run: Run) -> list[str]:
    total = sum(run.seconds.values())
    if not total:
        return []
    listed = ", ".join(f"{name} {spent:,.1f} s ({spent / total:.0%})" for name, spent in run.seconds.items())
    return [f"Time spent: {listed}."]


def failures(run: Run, names: Naming) -> list[str]:
    """Each trial that failed, where and why."""
    return [_failure(each, names) for each in run.failures]


def _failure(failure: Failure, names: Naming) -> str:
    return f"{names.label(failure.trial)}: {_reason(failure)}"


def _reason(failure: Failure) -> str:
    message = cut(str(public(" ".join(failure.message.split()))), _LONGEST_MESSAGE)
    what = f"{failure.kind} in {failure.phase}" if failure.phase else failure.kind
    return f"{what}: {message or 'no message'}"


def failure_groups(run: Run, names: Naming) -> list[str]:
    """Each reason once: the first trial that failed for it, and how many others did."""
    groups: dict[str, list[Failure]] = {}
    for each in run.failures:
        groups.setdefault(_reason(each), []).append(each)
    return [
        f"{names.label(found[0].trial)}{f' and {len(found) - 1:,} more' if len(found) > 1 else ''}: {reason}"
        for reason, found in groups.items()
    ]


def cautions(run: Run, without: Sequence[str] = ()) -> list[str]:
    """Each caution with the measured value and its limit, but for some kinds."""
    return [_caution(each) for each in run.cautions if each.kind not in without]


def _caution(caution: Caution) -> str:
    numbers = [
        f"{name} {found:.4g}"
        for name, found in (("measured", caution.value), ("limit", caution.limit))
        if found is not None
    ]
    beside = f" ({', '.join(numbers)})" if numbers else ""
    return f"{caution.kind}: {caution.message}{beside}"


def weighting(weights: Weights | None) -> list[str]:
    """What means are weighted by, and what the queries are worth; empty if all queries count the same."""
    if weights is None:
        return []
    queries = int((weights.values > 0).sum())
    if queries < 2:
        return [f"All means are {weighted_by(weights)}."]
    return [
        f"All means are {weighted_by(weights)}: the {queries:,} queries are worth {weights.effective:,.3g} "
        "of equal weight."
    ]


def progress(run: Run, go_on: str | None) -> list[str]:
    """How many trials are measured, and how to resume; empty for a complete run."""
    if run.complete or run.planned is None:
        return []
    failed = f", {len(run.failures):,} failed" if run.failures else ""
    how = go_on or "the same command"
    measured = len(run.measurements) - len(run.kept)
    return [f"{measured:,} of {len(run.planned):,} trials measured{failed}. Resume with: {how}"]


def kept(run: Run, labels: Naming) -> list[str]:
    """Trials of earlier settings, which the settings of the run no longer name."""
    if not run.kept:
        return []
    named = [labels.label(each) for each in run.kept[:_MOST_KEPT]]
    more = [f"{len(run.kept) - len(named):,} more"] if len(run.kept) > len(named) else []
    return [f"Kept from earlier settings of this run: {', '.join([*named, *more])}."]
