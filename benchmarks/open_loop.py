"""What an open and a closed loop report of a service that stands still for 200 ms of every 2 s.

    python benchmarks/open_loop.py [--rate 200] [--seconds 20] [--seed 0]

The service is tests/bench/load/stalling_server.py in a process of its own, asked by the `http` engine. A
tenth of the arrivals fall into a stall and wait uniformly up to 200 ms, so that a share of 0.1 (1 - w / 200)
waits longer than w: the p99 of the waiting is 180 ms, its p95 100 ms, and its p90 0. To that the service adds
its own time, taken to be the median of the closed loop, which has one call on its way and meets a stall once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recallatk import make_corpus
from recallatk.adapters.base import resolved
from recallatk.adapters.http import Http
from recallatk.analysis.latency import percentile, percentile_interval
from recallatk.bench.load import Questions, run_block
from recallatk.core import Calls, Load, Metric, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).parent.parent / "tests" / "bench" / "load" / "stalling_server.py"
STALL_MS, STALLED, AIM = 200.0, 0.1, 0.1
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    questions, order = Questions(np.eye(4, dtype=np.float32), 3), np.arange(4)
    with asked() as engine:
        load = Load(Mode.RATE, rate=chosen.rate, seconds=chosen.seconds)
        opened = run_block(engine, load, questions, order, seed=chosen.seed)
        closed = run_block(engine, Load(seconds=chosen.seconds), questions, order)
    report(opened.calls, closed.calls)


@contextmanager
def asked() -> Iterator[Http]:
    """The engine, attached to the service."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(SERVER)], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/search"
        with Http() as engine:
            corpus = make_corpus(np.eye(4, dtype=np.float32))
            engine.build(corpus, Metric.L2, **resolved("http", Http.build_knobs, {"url": url}))
            engine.configure(**resolved("http", Http.search_knobs, {}))
            yield engine
        server.stdin.close()


def report(opened: Calls, closed: Calls) -> None:
    service = percentile(closed.latency_ns, 0.5) or 0.0
    print(f"{'ms':<6} {'analytic':>9} {'open loop':>10} {'its interval':>18} {'closed loop':>12}")
    for name, share in SHARES.items():
        analytic = STALL_MS * max(0.0, 1 - (1 - share) / STALLED) + service
        low, high = (f"{each:.1f}" if each else "-" for each in percentile_interval(opened.latency_ns, share))
        both = [f"{percentile(each.latency_ns, share) or 0.0:.1f}" for each in (opened, closed)]
        print(f"{name:<6} {analytic:>9.1f} {both[0]:>10} {f'{low} to {high}':>18} {both[1]:>12}")
    print(f"{'calls':<6} {'':>9} {len(opened):>10,} {'':>18} {len(closed):>12,}")
    found, analytic = percentile(opened.latency_ns, 0.99) or 0.0, 0.9 * STALL_MS + service
    off = abs(found / analytic - 1)
    print(f"p99 of the open loop is {off:.1%} off{'' if off <= AIM else f', above the aim of {AIM:.0%}'}")
    early = opened.late_ns[opened.late_ns < np.median(opened.latency_ns)]
    # Both sides need a processor to catch up after a stall, and on a busy machine wait for it.
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"sent {np.median(early) / 1e3:.0f} us after it was due in the median, where a client was free")


if __name__ == "__main__":
    main()
