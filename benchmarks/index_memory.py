"""Whether the memory that a run reports for an index is what the index takes: against the analytic size.

faiss Flat (faiss-factory) and HNSW on 100,000 x 384 float32 vectors, each built in a process of its own
as a run does it.

    python benchmarks/index_memory.py [--rows 100000]
"""

import argparse

import numpy as np

import recallatk

DIMENSION = 384
M = 16


def flat_bytes(rows):
    return rows * DIMENSION * 4


def hnsw_bytes(rows):
    """Vectors; 2M links of 4 bytes on the ground floor and M on each floor above, 1/(M-1) of them a row;
    an offset of 8 bytes and a level of 4 for each row."""
    return flat_bytes(rows) + rows * (2 * M * 4 + M * 4 / (M - 1) + 12)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    vectors = np.random.default_rng(0).standard_normal((rows, DIMENSION), np.float32)
    dataset = recallatk.open_dataset(
        recallatk.make_corpus(vectors), recallatk.make_queries(vectors[:50] + 0.1), metric="l2"
    )
    truth = recallatk.ground_truth(dataset, depth=10)
    cases = {
        "Flat": ("faiss-factory", {"factory": "Flat"}, flat_bytes(rows)),
        "HNSW": ("faiss-hnsw", {"M": M, "ef_construction": 40}, hnsw_bytes(rows)),
    }
    print(f"{'index':6} {'reported MB':>12} {'analytic MB':>12} {'ratio':>7} {'peak MB':>9}")
    for name, (engine, build, expected) in cases.items():
        run = recallatk.measure(engine, dataset, truth=truth, build=build, at=[10], rounds=1)
        found = run.measurements[0].build
        print(
            f"{name:6} {found.memory_bytes / 1e6:12.1f} {expected / 1e6:12.1f} "
            f"{found.memory_bytes / expected:7.3f} {found.peak_bytes / 1e6:9.1f}"
        )


if __name__ == "__main__":
    main()
