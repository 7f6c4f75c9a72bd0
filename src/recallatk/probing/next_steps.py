"""What to type next after a probe: a tuning where a target is missed, a setting where answers are short."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.core.judgments import Outcome
from recallatk.core.probed import NextStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.collection import Collection
    from recallatk.core import Corpus
    from recallatk.filters import Filter
    from recallatk.goals import Target
    from recallatk.probing.decision import RecallDecision
    from recallatk.probing.tally import Tally


def next_steps(
    collection: Collection,
    decision: RecallDecision,
    tally: Tally,
    where: Filter | str | None,
    settings: Mapping[str, str],
    corpus: Corpus | None,
) -> tuple[NextStep, ...]:
    """The command or setting that helps; none where all is well."""
    steps = []
    remedy = collection.remedy_for_short() if tally.counts["short"] else None
    if remedy is not None:
        steps.append(NextStep(remedy))
    missed = [goal for goal, test in decision.tests.items() if decision.outcome_of(test) is Outcome.MISSED]
    if missed and any(each.effort for each in collection.knobs()):
        steps.append(
            NextStep("To find a setting that meets it:", _tuning(collection, missed, where, settings, corpus))
        )
    return tuple(steps)


def _tuning(
    collection: Collection,
    missed: list[Target],
    where: Filter | str | None,
    settings: Mapping[str, str],
    corpus: Corpus | None,
) -> str:
    target = collection.discovery().target
    words = ["recallatk", "tune", target, "--queries", "FILE"]
    if corpus is not None and "corpus=" not in target and Path(corpus.name).exists():
        words += ["--corpus", corpus.name]
    words += [word for goal in missed for word in ("--target", str(goal))]
    words += [] if where is None else ["--where", str(where)]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(words)
