"""Generated runbooks: random replacement, sliding window, growth, clustered deletes, a tenant that leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import blocks
from recallatk.core.churned import Operation
from recallatk.errors import UsageError, unknown
from recallatk.streaming.runbook import Step
from recallatk.units import counted, parse_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Corpus


@dataclass(frozen=True)
class Generator:
    """A kind of runbook with its parameters.

    Args:
        kind: one of `KINDS`.
        steps: how many times rows change; a search follows each change, and one precedes the first.
        share: rows that change at a time, as a share of the rows at the start, such as 0.01 or 1%.
        start: rows at the start, as a share of the corpus; the others are inserted later.
        seed: random seed of the rows.
        column: corpus column with the tenant of each row, for `tenant-leaving`.
    """

    kind: str
    steps: int = 20
    share: float | str = 0.01
    start: float | str = 0.8
    seed: int = 0
    column: str | None = None

    @classmethod
    def parse(cls, text: str) -> Generator | None:
        """`KIND` or `KIND:NAME=VALUE,…`; None for other text."""
        kind, _, rest = text.partition(":")
        if kind not in KINDS:
            return None
        given: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            name, sign, value = part.partition("=")
            if not sign or name not in _PARAMETERS:
                raise UsageError(f"{text}: {unknown('parameter', name, _PARAMETERS)}, each as NAME=VALUE")
            given[name] = _PARAMETERS[name](name, value)
        return cls(kind, **given)

    def described(self, made: Sequence[Step]) -> str:
        """What its steps do, in words; there are fewer changes than asked for where the rows are used up."""
        of = f" of {self.column}" if self.column else ""
        done = sum(each.operation is Operation.SEARCH for each in made) - 1
        each = "one value each" if self.kind == "tenant-leaving" else _percent(self.share)
        fewer = "" if done == self.steps else f" ({self.steps:,} were asked for, no more rows can change)"
        return f"{self.kind}{of}, {counted(done, 'change', 'changes')} of {each}{fewer}"

    def generate(self, corpus: Corpus) -> list[Step]:
        """The steps for a corpus."""
        if self.kind not in KINDS:
            raise UsageError(unknown("kind of runbook", self.kind, KINDS))
        if self.steps < 1:
            raise UsageError(f"steps = {self.steps}. Accepted: whole numbers from 1")
        first = _count(self.start, corpus.rows, "start")
        each = _count(self.share, first, "share")
        if self.column is not None and self.kind != "tenant-leaving":
            raise UsageError(f"column = {self.column!r}: only tenant-leaving reads a column")
        random = np.random.default_rng(self.seed)
        made = [Step(1, Operation.INSERT), Step(2, Operation.SEARCH)]
        plan = _Plan(self, corpus, first, each, random)
        made[0] = Step(1, Operation.INSERT, plan.initial)
        for group in KINDS[self.kind](plan):
            for operation, rows in group:
                made.append(Step(len(made) + 1, operation, rows))
            made.append(Step(len(made) + 1, Operation.SEARCH))
        return made


class _Plan:
    """The rows of a generated runbook: which are live, and which come next."""

    def __init__(
        self, asked: Generator, corpus: Corpus, first: int, each: int, random: np.random.Generator
    ) -> None:
        self.asked, self.corpus, self.each, self.random = asked, corpus, each, random
        # Rows in a file are often sorted; which come first must not depend on that.
        ordered = asked.kind == "sliding-window"
        order = np.arange(corpus.rows) if ordered else random.permutation(corpus.rows)
        self.initial = np.sort(order[:first])
        self.waiting = order[first:]
        self.live = self.initial

    def arrivals(self, count: int) -> NDArray[np.int64]:
        """The next rows to insert; those that were deleted first come again when all were inserted."""
        rows, self.waiting = self.waiting[:count], self.waiting[count:]
        self.live = np.concatenate([self.live, rows])
        return np.sort(rows)

    def departures(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows that are deleted, and wait to be inserted again."""
        self.live = self.live[~np.isin(self.live, rows)]
        self.waiting = np.concatenate([self.waiting, rows])
        return np.sort(rows)


def _random_replacement(plan: _Plan) -> Iterator[list[tuple[Operation, NDArray[np.int64]]]]:
    for _ in range(plan.asked.steps):
        arrivals = plan.arrivals(plan.each)
        before = plan.live[: len(plan.live) - len(arrivals)]
        gone = plan.departures(plan.random.choice(before, plan.each, replace=False))
        yield [(Operation.DELETE, gone), *_inserted(arrivals)]


def _sliding_window(plan: _Plan) -> Iterator[list[tuple[Operation, NDArray[np.int64]]]]:
    for _ in range(plan.asked.steps):
        arrivals = plan.arrivals(plan.each)
        gone = plan.departures(plan.live[: plan.each])
        yield [*_inserted(arrivals), (Operation.DELETE, gone)]


def _growth(plan: _Plan) -> Iterator[list[tuple[Operation, NDArray[np.int64]]]]:
    for _ in range(plan.asked.steps):
        arrivals = plan.arrivals(plan.each)
        if not len(arrivals):
            return
        yield _inserted(arrivals)


def _clustered_deletes(plan: _Plan) -> Iterator[list[tuple[Operation, NDArray[np.int64]]]]:
    """Each time, the rows around a random one leave, and random ones arrive."""
    for _ in range(plan.asked.steps):
        center = int(plan.random.choice(plan.live))
        near = _nearest(plan.corpus, center, np.sort(plan.live), plan.each)
        arrivals = plan.arrivals(plan.each)
        yield [(Operation.DELETE, plan.departures(near)), *_inserted(arrivals)]


def _tenant_leaving(plan: _Plan) -> Iterator[list[tuple[Operation, NDArray[np.int64]]]]:
    """Each time, all rows of one value of the column leave, the largest first."""
    column, corpus = plan.asked.column, plan.corpus
    if column is None:
        raise UsageError("tenant-leaving needs the column with the tenants: tenant-leaving:column=NAME")
    if column not in corpus.metadata_names:
        raise UsageError(f"column: {unknown('corpus column', column, corpus.metadata_names)}")
    codes = corpus.columns.read([column], 0, corpus.rows)[column].combine_chunks().dictionary_encode()
    labels = codes.indices.fill_null(-1).to_numpy()
    for _ in range(plan.asked.steps):
        here = labels[plan.live]
        values, counts = np.unique(here[here >= 0], return_counts=True)
        if len(values) < 2:
            return
        gone = plan.live[here == values[counts.argmax()]]
        if len(gone) == len(plan.live):
            return
        plan.live = plan.live[here != values[counts.argmax()]]
        yield [(Operation.DELETE, np.sort(gone))]


def _inserted(rows: NDArray[np.int64]) -> list[tuple[Operation, NDArray[np.int64]]]:
    return [(Operation.INSERT, rows)] if len(rows) else []


def _nearest(corpus: Corpus, center: int, live: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The live rows nearest to one of them by angle, which every metric orders clusters by well enough."""
    query = corpus.vectors.read(center, center + 1).astype(np.float64)[0]
    scores = np.empty(corpus.rows)
    for start, block in blocks(corpus.vectors):
        wide = block.astype(np.float64)
        norms = np.linalg.norm(wide, axis=1)
        scores[start : start + len(block)] = wide @ query / np.where(norms > 0, norms, 1.0)
    return live[np.argsort(-scores[live], kind="stable")[:count]]


def _count(share: float | str, of: int, name: str) -> int:
    """Rows of a share, at least one."""
    found = _share(share)
    if not 0 < found <= 1:
        raise UsageError(f"{name} = {share}. Accepted: above 0, up to 1, or a share such as 1%")
    return max(1, round(found * of))


def _percent(share: float | str) -> str:
    return f"{100 * _share(share):.3g}%"


def _share(share: float | str) -> float:
    return parse_share(share) if isinstance(share, str) else share


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{name} = {text}. Accepted: whole numbers")
    return int(text)


def _as_is(_: str, text: str) -> str:
    return text


_PARAMETERS: dict[str, Callable[[str, str], Any]] = {
    "steps": _whole,
    "share": _as_is,
    "start": _as_is,
    "seed": _whole,
    "column": _as_is,
}
KINDS: dict[str, Callable[[_Plan], Iterator[list[tuple[Operation, NDArray[np.int64]]]]]] = {
    "random-replacement": _random_replacement,
    "sliding-window": _sliding_window,
    "growth": _growth,
    "clustered-deletes": _clustered_deletes,
    "tenant-leaving": _tenant_leaving,
}
