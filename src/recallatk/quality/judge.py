"""Answer-level quality: a function that judges what was retrieved for a query, asked once per retrieval."""

from __future__ import annotations

import inspect
import math
import secrets
import sys
from dataclasses import dataclass
from numbers import Integral
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.callable import found_function
from recallatk.core import Caution
from recallatk.datasets.sampling import sample_rows
from recallatk.errors import UsageError
from recallatk.fingerprint import Hash
from recallatk.quality.cache import QualityCache
from recallatk.quality.calls import CallLimits, JudgeCalls, Question
from recallatk.quality.inputs import JudgeInputs
from recallatk.truths.store import default_folder
from recallatk.units import counted, parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.files import PathLike

QUALITY = "quality"
USUAL_K = 10
_SHOWN_REASONS = 3


@dataclass(frozen=True)
class Quality:
    """A judge of answers and how it is called.

    Args:
        function: `quality(query, retrieved) -> float`, or its name as `module:function`. `query` has `id`,
            `text` and `columns`; `retrieved` is a list of rows with `id`, `rank`, `text` and `columns`.
        k: number of retrieved rows to judge; by default 10, or the largest measured k if it is smaller.
        rate: most calls, such as `"20/s"` or `"100/min"`; no limit by default.
        retries: further calls after an exception or a call that took too long.
        timeout: time limit of one call, such as `"30s"`.
        clients: most calls at once; several only for a function that threads may share.
        cache: folder of judged values; by default in the user's cache directory.
        version: identity of prompt and model. By default, the source of the function's module identifies it,
            and any edit judges again.
        sample: number of queries to judge; all by default.
        seed: random seed for the sample.
    """

    function: Callable[..., Any] | str
    k: int | None = None
    rate: str | None = None
    retries: int = 3
    timeout: str = "30s"
    clients: int = 1
    cache: PathLike | None = None
    version: str | None = None
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.function) and not isinstance(self.function, str):
            raise UsageError(
                f"quality: {type(self.function).__name__} cannot be called. Accepted: a function "
                "quality(query, retrieved), or module:function"
            )
        for name, least in (("k", 1), ("retries", 0), ("clients", 1), ("sample", 1), ("seed", 0)):
            value: Any = getattr(self, name)
            whole = not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least
            if not whole and not (value is None and name in ("k", "sample")):
                raise UsageError(f"quality: {name} = {value!r}. Accepted: whole numbers from {least}")
        _ = self.limits

    @property
    def limits(self) -> CallLimits:
        """How the function may be called."""
        return CallLimits(
            seconds=parse_duration(str(self.timeout)),
            retries=self.retries,
            rate=None if self.rate is None else parse_rate(str(self.rate)),
            clients=self.clients,
        )


class QualityJudge:
    """Values of a judge for retrieved rows: one number per query.

    Retrievals with the same rows in the same order are judged once, in this process and, through the cache,
    in later ones. A query that the judge fails on has no value and is counted; it never gets a default.

    Args:
        quality: the judge and how it is called.
        dataset: corpus and queries.
        largest_k: number of rows that a retrieval has.
    """

    names = (QUALITY,)

    def __init__(self, quality: Quality, dataset: Dataset, largest_k: int) -> None:
        if quality.k is not None and quality.k > largest_k:
            raise UsageError(
                f"quality: k = {quality.k}, but only {largest_k} rows are retrieved. "
                f"Accepted: up to {largest_k}"
            )
        self.k = quality.k or min(USUAL_K, largest_k)
        self.function = _function(quality.function)
        self.name = _name_of(quality.function)
        source = _identity(quality, self.function)
        self._identity = [self.name, source]
        self._inputs = JudgeInputs(dataset)
        # A function that nothing identifies may be another one tomorrow.
        folder = (quality.cache or default_folder() / QUALITY) if source is not None else None
        self.cache = QualityCache(folder)
        self.calls = JudgeCalls(self.function, self._inputs, self.cache, quality.limits)
        self.queries = _sampled(dataset, quality)
        """Numbers of the queries that are judged."""
        self._count, self._corpus_rows = dataset.queries.rows, dataset.corpus.rows
        self.failures: dict[str, tuple[str | int, str]] = {}
        """Failed retrievals by key: the id of the query and the reason."""
        self.watch: Callable[[int, int], None] = lambda _done, _of: None
        """Called with the questions of a retrieval that are settled, and their number."""
        self.judged: set[str] = set()
        """Keys of all retrievals that were to be judged."""
        # Values of a function that nothing identifies are comparable only with each other.
        told_apart = self._identity if source is not None else [self.name, secrets.token_hex(8)]
        self.identity = f"{QUALITY} {Hash(QUALITY, told_apart, self.k, self.queries.tolist()).text()}"
        """What values are judged by; those of another identity are not comparable."""

    def values(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """The judge's value for each query; NaN for queries outside the sample and where the judge failed.

        Args:
            rows: (queries, k) retrieved corpus rows, best first, padded with -1.
        """
        if len(rows) != self._count:
            raise UsageError(f"{len(rows):,} retrievals for {counted(self._count, 'query', 'queries')}")
        found = np.full(self._count, math.nan)
        questions = self._questions(rows)
        self._ask(questions)
        for each in questions:
            value = self.cache.find(each.key)
            found[each.query] = math.nan if value is None else value
        return {QUALITY: found}

    def cautions(self) -> tuple[Caution, ...]:
        """What a reader of the values must know: queries without one, and values that were not saved."""
        found = (self._failed(), self._unsaved(), self._unidentified())
        return tuple(each for each in found if each is not None)

    @property
    def complete(self) -> bool:
        """Whether it never failed; where it did, a later run may ask again."""
        return not self.failures

    @property
    def notes(self) -> tuple[str, ...]:
        """The messages of the cautions."""
        return tuple(each.message for each in self.cautions())

    def _questions(self, rows: NDArray[np.int64]) -> list[Question]:
        lists = {int(query): self._distinct(rows[query]) for query in self.queries}
        self._inputs.read(lists, {row for listed in lists.values() for row in listed})
        return [Question(query, listed, self._key(query, listed)) for query, listed in lists.items()]

    def _distinct(self, rows: NDArray[np.int64]) -> tuple[int, ...]:
        """The first k distinct rows, without padding and numbers that are no rows."""
        return tuple(dict.fromkeys(row for row in rows.tolist() if 0 <= row < self._corpus_rows))[: self.k]

    def _key(self, query: int, rows: tuple[int, ...]) -> str:
        return Hash(QUALITY, self._identity, self._inputs.digests(query, rows)).text()

    def _ask(self, questions: list[Question]) -> None:
        """Ask what is neither known nor failed yet, each retrieval once."""
        self.judged.update(each.key for each in questions)
        known = {each.key: each for each in questions if each.key not in self.failures}
        new = [each for each in known.values() if self.cache.find(each.key) is None]
        for done, settled in enumerate(self.calls.ask(new), 1):
            self.watch(done, len(new))
            if settled.value is None:
                asked = self._inputs.query(settled.question.query).id
                self.failures[settled.question.key] = (asked, settled.reason)

    def _failed(self) -> Caution | None:
        if not self.failures:
            return None
        reasons = dict.fromkeys(reason for _, reason in self.failures.values())
        first = {reason: name for name, reason in reversed(self.failures.values())}
        shown = [f"{reason} (query {first[reason]})" for reason in list(reasons)[:_SHOWN_REASONS]]
        more = f"; {len(reasons) - _SHOWN_REASONS} other reasons" if len(reasons) > _SHOWN_REASONS else ""
        return Caution(
            QUALITY,
            f"{self.name} failed on {len(self.failures):,} of {len(self.judged):,} judged retrievals, which "
            f"have no value and are left out of every mean: {'; '.join(shown)}{more}",
            float(len(self.failures)),
        )

    def _unidentified(self) -> Caution | None:
        if self.cache.folder is not None:
            return None
        said = "no source identifies it. A later run judges again. State a version"
        return Caution(QUALITY, f"the values of {self.name} were not saved: {said}")

    def _unsaved(self) -> Caution | None:
        unsaved = self.cache.unsaved
        if not unsaved:
            return None
        values = counted(len(unsaved), "value was", "values were")
        return Caution(
            QUALITY,
            f"{values} not saved, and a later run pays for them again: {next(iter(unsaved.values()))}",
            float(len(unsaved)),
        )


def _sampled(dataset: Dataset, quality: Quality) -> NDArray[np.int64]:
    rows = dataset.queries.rows
    if quality.sample is None or quality.sample >= rows:
        return np.arange(rows)
    return sample_rows(dataset.queries, quality.sample, seed=quality.seed)


def _function(given: Callable[..., Any] | str) -> Callable[..., Any]:
    function = found_function(QUALITY, given) if isinstance(given, str) else given
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"quality: {_name_of(given)} is async. Accepted: a plain function")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise UsageError(
            f"quality: {_name_of(given)} cannot be called with two arguments. Accepted: a function "
            "quality(query, retrieved)"
        ) from None
    except ValueError:
        # Functions written in C have no signature.
        pass
    return function


def _name_of(given: Callable[..., Any] | str) -> str:
    if isinstance(given, str):
        return given
    named = given if hasattr(given, "__qualname__") else type(given)
    return f"{named.__module__}:{named.__qualname__}"


def _identity(quality: Quality, function: Callable[..., Any]) -> Mapping[str, str] | None:
    """What tells the function from an edited one; None if nothing does."""
    if quality.version is not None:
        return {"version": quality.version}
    # A prompt is often a constant in the module of the function. A script holds much else.
    source: Any = None
    if isinstance(quality.function, str):
        source = sys.modules.get(quality.function.partition(":")[0])
    elif isinstance(function, FunctionType) and function.__closure__ is None:
        own = function.__module__ == "__main__"
        source = function if own else sys.modules.get(function.__module__, function)
    try:
        return None if source is None else {"source": Hash("source", inspect.getsource(source)).text()}
    except (OSError, TypeError):
        return None
