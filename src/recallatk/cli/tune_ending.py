"""What is known before a tuning, and what it leaves behind: its reports, with what the linter found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.cli.ending import HTML, MARKDOWN
from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from recallatk.audit import Evidence
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Truth
    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.goals import Target


def known_before(
    settings: Settings, dataset: Dataset, truth: Truth | None, targets: Sequence[str]
) -> Evidence:
    """What is known before anything is tried; recall is that of the targets.

    Args:
        settings: of the bench file, or implied.
        dataset: all of the data.
        truth: where it is known already; otherwise one in the store counts.
        targets: what has to be kept.
    """
    from recallatk.audit import Evidence
    from recallatk.goals import sort_goals

    wanted, _ = sort_goals(targets)
    cutoffs = tuple(sorted({each.measure.k for each in wanted}))
    measure = settings.measure.model_copy(update={"k": cutoffs})
    looked_at = settings.model_copy(update={"measure": measure})
    known = _truth(settings, dataset, wanted) if truth is None else truth
    return Evidence(looked_at, dataset, known, targets=tuple(targets))


def ended(tuned: Tuned, folder: Path, before: Evidence, *, seed: int) -> list[Finding]:
    """Audit a tuning and write what it found into its folder; the linter's findings.

    Args:
        tuned: the outcome.
        folder: where it is to be.
        before: what was known of it before.
        seed: what the queries were split by.
    """
    from recallatk.audit import audit
    from recallatk.files import write_text
    from recallatk.report import tuned_to_html
    from recallatk.report.findings import findings_to_markdown
    from recallatk.report.tuned import tuned_to_markdown
    from recallatk.report.tuned_file import TUNED, tuned_text

    with progress("audit and report"):
        found = audit(_known_after(tuned, before, seed))
        write_text(folder / TUNED, tuned_text(tuned, found))
        write_text(folder / MARKDOWN, f"{tuned_to_markdown(tuned)}\n{findings_to_markdown(found)}")
        write_text(folder / HTML, tuned_to_html(tuned, findings=found))
    return found


def _known_after(tuned: Tuned, before: Evidence, seed: int) -> Evidence:
    """The outcome beside the queries that it was proved on: those that chose it are no part of the proof."""
    from recallatk.goals import sort_goals
    from recallatk.tune.sides import split_sides

    dataset, settings = before.dataset, before.settings
    if dataset is None or settings is None:
        return replace(before, tuned=tuned)
    truth = before.truth
    if truth is None:
        truth = _truth(settings, dataset, sort_goals(before.targets)[0])
    if truth is None:
        return replace(before, tuned=tuned)
    chosen_by, held_out = split_sides(dataset, truth, seed)
    return before.tuned_on(
        held_out.dataset, held_out.truth, held_out.numbers, tuned, chosen_by.dataset.queries
    )


def _truth(settings: Settings, dataset: Dataset, targets: Sequence[Target]) -> Truth | None:
    """The one that tuning to these targets leaves in the store, or the one that a run would use."""
    from recallatk.bench.inputs import truth_if_there

    depth = min(max(each.measure.deepest for each in targets), dataset.corpus.rows)
    return truth_if_there(settings, dataset, [depth])
