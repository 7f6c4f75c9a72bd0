"""An assessment of answers as a document and as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recallatk.analysis.answer_scores import OTHER_TOOLS
from recallatk.reporting.as_dict import mean_to_dict
from recallatk.reporting.document import Document, Form, Section, Sentences, Table, build_sections
from recallatk.reporting.labels import interval, number
from recallatk.reporting.text import render_text
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.assessment import Assessment
    from recallatk.analysis.distribution import Distribution
    from recallatk.analysis.segments import Segment
    from recallatk.reporting.document import Builders

_SHOWN = 12
_BARS = " ▁▂▃▄▅▆▇█"
_NAMED = 5
# Where the interval's measured coverage falls below 93 %.
_NEAR_ONE, _FEW = 0.97, 500
_ANOMALIES = {
    "missing": "queries that were not answered at all and score 0",
    "short": "queries with fewer answers than there are rows to return",
    "duplicate": "answers that repeat a row of the same query",
    "padding": "answers that are padding (-1 or null)",
    "unknown": "answers that name an id which is not in the corpus",
    "ineligible": "answers that name a row which the query may not return",
    "no_eligible": "queries without any eligible row, which leave the mean",
    "cut_ties": "queries that tie at the boundary with more rows than the truth names, so that recall may be "
    "too low",
}


def assessment_to_text(assessment: Assessment) -> str:
    """The measures, what explains them, and a warning for everything odd."""
    return render_text(Document("", build_sections(SECTIONS, assessment, Form.TEXT)))


def _heading(assessment: Assessment) -> Section:
    score = assessment.score
    lines = [f"{assessment.name}: {counted(score.queries, 'query', 'queries')}, {score.scored:,} scored"]
    if score.sampled_from is not None:
        lines.append(
            f"a corpus sample of {score.sampled_from:,} rows: recall on it does not carry over to all of them"
        )
    return Section("", [Sentences(lines)])


def _measures(assessment: Assessment) -> Section:
    rows = []
    for name, mean in assessment.score.measures.items():
        by_ids = number(mean.ids, ".4f") if mean.ids is not None and mean.ids != mean.value else ""
        rows.append([name, number(mean.value, ".4f"), interval(mean, ".4f"), by_ids, f"{mean.n:,}"])
    return Section("", [Table("", ["measure", "mean", "95 % interval", "by ids", "queries"], rows, 1)])


def _explained(assessment: Assessment) -> Section:
    name = f"recall@{assessment.k}"
    lines = []
    if name in assessment.distribution:
        lines.append(_spread(name, assessment.distribution[name]))
    if name in assessment.at_least:
        lines.append(
            f"{name} is at least {assessment.at_least[name]:.4f} with 95 % confidence (betting bound, the "
            "one to decide by)."
        )
    mean = assessment.score.measures[name]
    if mean.value is not None and mean.value > _NEAR_ONE and mean.n < _FEW:
        lines.append(
            f"So close to 1, {mean.n:,} queries are few: the interval may be too narrow; the bound is not."
        )
    if assessment.planning:
        lines.append(f"{assessment.planning[0].upper()}{assessment.planning[1:]}.")
    if assessment.diagnosis is not None:
        lines.append(f"Diagnosis: {assessment.diagnosis.in_words}")
    return Section("", [Sentences(lines)])


def _spread(name: str, found: Distribution) -> str:
    p1, p5, median = (found.quantiles[each].value for each in ("p1", "p5", "median"))
    most = max(found.histogram)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in found.histogram)
    return (
        f"{name} of single queries: worst {found.least:.2f}, p1 {p1:.2f}, p5 {p5:.2f}, median {median:.2f}; "
        f"{found.zeros.value:.1%} at 0, {found.ones.value:.1%} at 1; from 0 to 1 [{bars}]"
    )


def _relevance(assessment: Assessment) -> Section | None:
    if not assessment.relevance:
        return None
    rows = [
        [name, number(mean.value, ".4f"), interval(mean, ".4f"), f"{mean.n:,}"]
        for name, mean in assessment.relevance.items()
    ]
    header = ["relevance by judgements, not recall@k", "mean", "95 % interval", "queries"]
    return Section("", [Table("", header, rows, 1), Sentences([f"{_relevance_order(assessment)}."])])


def _relevance_order(assessment: Assessment) -> str:
    """How answers are ordered for relevance and for recall@k alike."""
    ties = assessment.score_ties
    if ties is None:
        return "Relevance ranks the answers as recall@k does: in the order of the answers"
    return f"Relevance ranks the answers as recall@k does: by {ties.order}; {OTHER_TOOLS}"


def _segments(assessment: Assessment) -> list[Section]:
    return [_segment_section(name, found) for name, found in assessment.segments.items() if found]


def _segment_section(name: str, found: list[Segment]) -> Section:
    measure = next(iter(found[0].measures))
    rows = []
    for each in found[:_SHOWN]:
        mean = each.measures[measure]
        rows.append([f"  {each.name}", number(mean.value, ".4f"), interval(mean, ".4f"), f"{each.queries:,}"])
    more = len(found) - _SHOWN
    better = [f"  ... and {more:,} better ones; --json has them all"] if more > 0 else []
    header = [f"by {name}", measure, "95 % interval", "queries"]
    return Section("", [Table("", header, rows, 1), Sentences(better)])


def _differences(assessment: Assessment) -> Section:
    return Section("", [Sentences([f"{each.in_words}." for each in assessment.differences])])


def _warnings(assessment: Assessment) -> Section:
    lines = []
    for kind, said in _ANOMALIES.items():
        count = assessment.score.anomalies.get(kind)
        if count:
            names = _names(assessment) if kind == "missing" else ""
            lines.append(f"warning: {said}: {count:,}{names}")
    lines += _tie_warnings(assessment)
    untold = [kind for kind in ("unknown", "ineligible") if assessment.score.anomalies.get(kind) is None]
    if untold:
        lines.append(f"not told: {' and '.join(untold)} ids. Give --corpus and --queries to count them")
    return Section("", [Sentences(lines)])


def _tie_warnings(assessment: Assessment) -> list[str]:
    """Warnings about score ties, which other evaluators may break differently."""
    ties = assessment.score_ties
    found = {} if ties is None else {k: count for k, count in ties.queries.items() if count}
    if ties is None or not found:
        return []
    counts = ", ".join(f"{count:,} at k={k}" for k, count in found.items())
    return [
        f"warning: queries whose answers tie by score at the boundary: {counts}. Answers are ordered by "
        f"{ties.order}; {OTHER_TOOLS}, and may give other values. Write scores with more digits"
    ]


def _names(assessment: Assessment) -> str:
    missing = assessment.score.missing
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return f" ({', '.join(map(str, missing[:_NAMED]))}{more})"


SECTIONS: Builders = (
    (Form.ALL, _heading),
    (Form.ALL, _measures),
    (Form.ALL, _explained),
    (Form.ALL, _relevance),
    (Form.ALL, _segments),
    (Form.ALL, _differences),
    (Form.ALL, _warnings),
)


def assessment_to_dict(assessment: Assessment) -> dict[str, Any]:
    """The same for programs."""
    score = assessment.score
    return {
        "answers": assessment.name,
        "queries": score.queries,
        "scored": score.scored,
        "k": assessment.k,
        "measures": {name: mean_to_dict(mean) for name, mean in score.measures.items()},
        "at_least": dict(assessment.at_least),
        "distribution": {name: _distribution(found) for name, found in assessment.distribution.items()},
        "anomalies": dict(score.anomalies),
        "missing": list(score.missing),
        "segments": {
            name: {each.name: _segment(each) for each in found} for name, found in assessment.segments.items()
        },
        "diagnosis": None if assessment.diagnosis is None else _diagnosis(assessment),
        "planning": assessment.planning or None,
        "relevance": {name: mean_to_dict(mean) for name, mean in assessment.relevance.items()},
        "relevance_order": _relevance_order(assessment) if assessment.relevance else None,
        "score_ties": _score_ties(assessment),
        "comparisons": [{**each._asdict(), "in_words": each.in_words} for each in assessment.differences],
        "sampled_from": score.sampled_from,
    }


def _score_ties(assessment: Assessment) -> dict[str, Any] | None:
    ties = assessment.score_ties
    if ties is None:
        return None
    return {
        "order": ties.order,
        "other_tools": OTHER_TOOLS,
        "queries": {str(k): count for k, count in ties.queries.items()},
    }


def _distribution(found: Distribution) -> dict[str, Any]:
    return {
        "n": found.n,
        "min": found.least,
        **{name: asdict(each) for name, each in found.quantiles.items()},
        "zeros": asdict(found.zeros),
        "ones": asdict(found.ones),
        "histogram": list(found.histogram),
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "queries": segment.queries,
        **{name: mean_to_dict(mean) for name, mean in segment.measures.items()},
    }


def _diagnosis(assessment: Assessment) -> dict[str, Any]:
    assert assessment.diagnosis is not None  # noqa: S101 - asked by the caller
    return {**asdict(assessment.diagnosis), "in_words": assessment.diagnosis.in_words}
