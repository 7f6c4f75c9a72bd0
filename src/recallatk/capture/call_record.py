"""The record of one call, and where its parts are among the arguments of a search function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recallatk.capture.plain_values import flat_scalars, plain, weight
from recallatk.capture.returned_ids import ids_per_query
from recallatk.filters import Filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K_NAMES = ("k", "limit", "top_k", "topk", "n_results", "num_results", "max_results", "count", "size")
FILTER_NAMES = ("filter", "where", "filters", "query_filter", "filter_expression", "expr")
# Words of a user are no parameter: they are private, and would make every call a set of its own.
TEXT_NAMES = frozenset(["text", "query", "query_text", "query_texts", "prompt", "question", "q"])
_DTYPES = frozenset(["float16", "float32", "float64", "int8", "uint8"])
_RECORD_BYTES = 512

# What a caller of `tap` may pass to say where a part of a call is.
Extractor = Callable[..., Any]


class NotFoundError(Exception):
    """A call whose vector or ids cannot be found; it is counted and never raised into the caller."""


@dataclass(slots=True)
class CallRecord:
    """What is kept of one query of one call."""

    vector: NDArray[Any]
    """The query vector, a copy."""
    ids: list[Any] | None
    """The returned ids, best first: integers or strings. None if the call raised."""
    filter: Any = None
    """The filter: recallatk's text or `Filter`, or the plain form of another system's filter."""
    k: int | None = None
    """How many neighbors the call asked for."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The other arguments that are numbers, true, false or short strings."""
    latency_ms: float = 0.0
    """How long the call took, in milliseconds; of a batch, the whole batch."""
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the call began."""
    batch: int = 1
    """Number of queries in the call."""
    error: str | None = None
    """Type of the exception that the call raised; never its message, which may hold secrets."""

    @property
    def size(self) -> int:
        """Estimated bytes in memory."""
        condition = self.filter.key if isinstance(self.filter, Filter) else self.filter
        kept = weight(condition) + weight(self.parameters) + weight(self.ids)
        return _RECORD_BYTES + int(self.vector.nbytes) + kept


@dataclass(frozen=True)
class CallTime:
    """When a call began, and how long it took."""

    began: datetime
    latency_ms: float


@dataclass(frozen=True)
class CallReader:
    """Finds the parts of a call; a function that was passed for a part replaces the usual rules."""

    signature: inspect.Signature | None
    vector: Extractor | None = None
    filter: Extractor | None = None
    k: Extractor | None = None
    parameters: Extractor | None = None
    ids: Extractor | None = None

    @classmethod
    def of(cls, search: Callable[..., Any], **extractors: Extractor | None) -> CallReader:
        """A reader for the calls of this function."""
        try:
            signature = inspect.signature(search)
        except (TypeError, ValueError):
            # Functions of extension modules need not tell the names of their arguments.
            signature = None
        return cls(signature, **extractors)

    def records(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, timing: CallTime
    ) -> list[CallRecord]:
        """One record per query of a call that returned."""
        call = self._shared(args, kwargs, timing)
        found = self.ids(result) if self.ids else result
        matrix, several = call.vector, call.vector.ndim == 2
        lists = ids_per_query(found, len(matrix) if several else None)
        if lists is None:
            raise NotFoundError(f"no ids were found in a result of type {type(result).__name__}")
        if not several:
            return [replace(call, ids=lists[0])]
        calls = _rows_of(call)
        return [replace(each, ids=ids) for each, ids in zip(calls, lists, strict=True)]

    def failures(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: BaseException, timing: CallTime
    ) -> list[CallRecord]:
        """One record per query of a call that raised."""
        call = replace(self._shared(args, kwargs, timing), error=type(error).__name__)
        return [call] if call.vector.ndim == 1 else _rows_of(call)

    def _shared(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], timing: CallTime) -> CallRecord:
        """What all queries of a call have in common; the vector may be a matrix of them."""
        named = self._named(args, kwargs)
        matrix = self._vector(named, args, kwargs)
        k_name, k_value = _first(named, K_NAMES, _is_count)
        _, condition = _first(named, FILTER_NAMES, lambda value: value is not None)
        if self.k:
            k_value = self.k(*args, **kwargs)
        if self.filter:
            condition = self.filter(*args, **kwargs)
        if self.parameters:
            others = self.parameters(*args, **kwargs) or {}
        else:
            used = {k_name, "self", "cls", *FILTER_NAMES, *TEXT_NAMES}
            others = {name: value for name, value in named.items() if name not in used}
        return CallRecord(
            vector=matrix,
            ids=None,
            filter=condition if isinstance(condition, str | Filter) else plain(condition),
            k=int(k_value) if _is_count(k_value) else None,
            parameters=flat_scalars(others),
            latency_ms=timing.latency_ms,
            time=timing.began,
        )

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, defaults included; those without a name have their place as one."""
        if self.signature is None:
            return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            raise NotFoundError("the arguments do not fit the function") from problem
        bound.apply_defaults()
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                named |= {f"{name}{place}": each for place, each in enumerate(value)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named |= value
            else:
                named[name] = value
        return named

    def _vector(
        self, named: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> NDArray[Any]:
        given = [self.vector(*args, **kwargs)] if self.vector else named.values()
        found = next((array for each in given if (array := as_vector(each)) is not None), None)
        if found is None:
            raise NotFoundError("vector= returned no vector" if self.vector else "no argument is a vector")
        if not all_finite(found):
            raise NotFoundError("the vector has numbers that are not finite")
        return found


def _rows_of(call: CallRecord) -> list[CallRecord]:
    """The queries of a batch; each has copies of its own, because a redaction may change them."""
    return [
        replace(
            call,
            vector=row,
            batch=len(call.vector),
            parameters=dict(call.parameters),
            filter=call.filter if isinstance(call.filter, str | Filter) else plain(call.filter),
        )
        for row in call.vector
    ]


def valid_record(record: CallRecord | None) -> CallRecord | None:
    """What a redaction returned, refused if it cannot be written."""
    if record is None:
        return None
    vector = as_vector(record.vector)
    if vector is None or vector.ndim != 1 or not all_finite(vector):
        raise TypeError("the vector of the record is none")
    ids = None if record.ids is None else ids_per_query(record.ids, None)
    if (ids is None) != (record.ids is None) or not (record.k is None or _is_count(record.k)):
        raise TypeError("the record has invalid ids or k")
    return CallRecord(
        vector=vector,
        ids=None if ids is None else ids[0],
        filter=record.filter if isinstance(record.filter, str | Filter) else plain(record.filter),
        k=record.k,
        parameters=flat_scalars(record.parameters),
        latency_ms=float(record.latency_ms),
        time=record.time.astimezone(UTC),
        batch=int(record.batch),
        error=None if record.error is None else str(record.error),
    )


def as_vector(value: Any) -> NDArray[np.generic] | None:
    """A copy of a vector, or of a matrix of them, if the value is one."""
    import numpy as np

    if isinstance(value, list | tuple):
        if not value or not _begins_like_a_vector(value[0]):
            return None
    elif not (hasattr(value, "__array__") or hasattr(value, "to_numpy") or isinstance(value, memoryview)):
        return None
    try:
        found = value.to_numpy() if hasattr(value, "to_numpy") else value
        array = np.array(found)
    except Exception:
        # Ragged lists, tensors on another device: whatever it is, it is no vector that can be kept.
        return None
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or not array.size:
        return None
    kept = isinstance(value, list | tuple) or array.dtype.name not in _DTYPES
    return array.astype(np.float32) if kept else array


def all_finite(array: NDArray[Any]) -> bool:
    """Whether all numbers are finite; one vector that is not would spoil the log for every reader."""
    import numpy as np

    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _begins_like_a_vector(first: Any) -> bool:
    if isinstance(first, list | tuple):
        return bool(first) and _begins_like_a_vector(first[0])
    number = isinstance(first, int | float) and not isinstance(first, bool)
    return number or hasattr(first, "__array__") or hasattr(first, "to_numpy")


def _first(named: Mapping[str, Any], names: tuple[str, ...], fits: Callable[[Any], bool]) -> tuple[str, Any]:
    """The first argument with one of the names and a value that fits; no name and None without one."""
    return next(((name, named[name]) for name in names if name in named and fits(named[name])), ("", None))


def _is_count(value: Any) -> bool:
    integer = hasattr(value, "__index__") and not isinstance(value, bool)
    return integer and not hasattr(value, "__len__") and 0 <= int(value) < 1 << 31
