"""How fast fingerprints are, in GB/s from the page cache, against plain hashing in the same run.

    python benchmarks/fingerprint.py [--mib 1024] [--rounds 5]

Every format holds the same float32 matrix and must give the same fingerprint. The peer is hashlib's
SHA-256 over the bytes in memory, which is what a checksum tool would run; for Parquet, it is pyarrow
decoding the vectors and doing nothing with them.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from blake3 import blake3

from recallatk.datasets import convert, open_corpus
from recallatk.fingerprint import fingerprint_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

DIMENSION = 384
ENDINGS = ("npy", "fbin", "fvecs", "arrow", "parquet")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    rows = chosen.mib * (1 << 20) // (4 * DIMENSION)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        matrix = np.random.default_rng(0).standard_normal((rows, DIMENSION), np.float32)
        np.save(folder / "vectors.npy", matrix)
        for ending in ENDINGS[1:]:
            convert(folder / "vectors.npy", folder / f"vectors.{ending}")
        tasks: dict[str, Callable[[], str]] = {
            "blake3 of the bytes in memory": lambda: blake3(matrix.data.cast("B")).hexdigest(),
            "hashlib.sha256 of the bytes in memory": lambda: hashlib.sha256(matrix).hexdigest(),
        }
        tasks["pyarrow decoding the parquet"] = lambda: decoded(folder / "vectors.parquet")
        for ending in ENDINGS:
            path = folder / f"vectors.{ending}"
            tasks[f"fingerprint of {ending}"] = lambda path=path: fingerprint_vectors(
                open_corpus(path).vectors
            )
        report(tasks, matrix.nbytes, chosen.rounds)


def decoded(path: Path) -> str:
    file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    return str(sum(len(batch) for batch in file.iter_batches(512, columns=["vector"], use_threads=False)))


def report(tasks: dict[str, Callable[[], str]], size: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in tasks}
    results: dict[str, set[str]] = {name: set() for name in tasks}
    for _ in range(rounds):
        for name in random.sample(list(tasks), len(tasks)):
            started = time.perf_counter()
            results[name].add(tasks[name]())
            rates[name].append(size / 1e9 / (time.perf_counter() - started))
    distinct = set().union(*(found for name, found in results.items() if name.startswith("fingerprint")))
    print(f"{size / 1e9:.2f} GB; the formats gave {len(distinct)} distinct fingerprint(s)")
    base = statistics.median(rates["blake3 of the bytes in memory"])
    print(f"{'task':<40} {'GB/s':>6} {'range':>14} {'of blake3':>10}")
    for name, values in rates.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        middle = statistics.median(values)
        print(f"{name:<40} {middle:>6.2f} {spread:>14} {middle / base:>10.0%}")


if __name__ == "__main__":
    main()
