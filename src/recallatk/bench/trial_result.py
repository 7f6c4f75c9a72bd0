"""Raw results of a trial or a request before scoring: collected in the worker, read by its parent."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Calls, Others, WarmUp
from recallatk.core.filtering import Refusals, read_refusals
from recallatk.core.stages import StageTrace, stacked
from recallatk.redaction import redact_text
from recallatk.scratch import scratch_writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.bench.load import Block

_CALLS = ("query", "client", "sent_ns", "latency_ns", "late_ns", "round_ns", "size")
_FACTS = "facts"


@dataclass(frozen=True, eq=False)
class TrialResult:
    """Every call of a trial, and every answer that differs from the first."""

    number: int
    """Its position among all trials of the run."""
    calls: Calls
    answers: NDArray[np.int64]
    """(queries, k) corpus rows of the first answer to each query."""
    times: NDArray[np.int64]
    """Number of answers to each query."""
    others: Others | None
    exercised: str
    warm_up: WarmUp | None
    sentinel_ns: NDArray[np.int64]
    highest_rate: float | None = None
    refused: Refusals | None = None
    trace: StageTrace | None = None
    """What each stage of a path did; None for engines without stages."""

    def save(self, path: Path) -> None:
        """Write it as one file of arrays."""
        others = {} if self.others is None else {f.name: getattr(self.others, f.name) for f in fields(Others)}
        facts = {
            "number": self.number,
            "exercised": self.exercised,
            "warm_up": None if self.warm_up is None else asdict(self.warm_up),
            "highest_rate": self.highest_rate,
            "batch": self.calls.batch,
            "clients": self.calls.clients,
            "refused": None if self.refused is None else self.refused.to_dict(),
            "stages": None if self.trace is None else list(self.trace.names),
        }
        arrays = {
            "answers": self.answers,
            "times": self.times,
            "sentinel_ns": self.sentinel_ns,
            **({} if self.refused is None else {"refused": self.refused.numbers}),
            **{f"calls_{name}": getattr(self.calls, name) for name in (*_CALLS, "round")},
            **{f"others_{name}": array for name, array in others.items()},
            **({} if self.trace is None else _trace_arrays(self.trace)),
        }
        save_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: Path) -> TrialResult:
        """Read it back."""
        arrays, facts = load_arrays(path)
        calls = {name: arrays[f"calls_{name}"] for name in (*_CALLS, "round")}
        others = [arrays[f"others_{f.name}"] for f in fields(Others) if f"others_{f.name}" in arrays]
        return cls(
            number=facts["number"],
            calls=Calls(**calls, batch=facts["batch"], clients=facts["clients"]),
            answers=arrays["answers"],
            times=arrays["times"],
            others=Others(*others) if others else None,
            exercised=facts["exercised"],
            warm_up=None if facts["warm_up"] is None else WarmUp(**facts["warm_up"]),
            sentinel_ns=arrays["sentinel_ns"],
            highest_rate=facts["highest_rate"],
            refused=read_refusals(arrays.get("refused"), facts["refused"]),
            trace=_read_trace(arrays, facts["stages"]),
        )


def _trace_arrays(trace: StageTrace) -> dict[str, NDArray[Any]]:
    lists = {f"stage_{number}": rows for number, rows in enumerate(trace.rows)}
    scores = {f"leg_scores_{number}": found for number, found in enumerate(trace.scores)}
    return {"spans_ns": trace.spans_ns, "stage_queries": trace.queries, **lists, **scores}


def _read_trace(arrays: Mapping[str, NDArray[Any]], names: list[str] | None) -> StageTrace | None:
    if names is None:
        return None
    rows = tuple(arrays[f"stage_{number}"] for number in range(len(names)))
    scored = (f"leg_scores_{number}" for number in range(len(names)))
    scores = tuple(arrays[name] for name in scored if name in arrays)
    return StageTrace(tuple(names), arrays["spans_ns"], arrays["stage_queries"], rows, scores)


def _merged(traces: list[StageTrace]) -> StageTrace | None:
    """One trace of several rounds: all times, and the rows that each query got first."""
    if not traces:
        return None
    queries = np.concatenate([each.queries for each in traces])
    _, first = np.unique(queries, return_index=True)
    first_trace = traces[0]
    lists = [stacked([each.rows[place] for each in traces])[first] for place in range(len(first_trace.names))]
    scored = range(len(first_trace.scores))
    scores = [stacked([each.scores[place] for each in traces], np.nan)[first] for place in scored]
    spans = np.concatenate([each.spans_ns for each in traces])
    return StageTrace(first_trace.names, spans, queries[first], tuple(lists), tuple(scores))


class TrialBlocks:
    """The blocks of one trial so far; repeated answers are stored only if they differ from the first."""

    def __init__(self, number: int, queries: int, k: int, refused: Refusals | None = None) -> None:
        self.number, self.refused = number, refused
        self.answers = np.full((queries, k), -1, np.int64)
        self.times = np.zeros(queries, np.int64)
        self.rounds: list[Calls] = []
        self.others: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.sentinel_ns: list[int] = []
        self.warm_up: WarmUp | None = None
        self.exercised = ""
        self.highest_rate: float | None = None
        self.traces: list[StageTrace] = []

    def add(self, block: Block, order: NDArray[np.int64] | None, trace: StageTrace | None = None) -> None:
        """Add a block; `order` maps index rows to corpus rows, None if they are equal."""
        if trace is not None:
            mapped = [each if order is None else corpus_rows(each, order) for each in trace.rows]
            self.traces.append(replace(trace, rows=tuple(mapped)))
        rows = block.rows if order is None else corpus_rows(block.rows, order)
        queries, first = np.unique(block.answered, return_index=True)
        new = self.times[queries] == 0
        self.answers[queries[new]] = rows[first[new]]
        self.times += np.bincount(block.answered, minlength=len(self.times))
        changed = np.flatnonzero((rows != self.answers[block.answered]).any(axis=1))
        if len(changed):
            calls_before = sum(map(len, self.rounds))
            self.others.append((block.call[changed] + calls_before, block.answered[changed], rows[changed]))
        self.rounds.append(block.calls)

    def add_warm_up(self, found: WarmUp) -> None:
        """Add the warm-up of a block."""
        before = self.warm_up
        if before is not None:
            found = WarmUp(before.calls + found.calls, before.settled and found.settled, before.cold_ns)
        self.warm_up = found

    def result(self) -> TrialResult:
        """The merged result of all blocks."""
        columns = {name: np.concatenate([getattr(each, name) for each in self.rounds]) for name in _CALLS}
        calls = Calls(
            **columns,
            round=np.repeat(np.arange(len(self.rounds), dtype=np.int16), list(map(len, self.rounds))),
            batch=self.rounds[-1].batch,
            clients=self.rounds[-1].clients,
        )
        others = [np.concatenate(each) for each in zip(*self.others, strict=True)]
        return TrialResult(
            number=self.number,
            calls=calls,
            answers=self.answers,
            times=self.times,
            others=Others(*others) if others else None,
            exercised=redact_text(self.exercised),
            warm_up=self.warm_up,
            sentinel_ns=np.asarray(self.sentinel_ns, np.int64),
            highest_rate=self.highest_rate,
            refused=self.refused,
            trace=_merged(self.traces),
        )


def corpus_rows(rows: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Map index rows to corpus rows; numbers outside the index are left unchanged."""
    known = (rows >= 0) & (rows < len(order))
    return np.where(known, order[np.where(known, rows, 0)], rows)


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers to some queries, in the order in which they were sent."""

    rows: NDArray[np.int64]
    """(queries, k) rows of the index, padded with -1."""
    latencies_ns: NDArray[np.int64]
    seconds: float
    evidence: str
    pace_ns: int | None = None
    """Time of the sentinel right after the calls; None if not requested."""
    unused: str = ""
    """Why there is no evidence that the index answered, if that is no failure; else empty."""

    def save(self, path: Path) -> None:
        """Write it as one file of arrays."""
        facts = {
            "seconds": self.seconds,
            "evidence": self.evidence,
            "pace_ns": self.pace_ns,
            "unused": self.unused,
        }
        save_arrays(path, {"rows": self.rows, "latencies_ns": self.latencies_ns}, facts)

    @classmethod
    def load(cls, path: Path) -> Answered:
        """Read it back."""
        arrays, facts = load_arrays(path)
        return cls(arrays["rows"], arrays["latencies_ns"], **facts)


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays and JSON values as one scratch file."""
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with scratch_writing(path):
        np.savez(path, allow_pickle=False, **arrays, **{_FACTS: text})


def load_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read both back."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    facts: dict[str, Any] = json.loads(arrays.pop(_FACTS).tobytes())
    return arrays, facts
