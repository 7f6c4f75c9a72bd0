"""Ground truth for data in any form: computed, loaded or verified."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk import truths
from recallatk.analysis import filtered
from recallatk.analysis.compatibility import require_same
from recallatk.core import Answers, Metric, Truth
from recallatk.datasets import open_corpus, open_dataset, read_truth
from recallatk.datasets.answer_sources import held_answers
from recallatk.datasets.imported import truth_from_answers
from recallatk.datasets.in_memory import is_path
from recallatk.errors import MismatchError, UsageError, WriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.core import Corpus, Dataset, FilterFacts
    from recallatk.files import PathLike
    from recallatk.filters import Filter
    from recallatk.truths.faults import Verification


def ground_truth(
    dataset: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    depth: int = 100,
    store: bool | PathLike = True,
    since: Truth | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    backend: str = "auto",
    device: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    on: str | None = None,
    address: str | None = None,
    checkpoints: PathLike | None = None,
) -> Truth:
    """Exact ground truth: the best `depth` eligible rows of every query, with scores, ties and proof.

    The store keeps every truth. A second call with the same content loads it; a call with a changed corpus
    updates it. The result depends on the data and on `depth` alone, to the last bit of every score.

    Args:
        dataset: a dataset, or a corpus in any form that `open_dataset` takes.
        queries: the queries in any form, if the first argument is a corpus.
        metric: cosine, ip or l2. Required unless the data state it.
        where: one filter for all queries.
        depth: number of rows to keep per query.
        store: True for the store in the user's cache directory, a folder for another store, False for none.
        since: an earlier truth of the same queries, on a corpus that this one starts with. Only the rows
            after it are scanned, and no store is used.
        memory: memory budget beyond what the process uses already, in bytes or as text such as `1GiB`.
        threads: number of threads; all cores by default.
        backend: compute backend: `auto`, `blas` (NumPy's), `faiss`, `int8` (8-bit products) or `jax`.
        device: `cpu`, or `gpu` or `tpu` through JAX.
        progress: called with the number of pairs of query and row done, and their total.
        on: `ray` computes on Ray, with the same result. `memory` is then the budget of each task.
        address: the Ray cluster: `auto`, `ray://HOST:PORT` or `HOST:PORT`. By default Ray is started on this
            machine and stopped afterwards.
        checkpoints: folder or URL for finished tasks, which all nodes reach; by default in the store.
    """
    cluster = truths.on_cluster(on, address, checkpoints)
    data = open_dataset(dataset, queries, metric=metric, where=where)
    options: dict[str, Any] = {"depth": depth, "memory": memory, "threads": threads}
    options |= {"backend": backend, "device": device}
    options["on"] = cluster
    if store is False or since is not None:
        return truths.ground_truth(data, since=since, progress=progress, **options)
    try:
        folder = None if store is True else store
        return truths.obtain_truth(data, store=folder, progress=progress, **options).truth
    except WriteError as problem:
        raise UsageError(
            f"{problem}. Pass store=FOLDER, or store=False to compute without a store"
        ) from problem


def load_truth(
    source: Any,
    *,
    corpus: Any = None,
    metric: Metric | str | None = None,
    format: str | None = None,
    row_numbers: bool = False,
) -> Truth:
    """Load a ground truth: our own file, a file of another tool, or neighbors in memory.

    A truth that `save_truth` did not write is marked as imported, not certified.

    Args:
        source: a truth file of recallatk, ann-benchmarks HDF5, ivecs, ibin (also with distances), npy, a
            VectorDBBench folder or one of its neighbors files. Or neighbors in memory, best first: a matrix,
            one list of ids per query, a mapping from query ids to lists, or a data frame with `neighbors`.
        corpus: the corpus, in any form. Resolves ids; text ids require it.
        metric: the metric of distances in a file that does not state it.
        format: the file's format, if its ending and first bytes do not tell.
        row_numbers: integers in memory are row numbers, even if the corpus has ids. Files of matrices always
            hold row numbers.
    """
    known = None if corpus is None else open_corpus(corpus)
    stated = None if metric is None else Metric(metric)
    if isinstance(source, Truth):
        truth = source
    elif is_path(source):
        if format is not None or not truths.is_truth_file(source):
            return read_truth(source, corpus=known, metric=stated, format=format)
        truth = truths.load_truth(source)
    else:
        held = source if isinstance(source, Answers) else held_answers(source, "truth")
        return truth_from_answers(held, known, stated, row_numbers=row_numbers)
    return _matching(truth, known, stated)


def _matching(truth: Truth, corpus: Corpus | None, metric: Metric | None) -> Truth:
    """The truth, unless it was computed for another corpus or metric."""
    if metric is not None and truth.metric not in (None, metric):
        raise MismatchError(f"metric mismatch: the truth uses {truth.metric}, not {metric}")
    require_same(truth, corpus, None, 1)
    return truth


def verify_truth(
    truth: Any,
    dataset: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    sample: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compute the truth of some queries, or of all, and compare a truth with it.

    Every column is compared: neighbors, scores, ties, counts of eligible rows and the certificate.
    Imported scores may be off by what float32 arithmetic loses.

    Args:
        truth: the truth to check, in any form that `load_truth` takes.
        dataset: a dataset, or a corpus in any form that `open_dataset` takes.
        queries: the queries in any form, if the second argument is a corpus.
        metric: cosine, ip or l2. Required unless the data state it.
        where: one filter for all queries.
        sample: number of queries to check; all by default.
        seed: random seed of the sample.
        memory: memory budget, in bytes or as text such as `1GiB`.
        threads: number of threads; all cores by default.
        progress: called with the number of pairs of query and row done, and their total.
    """
    data: Dataset = open_dataset(dataset, queries, metric=metric, where=where)
    # A truth that records its data is not refused for a mismatch: the verification reports it.
    own = isinstance(truth, Truth) or (is_path(truth) and truths.is_truth_file(truth))
    loaded = load_truth(truth) if own else load_truth(truth, corpus=data.corpus, metric=data.metric)
    return truths.verify_truth(
        loaded, data, sample=sample, seed=seed, memory=memory, threads=threads, progress=progress
    )


def filter_facts(
    dataset: Dataset,
    *,
    depth: int = filtered.DEPTH,
    store: PathLike | None = None,
    memory: int | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FilterFacts | None:
    """What the filter of each query admits, with its correlation to the query; None without filters.

    The truth of the same queries without filters is computed and stored beside the other.

    Args:
        dataset: the data.
        depth: number of nearest rows to compare the filters with; all of a smaller corpus.
        store: folder of the store; by default the one in the user's cache directory.
        memory: memory budget, in bytes or as text such as `1GiB`.
        progress: called with the number of pairs of query and row done, and their total.
    """
    if not dataset.queries.filtered:
        return None
    without = replace(dataset, queries=dataset.queries.where(None))
    found = truths.obtain_truth(
        without, depth=min(depth, dataset.corpus.rows), store=store, memory=memory, progress=progress
    )
    return filtered.filter_facts(dataset, found.truth)
