"""Where recall was lost, as people and programs read it: a table of causes, remedies, notes, JSON."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from recallatk.bench.trial_losses import losses_of
from recallatk.core.losses import Cause
from recallatk.redaction import public
from recallatk.reporting.document import Document, Items, Section, Sentences, Table
from recallatk.reporting.labels import fitted, naming, with_margin
from recallatk.reporting.text import columns_taken, for_console, render_text, terminal_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Mean, Run
    from recallatk.core.losses import Remedy, TrialLoss
    from recallatk.reporting.document import Block
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.run_report import RunReport

TITLE = "Where recall was lost"
# A terminal at a glance has room for this many trials, those that lost most.
_BRIEF = 3
# Lengths of settings that a narrow terminal tries in turn.
_SETTINGS = (40, 24, 16)
_BY_CAUSE = "Trial and setting"
_MEANINGS = {
    Cause.MISSING: "the index does not have the row",
    Cause.RANKING: "the search reached the row and ranked it below k (quantization, rerank depth)",
    Cause.FILTER: "the same search finds the row without the filter",
    Cause.EFFORT: "the search finds the row at full effort",
    Cause.BUILD: "the search does not find the row at full effort",
    Cause.UNATTRIBUTED: "the evidence does not decide",
}


def losses(report: RunReport) -> Section | None:
    """Every trial with its causes, remedies and notes; None without evidence."""
    found = losses_of(report.run)
    if not found:
        return None
    return Section(TITLE, _blocks(found, report.labels), "losses", "Losses")


def losses_in_brief(report: RunReport) -> Section | None:
    """The trials that lost most, in as much as a terminal shows at a glance."""
    found = sorted(losses_of(report.run), key=_lost, reverse=True)[:_BRIEF]
    lines = [f"lost: {_sentence(each, report.labels)}" for each in found if each.remedy is not None]
    return Section("", [Sentences(lines)])


def losses_to_text(run: Run, found: Sequence[TrialLoss], width: int | None = None) -> str:
    """The losses of a run's trials, for the terminal.

    Args:
        run: the run.
        found: the losses of its trials.
        width: columns of the terminal; by default those of the current one.
    """
    columns = terminal_width() if width is None else width
    document = Document("", [Section(TITLE, _blocks(found, naming(run), columns))])
    return for_console(render_text(document, columns))


def losses_to_dict(found: Sequence[TrialLoss]) -> list[dict[str, Any]]:
    """The losses of trials as JSON can hold them."""
    return [loss_to_dict(each) for each in found]


def loss_to_dict(found: TrialLoss) -> dict[str, Any]:
    """The loss of one trial as JSON can hold it; what was not measured is None."""
    described: dict[str, Any] = public(
        {
            "trial": found.number,
            "setting": str(found.trial),
            "measure": found.measure,
            "recall": _ends("value", found.recall),
            "loss": [{"cause": str(cause), **_ends("share", share)} for cause, share in found.causes.items()],
            "remedy": None if found.remedy is None else _remedy(found.remedy),
            "filtering": None if found.filtering is None else asdict(found.filtering),
            "notes": list(found.notes),
        }
    )
    return described


def _ends(name: str, mean: Mean) -> dict[str, float | None]:
    return {name: mean.value, "low": mean.low, "high": mean.high}


def _remedy(remedy: Remedy) -> dict[str, Any]:
    price = None if remedy.p95_ms is None else dict(zip(("from", "to"), remedy.p95_ms, strict=True))
    return {
        "cause": str(remedy.cause),
        "text": str(remedy),
        "action": remedy.action,
        "gain": remedy.gain,
        "p95_ms": price,
        "measured": remedy.measured,
    }


def _lost(found: TrialLoss) -> float:
    return 0.0 if found.recall.value is None else 1 - found.recall.value


def _blocks(found: Sequence[TrialLoss], labels: Naming, width: int | None = None) -> list[Block]:
    shown = [cause for cause in Cause if any(each.causes[cause].value for each in found)]
    meanings = [f"{cause}: {_MEANINGS[cause]}" for cause in shown]
    remedies = [f"{_name(each, labels)}: {each.remedy}" for each in found if each.remedy is not None]
    notes = [f"{_name(each, labels)}: {note}" for each in found for note in _said(each)]
    table = _table(found, shown, labels) if width is None else _table_within(found, shown, labels, width)
    whole = "The causes of a trial add up" if _BY_CAUSE in table.header else "A row adds up"
    said = f"Recall lost to each cause, with 95 % intervals over queries. {whole} to 1 - recall."
    return [
        Sentences([said if shown else "No recall was lost."]),
        table,
        Items(meanings),
        Items(remedies, "remedy"),
        Items(notes, "note"),
    ]


def _said(found: TrialLoss) -> list[str]:
    counted = [] if found.filtering is None else [f"{found.trial.engine}: {found.filtering}"]
    return [*counted, *found.notes]


def _table(
    found: Sequence[TrialLoss],
    shown: Sequence[Cause],
    labels: Naming,
    longest: int | None = None,
) -> Table:
    """One row per trial and one column per cause, with settings truncated to a length if given."""
    header = ["Trial", "Setting", _measure(found), *(str(cause).capitalize() for cause in shown)]
    rows = [
        [
            str(each.number),
            label,
            with_margin(each.recall),
            *(with_margin(each.causes[cause]) if each.causes[cause].value else "0" for cause in shown),
        ]
        for each, label in zip(found, _settings(found, labels, longest), strict=True)
    ]
    return Table(TITLE, header, rows, 2)


def _table_within(found: Sequence[TrialLoss], shown: Sequence[Cause], labels: Naming, width: int) -> Table:
    """The table that shows most within the columns of a terminal; without room, causes are rows."""
    made = [_table(found, shown, labels, longest) for longest in (None, *_SETTINGS)]
    made += [_by_cause(found, labels, longest) for longest in _SETTINGS]
    return next((each for each in made if columns_taken(each.header, each.rows) <= width), made[-1])


def _by_cause(found: Sequence[TrialLoss], labels: Naming, longest: int) -> Table:
    """The recall of every trial, and below it the recall that it lost to each cause."""
    rows = []
    for each, label in zip(found, _settings(found, labels, longest), strict=True):
        rows.append([f"{each.number} {label}", with_margin(each.recall)])
        lost = [(cause, share) for cause, share in each.causes.items() if share.value]
        rows += [[f"  lost to {cause}", with_margin(share)] for cause, share in lost]
    return Table(TITLE, [_BY_CAUSE, _measure(found)], rows, 1)


def _settings(found: Sequence[TrialLoss], labels: Naming, longest: int | None) -> list[str]:
    names = [labels.label(each.trial) for each in found]
    return names if longest is None else fitted(names, longest)


def _measure(found: Sequence[TrialLoss]) -> str:
    return found[0].measure if found else "recall"


def _name(found: TrialLoss, labels: Naming) -> str:
    return f"trial {found.number}, {labels.label(found.trial)}"


def _sentence(found: TrialLoss, labels: Naming) -> str:
    largest = max(found.causes, key=lambda cause: found.causes[cause].value or 0.0)
    lost = replace(found.causes[largest], ids=None)
    return f"{labels.label(found.trial)}: {with_margin(lost)} recall to {largest}. Remedy: {found.remedy}"
