"""Triggers on a whole corpus: growth, deletes, changed vectors, duplicates; and on embedding models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import blocks
from recallatk.core.drifted import Trigger
from recallatk.datasets.model_labels import stated_models
from recallatk.datasets.source import CORPUS
from recallatk.digests import duplicates, vector_digests
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Records

GROWTH, DELETED, CHANGED, COPIES = 1.20, 0.10, 0.10, 0.05


def require_same_collection(first: Corpus, second: Corpus) -> None:
    """Refuse two corpora without a common id, before their vectors are read."""
    if first.id_column is None or second.id_column is None:
        return
    one, two = first.ids, second.ids
    if one.type != two.type or not pc.any(pc.is_in(two, value_set=one)).as_py():
        raise MismatchError(
            f"{first.name} and {second.name} have no id in common, such as {one[0]} and {two[0]}: they are "
            "no snapshots of one collection. Name the columns of ids, or compare query logs"
        )


def corpus_triggers(first: Corpus, second: Corpus) -> Iterator[Trigger]:
    """Every trigger that counts rows; each vector is read once."""
    yield growth_trigger(first.rows, second.rows)
    here, there = _digests(first), _digests(second)
    if first.id_column is not None and second.id_column is not None:
        yield from _by_id(first, second, here, there)
    shares = [duplicates(each)[0] for each in (here, there)]
    yield Trigger(
        CORPUS, "duplicates", shares[1] - shares[0], COPIES, -COPIES,
        said=f"{shares[1]:.1%} of the rows have a duplicate, {shares[0]:.1%} in the baseline",
    )  # fmt: skip


def growth_trigger(before: int, now: int) -> Trigger:
    """How many times as many rows there are."""
    ratio = now / before if before else np.inf
    said = f"{now:,} rows, {before:,} in the baseline"
    return Trigger(CORPUS, "growth", ratio, GROWTH, 1 / GROWTH, said=said)


def model_trigger(part: str, first: Records, second: Records) -> Trigger | None:
    """Whether the stated embedding models differ; None where a side states none."""
    models = [stated_models(each) for each in (first, second)]
    if not all(models):
        return None
    shown = [", ".join(each) for each in models]
    differ = set(models[0]) != set(models[1])
    said = f"the embedding model is {shown[1]}" + (f", it was {shown[0]}" if differ else "")
    return Trigger(part, "model", float(differ), 0.0, said=said)


def _by_id(first: Corpus, second: Corpus, here: NDArray[Any], there: NDArray[Any]) -> Iterator[Trigger]:
    place = pc.index_in(first.ids, value_set=second.ids)
    kept = np.asarray(place.is_valid())
    gone = 1 - float(kept.mean())
    yield Trigger(CORPUS, "deletes", gone, DELETED, said=f"{gone:.1%} of the baseline's rows were deleted")
    if first.vectors.dtype != second.vectors.dtype or first.dimension != second.dimension:
        return
    changed = float((here[kept] != there[np.asarray(place.drop_null().cast(pa.int64()))]).mean())
    yield Trigger(
        CORPUS, "changed vectors", changed, CHANGED,
        said=f"{changed:.1%} of the rows that both have were embedded anew",
    )  # fmt: skip


def _digests(corpus: Corpus) -> NDArray[Any]:
    return np.concatenate([vector_digests(block) for _, block in blocks(corpus.vectors)])
