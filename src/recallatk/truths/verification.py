"""Verification of any truth against its data: the check and the faults it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recallatk.core import Origin, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.fingerprint import fingerprints
from recallatk.truths.compute import count_threads
from recallatk.truths.faults import Listed, Verification, id_places
from recallatk.truths.memory_plan import plan
from recallatk.truths.proof import Proof
from recallatk.truths.search import ExactSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.core import Dataset


def verify_truth(
    truth: Truth,
    dataset: Dataset,
    *,
    sample: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compute the truth of some queries, or of all, and compare the given one with it.

    Every column of the truth is compared: neighbors, scores, ties, counts of eligible rows and the
    certificate. Imported scores may be off by what float32 arithmetic loses.

    Args:
        truth: the truth to check.
        dataset: the data it belongs to.
        sample: number of queries to check; all by default.
        seed: random seed of the sample.
        memory: how much to use, as bytes or text such as `1GiB`.
        threads: number of cores to use; all by default.
        progress: called with the pairs of query and row that are done, and how many there are.
    """
    if truth.metric is not None and truth.metric is not dataset.metric:
        raise MismatchError(f"metric mismatch: the truth uses {truth.metric}, the data {dataset.metric}")
    places = _query_places(truth, dataset)
    chosen = _chosen(len(places), sample, seed)
    threads = count_threads(threads)
    search = ExactSearch(
        dataset,
        truth.depth,
        plan(dataset, truth.depth, memory, threads),
        threads=threads,
        backend="auto",
        progress=progress,
    )
    real = search.run(places[chosen])
    other = _other_data(truth, dataset)
    listed = Listed.of(truth, dataset, chosen, places[chosen])
    proof = Proof(listed, search, real, same_rows=not other)
    return Verification(len(truth), len(chosen), truth.depth, tuple(proof.wrong()), other)


def _other_data(truth: Truth, dataset: Dataset) -> tuple[str, ...]:
    """What the truth says of its data that these data are not."""
    corpus = dataset.corpus
    differ = set()
    if truth.fingerprints:
        found = fingerprints(dataset)
        differ = {name for name, text in truth.fingerprints.items() if found.get(name) != text}
    if truth.corpus_rows not in (None, corpus.rows):
        differ.add("number of rows")
    if truth.corpus_ids is not None and not _same_ids(truth.corpus_ids, corpus.ids):
        differ.add("ids")
    if corpus.sampled_from is not None and truth.sampled_from != corpus.sampled_from:
        differ.add("sample")
    return tuple(sorted(differ))


def _same_ids(first: pa.Array, second: pa.Array) -> bool:
    if len(first) != len(second):
        return False
    return bool(first.equals(second) or first.cast(pa.string()).equals(second.cast(pa.string())))


def _query_places(truth: Truth, dataset: Dataset) -> NDArray[np.int64]:
    """For each query of the truth, its number in the data: by id where it has one, else by position."""
    asked = dataset.queries
    if truth.query_ids is not None:
        places = id_places(truth.query_ids, asked.ids)
        # Another tool's file may number the queries in its own way; then they go by position.
        if truth.origin is Origin.COMPUTED or (places >= 0).any():
            if (places < 0).any():
                missing = truth.query_ids[int(np.argmax(places < 0))]
                raise MismatchError(f"query mismatch: the truth has query {missing}, {asked.name} does not")
            return places
    if len(truth) != asked.rows:
        raise MismatchError(
            f"query mismatch: the truth has {len(truth):,} queries without ids, "
            f"{asked.name} has {asked.rows:,}"
        )
    return np.arange(len(truth))


def _chosen(count: int, sample: int | None, seed: int) -> NDArray[np.int64]:
    if sample is None:
        return np.arange(count)
    if not 1 <= sample <= count:
        raise UsageError(f"a sample of {sample} queries. Accepted: 1 to {count}")
    return np.sort(np.random.default_rng(seed).permutation(count)[:sample])
