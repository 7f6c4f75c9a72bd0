"""An assessment of answers as a document and as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recallatk.analysis.answer_scores import OTHER_TOOLS
from recallatk.analysis.headline import beyond_corpus, recall_cutoffs
from recallatk.analysis.segments import (
    AUTOMATIC,
    CORRELATION,
    FEW,
    FEW_SAID,
    FEWEST,
    FREQUENCY,
    SELECTIVITY,
)
from recallatk.analysis.weighting import few_effective, scored_weights
from recallatk.reporting.as_dict import mean_to_dict, row_segments_to_dict, weight_to_dict
from recallatk.reporting.document import Document, Form, Section, Sentences, Table, build_sections
from recallatk.reporting.labels import (
    LOWER_BOUND,
    by_grouping,
    number,
    signed_interval,
    weighted_by,
    with_margin,
)
from recallatk.reporting.missed_neighbors import missed_lines, missed_to_dict
from recallatk.reporting.row_segments import row_blocks
from recallatk.reporting.text import for_console, render_text, terminal_width
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.assessment import Assessment
    from recallatk.analysis.comparison import Difference
    from recallatk.analysis.distribution import Distribution
    from recallatk.analysis.segments import Segment
    from recallatk.core import Score
    from recallatk.reporting.document import Builders

_SHOWN = 12
_BARS = " ▁▂▃▄▅▆▇█"
_NAMED = 5
# Where the interval's measured coverage falls below 93 %.
_NEAR_ONE, _FEW = 0.97, 500
_QUERIES, _ANSWERS = ("query", "queries"), ("answer", "answers")
_ANOMALIES = {
    "missing": (*_QUERIES, "without answers, scored 0"),
    "short": (*_QUERIES, "with fewer answers than eligible rows"),
    "duplicate": (*_ANSWERS, "with a row that the same query already has"),
    "padding": (*_ANSWERS, "of padding (-1 or null)"),
    "unknown": (*_ANSWERS, "with an id that is not in the corpus"),
    "ineligible": (*_ANSWERS, "with a row that the query's filter excludes"),
    "no_eligible": (*_QUERIES, "without an eligible row, left out of the mean"),
    "cut_ties": (*_QUERIES, "tied at rank k with more rows than the truth lists: recall may be too low"),
}
_MORE = "--verbose shows"


def assessment_to_text(
    assessment: Assessment,
    *,
    verbose: bool = False,
    width: int | None = None,
    ascii_only: bool | None = None,
) -> str:
    """Scored answers for the terminal: the headline recall, all measures, diagnosis, segments, warnings.

    Args:
        assessment: the scored answers.
        verbose: with the spread over queries, the size of the sample and every grouping.
        width: columns of the terminal; by default those of the current one.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    form = Form.TEXT if verbose else Form.SCREEN
    columns = terminal_width() if width is None else width
    text = render_text(
        Document("", build_sections(SECTIONS, assessment, form)), columns if form is Form.SCREEN else None
    )
    return for_console(text, ascii_only=ascii_only)


def _heading(assessment: Assessment) -> Section:
    score, name = assessment.score, f"recall@{assessment.k}"
    asked = counted(score.queries, "query", "queries")
    scored = "" if score.scored == score.queries else f", {score.scored:,} scored"
    bound = assessment.at_least.get(name)
    at_least = "" if bound is None else f", at least {bound:.3f} with 95 % confidence"
    mean = score.measures[name]
    lines = [f"{name} {with_margin(mean)}{at_least}. {assessment.name}: {asked}{scored}."]
    if score.weights is not None and mean.effective is not None:
        lines.append(
            f"All means are {weighted_by(score.weights)}: the queries are worth {mean.effective:,.3g} of "
            f"equal weight. Unweighted, {name} is {number(mean.unweighted, '.3f')}."
        )
    if score.sampled_from is not None:
        lines.append(
            f"The corpus is a sample of {score.sampled_from:,} rows. Recall on a sample does not carry over "
            "to the whole corpus."
        )
    if score.synthetic:
        lines.append("The filters are synthetic.")
    return Section("", [Sentences(lines)])


def _measures(assessment: Assessment) -> Section:
    rows = []
    for name, mean in assessment.score.measures.items():
        by_ids = "" if mean.ids is None else f"{mean.ids:.3f}"
        # Ties that change no shown digit are not worth a number.
        by_ids = "" if by_ids == number(mean.value, ".3f") else by_ids
        unweighted = "" if mean.effective is None else number(mean.unweighted, ".3f")
        rows.append([name, with_margin(mean), unweighted, by_ids, f"{mean.n:,}"])
    weights = assessment.score.weights
    header = ["measure", f"mean, {weighted_by(weights)}" if weights else "mean", "unweighted", "strict ids"]
    header.append("queries")
    # Columns that say nothing, or the same in every row, are left out.
    kept = [0, 1, *(at for at in (2, 3) if any(row[at] for row in rows))]
    kept += [4] if len({row[4] for row in rows}) > 1 else []
    table = Table("", [header[at] for at in kept], [[row[at] for at in kept] for row in rows], 1)
    legend = [LOWER_BOUND] if assessment.at_least else []
    return Section("", [table, Sentences([*legend, *_unreached(assessment)])])


def _unreached(assessment: Assessment) -> list[str]:
    """The default values of k that were left out for lack of answers."""
    beyond = assessment.score.unreached
    if not beyond:
        return []
    names, listed = ", ".join(f"recall@{k}" for k in beyond), ",".join(map(str, beyond))
    return [f"{names} left out: no query has that many answers. To score anyway: --at {listed}"]


def _explained(assessment: Assessment) -> Section:
    """The spread of recall over queries, and the diagnosis."""
    name = f"recall@{assessment.k}"
    lines = []
    if name in assessment.distribution:
        lines.append(_spread(name, assessment.distribution[name]))
    if assessment.diagnosis is not None:
        lines.append(f"Diagnosis: {assessment.diagnosis.in_words}")
    mean = assessment.score.measures[name]
    if mean.value is not None and mean.value > _NEAR_ONE and mean.n < _FEW:
        lines.append(
            f"With recall this close to 1, {mean.n:,} queries are few: the ± may be too narrow. Decide by "
            "the lower bound."
        )
    return Section("", [Sentences(lines)])


def _planning(assessment: Assessment) -> Section | None:
    if not assessment.planning:
        return None
    return Section("", [Sentences([f"{assessment.planning[0].upper()}{assessment.planning[1:]}."])])


def _spread(name: str, found: Distribution) -> str:
    p1, p5, median = (found.quantiles[each].value for each in ("p1", "p5", "median"))
    most = max(found.histogram)
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in found.histogram)
    return (
        f"{name} per query: worst {found.least:.2f}, p1 {p1:.2f}, p5 {p5:.2f}, median {median:.2f}; "
        f"{found.zeros.value:.1%} at 0, {found.ones.value:.1%} at 1; histogram from 0 to 1 [{bars}]"
    )


def _relevance(assessment: Assessment) -> Section | None:
    if assessment.judged is None:
        return None
    judged = assessment.judged
    rows = [[name, with_margin(mean), f"{mean.n:,}"] for name, mean in judged.means.items()]
    header = ["judged relevance", "mean", "queries"]
    said = [f"{_relevance_order(assessment)}."]
    if judged.exact:
        header = ["judged relevance", "mean", "exact search", "lost"]
        rows = [
            [name, mean, with_margin(judged.exact[name]), signed_interval(judged.lost[name])]
            for name, mean, _ in rows
        ]
        count = counted(next(iter(judged.means.values())).n, "judged query", "judged queries")
        said.append(f"Lost: exact search minus the answers over the same {count}, with a 95 % interval.")
    said += [f"{note[:1].upper()}{note[1:]}." for note in judged.notes]
    return Section("", [Table("", header, rows, 1), Sentences(said)])


def _relevance_order(assessment: Assessment) -> str:
    """How answers are ordered for relevance and for recall@k alike."""
    ties = assessment.score_ties
    if ties is None:
        return "Judged relevance uses the order of the answers, like recall@k"
    return f"Judged relevance orders answers by {ties.order}, like recall@k; {OTHER_TOOLS}"


def _segments(assessment: Assessment) -> list[Section]:
    return [_segment_section(name, found) for name, found in assessment.segments.items() if found]


def _named_segments(assessment: Assessment) -> list[Section]:
    """The groupings that the user named, those by filter, and frequency; --verbose has the others."""
    shown = {
        name: found
        for name, found in assessment.segments.items()
        if found and (name not in AUTOMATIC or name in (SELECTIVITY, CORRELATION, FREQUENCY))
    }
    more = [name for name in assessment.segments if name not in shown]
    sections = [_segment_section(name, found) for name, found in shown.items()]
    note = [f"{_MORE} segments by {', '.join(more)}."] if more else []
    return [*sections, Section("", [Sentences(note)])]


def _segment_section(name: str, found: list[Segment]) -> Section:
    measure = next(iter(found[0].measures))
    rows = []
    for each in found[:_SHOWN]:
        mean = each.measures[measure]
        unweighted = [] if mean.effective is None else [number(mean.unweighted, ".3f")]
        mark = f" {FEW}" if mean.n < FEWEST else ""
        rows.append([f"  {each.name}{mark}", with_margin(mean), *unweighted, f"{mean.n:,}"])
    more = len(found) - _SHOWN
    few = any(each.measures[measure].n < FEWEST for each in found[:_SHOWN])
    better = [f"  {more:,} more segments are not shown; --json has all"] if more > 0 else []
    better = [*([f"  {FEW_SAID}"] if few else []), *better]
    weighted = any(each.measures[measure].effective is not None for each in found)
    # A segment in which no query counts has no effective number.
    rows = [row if len(row) == 4 or not weighted else [*row[:2], "-", row[2]] for row in rows]
    header = [by_grouping(name), measure, *(["unweighted"] if weighted else []), "queries"]
    return Section("", [Table("", header, rows, 1), Sentences(better)])


def _rows(assessment: Assessment) -> Section | None:
    """True neighbors found by corpus column, and the rows that are lost."""
    return None if assessment.rows is None else Section("", row_blocks(assessment.rows))


def _missed(assessment: Assessment) -> Section | None:
    """Which missed neighbors mattered."""
    return None if assessment.missed is None else Section("", [Sentences(missed_lines(assessment.missed))])


def _differences(assessment: Assessment) -> Section:
    return Section("", [Sentences([f"{each.in_words}." for each in assessment.differences])])


def _main_relevance_differences(assessment: Assessment) -> Section:
    """Differences of the first measure of relevance; --verbose has the others."""
    return _relevance_differences(assessment, 1)


def _relevance_differences(assessment: Assessment, most: int | None = None) -> Section:
    found = {} if assessment.judged is None else assessment.judged.differences
    lines = [f"{name}: {each.in_words}." for name in list(found)[:most] for each in found[name]]
    return Section("", [Sentences(lines)])


def _warnings(assessment: Assessment) -> Section:
    lines = [f"warning: {each}" for each in anomaly_lines(assessment.score)]
    lines += _tie_warnings(assessment)
    large = beyond_corpus(recall_cutoffs(assessment.score.measures), assessment.corpus_rows)
    lines += [f"note: {large}"] if large else []
    few = few_effective(scored_weights(assessment.score))
    lines += [] if few is None else [f"warning: {few.message}"]
    return Section("", [Sentences([*lines, *unchecked_lines(assessment.score)])])


def anomaly_lines(score: Score) -> list[str]:
    """A sentence for each kind of anomaly that the answers have."""
    lines = []
    for kind, (one, several, said) in _ANOMALIES.items():
        count = score.anomalies.get(kind)
        if count:
            names = _names(score) if kind == "missing" else ""
            lines.append(f"{counted(count, one, several)} {said}{names}")
    return lines


def unchecked_lines(score: Score) -> list[str]:
    """The anomalies that could not be counted, and what is needed to count them."""
    unchecked = [kind for kind in ("unknown", "ineligible") if score.anomalies.get(kind) is None]
    if not unchecked:
        return []
    return [f"not checked: {' and '.join(unchecked)} ids. Give --corpus and --queries to count them"]


def _tie_warnings(assessment: Assessment) -> list[str]:
    """Warnings about score ties, which other evaluators may break differently."""
    ties = assessment.score_ties
    found = {} if ties is None else {k: count for k, count in ties.queries.items() if count}
    if ties is None or not found:
        return []
    counts = ", ".join(f"{count:,} at k={k}" for k, count in found.items())
    return [
        f"warning: answers tie by score at rank k: {counts} queries. Answers are ordered by {ties.order}; "
        f"{OTHER_TOOLS}, and may report other values. Write scores with more digits"
    ]


def _names(score: Score) -> str:
    missing = score.missing
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return f" ({', '.join(map(str, missing[:_NAMED]))}{more})"


SECTIONS: Builders = (
    (Form.ALL, _heading),
    (Form.ALL, _measures),
    (Form.ALL, _explained),
    (Form.ALL, _missed),
    (Form.TEXT, _planning),
    (Form.ALL, _relevance),
    (Form.SCREEN, _named_segments),
    (Form.TEXT, _segments),
    (Form.ALL, _rows),
    (Form.ALL, _differences),
    (Form.SCREEN, _main_relevance_differences),
    (Form.TEXT, _relevance_differences),
    (Form.ALL, _warnings),
)


def assessment_to_dict(assessment: Assessment) -> dict[str, Any]:
    """The assessment as plain values, for JSON."""
    score = assessment.score
    return {
        "answers": assessment.name,
        "queries": score.queries,
        "scored": score.scored,
        "k": assessment.k,
        **weight_to_dict(scored_weights(score)),
        "measures": {name: mean_to_dict(mean) for name, mean in score.measures.items()},
        "at_least": dict(assessment.at_least),
        "distribution": {name: _distribution(found) for name, found in assessment.distribution.items()},
        "anomalies": dict(score.anomalies),
        "missing": list(score.missing),
        "segments": {
            name: {each.name: _segment(each) for each in found} for name, found in assessment.segments.items()
        },
        "by_row": None if assessment.rows is None else row_segments_to_dict(assessment.rows),
        "diagnosis": None if assessment.diagnosis is None else _diagnosis(assessment),
        "missed": None if assessment.missed is None else missed_to_dict(assessment.missed),
        "planning": assessment.planning or None,
        "relevance": {name: mean_to_dict(mean) for name, mean in assessment.relevance.items()},
        **_judged(assessment),
        "relevance_order": _relevance_order(assessment) if assessment.relevance else None,
        "score_ties": _score_ties(assessment),
        "comparisons": [_comparison(each) for each in assessment.differences],
        "corpus_rows": assessment.corpus_rows,
        "sampled_from": score.sampled_from,
        "synthetic_filters": score.synthetic,
        "unreached": list(score.unreached),
    }


def _judged(assessment: Assessment) -> dict[str, Any]:
    """Exact search, what the answers lose against it, and other answers, by measure of relevance."""
    judged = assessment.judged
    if judged is None:
        return {}
    return {
        "relevance_exact": {name: mean_to_dict(mean) for name, mean in judged.exact.items()},
        "relevance_lost": {name: asdict(each) for name, each in judged.lost.items()},
        "relevance_comparisons": {
            name: [_comparison(each) for each in found] for name, found in judged.differences.items()
        },
        "relevance_notes": list(judged.notes),
    }


def _comparison(difference: Difference) -> dict[str, Any]:
    found = {**difference._asdict(), "in_words": difference.in_words}
    if difference.unweighted is None:
        del found["unweighted"]
    return found


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
