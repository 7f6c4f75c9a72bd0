"""What opening a large file costs in time and memory, and what streaming it holds.

    python benchmarks/opening.py [--gib 2] [--formats npy,fbin,parquet]

Each format is opened and then read block by block in a process of its own; the peak of resident memory
is taken against that of the same process before the file was opened. The peer, for npy, is
`numpy.load` of the whole file in the same way.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

DIMENSION = 768
ROW_BYTES = 4 * DIMENSION

PROBE = """
import sys, time
import numpy, pyarrow.parquet, pyarrow.ipc, pyarrow.fs, pyarrow.json, pyarrow.csv, h5py
import recallatk.datasets.registry as registry
from recallatk.core import blocks
from recallatk.datasets import open_corpus
registry.all_formats()
def memory(key):
    # Not getrusage: its peak is inherited from the process that started this one.
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(key))) / 1024
path, peer = sys.argv[1], sys.argv[2] == "peer"
before = memory('VmRSS')
started = time.perf_counter()
corpus = numpy.load(path) if peer else open_corpus(path)
shape = corpus.shape if peer else corpus.vectors.shape
opened = time.perf_counter() - started
at_open = memory('VmHWM') - before
largest = 0
if not peer:
    for start, block in blocks(corpus.vectors):
        largest = max(largest, block.nbytes)
streamed = time.perf_counter() - started - opened
print(opened, at_open, streamed, memory('VmHWM') - before, largest / 2**20, shape[0])
"""


def write_npy(path: Path, rows: int) -> None:
    # Sparse, like fbin below: a hole costs no disk and reads as zeros, like any other page.
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, DIMENSION)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * ROW_BYTES)


def write_fbin(path: Path, rows: int) -> None:
    with path.open("wb") as file:
        file.write(np.asarray([rows, DIMENSION], "<u4").tobytes())
        file.truncate(8 + rows * ROW_BYTES)


def batches(rows: int) -> tuple[pa.Schema, list[int]]:
    step = 1 << 16
    sizes = [min(step, rows - start) for start in range(0, rows, step)]
    return pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIMENSION))]), sizes


def table(start: int, size: int, schema: pa.Schema) -> pa.Table:
    values = np.random.default_rng(start).standard_normal(size * DIMENSION, np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION)
    return pa.Table.from_arrays([pa.array(np.arange(start, start + size)), vectors], schema=schema)


def write_parquet(path: Path, rows: int) -> None:
    schema, sizes = batches(rows)
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        start = 0
        for size in sizes:
            writer.write_table(table(start, size, schema), row_group_size=size)
            start += size


def write_arrow(path: Path, rows: int) -> None:
    schema, sizes = batches(rows)
    with ipc.new_file(path, schema) as writer:
        start = 0
        for size in sizes:
            writer.write_table(table(start, size, schema))
            start += size


def write_one_group(path: Path, rows: int) -> None:
    schema, _ = batches(rows)
    whole = table(0, rows, schema)
    pq.write_table(whole, path, row_group_size=rows, compression="none", use_dictionary=False)


def write_one_batch(path: Path, rows: int) -> None:
    schema, _ = batches(rows)
    with ipc.new_file(path, schema) as writer:
        writer.write_table(table(0, rows, schema))


WRITERS = {
    "npy": write_npy,
    "fbin": write_fbin,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "one-row-group.parquet": write_one_group,
    "one-batch.arrow": write_one_batch,
}


def probe(path: Path, kind: str) -> list[float]:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, str(path), kind], check=True, capture_output=True, text=True
    )
    return [float(word) for word in ran.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--formats", default=",".join(WRITERS))
    parser.add_argument("--folder", default=None, help="where the files go, for large ones")
    chosen = parser.parse_args()
    rows = int(chosen.gib * (1 << 30)) // ROW_BYTES
    print(f"{rows:,} x {DIMENSION} float32, {chosen.gib:g} GiB")
    heads = f"{'open ms':>8} {'MiB':>7} {'stream s':>9} {'GB/s':>6} {'peak MiB':>9} {'block MiB':>10}"
    print(f"{'what':<28} {heads}")
    for name in chosen.formats.split(","):
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            path = Path(folder) / (name if "." in name else f"large.{name}")
            WRITERS[name](path, rows)
            kinds = ["ours", "peer"] if name == "npy" and chosen.gib <= 4 else ["ours"]
            for kind in kinds:
                opened, at_open, streamed, peak, block, _ = probe(path, kind)
                shown = name if kind == "ours" else "numpy.load of the npy"
                rate = "-" if kind == "peer" else f"{rows * ROW_BYTES / 1e9 / streamed:.2f}"
                print(
                    f"{shown:<28} {opened * 1e3:>8.1f} {at_open:>7.1f} {streamed:>9.2f} {rate:>6} "
                    f"{peak:>9.1f} {block:>10.1f}"
                )


if __name__ == "__main__":
    main()
