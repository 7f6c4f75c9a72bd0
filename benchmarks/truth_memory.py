"""Whether a memory budget holds: truth on a float32 corpus several times as large.

    python benchmarks/truth_memory.py [--gib 6] [--memory 1GiB] [--queries 1000] [--format npy]

The corpus is written to a temporary folder, and its truth computed in a process of its own; the peak of
resident memory is taken against that of the same process before the corpus was opened.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from recallatk import convert

DIMENSION = 768

PROBE = """
import json, sys, time
import numpy, pyarrow.parquet, faiss, onnxruntime
import recallatk.cli
from recallatk import open_dataset
from recallatk.truths import obtain_truth
from recallatk.datasets.registry import all_formats
all_formats()
def memory(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(key))) / 1024
folder, corpus, budget = sys.argv[1:]
before = memory("VmRSS")
started = time.perf_counter()
dataset = open_dataset(f"{folder}/{corpus}", f"{folder}/queries.npy", metric="l2")
found = obtain_truth(dataset, depth=100, memory=budget, store=f"{folder}/store")
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "peak": memory("VmHWM") - before, "baseline": before}))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=6)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--format", default="npy")
    chosen = parser.parse_args()
    rows = int(chosen.gib * (1 << 30)) // (4 * DIMENSION)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "corpus.npy", rows)
        random = np.random.default_rng(1)
        np.save(folder / "queries.npy", random.standard_normal((chosen.queries, DIMENSION), np.float32))
        corpus = f"corpus.{chosen.format}"
        if chosen.format != "npy":
            convert(folder / "corpus.npy", folder / corpus)
        command = [sys.executable, "-c", PROBE, name, corpus, chosen.memory]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    rate = 2e-9 * rows * chosen.queries * DIMENSION / found["seconds"]
    print(
        f"{rows:,} x {DIMENSION} float32 ({chosen.gib:g} GiB) as {chosen.format}, {chosen.queries:,} queries"
    )
    print(
        f"budget {chosen.memory}: peak {found['peak']:,.0f} MiB over {found['baseline']:,.0f} MiB before, "
        f"{found['seconds']:,.0f} s, {rate:,.0f} GFLOP/s with fingerprints and all reading"
    )


def write(path: Path, rows: int) -> None:
    random = np.random.default_rng(0)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, DIMENSION)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, 65_536):
            file.write(random.standard_normal((min(65_536, rows - start), DIMENSION), np.float32).data)


if __name__ == "__main__":
    main()
