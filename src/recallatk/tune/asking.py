"""An index that is built when somebody asks it, and asked only what no earlier call has written down."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.relevance import relevance_loss
from recallatk.bench.conversation import Conversation, Speaker, TrialFailed
from recallatk.bench.events import Built
from recallatk.bench.supervising import Limits
from recallatk.datasets.sampling import take_queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.goals import Target
    from recallatk.tune.journal import Journal
    from recallatk.tune.sides import Side


@dataclass(frozen=True, eq=False)
class Answers:
    """What some queries of a side got: a value for each target, and what each call took."""

    which: NDArray[np.int64]
    values: tuple[NDArray[np.float64], ...]
    """For each target the value of each query, from 0 to 1; NaN where it has none or is not of it."""
    raw: tuple[NDArray[np.float64], ...]
    """The same as measure or loss, in the units of the target."""
    latencies_ns: NDArray[np.int64]
    measured: NDArray[np.float64]
    """The first target's measure of each query, whether the target is of it or not."""
    pace_ns: int | None = None
    """What a fixed piece of work took right after the calls; None where nobody asked for it."""


@dataclass
class Room:
    """The processes that hold indexes: as few as there can be, as many as are needed at once."""

    dataset: Dataset
    folder: Path
    k: int
    seed: int
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._data: Path | None = None
        self._open: list[tuple[Conversation, Index | None]] = []

    @property
    def data(self) -> Path:
        """What all processes read, written when the first needs it."""
        if self._data is None:
            from recallatk.bench.job import write_data

            self._data = self.folder / "data"
            self._data.mkdir()
            write_data(self._data, self.dataset, needs_ids=False)
        return self._data

    def start(self, engine: str) -> None:
        """Let a process load its library while nobody waits for it."""
        if not any(each.speaker.engine == engine for each, _ in self._open):
            self._open.append((self._started(engine), None))

    def _started(self, engine: str) -> Conversation:
        speaker = Speaker(engine, str(self.dataset.metric), self.k, self.seed)
        return Conversation(self.data, self.folder / f"process-{len(self._open)}", speaker)

    def holding(self, index: Index) -> Conversation | None:
        """The process that holds this index, or the same built before; None where none does."""
        for place, (talk, held) in enumerate(self._open):
            if talk.alive and held is not None and held.name == index.name:
                self._open[place] = (talk, index)
                return talk
        return None

    def build(self, index: Index, seconds: float | None) -> Built:
        """Build it in a process of its engine that holds nothing to be kept."""
        place = self._free(index.engine)
        talk = self._open[place][0]
        self._open[place] = (talk, None)
        talk.limits = Limits(build_seconds=seconds, memory_bytes=self.limits.memory_bytes)
        built = talk.build(index.build, index.side_rows)
        self._open[place] = (talk, index)
        return built

    def _free(self, engine: str) -> int:
        for place, (talk, held) in enumerate(self._open):
            if talk.speaker.engine == engine and talk.alive and (held is None or not held.kept):
                return place
        self._open.append((self._started(engine), None))
        return len(self._open) - 1

    def close(self) -> None:
        """End all processes."""
        for talk, _ in self._open:
            talk.close()


class Index:
    """One build, whole or of a part; everything that it is asked goes through the journal."""

    def __init__(
        self, room: Room, journal: Journal, engine: str, build: dict[str, Any], rows: int,
        part: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        self.room, self.journal, self.engine, self.build, self.rows = room, journal, engine, build, rows
        self.side_rows = part
        self.kept = False
        """Whether its process must not be used for another build."""
        self.seconds_left: float | None = None

    @property
    def name(self) -> list[Any]:
        """What the journal knows it by."""
        return [self.engine, self.build, self.rows]

    def built(self) -> Built:
        """What the build cost, from the first time that it was built."""
        found = self.journal.step(["build", *self.name], self._build, self.seconds_left)
        return Built(**found["built"])

    def _build(self) -> dict[str, Any]:
        return {"built": asdict(self.room.build(self, self.seconds_left))}

    def ask(
        self, side: Side, targets: Sequence[Target], search: dict[str, Any], which: NDArray[np.int64],
        *, warm: bool = False, pace: bool = False, purpose: str = "",
    ) -> Answers:  # fmt: skip
        """Ask some queries of a side."""
        numbers = side.asked(which)
        key = ["ask", *self.name, side.name, search, purpose, warm, _digest(numbers)]
        found = self.journal.step(key, lambda: self._ask(side, targets, search, which, numbers, warm, pace))
        raw = tuple(_floats(each) for each in found["raw"])
        return Answers(
            which,
            tuple(target.shaped(each) for target, each in zip(targets, raw, strict=True)),
            raw,
            np.asarray(found["latency_ns"], np.int64),
            _floats(found["measured"]),
            found["pace_ns"],
        )

    def _ask(
        self, side: Side, targets: Sequence[Target], search: dict[str, Any], which: NDArray[np.int64],
        numbers: NDArray[np.int64], warm: bool, pace: bool,
    ) -> dict[str, Any]:  # fmt: skip
        talk = self.room.holding(self)
        if talk is None:
            self.room.build(self, self.seconds_left)
            talk = self.room.holding(self)
            if talk is None:
                raise TrialFailed("crash", "start", "the process ended without a word")
        answered = talk.ask(search, numbers, warm=warm, pace=pace)
        raw, measured = _scored(side, targets, which, answered.rows)
        return {
            "raw": [_plain(each) for each in raw],
            "measured": _plain(measured),
            "latency_ns": answered.latencies_ns.tolist(),
            "evidence": answered.evidence,
            "pace_ns": answered.pace_ns,
        }


def _scored(
    side: Side, targets: Sequence[Target], which: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    scores = any(each.measure.needs_scores for each in targets)
    compared = side.compared(which, rows, scores=scores)
    raw = []
    for target in targets:
        if target.relevance:
            found = _losses(side, which, rows, target.relevance)
        else:
            found = target.measure.per_query(compared)
        members = target.members(side.columns, len(side))[which]
        raw.append(np.where(members, found, np.nan))
    return raw, targets[0].measure.per_query(compared)


def _losses(
    side: Side, which: NDArray[np.int64], rows: NDArray[np.int64], measure: str
) -> NDArray[np.float64]:
    """What these queries lose; NaN for each that was not judged."""
    asked = replace(side.dataset, queries=take_queries(side.dataset.queries, which))
    known = side.dataset.qrels or {}
    if not any(known.get(str(each)) for each in asked.queries.ids.to_pylist()):
        return np.full(len(which), np.nan)
    return relevance_loss(rows, side.truth.take(which), asked, measure)


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(each) else each for each in values.tolist()]


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if each is None else each for each in values], np.float64)


def _digest(numbers: NDArray[np.int64]) -> str:
    from hashlib import blake2b

    return blake2b(np.ascontiguousarray(numbers).tobytes(), digest_size=8).hexdigest()
