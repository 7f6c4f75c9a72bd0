"""What an index loses in relevance against the exact search on the same judgments, query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Truth

_MEASURES = {"ndcg": "nDCG", "mrr": "RR"}


def relevance_loss(
    rows: NDArray[np.int64], truth: Truth, dataset: Dataset, measure: str
) -> NDArray[np.float64]:
    """The measure of the exact ranking less that of the answers, from -1 to 1; NaN without judgments.

    Args:
        rows: (queries, k) corpus rows as they were answered; below 0 where there is none.
        truth: the exact ranking, of the same queries and at least as deep as the measure's k.
        dataset: whose queries those are, with judgments.
        measure: `ndcg@10` or `mrr@10`.
    """
    if dataset.qrels is None:
        raise UsageError(f"{measure} loss needs relevance judgments (qrels), and the data have none")
    if not len(rows) == len(truth) == dataset.queries.rows:
        raise MismatchError(
            f"{len(rows)} answers, a truth of {len(truth)} queries and {dataset.queries.rows} queries"
        )
    name, _, k = measure.partition("@")
    queries = [str(each) for each in dataset.queries.ids.to_pylist()]
    judged = {query: dict(dataset.qrels[query]) for query in queries if dataset.qrels.get(query)}
    if not judged:
        raise MismatchError(f"{measure} loss: none of the {len(queries):,} queries has a judgment")
    exact = _per_query(truth.rows, queries, dataset.corpus.ids, judged, f"{_MEASURES[name]}@{k}", int(k))
    found = _per_query(rows, queries, dataset.corpus.ids, judged, f"{_MEASURES[name]}@{k}", int(k))
    return np.array([exact[each] - found[each] if each in judged else np.nan for each in queries])


def _per_query(
    rows: NDArray[np.int64],
    queries: list[str],
    ids: pa.Array,
    judged: Mapping[str, dict[str, int]],
    measure: str,
    k: int,
) -> dict[str, float]:
    import ir_measures
    import pyarrow as pa

    known = rows[:, :k] >= 0
    names = ids.take(pa.array(rows[:, :k][known])).to_pylist()
    ends = np.cumsum(known.sum(axis=1)).tolist()
    run: dict[str, dict[str, float]] = {}
    for query, start, end in zip(queries, [0, *ends], ends, strict=False):
        if query in judged:
            distinct = dict.fromkeys(str(each) for each in names[start:end])
            run[query] = {each: float(k - place) for place, each in enumerate(distinct)}
    wanted: list[Any] = [ir_measures.parse_measure(measure)]
    values = dict.fromkeys(judged, 0.0)
    for each in ir_measures.DefaultPipeline.iter_calc(wanted, dict(judged), run):
        values[each.query_id] = float(each.value)
    return values
