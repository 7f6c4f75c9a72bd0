"""The recommendation of a migration, in sentences, from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.migrated import SpaceChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.core.migrated import CostChange, MixedSpaces, NeighborOverlap, RelevanceChange
    from recallatk.core.tuned import Tuned

# Queries of these embeddings still find their neighbors in the other.
_SAME_SPACE = (SpaceChange.SAME, SpaceChange.STORED, SpaceChange.SCALED)
_NEARLY_ALL = 0.98
# Cheaper or dearer by less is noise of timing.
_NOTABLE = 1.2


def recommendation(
    change: SpaceChange,
    overlaps: tuple[NeighborOverlap, ...],
    mixed: MixedSpaces,
    relevance: tuple[RelevanceChange, ...],
    costs: tuple[CostChange, ...],
    tuned: Mapping[str, Tuned],
    *,
    queries_kept: bool = False,
) -> tuple[str, ...]:
    """What to do, the most important first.

    Args:
        change: how the new vectors follow from the old ones.
        overlaps: the exact neighbors in common, at every k that tells something.
        mixed: rows that another model made.
        relevance: of exact search in both, where judged.
        costs: of both.
        tuned: the settings of both, by `old` and `new`.
        queries_kept: whether both were asked the same query vectors.
    """
    found = list(_first(mixed))
    if queries_kept and change not in _SAME_SPACE:
        found.insert(
            0,
            "Embed the queries anew first: those for the new embedding are the same vectors as those for the "
            "old one, while the rows changed. Nothing below holds for real queries.",
        )
    found += _quality(change, overlaps, relevance)
    found += _settings(tuned)
    found += _costs(costs)
    if change not in _SAME_SPACE:
        found.append(
            "Switch queries and rows together: old queries find nothing of use among new rows, and the other "
            "way round."
        )
    return tuple(found)


def _first(mixed: MixedSpaces) -> Iterator[str]:
    if mixed.found:
        ids = f", such as {', '.join(map(str, mixed.ids[:3]))}" if mixed.ids else ""
        yield (
            f"Do not switch yet: {mixed.share:.1%} of the new rows were made by another model than the rest. "
            f"Embed them again{ids}."
        )


def _quality(
    change: SpaceChange, overlaps: tuple[NeighborOverlap, ...], relevance: tuple[RelevanceChange, ...]
) -> Iterator[str]:
    for each in relevance[:1]:
        if each.low is None or each.high is None or each.low <= 0 <= each.high:
            yield (
                f"{each.measure} of exact search does not differ for certain ({each.difference:+.3f}): "
                "decide by cost."
            )
        elif each.low > 0:
            yield f"The new embedding is better: {each.measure} of exact search {each.difference:+.3f}."
        else:
            yield f"Keep the old embedding: {each.measure} of exact search {each.difference:+.3f}."
    deepest = overlaps[-1] if overlaps else None
    if relevance or deepest is None or deepest.mean.value is None:
        return
    if deepest.mean.value >= _NEARLY_ALL:
        yield (
            f"Results stay as they are: {deepest.mean.value:.1%} of the top {deepest.k} are the same "
            f"({change})."
        )
    else:
        yield (
            f"Results change: {deepest.mean.value:.1%} of the top {deepest.k} stay. Whether the new ones are "
            "better, only judgments tell: --qrels FILE."
        )


def _settings(tuned: Mapping[str, Tuned]) -> Iterator[str]:
    if not tuned:
        return
    for name in ("old", "new"):
        chosen = tuned[name].choice
        if chosen is None:
            why = tuned[name].binding or "no setting meets the target"
            yield f"The {name} embedding has no setting that meets the target: {why}."
    new = tuned["new"].choice
    if new is not None:
        listed = ", ".join(f"{key}={value}" for key, value in (*new.build, *new.search))
        yield f"Run the new embedding on {new.engine} with {listed}."


def _costs(costs: tuple[CostChange, ...]) -> Iterator[str]:
    said = [
        f"{each.name} {each.ratio:.2g} times"
        for each in costs
        if each.ratio is not None and not 1 / _NOTABLE < each.ratio < _NOTABLE
    ]
    if said:
        yield f"Costs that change: {', '.join(said)}."
