"""The name of a tuning's journal: the identity of everything that its measurements depend on."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from recallatk.adapters.installation import installed_version
from recallatk.bench.job import inputs_digest
from recallatk.fingerprint import fingerprints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.adapters import Engine
    from recallatk.core import Dataset, Weights
    from recallatk.goals import Goal

# 1: values of targets from 0 to 1.
# 2: each query's measure or loss in its own units (`raw`), and the machine's pace.
JOURNAL_FORMAT = 2


def journal_name(
    dataset: Dataset, targets: Sequence[Goal], budgets: Sequence[Goal], prefer: str, seed: int,
    engines: Sequence[type[Engine]], weights: Weights | None = None,
) -> str:  # fmt: skip
    """File name for a call: the same call has the same name, whatever its time limit."""
    called = {
        "format": JOURNAL_FORMAT,
        "data": fingerprints(dataset),
        "targets": [str(each) for each in targets],
        "budgets": [str(each) for each in budgets],
        "prefer": prefer,
        "seed": seed,
        "engines": {each.name: installed_version(each) for each in engines},
    }
    declared = [each for each in engines if each.declaration is not None]
    paths = {each.name: [each.declaration, inputs_digest(each, dataset)] for each in declared}
    if paths:
        called["paths"] = paths
    if weights is not None:
        called["weight"] = blake2b(weights.values.tobytes(), digest_size=8).hexdigest()
    if any(getattr(each, "needs_qrels", False) for each in targets):
        # Recorded losses are by these judgments.
        judged = json.dumps(dataset.qrels, sort_keys=True).encode()
        called["qrels"] = blake2b(judged, digest_size=8).hexdigest()
    digest = blake2b(json.dumps(called, sort_keys=True).encode(), digest_size=8).hexdigest()
    return f"journal-{digest}.jsonl"
