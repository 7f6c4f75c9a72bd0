"""What `recallatk.tap` adds to a call, against the bare function in one run, interleaved.

    python benchmarks/tap.py [--rounds 41] [--calls 20000]

An unsampled call is one of a wrapper that keeps nothing yet: sample = 1e-9. Bare and tapped functions take
turns, a block of calls each, and who is first changes; a round's figure is the mean over its block. `us more`
is the median of the differences, with their 5th and 95th percentile. `same` is the bare function against
itself, which is what the machine's noise is worth. The aim is less than 5 us.

Then a real search (faiss, HNSW, the bundled vectors) for the ratio that a service would see, and what a
sampled call costs its caller, with sample = 1: copying the vector, finding the ids, queueing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

import recallatk

if TYPE_CHECKING:
    from collections.abc import Callable

    Block = Callable[[int], float]

AIM_US = 5.0
NEVER = 1e-9
VECTOR = np.random.default_rng(0).normal(size=384).astype(np.float32)
FOUND = list(range(10))


def bare(vector: Any, k: int = 10, *, ef: int = 64) -> list[int]:  # noqa: ARG001
    return FOUND


async def bare_async(vector: Any, k: int = 10, *, ef: int = 64) -> list[int]:  # noqa: ARG001
    return FOUND


def sync_block(search: Any) -> Block:
    def block(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            search(VECTOR, 10, ef=80)
        return (time.perf_counter() - began) / calls * 1e6

    return block


def async_block(search: Any) -> Block:
    async def loop(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            await search(VECTOR, 10, ef=80)
        return (time.perf_counter() - began) / calls * 1e6

    return lambda calls: asyncio.run(loop(calls))


def compare(name: str, one: Block, other: Block, rounds: int, calls: int) -> float:
    """Print how much longer a call of the other takes; the median in microseconds."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for block in (one, other):
        block(calls)
    gc.disable()
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            times[which].append((one, other)[which](calls))
    gc.enable()
    more = sorted(theirs - ours for ours, theirs in zip(*times.values(), strict=True))
    low, high = np.percentile(more, [5, 95])
    first, second = (statistics.median(each) for each in times.values())
    median = statistics.median(more)
    spread = f"{low:.3f} to {high:.3f}"
    print(f"{name:<34} {first:>9.3f} {second:>9.3f} {median:>8.3f} {spread:>17} {second / first:>7.3f}")
    return median


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=20_000)
    chosen = parser.parse_args()
    rounds, calls = chosen.rounds, chosen.calls
    print(f"{'':<34} {'bare us':>9} {'tapped us':>9} {'us more':>8} {'5 % to 95 %':>17} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        plain, later = (recallatk.tap(each, sample=NEVER, to=folder) for each in (bare, bare_async))
        compare("same: bare against itself", sync_block(bare), sync_block(bare), rounds, calls)
        added = [
            compare("unsampled, sync", sync_block(bare), sync_block(plain), rounds, calls),
            compare("unsampled, async", async_block(bare_async), async_block(later), rounds, calls),
        ]
        real(folder, rounds)
        sampled(folder, rounds)
    verdict = "within" if max(added) < AIM_US else "NOT within"
    print(f"added to an unsampled call: at most {max(added):.3f} us, {verdict} the aim of {AIM_US} us")


def real(folder: str, rounds: int) -> None:
    """A search of an index, unsampled."""
    demo = recallatk.open_demo()
    vectors = np.array(demo.corpus.vectors.read(0, demo.corpus.rows), np.float32)
    index = faiss.IndexHNSWFlat(vectors.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    faiss.omp_set_num_threads(1)
    index.add(vectors)
    queries = np.array(demo.queries.vectors.read(0, 200), np.float32)

    def block_of(search: Any) -> Block:
        def block(calls: int) -> float:
            began = time.perf_counter()
            for number in range(calls):
                search(queries[number : number + 1], 10)
            return (time.perf_counter() - began) / calls * 1e6

        return block

    tapped = recallatk.tap(index.search, sample=NEVER, to=folder)
    compare("unsampled, faiss HNSW", block_of(index.search), block_of(tapped), rounds, len(queries))


def sampled(folder: str, rounds: int) -> None:
    """Calls that are kept; the writer is idle meanwhile, and empties its queue between blocks."""
    for name, vector in (("sampled, array of 384", VECTOR), ("sampled, list of 384", VECTOR.tolist())):
        # Nothing is written within a block, and nothing is dropped.
        tapped: Any = recallatk.tap(bare, sample=1.0, to=folder, max_bytes=1 << 30, rotate_seconds=3600)

        def block_of(search: Any, argument: Any, log: Any = None) -> Block:
            def block(calls: int) -> float:
                began = time.perf_counter()
                for _ in range(calls):
                    search(argument, 10, ef=80)
                taken = (time.perf_counter() - began) / calls * 1e6
                if log is not None:
                    log.flush(60)
                return taken

            return block

        compare(name, block_of(bare, vector), block_of(tapped, vector, tapped.log), min(rounds, 15), 500)
        assert tapped.log.counts["dropped"] == 0
        tapped.log.close()


if __name__ == "__main__":
    main()
