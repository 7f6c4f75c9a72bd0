"""Assessed stages of a retrieval path as a document and as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recallatk.analysis.relevance import CUTOFF
from recallatk.analysis.segments import FEW, FEW_SAID, FEWEST
from recallatk.analysis.staged_assessment import EXACT
from recallatk.analysis.weighting import few_effective
from recallatk.reporting.as_dict import mean_to_dict, weight_to_dict
from recallatk.reporting.assessment import anomaly_lines, unchecked_lines
from recallatk.reporting.document import Document, Form, Section, Sentences, Table, build_sections
from recallatk.reporting.labels import OVER_QUERIES, by_grouping, number, weighted_by, with_margin
from recallatk.reporting.text import for_console, render_text, terminal_width
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.distribution import Estimate
    from recallatk.analysis.staged_assessment import StagedAssessment, StageSegment
    from recallatk.analysis.stages import ListDepth, StagedRecall, StageResult
    from recallatk.reporting.document import Builders

_SHOWN = 12


def stages_to_text(
    assessment: StagedAssessment,
    *,
    verbose: bool = False,
    width: int | None = None,
    ascii_only: bool | None = None,
) -> str:
    """Assessed stages for the terminal: the loss of each stage, tables, relevance, segments and warnings.

    Args:
        assessment: the assessed stages.
        verbose: with every segment.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    form = Form.TEXT if verbose else Form.SCREEN
    document = Document("", build_sections(SECTIONS, assessment, form))
    columns = terminal_width() if width is None else width
    return for_console(render_text(document, columns), ascii_only=ascii_only)


def _heading(assessment: StagedAssessment) -> Section:
    score, found = assessment.last, assessment.at[assessment.k]
    asked = counted(score.queries, "query", "queries")
    scored = "" if score.scored == score.queries else f", {score.scored:,} scored"
    lines = [
        f"recall@{found.k} after {found.last.name} {with_margin(found.last.recall)}: "
        f"{loss_in_words(found)}. {asked}{scored}."
    ]
    mean = found.last.recall
    if assessment.weights is not None and mean.effective is not None:
        lines.append(
            f"All means are {weighted_by(assessment.weights)}: the queries are worth {mean.effective:,.3g} "
            f"of equal weight. Unweighted, recall@{found.k} is {number(mean.unweighted, '.3f')}."
        )
    if score.sampled_from is not None:
        lines.append(
            f"The corpus is a sample of {score.sampled_from:,} rows. Recall on a sample does not carry over "
            "to the whole corpus."
        )
    if score.synthetic:
        lines.append("The filters are synthetic.")
    return Section("", [Sentences(lines)])


def loss_in_words(found: StagedRecall) -> str:
    """The share of the true top k that each stage lost, such as `lost at ann 0.031, at rerank 0.012`."""
    return "lost " + ", ".join(f"at {each.name} {with_margin(each.lost)}" for each in found.stages)


def _tables(assessment: StagedAssessment) -> list[Section]:
    tables = [Section("", [stages_table(found)]) for found in assessment.at.values()]
    last = assessment.at[assessment.k].last.name
    legend = (
        f"{OVER_QUERIES} In its list: the share of the true top k anywhere in the stage's list. Dropped and "
        "gained compare a stage with the one before, query by query. A missed neighbor is lost at the first "
        f"stage without it; losses add up to 1 - recall of {last}."
    )
    return [*tables[:-1], Section("", [*tables[-1].blocks, Sentences([legend])])]


def stages_table(found: StagedRecall) -> Table:
    """One line per stage at one k."""
    header = ["stage", "candidates", "in its list", f"recall@{found.k}", "dropped", "gained", "lost"]
    return Table("", header, [_line(each) for each in found.stages], 1)


def _line(stage: StageResult) -> list[str]:
    return [
        stage.name,
        _depth(stage.candidates),
        with_margin(stage.contained),
        with_margin(stage.recall),
        with_margin(stage.dropped),
        _signed(stage.gained),
        with_margin(stage.lost),
    ]


def _depth(candidates: ListDepth) -> str:
    """The median, with the range where queries differ."""
    shown = f"{candidates.median:,g}"
    if candidates.least == candidates.most:
        return shown
    return f"{shown} ({candidates.least:,} to {candidates.most:,})"


def _signed(found: Estimate | None) -> str:
    """A difference with its sign; one that rounds to 0 has none."""
    if found is None:
        return "-"
    shown = with_margin(found)
    if not float(shown.partition(" ")[0]):
        return shown.removeprefix("-")
    return shown if shown.startswith("-") else f"+{shown}"


def _relevance(assessment: StagedAssessment) -> Section | None:
    if not assessment.relevance:
        return None
    names = list(next(iter(assessment.relevance.values())))
    judged = next(iter(next(iter(assessment.relevance.values())).values())).n
    rows = [
        [who, *(with_margin(found[name]) for name in names)] for who, found in assessment.relevance.items()
    ]
    lines = [f"Judged relevance of {counted(judged, 'query', 'queries')} with judgments."]
    if EXACT not in assessment.relevance:
        lines.append(f"Exact search is left out: the truth is not {CUTOFF} deep.")
    return Section("", [Table("", ["judged relevance", *names], rows, 1), Sentences(lines)])


def _segments(assessment: StagedAssessment) -> list[Section]:
    return [
        _segment_section(assessment, name, found, len(found)) for name, found in assessment.segments.items()
    ]


def _first_segments(assessment: StagedAssessment) -> list[Section]:
    return [_segment_section(assessment, name, found, _SHOWN) for name, found in assessment.segments.items()]


def _segment_section(
    assessment: StagedAssessment, name: str, found: list[StageSegment], shown: int
) -> Section:
    stages = list(assessment.scores)
    header = [by_grouping(name), f"recall@{assessment.k}", *(f"lost at {each}" for each in stages), "queries"]
    rows = [
        [
            f"  {each.name}{f' {FEW}' if each.recall.n < FEWEST else ''}",
            with_margin(each.recall),
            *(with_margin(each.lost[stage]) for stage in stages),
            f"{each.recall.n:,}",
        ]
        for each in found[:shown]
    ]
    lines = [f"  {FEW_SAID}"] if any(each.recall.n < FEWEST for each in found[:shown]) else []
    more = len(found) - shown
    lines += [f"  {more:,} more segments are not shown; --verbose and --json have all"] if more > 0 else []
    return Section("", [Table("", header, rows, 1), Sentences(lines)])


def _warnings(assessment: StagedAssessment) -> Section:
    found = assessment.at[assessment.k]
    names = list(assessment.scores)
    lines = [
        f"warning: {_added(assessment, each, before)}"
        for before, each in zip(names, found.stages[1:], strict=False)
        if each.added is not None and each.added.count
    ]
    for name, score in assessment.scores.items():
        lines += [f"warning: {name}: {each}" for each in anomaly_lines(score)]
    few = few_effective(assessment.weights)
    lines += [f"warning: {few}"] if few else []
    return Section("", [Sentences([*lines, *unchecked_lines(assessment.last)])])


def _added(assessment: StagedAssessment, stage: StageResult, before: str) -> str:
    added = stage.added
    assert added is not None  # noqa: S101 - asked by the caller
    some = ", ".join(f"{row} for query {query}" for query, row in assessment.added[stage.name])
    more = ", …" if added.count > len(assessment.added[stage.name]) else ""
    rows = counted(added.count, "row", "rows")
    queries = counted(added.queries, "query", "queries")
    return (
        f"{stage.name} returned {rows} that {before} did not pass on, for {queries} ({some}{more}). Either "
        f"the list of {before} is incomplete, or {stage.name} searches on its own"
    )


SECTIONS: Builders = (
    (Form.ALL, _heading),
    (Form.ALL, _tables),
    (Form.ALL, _relevance),
    (Form.SCREEN, _first_segments),
    (Form.TEXT, _segments),
    (Form.ALL, _warnings),
)


def stages_to_dict(assessment: StagedAssessment) -> dict[str, Any]:
    """Assessed stages as plain values, for JSON."""
    last = assessment.last
    return {
        "stages": list(assessment.scores),
        "queries": last.queries,
        "scored": last.scored,
        "k": assessment.k,
        **weight_to_dict(assessment.weights),
        "at": {str(k): staged_recall_to_dict(found) for k, found in assessment.at.items()},
        "added": {
            name: [{"query": query, "id": row} for query, row in some]
            for name, some in assessment.added.items()
        },
        "segments": {
            name: {each.name: _segment(each) for each in found} for name, found in assessment.segments.items()
        },
        "relevance": {
            who: {name: mean_to_dict(mean) for name, mean in found.items()}
            for who, found in assessment.relevance.items()
        },
        "anomalies": {name: dict(score.anomalies) for name, score in assessment.scores.items()},
        "missing": {name: list(score.missing) for name, score in assessment.scores.items()},
        "sampled_from": last.sampled_from,
        "synthetic_filters": last.synthetic,
    }


def staged_recall_to_dict(found: StagedRecall) -> list[dict[str, Any]]:
    """The stages at one k, first stage first."""
    return [
        {
            "stage": each.name,
            "candidates": asdict(each.candidates),
            "contained": {"measure": each.within, **mean_to_dict(each.contained)},
            "recall": {"measure": f"recall@{found.k}", **mean_to_dict(each.recall)},
            "lost": mean_to_dict(each.lost),
            "dropped": None if each.dropped is None else asdict(each.dropped),
            "gained": None if each.gained is None else asdict(each.gained),
            "added": None
            if each.added is None
            else {"rows": each.added.count, "queries": each.added.queries},
        }
        for each in found.stages
    ]


def _segment(segment: StageSegment) -> dict[str, Any]:
    return {
        "queries": segment.queries,
        "recall": mean_to_dict(segment.recall),
        "lost": {name: mean_to_dict(mean) for name, mean in segment.lost.items()},
    }
