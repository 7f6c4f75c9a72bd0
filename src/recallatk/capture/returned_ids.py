"""The ids in whatever a search function returned: lists, arrays, rows, hits, dicts of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

# Where clients keep the list of hits, and where a hit keeps its id.
_LIST_NAMES = ("ids", "neighbors", "points", "matches", "hits", "results", "result", "labels", "id")
_ID_NAMES = ("id", "_id", "pk", "doc_id", "document_id", "key")
_LARGEST = (1 << 63) - 1
_DEEPEST = 6


def ids_per_query(result: Any, queries: int | None) -> list[list[Any]] | None:
    """One list of ids per query; None if they cannot be found without consuming the result.

    Args:
        result: what the function returned.
        queries: the number of queries in the call; None for one that is no batch.
    """
    try:
        lists = _lists(result, 0)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        return None
    if lists is None:
        return None
    if queries is None or (queries == 1 and not _is_nested(lists)):
        only = lists[0] if _is_nested(lists) and len(lists) == 1 else lists
        ids = _ids(only)
        return None if ids is None else [ids]
    if len(lists) != queries:
        return None
    found = [_ids(each) for each in lists]
    return None if any(each is None for each in found) else found  # type: ignore[return-value]


def _lists(result: Any, depth: int) -> list[Any] | None:
    """The list in a result, which has ids or, for a batch, a list for each query."""
    if depth > _DEEPEST or result is None or isinstance(result, str | bytes):
        return None
    if isinstance(result, tuple) and len(result) > 1 and all(_is_array(each) for each in result):
        return _lists(_integers_of(result), depth + 1)
    if isinstance(result, tuple) and len(result) == 2 and all(isinstance(each, list) for each in result):
        return _lists(_beside_scores(result), depth + 1)
    if _is_array(result):
        return list(result.tolist())
    if isinstance(result, Mapping):
        inner = next((result[name] for name in _LIST_NAMES if name in result), None)
        return _lists(inner, depth + 1)
    if isinstance(result, list | tuple):
        return list(result)
    named = (getattr(result, name, None) for name in (*_LIST_NAMES, "keys"))
    inner = next((each for each in named if each is not None and not callable(each)), None)
    if inner is not None:
        return _lists(inner, depth + 1)
    return list(result) if isinstance(result, Sequence) else None


def _integers_of(arrays: tuple[Any, ...]) -> Any:
    """The ids among arrays, beside distances; None if two could be the ids."""
    whole = [each for each in arrays if each.dtype.kind in "iuUO"]
    wide = [each for each in whole if each.dtype.itemsize == 8] if len(whole) > 1 else whole
    return wide[0] if len(wide) == 1 else None


def _beside_scores(pair: tuple[list[Any], list[Any]]) -> list[Any] | None:
    """The list of ids in a pair with their scores; None if either could be the ids."""
    scores = [isinstance(_leaf(each), float) for each in pair]
    return None if scores[0] == scores[1] else pair[scores.index(False)]


def _leaf(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _is_nested(lists: Sequence[Any]) -> bool:
    """Whether the elements are lists of ids or hits, not rows of an id and its score."""
    return bool(lists) and all(_is_inner(each) for each in lists)


def _is_inner(each: Any) -> bool:
    if _is_array(each):
        return bool(each.ndim == 1)
    if isinstance(each, list):
        return not any(isinstance(value, float) for value in each)
    # Clients return batches of hits as sequences or objects of their own, but a row is a tuple.
    return not isinstance(each, tuple | str | bytes) and _hit_id(each) is None and _lists(each, 0) is not None


def _ids(hits: Any) -> list[Any] | None:
    """The ids of one list of hits; None if a hit has none."""
    found = hits if isinstance(hits, list) else _lists(hits, 0)
    if found is None:
        return None
    ids = [_hit_id(each) for each in found]
    lost = any(each is None and hit is not None for each, hit in zip(ids, found, strict=True))
    return None if lost else ids


def _hit_id(hit: Any) -> Any:
    """The id of a hit: itself, its field, or the first element of a row that can be an id."""
    plain = _plain_id(hit)
    if plain is not None:
        return plain
    if isinstance(hit, Mapping):
        return next((_plain_id(hit[name]) for name in _ID_NAMES if name in hit), None)
    named = (getattr(hit, name, None) for name in _ID_NAMES)
    row = hit[:2] if isinstance(hit, list | tuple) else ()
    return next((found for each in (*named, *row) if (found := _plain_id(each)) is not None), None)


def _plain_id(value: Any) -> int | str | None:
    """An id as an integer or a string; None if the value cannot be one."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        number = int(value)
        return number if -_LARGEST <= number <= _LARGEST else str(number)
    return None


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "tolist") and hasattr(value, "ndim")
