"""Under every load an index answers the same, and an interrupt ends a block at once."""

import os
import signal
import time

import numpy as np
import psutil
import pytest
from load_engines import Echo, numbered

from recallatk.adapters import get_engine
from recallatk.adapters.base import resolved
from recallatk.bench.load import Questions, require_supported, run_block, warm_up
from recallatk.core import Load
from recallatk.testing import tiny_dataset

LOADS = [
    Load(),
    Load("throughput", clients=3),
    Load("throughput", batch=7),
    Load("throughput", clients=2, batch=5),
    Load("throughput", clients=2, via="processes"),
    Load("rate", rate=2000.0),
]


@pytest.mark.parametrize("name", ["faiss-hnsw", "faiss-ivf-flat", "usearch", "hnswlib"])
def test_an_index_answers_the_same_under_every_load(name):
    kind, dataset = get_engine(name), tiny_dataset(400, 60, 16)
    questions = Questions(np.array(dataset.queries.vectors.read(0, 60)), 10)
    order = np.random.default_rng(0).permutation(60)
    with kind() as engine:
        engine.set_threads(2)
        engine.build(dataset.corpus, dataset.metric, **resolved(name, kind.build_knobs, {}))
        engine.set_threads(1)
        engine.configure(**resolved(name, kind.search_knobs, {}))
        warm_up(engine, questions, order, first=True)
        plain = np.vstack([engine.search(*each) for each in questions.single])
        for load in LOADS:
            require_supported(engine, load)
            block = run_block(engine, load, questions, order)
            assert np.array_equal(np.sort(block.answered), np.arange(60)), load
            assert np.array_equal(block.rows, plain[block.answered]), load


def interrupting():
    """An engine that is interrupted once, as by Ctrl-C, when it is asked query 7."""
    process, left = os.getpid(), [signal.SIGINT]

    class Interrupting(Echo):
        def search(self, batch, k):
            # The order comes again; one client takes the signal, in whichever process.
            if 7 in batch.vectors[:, 0] and left:
                os.kill(process, left.pop())
            return super().search(batch, k)

    return Interrupting(0.001)


@pytest.mark.parametrize(
    "load",
    [
        Load(seconds=60.0),
        Load("throughput", clients=3, seconds=60.0),
        Load("throughput", clients=3, via="processes", seconds=60.0),
        Load("rate", rate=200.0, seconds=60.0),
    ],
    ids=str,
)
def test_an_interrupt_ends_the_block(load, interruptible):
    engine, began = interrupting(), time.perf_counter()
    before = psutil.Process().children()
    with pytest.raises(KeyboardInterrupt):
        run_block(engine, load, numbered(20), np.arange(20))
    assert time.perf_counter() - began < 30
    assert psutil.Process().children() == before
    assert all(each.closed for each in engine.clients)
