"""The worker: a process that builds and searches indexes of one engine, and records every call.

Started as `python -m recallatk.bench.worker DATA FOLDER PARENT` with thread counts in the environment.
It answers requests until its input closes; whatever an engine prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recallatk.adapters import get_engine
from recallatk.bench.child_process import belong_to
from recallatk.bench.job import (
    queries_file,
    read_corpus,
    read_filters,
    read_job,
    read_sparse,
    read_texts,
    read_vectors,
    remember_secrets,
    result_file,
)
from recallatk.bench.load import Questions
from recallatk.bench.load.writes import Write
from recallatk.bench.messages import (
    NO_SPACE,
    AskRequest,
    Began,
    BuildRequest,
    ChangeRequest,
    Failed,
    Finished,
    MeasureRequest,
    OrderRequest,
    OverlapRequest,
    ProbeRequest,
    Ready,
    WeighRequest,
    from_line,
    to_line,
)
from recallatk.bench.session import Session, failure_of
from recallatk.bench.trial_result import TrialResult, save_arrays
from recallatk.errors import WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.adapters import Engine
    from recallatk.bench.job import Job
    from recallatk.bench.messages import Event, Request


class Channel:
    """Standard input and output, reserved for messages: engines read nothing and print to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._back = os.fdopen(os.dup(0), encoding="utf-8")
        os.dup2(2, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def say(self, event: Event) -> None:
        """Send one event."""
        self._out.write(to_line(event))
        self._out.flush()

    def requests(self) -> Iterator[Request]:
        """Requests as they arrive, until the parent closes the input."""
        while line := self._back.readline():
            yield from_line(line)


class Worker:
    """Request handler: yields events; arrays go through files in its folder."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder = data, folder
        self.job = read_job(folder)
        self._remember(*(task.search for task in self.job.tasks))
        # Import the engine now, before any limit or clock applies.
        self.kind = kind = _engine(self.job)
        if kind.inputs.functions and not os.environ.get("PYTHONSAFEPATH"):
            # Last, so that no file in the user's folder hides an installed module.
            sys.path.append(str(Path.cwd()))
        questions = Questions(
            np.array(read_vectors(data, "queries")),
            self.job.k,
            read_filters(data),
            read_texts(data) if kind.inputs.texts else None,
            read_sparse(data, kind.inputs.sparse),
        )
        self.session = Session(kind, self.job, questions)

    def _remember(self, *parameters: dict[str, object]) -> None:
        remember_secrets(self.job.engine, *parameters)

    def answer(self, request: Request) -> Iterator[Event]:
        """The events of a request; a failure is one of them."""
        try:
            match request:
                case BuildRequest():
                    yield from self._build(request)
                case MeasureRequest():
                    yield from self._measure(request)
                case AskRequest():
                    yield from self._ask(request)
                case ProbeRequest():
                    yield from self._probe(request)
                case OrderRequest():
                    yield from self._order(request)
                case ChangeRequest():
                    yield from self._change(request)
                case WeighRequest():
                    yield self.session.weigh()
                case OverlapRequest():
                    yield from self._overlap(request)
        except WriteError as problem:
            yield Failed(getattr(request, "number", None), NO_SPACE, "search", str(problem))
        except Exception as problem:
            phase = "build" if isinstance(request, BuildRequest) else "search"
            yield failure_of(problem, phase, getattr(request, "number", None))
            if isinstance(request, BuildRequest):
                self.session.close()

    def _build(self, request: BuildRequest) -> Iterator[Event]:
        self._remember(request.parameters)
        # Drop the previous index first: memory may not hold two corpora.
        self.session.close()
        order = None if request.rows is None else np.load(self.folder / request.rows, allow_pickle=False)
        yield from self.session.build(read_corpus(self.data, order), request.parameters, order)

    def _measure(self, request: MeasureRequest) -> Iterator[Event]:
        for event in self.session.measure(request.numbers):
            if isinstance(event, TrialResult):
                event.save(result_file(self.folder, event.number))
                yield Finished(event.number)
            else:
                yield event

    def _ask(self, request: AskRequest) -> Iterator[Event]:
        self._remember(request.search)
        order = np.load(queries_file(self.folder, request.number), allow_pickle=False)
        yield Began("search", request.number)
        self.session.ask(request, order).save(result_file(self.folder, request.number))
        yield Finished(request.number)

    def _probe(self, request: ProbeRequest) -> Iterator[Event]:
        self._remember(request.search)
        misses = np.load(queries_file(self.folder, request.number), allow_pickle=False)
        vectors = read_vectors(self.data, "corpus")
        yield Began("explain")
        found = self.session.probe(request, misses, lambda row: vectors[row : row + 1])
        found.save(result_file(self.folder, request.number))
        yield Finished(request.number)

    def _change(self, request: ChangeRequest) -> Iterator[Event]:
        rows = np.load(queries_file(self.folder, request.number), allow_pickle=False)
        yield Began("change", request.number)
        yield self.session.change(request.number, self._write(request.change, rows))

    def _write(self, change: str, rows: NDArray[np.int64]) -> Write:
        """A write with its vectors in memory, so that reading them is not timed."""
        vectors = read_vectors(self.data, "corpus")[rows] if change == "insert" else None
        return Write(change, rows, vectors)

    def _overlap(self, request: OverlapRequest) -> Iterator[Event]:
        self._remember(request.search)
        rows = np.load(queries_file(self.folder, request.number), allow_pickle=False)
        ends = np.cumsum([count for _, count in request.writes])
        parts = np.split(rows, ends[:-1])
        writes = [self._write(change, part) for (change, _), part in zip(request.writes, parts, strict=True)]
        yield Began("search", request.number)
        self.session.overlap(request, writes).save(result_file(self.folder, request.number))
        yield Finished(request.number)

    def _order(self, request: OrderRequest) -> Iterator[Event]:
        from recallatk.pipeline.path_engine import function_orders

        lines = np.load(queries_file(self.folder, request.number), allow_pickle=False)
        function = function_orders(self.kind, read_corpus(self.data))[request.stage]
        ordered = np.empty((len(lines), lines.shape[1] - 1), np.int64)
        for place, line in enumerate(lines):
            # One by one, so that a process that ends has named the query.
            yield Began("truth", int(line[0]))
            batch, _ = self.session.questions.single[line[0]]
            ordered[place] = function.order(batch, line[None, 1:])
        save_arrays(result_file(self.folder, request.number), {"rows": ordered}, {})
        yield Finished(request.number)


def _engine(job: Job) -> type[Engine]:
    """The engine of a job: registered, or the path that the job declares."""
    if job.declaration is None:
        return get_engine(job.engine)
    from recallatk.pipeline.path import Path as RetrievalPath
    from recallatk.pipeline.path_engine import path_engine

    return path_engine(RetrievalPath.from_plain(job.declaration))


def main(data: str, folder: str, parent: str) -> int:
    """Answer requests until the input closes."""
    belong_to(int(parent))
    channel = Channel()
    try:
        worker = Worker(Path(data), Path(folder))
    except Exception as problem:
        channel.say(failure_of(problem, "start"))
        return 1
    with worker.session:
        for request in channel.requests():
            for event in worker.answer(request):
                channel.say(event)
            channel.say(Ready())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
