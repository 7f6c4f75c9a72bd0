"""Stages of measured paths, as people and programs read them: lists, times, losses, and rerank advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import headline_measure
from recallatk.analysis.latency import percentiles
from recallatk.analysis.path_stages import path_summary
from recallatk.core.judgments import Outcome
from recallatk.goals.evaluation import evaluate
from recallatk.goals.runs import TrialEvidence, goals_of, trial_numbers
from recallatk.goals.target import Target
from recallatk.redaction import public
from recallatk.reporting.document import Document, Items, Section, Sentences, Table
from recallatk.reporting.labels import cut, naming, number, with_margin
from recallatk.reporting.text import for_console, render_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from recallatk.analysis.path_stages import PathSummary, StageSummary
    from recallatk.core import Mean, Measurement, Run, Trial
    from recallatk.reporting.document import Block
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.run_report import RunReport

TITLE = "Stages"
_CANDIDATES = ("oversample", "depth")
_LONGEST_TITLE = 76
_HEADER = ["Stage", "Rows", "Contained", "Own recall", "p50 ms", "Time"]
_EXPLAINED = (
    "Contained: the share of the path's true top k in the list of the stage. Own recall: against what the "
    "stage returns with exact inputs."
)
_FUSED = (
    "{}: its truth is its own fusion and reranking of exact lists, so its recall is not comparable with that "
    "of other engines"
)
_UNKNOWN = (
    "{}: the lists of its stages are not stored, so which neighbors it missed is not known. If files of the "
    "run are lost, run the same command again: this setting is measured anew"
)


def stages(report: RunReport) -> Section | None:
    """Every path with its stages at every setting, losses and rerank advice; None without paths."""
    found = _summaries(report.run)
    if not found:
        return _without(report)
    said = Sentences([_EXPLAINED, *_covered(found)])
    return Section(TITLE, [said, *_tables(found, report.labels), *_notes(found, report)])


def stages_page(report: RunReport) -> Section | None:
    """The same with one table, which a page can show."""
    found = _summaries(report.run)
    if not found:
        return _without(report)
    said = Sentences([_EXPLAINED, *_covered(found)])
    blocks: list[Block] = [said, _table(found, report.labels), *_notes(found, report)]
    return Section(TITLE, blocks, "stages", "Stages")


def stages_in_brief(report: RunReport) -> Section | None:
    """The stages of the best setting of each path, and the advice."""
    found = _summaries(report.run)
    if not found:
        return _without(report)
    best = _best(report.run, found)
    # Of the ladders of candidates, those with a shown setting; verbose text has all.
    return Section(TITLE, [*_tables(best, report.labels), *_notes(best, report)])


def stages_to_dict(measurement: Measurement) -> dict[str, Any] | None:
    """The stages of a trial as JSON can hold them; None for an engine without stages."""
    found = path_summary(measurement)
    if found is None:
        return None
    plain: dict[str, Any] = public(
        {
            "k": found.k,
            "fused_truth": found.fused,
            "covered": found.covered,
            "stages": [
                {
                    "name": each.name,
                    "candidates": each.candidates,
                    "contained": _ends(each.contained),
                    "recall": None if each.recall is None else _ends(each.recall),
                    "p50_ms": each.p50_ms,
                    "p95_ms": each.p95_ms,
                    "share": each.share,
                }
                for each in found.stages
            ],
            "lost": [{"cause": name, **_ends(mean)} for name, mean in found.lost.items()],
        }
    )
    return plain


def stages_to_text(run: Run, trial: int | None = None) -> str:
    """The stages of all paths of a run, or of one trial, for the terminal."""
    labels, found = naming(run), _of_trial(run, trial)
    lost = [line for each in found if (line := _losses(each, labels))]
    blocks: list[Block] = [Sentences([_EXPLAINED]), *_tables(found, labels), Items(lost, "lost")]
    return for_console(render_text(Document("", [Section(TITLE, blocks)]), None))


def path_losses_to_dict(run: Run, trial: int | None = None) -> list[dict[str, Any]]:
    """The stages of all paths of a run, or of one trial, as JSON can hold them."""
    numbers = trial_numbers(run)
    found = [each for each in run.measurements if trial in (None, numbers[each.trial])]
    return [
        {"trial": numbers[each.trial], "setting": public(str(each.trial)), **plain}
        for each in found
        if (plain := stages_to_dict(each)) is not None
    ]


def _of_trial(run: Run, trial: int | None) -> list[PathSummary]:
    numbers = trial_numbers(run)
    return [each for each in _summaries(run) if trial in (None, numbers[each.trial])]


def _ends(mean: Mean) -> dict[str, float | None]:
    return {"value": mean.value, "low": mean.low, "high": mean.high}


def _summaries(run: Run) -> list[PathSummary]:
    return [found for each in run.measurements if (found := path_summary(each)) is not None]


def _covered(found: Sequence[PathSummary]) -> list[str]:
    """How much of the latency the stages account for; the rest is the call around them."""
    shares = [each.covered for each in found if each.covered is not None]
    if not shares:
        return []
    low, high = (f"{100 * each:.0f}" for each in (min(shares), max(shares)))
    return [f"The stages add up to {low if low == high else f'{low} to {high}'} % of the latency."]


def _best(run: Run, found: Sequence[PathSummary]) -> list[PathSummary]:
    """Of each path, the setting with the highest recall."""
    measure = headline_measure(run)
    recalls = {each.trial: _recall(each, measure) for each in run.measurements}
    best: dict[str, PathSummary] = {}
    for each in found:
        name = each.trial.engine
        if name not in best or recalls[each.trial] > recalls[best[name].trial]:
            best[name] = each
    return list(best.values())


def _recall(measurement: Measurement, measure: str | None) -> float:
    mean = measurement.score.measures.get(measure or "")
    return -1.0 if mean is None or mean.value is None else mean.value


def _tables(found: Sequence[PathSummary], labels: Naming) -> Iterator[Table]:
    """One table per setting, narrow enough for a terminal."""
    for each in found:
        title = cut(labels.label(each.trial), _LONGEST_TITLE)
        yield Table(title, _HEADER, [_cells(stage) for stage in each.stages], 1)


def _table(found: Sequence[PathSummary], labels: Naming) -> Table:
    rows = [
        [labels.label(each.trial) if not place else "", *_cells(stage)]
        for each in found
        for place, stage in enumerate(each.stages)
    ]
    return Table(TITLE, ["Setting", *_HEADER], rows, 2)


def _cells(stage: StageSummary) -> list[str]:
    share = None if stage.share is None else 100 * stage.share
    return [
        stage.name,
        f"{stage.candidates:g}",
        with_margin(stage.contained),
        with_margin(stage.recall),
        number(stage.p50_ms, ".3f"),
        number(share, ".0f", "%"),
    ]


def _notes(found: Sequence[PathSummary], report: RunReport) -> Iterator[Block]:
    lost = [line for each in found if (line := _losses(each, report.labels))]
    if lost:
        yield Items(lost, "lost")
    advice = list(_advice(report, {each.trial for each in found}))
    if advice:
        yield Items(advice, "candidates")
    fused = [_FUSED.format(name) for name in dict.fromkeys(each.trial.engine for each in found if each.fused)]
    fused += _unknown(report)
    if fused:
        yield Items(fused, "note")


def _without(report: RunReport) -> Section | None:
    """The trials whose stages are lost; None if no stages are known at all."""
    unknown = _unknown(report)
    return Section(TITLE, [Items(unknown, "note")], "stages", "Stages") if unknown else None


def _unknown(report: RunReport) -> list[str]:
    """One sentence for each trial of a path whose truth was not stored or is lost."""
    lost = [each for each in report.run.measurements if each.truth_lost]
    return [_UNKNOWN.format(report.labels.label(each.trial)) for each in lost]


def _losses(found: PathSummary, labels: Naming) -> str:
    """What was lost where, largest first; empty if nothing was."""
    shares = sorted(found.lost.items(), key=lambda each: each[1].value or 0.0, reverse=True)
    said = [f"{with_margin(mean)} at {name}" for name, mean in shares if mean.value]
    return f"{labels.label(found.trial)}: {', '.join(said)}" if said else ""


def _advice(report: RunReport, shown: Collection[Trial]) -> Iterator[str]:
    """For each path, the fewest candidates that meet the target, and their price, near shown settings."""
    run, labels = report.run, report.labels
    targets = [each for each in goals_of(run).goals if isinstance(each, Target)]
    numbers = trial_numbers(run)
    for others, points in _ladders(run):
        if not any(each.trial in shown for _, each in points):
            continue
        met = [each for _, each in points if targets and _meets(each, targets)]
        first, last = points[0][1], points[-1][1]
        if met:
            yield (
                f"{labels.label(met[0].trial)} is the smallest number of candidates that meets "
                f"{' and '.join(map(str, targets))} with its bound: {_price(met[0], run)}"
            )
        elif targets and numbers:
            yield f"{others}: no measured number of candidates meets {' and '.join(map(str, targets))}"
        elif len(points) > 1:
            yield f"{others}: {_price(first, run)}; {_price(last, run)}"


def _meets(measurement: Measurement, targets: Sequence[Target]) -> bool:
    found = evaluate(targets, TrialEvidence(measurement, {}))
    return all(each.outcome is Outcome.MET for each in found)


def _ladders(run: Run) -> Iterator[tuple[str, list[tuple[float, Measurement]]]]:
    """Trials of a path that differ only in one number of candidates, by that number."""
    groups: dict[Any, list[tuple[float, Measurement]]] = {}
    names: dict[Any, str] = {}
    staged = [each for each in run.candidates if each.stages is not None]
    several = _several_valued(staged)
    for each in staged:
        knobs = [name for name, _ in each.trial.search if name.rpartition(".")[2] in _CANDIDATES]
        for knob in knobs:
            rest = tuple(pair for pair in each.trial.search if pair[0] != knob)
            key = (each.trial.engine, each.trial.build, rest, each.trial.load, each.trial.repeat, knob)
            groups.setdefault(key, []).append((float(dict(each.trial.search)[knob]), each))
            same = ", ".join(
                f"{name}={value}" for name, value in rest if (each.trial.engine, name) in several
            )
            names[key] = f"{each.trial.engine}{f' {same}' if same else ''}, {knob}"
    for key, points in groups.items():
        if len(points) > 1:
            yield names[key], sorted(points, key=lambda point: point[0])


def _several_valued(measured: Sequence[Measurement]) -> set[tuple[str, str]]:
    """The search parameters with more than one value, by path."""
    values: dict[tuple[str, str], set[str]] = {}
    for each in measured:
        for name, value in each.trial.search:
            values.setdefault((each.trial.engine, name), set()).add(str(value))
    return {key for key, found in values.items() if len(found) > 1}


def _price(measurement: Measurement, run: Run) -> str:
    """Recall and latency of a setting with its number of candidates."""
    measure = headline_measure(run) or ""
    knobs = [
        f"{name}={value}"
        for name, value in measurement.trial.search
        if name.rpartition(".")[2] in _CANDIDATES
    ]
    p95 = percentiles(measurement.calls)["p95"].value
    recall = with_margin(measurement.score.measures.get(measure))
    return f"{', '.join(knobs)} has {measure} {recall} at p95 {number(p95, '.3f', 'ms')}"
