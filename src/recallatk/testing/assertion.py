"""`assert_recall`: recall as an assertion in a program's own tests, decided by as few queries as it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recallatk.adapters.attached_collection import FunctionCollection
from recallatk.adapters.held_index import HeldIndexCollection
from recallatk.adapters.registry import live_engine
from recallatk.core import Dataset
from recallatk.core.asserted import AskedQuery
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.errors import UsageError, kind_of
from recallatk.probing.probe import probe
from recallatk.reporting.probe import probe_to_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.adapters.collection import Collection
    from recallatk.core import Truth
    from recallatk.core.probed import Probed

WORST = 5
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
    found = measured_recall(
        search_or_index, dataset, at=at, min=min, truth=truth, parameters=parameters, seed=seed
    )
    if not passes(found, undecided):
        raise AssertionError(explained(found, worst_queries(found)))
    return found


def measured_recall(
    search_or_index: Any,
    dataset: Dataset,
    *,
    at: int,
    min: float | None,
    truth: Truth | None,
    parameters: Mapping[str, Any] | None,
    seed: int,
    all_queries: bool = False,
) -> Probed:
    """The recall of a search, with the verdict on its least mean.

    Args:
        search_or_index: as for `assert_recall`; the same holds for the others.
        dataset: corpus, queries and metric.
        at: the cutoff k.
        min: the least mean recall@k; None for no verdict.
        truth: exact neighbors of the queries.
        parameters: search parameters.
        seed: random seed of the order of the queries.
        all_queries: ask all queries, although it is decided.
    """
    stated: Any = min
    if stated is not None and not (isinstance(stated, float | int) and 0 < stated <= 1):
        raise UsageError(f"min = {stated!r}. Accepted: a number above 0, up to 1")
    goals = [] if min is None or min == 1 else [f"recall@{at} >= {min!r}"]
    with _collection(search_or_index, dataset) as opened:
        found = probe(
            opened, dataset.queries, goals=goals, at=at, search=parameters or {}, truth=truth, max_rate=None,
            seed=seed, all_queries=all_queries,
        )  # fmt: skip
    # Commands take targets by name, and nothing names an object of this process.
    steps = tuple(each for each in found.next_steps if not each.command)
    found = replace(found, next_steps=steps)
    return _without_a_miss(found) if min == 1 else found


def passes(found: Probed, undecided: str) -> bool:
    """Whether an assertion holds.

    Args:
        found: what was measured, with its verdict.
        undecided: `fail`, or `pass` for what the queries cannot decide.
    """
    if undecided not in ("fail", "pass"):
        raise UsageError(f"undecided = {undecided!r}. Accepted: 'fail' and 'pass'")
    accepted = (None, "PASS", "UNDECIDED") if undecided == "pass" else (None, "PASS")
    return found.verdict.outcome in accepted


def _without_a_miss(found: Probed) -> Probed:
    """With the verdict that no query misses a neighbor."""
    outcome = Outcome.MET if (found.per_query["recall"] == 1).all() else Outcome.MISSED
    result = GoalResult(f"recall@{found.k} >= 1", outcome, found.recall.value)
    return replace(found, verdict=Verdict((result,)))


def _collection(held: Any, dataset: Dataset) -> Collection:
    if not isinstance(dataset, Dataset):
        raise UsageError(
            f"{kind_of(dataset)} is no dataset. Accepted: recallatk.open_dataset(corpus, queries, "
            "metric=...), which takes files, data frames and arrays"
        )
    if live_engine(held) is not None:
        return HeldIndexCollection(held, dataset.metric, dataset.corpus)
    if not callable(held):
        raise UsageError(
            f"{kind_of(held)} is no search. Accepted: a function search(queries, k) that returns "
            "lists of ids, or an index object of a library that is known"
        )
    return FunctionCollection.of(held, metric=str(dataset.metric), corpus=dataset.corpus)


def worst_queries(found: Probed) -> list[AskedQuery]:
    """The queries with the least recall, without those that miss nothing."""
    values = found.per_query["recall"]
    places = np.argsort(values, kind="stable")[:WORST]
    return [
        AskedQuery(str(found.query_ids[place])[:_LONGEST_ID], float(values[place]))
        for place in places.tolist()
        if values[place] < 1
    ]


def explained(found: Probed, worst: Sequence[AskedQuery]) -> str:
    """The message of a failure: the verdict, the worst queries, and what the misses have in common."""
    goals = " and ".join(each.text for each in found.verdict.goals)
    lines = [f"{goals}: {probe_to_text(found, width=100, ascii_only=True)}"]
    if worst:
        lines += ["", "Worst queries"]
        lines += [
            f"  {each.query}  {each.recall:.2f}"
            + ("" if each.baseline is None else f" (baseline {each.baseline:.2f})")
            for each in worst
        ]
    return "\n".join([*lines, "", *diagnosis(found)])


def diagnosis(found: Probed) -> list[str]:
    """What the misses have in common, as far as answers alone show it."""
    values = found.per_query["recall"]
    nothing, short = int((values == 0).sum()), found.counts.short
    said = []
    if nothing == len(values):
        said.append("No answer has a true neighbor: compare ids, metric and normalization with the dataset.")
    elif nothing and found.k > 1:
        said.append(
            f"{nothing:,} of {len(values):,} answers have none: some rows or queries are out of reach."
        )
    if short:
        said.append(f"{short:,} answers are too short: the search returns fewer than {found.k} ids.")
    if not said and (values < 1).any():
        said.append("Neighbors are missed here and there: raise the effort of the search.")
    return said
