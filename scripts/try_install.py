"""Tries an installed recallatk as a first user would, with nothing but its core dependencies.

    python scripts/try_install.py [WHEEL]

A wheel is unpacked beside the libraries that are there, and tried instead of what is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PYTHON = (
    "import recallatk, numpy as np; run = recallatk.load_run('run');"
    "assert run.measurements[-1].score['recall@10'] > 0.9, run; print(recallatk.__file__)"
)
DATA = ("corpus.npy", "queries.npy", "--metric", "l2")
COMMANDS = (
    ("--version",),
    ("engines",),
    ("inspect", "corpus.npy"),
    ("truth", *DATA, "--out", "truth.parquet"),
    (
        "run",
        *DATA,
        "--engine",
        "faiss-hnsw",
        "--search",
        "ef=10,200",
        "--out",
        "run",
    ),
    ("score", "truth.parquet", "answers.npy"),
    ("report", "run", "--out", "report.html"),
    ("gate", "run", "run"),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "PYTHONUTF8": "1", "XDG_CACHE_HOME": str(folder / "cache")}
        if sys.argv[1:]:
            place = folder / "wheel"
            install = (
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--no-index",
                "--target",
                place,
                sys.argv[1],
            )
            subprocess.run([sys.executable, *map(str, install)], check=True)
            environment["PYTHONPATH"] = str(place)
        random = np.random.default_rng(0)
        corpus = random.normal(size=(3_000, 16)).astype("f4")
        np.save(folder / "corpus.npy", corpus)
        np.save(folder / "queries.npy", corpus[:200] + random.normal(size=(200, 16)).astype("f4"))
        np.save(folder / "answers.npy", random.integers(3_000, size=(200, 10)))
        for words in COMMANDS:
            _run(["-m", "recallatk", *words], folder, environment)
        loaded = Path(_run(["-c", PYTHON], folder, environment).strip())
        if sys.argv[1:] and not loaded.resolve().is_relative_to(folder.resolve()):
            sys.exit(f"{loaded} was tried, and not the wheel")
        if "vega" not in (folder / "report.html").read_text(encoding="utf-8"):
            sys.exit("the report has no chart library")
        print(f"{loaded.parent}: {len(COMMANDS)} commands work")


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    # -P: the folder of this script must not come before the installed package.
    done = subprocess.run(
        [sys.executable, "-P", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
