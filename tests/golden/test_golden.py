"""Golden outputs: what every command writes for fixed inputs, so that a restructuring changes no behavior.

Each case is one command line. `recorded/NAME.txt` holds its exit code, its output and the files it wrote.
normalization.py lists what may differ (paths, versions, times); everything else is compared.

`inputs/` holds data, answers, two measured runs and the journals of two tunings. A complete run or tuning is
not measured again, so `run` and `tune` print latencies that were measured once. Engines that answer from a
file (`replay.py`) are measured live, and their times are left out.

After an intended change, record again and read the difference:

    RECALLATK_GOLDEN=record python -m pytest tests/golden -n 0 && git diff tests/golden/recorded

Floats are compared to 12 digits; RECALLATK_GOLDEN=exact compares every byte, on the machine that recorded.
"""

import difflib
import gzip
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from normalization import PROGRESS, normalized, rounded, visible_text

from commands import recallatk

HERE = Path(__file__).parent
MODE = os.environ.get("RECALLATK_GOLDEN", "compare")

# The libraries of engines, in the versions that a journal's name and a list of engines contain.
VERSIONS = {
    "annoy": "1.17.3",
    "chromadb": "1.5.9",
    "duckdb": "1.5.5",
    "faiss-cpu": "1.15.1",
    "hnswlib": "0.8.0",
    "lancedb": "0.40.0",
    "pgvector": "0.5.1",
    "pymilvus": "3.0.2",
    "pynndescent": "0.7.0",
    "voyager": "2.2.2",
    "qdrant-edge-py": "0.9.0",
    "scann": "1.4.2",
    "sqlite-vec": "0.1.9",
    "usearch": "2.26.6",
}


class Case(NamedTuple):
    """A command line, the files that it leaves, and whether it measures anything."""

    words: str
    files: tuple[str, ...] = ()
    live: bool = False

    @property
    def slow(self):
        """Whether it measures an engine or draws a page."""
        pages = any(name.endswith(".html") for name in self.files)
        return pages or (self.live and self.words.startswith("run "))


DATA = "corpus.parquet queries.parquet --metric l2"
GIVEN = "--corpus corpus.parquet --queries few.parquet --truth few-truth.parquet"
CASES = {
    "truth": Case(f"truth {DATA} --depth 20 --store new"),
    "truth-json": Case(f"truth {DATA} --depth 20 --store new-json --json", live=True),
    "truth-filtered": Case(
        "truth corpus.parquet filtered.parquet --metric cosine --depth 40 --store new-filtered"
    ),
    "truth-where": Case(
        f'truth {DATA} --where "words between 3 and 9" --depth 5 --store new-where --json', live=True
    ),
    "truth-verify": Case("truth verify truth.parquet corpus.parquet queries.parquet"),
    "truth-verify-wrong": Case(
        "truth verify row-numbers.npy corpus.parquet queries.parquet --metric l2 --sample 9"
    ),
    "truth-verify-json": Case(
        "truth verify row-numbers.npy corpus.parquet queries.parquet --metric l2 --sample 20 --json"
    ),
    "truth-refused": Case("truth corpus.parquet queries.parquet --depth 20"),
    "score": Case("score truth.parquet answers.parquet"),
    "score-odd": Case("score truth.parquet odd-answers.jsonl --by category --at 1,10"),
    "score-odd-json": Case("score truth.parquet odd-answers.jsonl --by category --at 1,10 --json"),
    "score-rows": Case("score truth.parquet row-numbers.npy --row-numbers --against answers.parquet"),
    "score-against-json": Case(
        "score truth.parquet odd-answers.jsonl --against answers.parquet --at 10 --json"
    ),
    "score-vectors": Case(
        "score truth.parquet answers.parquet --corpus corpus.parquet --queries queries.parquet "
        "--measure 'eps(0.01)@10' --measure rde@10 --measure 1/ratio@10 "
        "--measure 'robust(0.8)@10' --measure recall1@10"
    ),
    "score-missed": Case(
        "score truth.parquet odd-answers.jsonl --corpus corpus.parquet --queries queries.parquet "
        "--qrels qrels.tsv --at 10 --verbose"
    ),
    "score-qrels": Case("score truth.parquet run.trec --qrels qrels.tsv --at 1,10"),
    "score-qrels-json": Case("score truth.parquet run.trec --qrels qrels.tsv --at 10 --json"),
    "score-filtered": Case(
        "score filtered-truth.parquet run.trec --corpus corpus.parquet --queries filtered.parquet --at 10"
    ),
    "score-stages": Case(
        "score truth.parquet --stage ann=odd-answers.jsonl --stage rerank=answers.parquet --qrels qrels.tsv "
        "--at 1,10 --by category"
    ),
    "score-stages-json": Case(
        "score truth.parquet --stage ann=odd-answers.jsonl --stage rerank=answers.parquet --at 10 --json"
    ),
    "score-refused": Case("score truth.parquet answers.parquet --at 30"),
    "inspect": Case("inspect corpus.parquet queries.parquet row-numbers.npy"),
    "inspect-json": Case("inspect corpus.parquet filtered.parquet users.npy --json"),
    "engines": Case("engines"),
    "engines-one": Case("engines faiss-ivf-pq"),
    "engines-json": Case("engines --json"),
    "init": Case(f"init {DATA} --out new.toml", ("new.toml",)),
    "init-ivf": Case(
        "init corpus.parquet filtered.parquet --metric cosine --engine faiss-ivf-flat --out i.toml",
        ("i.toml",),
    ),
    "dry-run": Case("run measured.toml --dry-run", live=True),
    "dry-run-json": Case("run replayed.toml --dry-run --json", live=True),
    "run": Case("run measured.toml", ("runs/measured/report.md", "runs/measured/report.html")),
    "run-replayed": Case("run replayed.toml --json --out replayed", live=True),
    "run-refused": Case("run refused.toml"),
    "show": Case("show runs/measured"),
    "show-wide": Case("show runs/measured --wide --by load"),
    "show-json": Case("show runs/measured --json"),
    "show-format-1": Case("show format-1"),
    "show-format-2": Case("show format-2-open-loop --wide"),
    "runs": Case("runs ."),
    "runs-json": Case("runs . --json"),
    "export-csv": Case("export runs/measured --to csv --out out.csv", ("out.csv",)),
    "export-json": Case("export runs/other --to json --out out.json", ("out.json",)),
    "report-compared": Case(
        f"report runs/measured runs/other {GIVEN} --out both.html --markdown both.md",
        ("both.html", "both.md"),
    ),
    "report-alone": Case(f"report runs/other {GIVEN} --out alone.html", ("alone.html",)),
    "tune": Case(
        "tune tune.toml",
        ("runs/golden-tune/tuned.json", "runs/golden-tune/report.md", "runs/golden-tune/report.html"),
    ),
    "tune-unmet": Case(
        "tune unmet.toml --json", ("runs/unmet-tune/report.md", "runs/unmet-tune/report.html")
    ),
    "tune-refused": Case(f"tune {DATA} --target fast --budget free"),
    "audit-file": Case("audit tune.toml --production users.npy"),
    "audit-file-json": Case("audit measured.toml --target 'recall@10 >= 0.99' --json"),
    "audit-run": Case(f"audit runs/measured {GIVEN} --target 'recall@10 >= 0.99'"),
    "audit-run-json": Case(f"audit runs/other {GIVEN} --strict --json"),
}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """The inputs in a folder of their own, with truths that are computed once."""
    folder = tmp_path_factory.mktemp("golden")
    shutil.copytree(HERE / "inputs", folder, dirs_exist_ok=True)
    for name in ("format-1", "format-2-open-loop"):
        shutil.copytree(HERE.parent / "storage" / name, folder / name)
    for packed in folder.rglob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    for name, version in VERSIONS.items():
        described = folder / "versions" / f"{name.replace('-', '_')}-{version}.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for name, queries, depth in (
        ("truth", "queries", 20),
        ("filtered-truth", "filtered", 10),
        ("few-truth", "few", 100),
    ):
        ran = called(
            f"truth corpus.parquet {queries}.parquet --metric l2 --depth {depth} --out {name}.parquet", folder
        )
        assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture
def place(inputs, tmp_path):
    """A folder with all inputs for one case alone, so that no case sees the files of another."""
    folder = tmp_path / "golden"
    shutil.copytree(inputs, folder)
    return folder


def called(words, folder):
    """What a command said and did, in a process that knows nothing of this machine's settings."""
    paths = os.pathsep.join(map(str, [folder / "versions", folder, os.environ.get("PYTHONPATH", "")]))
    environment = {
        "PYTHONPATH": paths,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "GOLDEN_PYTHON": sys.executable,
    }
    fixed = {"COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}
    return recallatk(*shlex.split(words), cwd=folder, env=environment | fixed)


def output_of(case, folder):
    """All that a case is compared by, as one text."""
    ran = called(case.words, folder)
    parts = [
        f"$ recallatk {case.words}\n",
        ran.stdout,
        f"--- exit {ran.returncode}, standard error\n",
        PROGRESS.sub("", ran.stderr),
    ]
    for name in case.files:
        text = (folder / name).read_text()
        parts += [f"--- {name}\n", visible_text(text) if name.endswith(".html") else text]
    return "".join(normalized(part, folder, live=case.live) for part in parts)


def difference(one, other):
    """The lines that differ, JSON objects one value a line."""
    sides = [text.replace(', "', ',\n"').splitlines() for text in (one, other)]
    return "\n".join(difflib.unified_diff(*sides, "recorded", "now", lineterm="", n=2))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * case.slow) for name, case in CASES.items()]
)
def test_output_is_as_recorded(name, place):
    found, path = output_of(CASES[name], place), HERE / "recorded" / f"{name}.txt"
    if MODE == "record":
        path.write_text(found)
    expected = path.read_text()
    if MODE != "exact":
        found, expected = rounded(found), rounded(expected)
    assert found == expected, f"{name}:\n{difference(expected, found)}"


def test_nothing_is_recorded_that_no_case_compares():
    assert {each.stem for each in (HERE / "recorded").iterdir()} == set(CASES)
