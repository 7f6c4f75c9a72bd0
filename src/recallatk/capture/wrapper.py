"""`tap`: a search function that keeps a sample of its calls in a folder."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import os
import random
import threading
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from recallatk.capture.call_record import CallReader, CallRecord, CallTime, Extractor, NotFoundError
from recallatk.capture.log_writer import LogLimits, LogWriter, Redaction
from recallatk.errors import UsageError
from recallatk.redaction import is_url, without_secrets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from recallatk.files import PathLike

# So many calls are never made; gaps of the smallest probabilities are longer.
_NEVER = 2.0**62

Arguments = ParamSpec("Arguments")
Result_co = TypeVar("Result_co", covariant=True)


class Tapped(Protocol[Arguments, Result_co]):
    """A search function whose calls are sampled, with its log."""

    log: LogWriter

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result_co:
        """Search as before."""


def tap(
    search: Callable[Arguments, Result_co],
    *,
    sample: float = 0.01,
    to: PathLike,
    vector: Extractor | None = None,
    filter: Extractor | None = None,
    k: Extractor | None = None,
    parameters: Extractor | None = None,
    ids: Extractor | None = None,
    redact: Redaction | None = None,
    max_bytes: int = LogLimits.max_bytes,
    rotate_rows: int = LogLimits.rotate_rows,
    rotate_seconds: float = LogLimits.rotate_seconds,
    keep_bytes: int | None = LogLimits.keep_bytes,
    seed: int | None = None,
) -> Tapped[Arguments, Result_co]:
    """Keep a sample of the calls of a search function in rotating Parquet files.

    The result is the same function, sync or async, with the attribute `log`: `log.flush()`, `log.close()`,
    `log.counts`. A background thread writes. Whatever goes wrong with the log is logged once and counted;
    only the search itself raises.

    Args:
        search: a function, bound method or coroutine function that takes a vector and returns ids.
        sample: probability with which each call is kept.
        to: folder of the files, made if it is missing.
        vector: returns the vector, or a matrix of them, from the arguments; by default the first that is one.
        filter: returns the filter from the arguments; by default the argument called filter or where.
        k: returns k from the arguments; by default the argument called k, limit, top_k or n_results.
        parameters: returns a dict from the arguments; by default all numbers and short strings among them.
        ids: returns the ids from the result; by default lists, arrays, hits with an id and dicts with ids.
        redact: gets each `CallRecord` before it is written; returns it, changed or not, or None to drop it.
        max_bytes: most memory for calls that wait to be written; calls beyond are dropped and counted.
        rotate_rows: most rows of a file.
        rotate_seconds: longest time until a call is written.
        keep_bytes: most bytes of files in the folder, the oldest deleted first; None keeps all.
        seed: random seed for sampling.
    """
    if not callable(search):
        raise UsageError(f"search is an object of type {type(search).__name__}. Accepted: a function")
    if not _is_probability(sample):
        raise UsageError(f"sample is {sample!r}. Accepted: a probability from 0 to 1, such as 0.01")
    if is_url(os.fspath(to)):
        raise UsageError(f"{without_secrets(os.fspath(to))}: calls are written to local folders only")
    limits = LogLimits(max_bytes, rotate_rows, rotate_seconds, keep_bytes)
    if min(max_bytes, rotate_rows) < 1 or rotate_seconds <= 0:
        raise UsageError("max_bytes, rotate_rows and rotate_seconds must be positive")
    reader = CallReader.of(search, vector=vector, filter=filter, k=k, parameters=parameters, ids=ids)
    # Resolved now: the service may change its working directory later.
    log = LogWriter(Path(to).absolute(), limits, redact)
    kept = _Kept(reader, log)
    is_async = inspect.iscoroutinefunction(search) or inspect.iscoroutinefunction(type(search).__call__)
    tapped = (_async_wrapper if is_async else _wrapper)(search, Sampler(sample, seed), kept)
    tapped.log = log
    weakref.finalize(tapped, log.retire).atexit = False
    return tapped  # type: ignore[no-any-return]


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and 0.0 <= value <= 1.0


class Sampler:
    """Which calls are kept: each with the same probability, drawn as gaps between kept calls.

    A call takes a number, which is atomic; only one that reaches `due` takes the lock. Threads may
    exchange which of two simultaneous calls is kept, and never lose or add one.
    """

    def __init__(self, probability: float, seed: int | None) -> None:
        self.probability = probability
        self.random = random.Random(seed)  # noqa: S311 - a sample, not a secret
        self.numbers = itertools.count(1)
        self.lock = threading.RLock()
        self.due = self._gap()
        self.seeded = seed is not None
        _samplers.add(self)

    def _gap(self) -> float:
        """Calls until the next kept one: geometric."""
        if self.probability >= 1.0:
            # Every call is due, in whichever order threads arrive.
            return 0
        if self.probability <= 0.0:
            return math.inf
        skipped = math.log(1.0 - self.random.random()) / math.log1p(-self.probability)
        return 1 + int(min(skipped, _NEVER))

    def keeps(self, number: int) -> bool:
        """Whether to keep a call that has reached `due`."""
        with self.lock:
            if number < self.due:
                return False
            self.due += self._gap()
            return True


_samplers: weakref.WeakSet[Sampler] = weakref.WeakSet()


def _restart_samplers() -> None:
    """In a forked child: new locks, and other draws, or all workers would keep the same places."""
    for sampler in list(_samplers):
        sampler.lock = threading.RLock()
        if not sampler.seeded:
            sampler.random.seed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_samplers)


class _Kept:
    """Turns a call into records for the log; swallows and counts whatever goes wrong."""

    def __init__(self, reader: CallReader, log: LogWriter) -> None:
        self.reader, self.log = reader, log

    def returned(self, call: _Call, result: Any) -> None:
        """Keep a call that returned."""
        timing = call.timing()
        self._keep(lambda: self.reader.records(call.args, call.kwargs, result, timing))

    def raised(self, call: _Call, error: BaseException) -> None:
        """Keep a call that raised."""
        timing = call.timing()
        self._keep(lambda: self.reader.failures(call.args, call.kwargs, error, timing))

    def _keep(self, read: Callable[[], list[CallRecord]]) -> None:
        try:
            self.log.add(read())
        except NotFoundError as problem:
            self.log.count("skipped", 1, str(problem))
        except Exception as problem:
            # The text of a stranger's exception may quote its arguments.
            self.log.count("skipped", 1, f"reading a call raised {type(problem).__name__}")


class _Call:
    """The arguments of a call that is kept, and its clock."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.began = datetime.now(UTC)
        self.started = time.perf_counter_ns()

    def timing(self) -> CallTime:
        """When it began, and how long it has taken until now."""
        return CallTime(self.began, (time.perf_counter_ns() - self.started) / 1e6)


def _wrapper(search: Callable[..., Any], sampler: Sampler, kept: _Kept) -> Any:
    numbers = sampler.numbers

    @functools.wraps(search)
    def tapped(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        if number < sampler.due or not sampler.keeps(number):
            return search(*args, **kwargs)
        call = _Call(args, kwargs)
        try:
            result = search(*args, **kwargs)
        except BaseException as error:
            kept.raised(call, error)
            raise
        return _observed(result, call, kept)

    return tapped


def _observed(result: Any, call: _Call, kept: _Kept) -> Any:
    """The result, kept now, or once it is there if it is a future or another awaitable."""
    if hasattr(result, "add_done_callback"):
        result.add_done_callback(lambda future: _settle(future, call, kept))
        return result
    if inspect.isawaitable(result):
        return _awaited(result, call, kept)
    kept.returned(call, result)
    return result


def _settle(future: Any, call: _Call, kept: _Kept) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is None:
        kept.returned(call, future.result())
    else:
        kept.raised(call, error)


def _async_wrapper(search: Callable[..., Any], sampler: Sampler, kept: _Kept) -> Any:
    numbers = sampler.numbers

    @functools.wraps(search)
    async def tapped(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        if number < sampler.due or not sampler.keeps(number):
            return await search(*args, **kwargs)
        call = _Call(args, kwargs)
        try:
            awaitable = search(*args, **kwargs)
        except BaseException as error:
            kept.raised(call, error)
            raise
        return await _awaited(awaitable, call, kept)

    return tapped


async def _awaited(awaitable: Awaitable[Any], call: _Call, kept: _Kept) -> Any:
    try:
        result = await awaitable
    except BaseException as error:
        kept.raised(call, error)
        raise
    kept.returned(call, result)
    return result
