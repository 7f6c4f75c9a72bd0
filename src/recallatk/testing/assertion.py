"""`assert_recall`: recall as an assertion in a program's own tests, decided by as few queries as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recallatk.adapters.attached_collection import FunctionCollection
from recallatk.adapters.held_index import HeldIndexCollection
from recallatk.adapters.registry import live_engine
from recallatk.errors import UsageError
from recallatk.probing.probe import probe
from recallatk.reporting.probe import probe_to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.collection import Collection
    from recallatk.core import Dataset, Truth
    from recallatk.core.probed import Probed

_WORST = 5
_LONGEST_ID = 60


def assert_recall(
    search_or_index: Any,
    dataset: Dataset,
    *,
    at: int = 10,
    min: float = 0.95,
    truth: Truth | None = None,
    parameters: Mapping[str, Any] | None = None,
    undecided: Literal["fail", "pass"] = "fail",
    seed: int = 0,
) -> Probed:
    """Assert that a search finds enough of the true neighbors.

    Queries are asked in random order until it is decided whether mean recall is at least `min`; each verdict
    is wrong with a probability of at most 5 %. With `min=1`, all are asked, and none may miss a neighbor.

    Args:
        search_or_index: `search(queries, k)` that returns lists of ids, or an index object.
        dataset: corpus, queries and metric.
        at: the cutoff k.
        min: the least mean recall@k.
        truth: exact neighbors of the queries; computed, and kept for the next time, if there are none.
        parameters: search parameters, such as ef.
        undecided: whether an assertion that the queries cannot decide fails or passes.
        seed: random seed of the order of the queries.

    Returns:
        What was found.

    Raises:
        AssertionError: with the verdict, the worst queries, and what they have in common.
    """
    __tracebackhide__ = True
    if not 0 < min <= 1:
        raise UsageError(f"min = {min}. Accepted: above 0, up to 1")
    goals = [] if min == 1 else [f"recall@{at} >= {min!r}"]
    with _collection(search_or_index, dataset) as opened:
        found = probe(
            opened, dataset.queries, goals=goals, at=at, search=parameters or {}, truth=truth, max_rate=None,
            seed=seed,
        )  # fmt: skip
    outcome = found.verdict.outcome or ("PASS" if (found.per_query["recall"] == 1).all() else "FAIL")
    if outcome == "FAIL" or (outcome == "UNDECIDED" and undecided != "pass"):
        raise AssertionError(f"recall@{at} >= {min:g}: {_explained(found)}")
    return found


def _collection(held: Any, dataset: Dataset) -> Collection:
    if live_engine(held) is not None:
        return HeldIndexCollection(held, dataset.metric, dataset.corpus)
    if not callable(held):
        raise UsageError(
            f"a {type(held).__name__} is no search. Accepted: a function search(queries, k) that returns "
            "lists of ids, or an index object of a library that is known"
        )
    return FunctionCollection.of(held, metric=str(dataset.metric), corpus=dataset.corpus)


def _explained(found: Probed) -> str:
    values = found.per_query["recall"]
    worst = [place for place in np.argsort(values, kind="stable")[:_WORST] if values[place] < 1]
    lines = [probe_to_text(found, width=100, ascii_only=True)]
    if worst:
        lines += ["", "Worst queries"]
        lines += [f"  {str(found.query_ids[place])[:_LONGEST_ID]}  {values[place]:.2f}" for place in worst]
    return "\n".join([*lines, *_diagnosis(found, values)])


def _diagnosis(found: Probed, values: Any) -> list[str]:
    """What the misses have in common, as far as answers alone show it."""
    nothing, short = int((values == 0).sum()), found.counts.short
    said = []
    if nothing == len(values):
        said.append("No answer has a true neighbor: compare ids, metric and normalization with the dataset.")
    elif nothing:
        said.append(
            f"{nothing:,} of {len(values):,} answers have none: some rows or queries are out of reach."
        )
    if short:
        said.append(f"{short:,} answers are too short: the search returns fewer than {found.k} ids.")
    if not said and len(values):
        said.append("Neighbors are missed here and there: raise the effort of the search.")
    return ["", *said]
