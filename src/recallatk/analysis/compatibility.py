"""Compatibility of data and truth: mismatches are refused before anything is scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Origin
from recallatk.core.data import different_models
from recallatk.errors import MismatchError
from recallatk.fingerprint import fingerprint_queries
from recallatk.ids import row_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset, Truth
    from recallatk.filters.eligibility import Eligibility


def require_same(truth: Truth, corpus: Corpus | None, dataset: Dataset | None, k: int) -> None:
    """Refuse data that differ from the truth's in size, ids, metric or filters, without reading vectors."""
    if corpus is not None:
        here = {"corpus": corpus.models} if corpus.models else {}
        require_same_models(truth, here if dataset is None else dataset.models)
        if truth.corpus_rows not in (None, corpus.rows):
            raise MismatchError(
                f"corpus mismatch: the truth has {truth.corpus_rows:,} rows, the corpus has {corpus.rows:,}"
            )
        _require_same_ids(truth, corpus)
    if dataset is None:
        return
    if dataset.queries.rows != len(truth):
        raise MismatchError(
            f"query mismatch: the truth has {len(truth):,} queries, the dataset {dataset.queries.rows:,}"
        )
    if truth.metric is not None and truth.metric is not dataset.metric:
        raise MismatchError(f"metric mismatch: the truth uses {truth.metric}, the dataset {dataset.metric}")
    _require_same_queries(truth, dataset)
    _require_same_filters(truth, dataset)
    known = truth.fingerprints.get("queries")
    if known is not None and known != fingerprint_queries(dataset.queries):
        raise MismatchError("query mismatch: query vectors or filters differ from the truth's")
    require_complete(truth, dataset.eligibility, k)


def require_same_models(truth: Truth, models: Mapping[str, Sequence[str]]) -> None:
    """Refuse vectors of other embedding models than the truth's, where both are known."""
    different = different_models(truth.models, models)
    if different:
        raise MismatchError(
            f"embedding model mismatch: the truth differs in {' and '.join(different)}. Compute the truth "
            "for these vectors: recallatk truth"
        )


def different_data(
    fingerprints: Mapping[str, str],
    others: Mapping[str, str],
    models: Mapping[str, Sequence[str]],
    other_models: Mapping[str, Sequence[str]],
) -> list[str]:
    """The fingerprints and embedding models in which two measurements differ, where both are known."""
    found = [name for name, text in fingerprints.items() if others.get(name, text) != text]
    return found + different_models(other_models, models)


def _require_same_ids(truth: Truth, corpus: Corpus) -> None:
    if truth.corpus_ids is not None:
        rows, named = np.arange(len(truth.corpus_ids)), truth.corpus_ids
    elif truth.row_ids is not None and truth.origin is Origin.COMPUTED:
        rows, named = truth.row_ids.rows, truth.row_ids.ids
    else:
        return
    if rows.max(initial=-1) >= corpus.rows:
        raise MismatchError(
            f"corpus mismatch: the truth names row {rows.max():,}, the corpus has {corpus.rows:,} rows"
        )
    found = corpus.ids if truth.corpus_ids is not None else corpus.ids.take(pa.array(rows))
    place = _first_difference(found, named)
    if place is not None:
        raise _other("corpus", f"row {rows[place]:,}", found[place], named[place])


def _require_same_queries(truth: Truth, dataset: Dataset) -> None:
    if truth.query_ids is None:
        return
    asked = dataset.queries.ids if dataset.queries.id_column else row_numbers(0, dataset.queries.rows)
    place = _first_difference(asked, truth.query_ids)
    if place is None:
        return
    known = pc.is_in(truth.query_ids.cast(pa.string()), value_set=asked.cast(pa.string()))
    if truth.origin is Origin.IMPORTED and not pc.any(known).as_py():
        # Imported truths may name queries differently; match them by position.
        return
    raise _other("query", f"query {place:,}", asked[place], truth.query_ids[place])


def _require_same_filters(truth: Truth, dataset: Dataset) -> None:
    if truth.eligible is None:
        return
    counts = dataset.eligibility.counts
    place = int(np.argmax(counts != truth.eligible))
    if counts[place] != truth.eligible[place]:
        raise MismatchError(
            f"filter mismatch: {counts[place]:,} rows are eligible for query {place:,}, but "
            f"{truth.eligible[place]:,} in the truth. Use the same filters for both (where=…, --where)"
        )


def _other(what: str, which: str, here: pa.Scalar, there: pa.Scalar) -> MismatchError:
    return MismatchError(
        f"{what} mismatch: {which} has the id {here.as_py()!r} here and {there.as_py()!r} in the truth. "
        "The data or their order differ"
    )


def _first_difference(first: pa.Array, second: pa.Array) -> int | None:
    """First position at which two id arrays of one length differ as text."""
    if first.equals(second):
        return None
    equal = pc.equal(first.cast(pa.string()), second.cast(pa.string())).fill_null(False)
    place = pc.index(equal, pa.scalar(False)).as_py()
    return None if place < 0 else int(place)


def list_lengths(truth: Truth) -> NDArray[np.int64]:
    """How many neighbors the truth lists for each query."""
    return np.asarray((truth.rows >= 0).sum(axis=1), np.int64)


def short_lists(truth: Truth, eligibility: Eligibility, k: int) -> NDArray[np.bool_]:
    """Queries with fewer neighbors than min(k, eligible rows): filtered after the search, or cut."""
    return list_lengths(truth) < np.minimum(k, eligibility.counts)


def ineligible_rows(truth: Truth, eligibility: Eligibility) -> NDArray[np.bool_]:
    """Mask of neighbors that are ineligible for their query or outside the corpus."""
    found = np.asarray(truth.rows >= eligibility.corpus_rows)
    query, column = np.nonzero((truth.rows >= 0) & ~found)
    found[query, column] = ~eligibility.allowed(query, truth.rows[query, column])
    return found


def require_complete(truth: Truth, eligibility: Eligibility, k: int) -> None:
    """Refuse lists that are too short for recall@k or contain rows that a filter excludes."""
    barred = ineligible_rows(truth, eligibility)
    if barred.any():
        query, column = (int(each) for each in np.argwhere(barred)[0])
        raise MismatchError(
            f"filter mismatch: the truth lists {truth.ids_of(truth.rows[query, column : column + 1])[0]} for "
            f"query {_name(truth, query)}, whose filter excludes that row. Compute the truth with the same "
            "filters: recallatk truth"
        )
    short = short_lists(truth, eligibility, k)
    if short.any():
        query = int(np.argmax(short))
        count, eligible = list_lengths(truth)[query], eligibility.counts[query]
        raise MismatchError(
            f"incomplete truth: query {_name(truth, query)} lists {count:,} neighbors, but {eligible:,} rows "
            f"are eligible and k is {k:,}; {int(short.sum()):,} of {len(truth):,} queries have such lists. "
            "Was a filter applied after the search? Compute the truth with the filter: recallatk truth"
        )


def _name(truth: Truth, query: int) -> str:
    return str(query if truth.query_ids is None else truth.query_ids[query])
