"""What a trial gave before it is scored: collected block by block, kept in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Calls, Others, WarmUp
from recallatk.redaction import redact_text
from recallatk.scratch import scratch_writing

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.bench.load import Block

_OF_BLOCKS = ("query", "client", "sent_ns", "latency_ns", "late_ns")
_CALLS = (*_OF_BLOCKS, "round", "round_ns", "size")


@dataclass(frozen=True, eq=False)
class Raw:
    """Everything that was timed and answered."""

    calls: Calls
    answers: NDArray[np.int64]
    """(queries, k) corpus rows as first returned."""
    times: NDArray[np.int64]
    """How often each query was asked."""
    others: Others | None
    exercised: str
    warm_up: WarmUp | None
    sentinel_ns: NDArray[np.int64]
    highest_rate: float | None = None

    def save(self, path: Path) -> None:
        """Write it as one file of arrays."""
        named = (
            {}
            if self.others is None
            else {each.name: getattr(self.others, each.name) for each in fields(Others)}
        )
        said = {
            "exercised": self.exercised,
            "warm_up": None if self.warm_up is None else asdict(self.warm_up),
            "highest_rate": self.highest_rate,
            "batch": self.calls.batch,
            "clients": self.calls.clients,
        }
        with scratch_writing(path):
            np.savez(
                path,
                allow_pickle=False,
                answers=self.answers,
                times=self.times,
                sentinel_ns=self.sentinel_ns,
                said=np.frombuffer(json.dumps(said).encode(), np.uint8),
                **{f"calls_{name}": getattr(self.calls, name) for name in _CALLS},
                **{f"others_{name}": array for name, array in named.items()},
            )

    @classmethod
    def load(cls, path: Path) -> Raw:
        """Read it back."""
        with np.load(path, allow_pickle=False) as arrays:
            said = json.loads(arrays["said"].tobytes())
            named = {f.name: f"others_{f.name}" for f in fields(Others)}
            there = named["call"] in arrays
            return cls(
                calls=Calls(
                    **{name: arrays[f"calls_{name}"] for name in _CALLS},
                    batch=said["batch"],
                    clients=said["clients"],
                ),
                answers=arrays["answers"],
                times=arrays["times"],
                others=Others(**{name: arrays[key] for name, key in named.items()}) if there else None,
                exercised=said["exercised"],
                warm_up=None if said["warm_up"] is None else WarmUp(**said["warm_up"]),
                sentinel_ns=arrays["sentinel_ns"],
                highest_rate=said["highest_rate"],
            )


class Collected:
    """The blocks of one trial while it is measured; only what differs from a first answer is kept twice."""

    def __init__(self, queries: int, k: int, batch: int) -> None:
        self.answers = np.full((queries, k), -1, np.int64)
        self.times = np.zeros(queries, np.int64)
        self.batch = batch
        self.clients: int | None = None
        self.parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _OF_BLOCKS}
        self.round_ns: list[int] = []
        self.sizes: list[NDArray[Any]] = []
        self.calls = 0
        self.others: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.sentinel_ns: list[int] = []
        self.warm_up: WarmUp | None = None
        self.exercised = ""
        self.highest_rate: float | None = None

    def add(self, block: Block, order: NDArray[np.int64] | None) -> None:
        """Take a block in; `order` says which corpus row stands at each place of the index."""
        rows = block.rows if order is None else _renamed(block.rows, order)
        queries, first = np.unique(block.answered, return_index=True)
        new = self.times[queries] == 0
        self.answers[queries[new]] = rows[first[new]]
        self.times += np.bincount(block.answered, minlength=len(self.times))
        changed = np.flatnonzero((rows != self.answers[block.answered]).any(axis=1))
        if len(changed):
            self.others.append((block.call[changed] + self.calls, block.answered[changed], rows[changed]))
        self.calls += len(block)
        self.clients = block.clients
        self.round_ns.append(block.wall_ns)
        self.sizes.append(np.bincount(block.call, minlength=len(block)).astype(np.int32))
        for name, parts in self.parts.items():
            parts.append(getattr(block, name))

    def warmed(self, found: WarmUp) -> None:
        """Add a warm-up to those before."""
        before = self.warm_up
        if before is not None:
            found = WarmUp(before.calls + found.calls, before.settled and found.settled, before.cold_ns)
        self.warm_up = found

    def raw(self) -> Raw:
        """All blocks together."""
        sizes = [len(each) for each in self.parts["query"]]
        calls = Calls(
            **{name: np.concatenate(parts) for name, parts in self.parts.items()},
            round=np.repeat(np.arange(len(sizes), dtype=np.int16), sizes),
            round_ns=np.asarray(self.round_ns, np.int64),
            batch=self.batch,
            size=np.concatenate(self.sizes),
            clients=self.clients,
        )
        others = [np.concatenate(each) for each in zip(*self.others, strict=True)]
        return Raw(
            calls=calls,
            answers=self.answers,
            times=self.times,
            others=Others(*others) if others else None,
            exercised=redact_text(self.exercised),
            warm_up=self.warm_up,
            sentinel_ns=np.asarray(self.sentinel_ns, np.int64),
            highest_rate=self.highest_rate,
        )


def _renamed(rows: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in the index as rows of the corpus; what is no place stays as it is."""
    known = (rows >= 0) & (rows < len(order))
    return np.where(known, order[np.where(known, rows, 0)], rows)
