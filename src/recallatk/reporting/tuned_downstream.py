"""What the choice of a tuning loses downstream against exact search: one line, or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.distribution import Estimate
from recallatk.analysis.downstream import headlines
from recallatk.reporting.document import Items, Section, Sentences, Table
from recallatk.reporting.labels import OVER_QUERIES, signed_interval, with_margin
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.core.tuned import ChoiceQuality, Tuned
    from recallatk.reporting.tuned import TunedReport

TITLE = "Downstream quality"


def in_brief(report: TunedReport) -> Section | None:
    """The verdict on each headline measure, in one line."""
    names = headlines([each.measure for each in report.tuned.downstream])
    found = [each for each in report.tuned.downstream if each.measure in names]
    return Section("", [Sentences([f"downstream: {_in_words(each)}." for each in found])])


def whole(report: TunedReport) -> Section | None:
    """Every measure of the choice beside exact search, with the paired difference."""
    tuned = report.tuned
    notes = [f"{each[:1].upper()}{each[1:]}." for each in tuned.downstream_notes]
    if not tuned.downstream:
        return Section(TITLE, [Sentences(notes)]) if notes else None
    rows = [
        [each.measure, with_margin(each.exact), with_margin(each.choice), signed_interval(_lost(each))]
        for each in tuned.downstream
    ]
    blocks = [
        Items([f"{_in_words(each)}." for each in tuned.downstream]),
        Table(TITLE, ["Measure", "exact search", "choice", "lost"], rows, 1),
        Sentences([_about(tuned)], "note"),
        Items(notes, "note"),
    ]
    return Section(TITLE, blocks, "downstream", "Downstream")


def _in_words(found: ChoiceQuality) -> str:
    """What the choice loses by one measure, without a period."""
    if found.exact.value is None or found.choice.value is None:
        return f"{found.measure} is unknown: no held-out query was judged"
    means = f"{found.measure} {found.choice.value:.3f} against {found.exact.value:.3f} with exact search"
    queries = counted(found.choice.n, "query", "queries")
    if found.low is None or found.high is None:
        return f"{means}: {queries} with judgments are too few to tell whether anything is lost"
    if found.low > 0:
        return f"{means}: {found.lost:.2g} [{found.low:.2g}, {found.high:.2g}] is lost over {queries}"
    if found.high < 0:
        return f"{means}: nothing is lost over {queries}"
    return f"{means}: no loss is measurable over {queries}, and {max(found.high, 0.0):.2g} is possible"


def _lost(found: ChoiceQuality) -> Estimate:
    return Estimate(found.lost, found.low, found.high)


def _about(tuned: Tuned) -> str:
    judged = counted(tuned.downstream[0].choice.n, "held-out query", "held-out queries")
    return (
        f"Over {judged} with judgments, which had no part in the choice. Lost is exact search minus the "
        f"choice, query by query. {OVER_QUERIES}"
    )
