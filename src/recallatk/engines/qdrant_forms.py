"""Qdrant's forms of parameters, filters and payloads, in the classes of the shard or of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.errors import EngineError, FilterError
from recallatk.filters import And, Exists, Filter, In, Not, Or, Range

if TYPE_CHECKING:
    from recallatk.filters.expression import Literal

# In KB: Qdrant's own default would leave corpora below 10 MB without any index, and 0 means never.
INDEXING_THRESHOLD = 1
OPTIMIZERS = {"indexing_threshold": INDEXING_THRESHOLD, "default_segment_number": 1}


def search_params(api: Any, how: dict[str, Any]) -> Any:
    """Exact search is over the vectors as they were given, and not as they were quantised."""
    raw = api.QuantizationSearchParams(ignore=True) if how.get("exact") else None
    return api.SearchParams(**how, quantization=raw)


def hnsw(parameters: dict[str, Any]) -> dict[str, int]:
    """The graph's parameters as Qdrant names them."""
    names = {"m": "M", "ef_construct": "ef_construct", "full_scan_threshold": "full_scan_threshold"}
    return {theirs: parameters[ours] for theirs, ours in names.items()}


def qdrant_filter(condition: Filter, api: Any) -> Any:
    """A reduced filter in the classes of `api`, which are the shard's or the client's."""
    match condition:
        case And(operands):
            return api.Filter(must=[qdrant_filter(each, api) for each in operands])
        case Or(operands):
            return api.Filter(should=[qdrant_filter(each, api) for each in operands])
        case Not(operand):
            return api.Filter(must_not=[qdrant_filter(operand, api)])
        case Exists(key):
            return api.Filter(must_not=[api.FieldCondition(key=key, is_empty=True)])
        case In(key, values):
            return api.Filter(should=[api.FieldCondition(key=key, **_equal(value, api)) for value in values])
        case Range(key):
            if any(isinstance(value, str) for value in condition.bounds().values()):
                raise EngineError("qdrant cannot filter by the order of texts")
            return api.Filter(must=[api.FieldCondition(key=key, range=_bounds(api, **condition.bounds()))])
    raise FilterError(f"{type(condition).__name__} is no kind of filter")


def qdrant_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """Values as `qdrant_filter` looks for them."""
    return {key: int(value) if isinstance(value, bool) else value for key, value in payload.items()}


def _equal(value: Literal, api: Any) -> dict[str, Any]:
    """Qdrant matches no fractional numbers; a range of one does."""
    if isinstance(value, float):
        return {"range": _bounds(api, gte=value, lte=value)}
    # The shard takes true for the number 1, so truth values are stored as numbers.
    return {"match": api.MatchValue(value=int(value) if isinstance(value, bool) else value)}


def _bounds(api: Any, **bounds: Any) -> Any:
    return (api.RangeFloat if hasattr(api, "RangeFloat") else api.Range)(**bounds)
