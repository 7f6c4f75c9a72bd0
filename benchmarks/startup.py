"""How long `recallatk --help` takes against `python -c pass`, interleaved in one run.

    python benchmarks/startup.py [--rounds 15]

The peers are what a command line could not start below (the interpreter) and what it would cost to
import the heavy libraries at once. The budget: `recallatk --help` within 8 times the interpreter.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "recallatk --help": ["-m", "recallatk", "--help"],
    "recallatk run --help": ["-m", "recallatk", "run", "--help"],
    "import recallatk": ["-c", "import recallatk"],
    "import typer": ["-c", "import typer"],
    "import pyarrow, faiss, h5py": ["-c", "import pyarrow.parquet, faiss, h5py"],
}


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name in random.sample(list(COMMANDS), len(COMMANDS)):
            taken[name].append(seconds(COMMANDS[name]))
    base = statistics.median(taken["python -c pass"])
    print(f"{'command':<30} {'median ms':>10} {'quartiles ms':>16} {'ratio':>7}")
    for name, values in taken.items():
        low, _, high = statistics.quantiles(values, n=4)
        middle = statistics.median(values)
        spread = f"{low * 1e3:.0f} to {high * 1e3:.0f}"
        print(f"{name:<30} {middle * 1e3:>10.0f} {spread:>16} {middle / base:>7.1f}")


if __name__ == "__main__":
    main()
