"""What to type next after a probe: a tuning where a target is missed, a setting where answers are short."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.core.probed import NextStep, Probed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.adapters.collection import Collection
    from recallatk.core import Corpus
    from recallatk.filters import Filter
    from recallatk.goals import Target


def next_steps(
    probed: Probed,
    collection: Collection,
    missed: Sequence[Target],
    queries: Any,
    where: Filter | str | None,
    settings: Mapping[str, str],
    corpus: Corpus | None,
) -> Probed:
    """The probe with the command or setting that helps; with none where all is well.

    Args:
        probed: the probe.
        collection: what was probed.
        missed: targets that are missed.
        queries: as the user named them.
        where: the filter of all queries.
        settings: settings of the engine.
        corpus: what the collection was made from.
    """
    steps = []
    remedy = collection.remedy_for_short() if probed.counts.short else None
    if remedy is not None:
        steps.append(NextStep(remedy))
    if missed and any(each.effort for each in collection.knobs()):
        command = _tuning(collection, missed, queries, where, settings, corpus)
        steps.append(NextStep("To find a setting that meets it:", command))
    return replace(probed, next_steps=tuple(steps))


def _tuning(
    collection: Collection,
    missed: Sequence[Target],
    queries: Any,
    where: Filter | str | None,
    settings: Mapping[str, str],
    corpus: Corpus | None,
) -> str:
    target = collection.discovery().target
    words = ["recallatk", "tune", target, "--queries"]
    words.append(os.fspath(queries) if isinstance(queries, str | os.PathLike) else "FILE")
    words += [] if collection.statement is None else ["--sql", collection.statement]
    if corpus is not None and "corpus=" not in target and Path(corpus.name).exists():
        words += ["--corpus", corpus.name]
    words += [word for goal in missed for word in ("--target", str(goal))]
    words += [] if where is None else ["--where", str(where)]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(words)
