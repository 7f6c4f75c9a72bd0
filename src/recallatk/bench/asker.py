"""The process behind a conversation: builds when it is told, and answers what it is asked.

Started as `python -m recallatk.bench.asker DATA FOLDER PARENT`. Requests come in as JSON, one a line; what it
says goes out as the events of every measuring process, and arrays go through files in the folder.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.events import NO_SPACE, Began, Failed, Finished
from recallatk.bench.job import read_corpus, read_filters, read_job, read_vectors
from recallatk.bench.load import Questions, run_block
from recallatk.bench.parentage import belong_to
from recallatk.bench.sentinel import Sentinel
from recallatk.bench.session import build_index, in_words, load_library, log_traceback
from recallatk.bench.warming import warm_up
from recallatk.bench.worker import Channel
from recallatk.core import Load
from recallatk.engines import get_engine
from recallatk.engines.base import importing
from recallatk.errors import EngineError, WriteError
from recallatk.redaction import redact_text
from recallatk.scratch import scratch_writing

if TYPE_CHECKING:
    from recallatk.core import WarmUp
    from recallatk.engines import Engine


class Asker:
    """One index at a time, built anew as often as it is told."""

    def __init__(self, data: Path, folder: Path, channel: Channel) -> None:
        self.data, self.folder, self.channel = data, folder, channel
        self.job = read_job(folder)
        queries = np.array(read_vectors(data, "queries"))
        self.questions = Questions(queries, self.job.k, read_filters(data))
        self.engine: Engine | None = None
        self.sentinel: Sentinel | None = None
        self.prepared = self.untouched = False
        # Imported while nobody waits for it.
        self.kind = get_engine(self.job.engine)

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        while line := self.channel.back.readline():
            request = json.loads(line)
            if request["do"] == "build":
                self._try_to_build(request)
            else:
                self._try_to_answer(request)
        self._let_go()

    def _try_to_build(self, request: dict[str, Any]) -> None:
        try:
            self._build(request)
        except Exception as problem:
            log_traceback()
            self._let_go()
            self.channel.say(Failed(None, "exception", "build", in_words(problem)))

    def _build(self, request: dict[str, Any]) -> None:
        self._let_go()
        rows = request["rows"]
        corpus = read_corpus(self.data, None if rows is None else np.load(self.folder / rows))
        job = replace(self.job, build=request["parameters"])
        self.engine = self.kind()
        if not self.prepared:
            self.channel.say(Began("preparing"))
            load_library(self.engine, job, corpus)
            self.prepared = True
        self.channel.say(Began("build"))
        built = build_index(self.engine, job, corpus)
        self.engine.set_threads(job.search_threads)
        self.untouched = True
        gc.collect()
        gc.freeze()
        gc.disable()
        self.channel.say(built)

    def _try_to_answer(self, request: dict[str, Any]) -> None:
        number = request["number"]
        try:
            with importing(self.kind):
                self._answer(request)
        except WriteError as problem:
            self.channel.say(Failed(number, NO_SPACE, "search", str(problem)))
        except EngineError as problem:
            self.channel.say(Failed(number, request.get("failing", "exception"), "search", str(problem)))
        except Exception as problem:
            log_traceback()
            self.channel.say(Failed(number, "exception", "search", in_words(problem)))

    def _answer(self, request: dict[str, Any]) -> None:
        number, engine = request["number"], self.engine
        if engine is None:
            raise EngineError(f"{self.job.engine}: nothing is built")
        order = np.load(self.folder / f"queries-{number}.npy", allow_pickle=False)
        self.channel.say(Began("search", number))
        engine.configure(**request["search"])
        warmed: WarmUp | None = None
        if request["warm"]:
            warmed = warm_up(engine, self.questions, order, first=self.untouched)
        self.untouched = False
        started = time.perf_counter()
        block = run_block(engine, Load(), self.questions, order)
        seconds = time.perf_counter() - started
        request["failing"] = "no evidence"
        said = {
            "evidence": redact_text(engine.exercised()),
            "seconds": seconds,
            "pace_ns": self._pace() if request["pace"] else None,
            "warm_up": None if warmed is None else warmed.calls,
        }
        answers = self.folder / f"answers-{number}.npz"
        with scratch_writing(answers):
            np.savez(
                answers,
                allow_pickle=False,
                rows=block.rows,
                latencies_ns=block.latency_ns,
                said=np.frombuffer(json.dumps(said).encode(), np.uint8),
            )
        self.channel.say(Finished(number))

    def _pace(self) -> int:
        """What a fixed piece of work takes right now."""
        if self.sentinel is None:
            self.sentinel = Sentinel(self.job.seed)
        return self.sentinel.pace_ns()

    def _let_go(self) -> None:
        """Make room for the next index."""
        gc.enable()
        gc.unfreeze()
        if self.engine is not None:
            with contextlib.suppress(EngineError):
                self.engine.close()
        self.engine = None
        gc.collect()


def main(data: str, folder: str, parent: str) -> int:
    """Serve, and say what went wrong if it did."""
    belong_to(int(parent))
    channel = Channel()
    try:
        Asker(Path(data), Path(folder), channel).serve()
    except Exception as problem:
        log_traceback()
        channel.say(Failed(None, "exception", "start", in_words(problem)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
