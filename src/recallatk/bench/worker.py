"""The measuring process: builds one index, measures its trials, and writes down every call.

Started as `python -m recallatk.bench.worker DATA FOLDER PARENT` with thread counts in the environment.
It says what it does on what was its standard output, one JSON object a line; whatever an engine prints goes
where its errors go.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from recallatk.bench.events import NO_SPACE, Event, Failed, Finished, Paused, to_line
from recallatk.bench.job import insertion_order, read_corpus, read_filters, read_job, read_vectors
from recallatk.bench.load import Questions
from recallatk.bench.parentage import belong_to
from recallatk.bench.session import Done, in_words, log_traceback, measure_build
from recallatk.engines import get_engine
from recallatk.errors import WriteError


class Channel:
    """Standard input and output for us alone: others find the one empty and the other among the errors."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self.back = os.fdopen(os.dup(0), encoding="utf-8")
        os.dup2(2, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def say(self, event: Event) -> None:
        """Send one line."""
        self.out.write(to_line(event))
        self.out.flush()

    def wait(self) -> None:
        """Until a line comes; without anybody to send one there is nobody to measure for."""
        if not self.back.readline():
            os._exit(1)


def work(data: Path, folder: Path, channel: Channel) -> None:
    """Do the job of a folder."""
    job = read_job(folder)
    order = insertion_order(job, len(read_vectors(data, "corpus")))
    questions = Questions(np.array(read_vectors(data, "queries")), job.k, read_filters(data))
    with get_engine(job.engine)() as engine:
        for event in measure_build(engine, job, read_corpus(data, order), questions, order):
            if isinstance(event, Done):
                event.raw.save(result_file(folder, event.number))
                channel.say(Finished(event.number))
            else:
                channel.say(event)
            if isinstance(event, Paused):
                channel.wait()


def result_file(folder: Path, number: int) -> Path:
    """Where what a trial gave is written."""
    return folder / f"trial-{number}.npz"


def main(data: str, folder: str, parent: str) -> int:
    """Work, and say what went wrong if it did."""
    belong_to(int(parent))
    channel = Channel()
    try:
        work(Path(data), Path(folder), channel)
    except WriteError as problem:
        channel.say(Failed(None, NO_SPACE, "search", str(problem)))
        return 1
    except Exception as problem:
        log_traceback()
        channel.say(Failed(None, "exception", "build", in_words(problem)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
