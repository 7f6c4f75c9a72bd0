"""`recallatk demo`: a benchmark in five steps, on real data that ships with the package."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.options import Quiet, Verbose
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Run

EFFORTS = (10, 20, 40, 80, 160)
DEPTH = 100
TRUTH = "truth.parquet"


def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("recallatk-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure an HNSW index on 20,000 real embeddings: exact truth, five settings, recall and cost.

    Example: recallatk demo --out my-first-run
    """
    from recallatk import bench
    from recallatk.bench.benchmark import Benchmark
    from recallatk.cli.lint_and_report import report_run
    from recallatk.cli.live import run_view
    from recallatk.linter import Evidence
    from recallatk.reporting import run_to_dict, to_text
    from recallatk.reporting.findings import findings_to_dict

    set_quiet(quiet)
    _require_writable(out)
    dataset = _with_truth(out)
    benchmark = Benchmark(_settings(out), dataset)
    with run_view() as view:
        run = bench.run(benchmark, out=out, fresh=True, watch=view.show)
    found, _ = report_run(run, out, Evidence(benchmark.settings, dataset), benchmark.truth())
    if as_json:
        typer.echo(json.dumps({**run_to_dict(run), "audit": findings_to_dict(found), "out": str(out)}))
    else:
        shown = to_text(run, findings=None if quiet else found, verbose=verbose)
        typer.echo(shown if quiet else "\n\n".join([_steps(dataset, run), shown, _next(out)]))


def _with_truth(out: Path) -> Dataset:
    """The bundled data; their truth is written to the run folder."""
    from recallatk.datasets import open_demo
    from recallatk.truths import ground_truth, save_truth

    dataset = open_demo()
    with progress("computing ground truth") as step:
        save_truth(ground_truth(dataset, depth=DEPTH, progress=step), out / TRUTH)
    return dataset


def _settings(out: Path) -> Settings:
    from recallatk.bench.settings import settings_from
    from recallatk.datasets.demo import DEMO_FOLDER, DEMO_NAME

    return settings_from(
        {
            "name": DEMO_NAME,
            "data": {"corpus": str(DEMO_FOLDER), "metric": "cosine"},
            "truth": {"file": str(out / TRUTH)},
            "measure": {"rounds": 3},
            "engine": [{"name": "faiss-hnsw", "search": {"ef": list(EFFORTS)}}],
        }
    )


def _steps(dataset: Dataset, run: Run) -> str:
    corpus, queries = dataset.corpus, dataset.queries
    return "\n".join(
        [
            f"1. Loaded {corpus.rows:,} WordNet definitions and {queries.rows:,} usage examples as queries "
            f"({corpus.dimension} dimensions, {dataset.metric}).",
            f"2. Computed the exact {DEPTH} nearest definitions of every query "
            f"(truth {run.fingerprints['truth'][:12]}).",
            "3. Built an HNSW index in a separate process.",
            f"4. Sent every query, one at a time, at {len(EFFORTS)} values of ef.",
            "5. Scored the answers: recall@k is the share of the true top k that the index returned.",
        ]
    )


def _next(out: Path) -> str:
    folder = shlex.quote(str(out))
    program = "recallatk" if shutil.which("recallatk") else f"{shlex.quote(sys.executable)} -m recallatk"
    return "\n".join(
        [
            f"Report: {shlex.quote(str(out / 'report.html'))}. All files: {folder}",
            "",
            "Next, with your own data:",
            f'  {program} tune CORPUS QUERIES --metric cosine --target "recall@10 >= 0.95"',
        ]
    )


def _require_writable(out: Path) -> None:
    """Refuse a folder that cannot be written, before any work."""
    if out.exists() and not (out.is_dir() and os.access(out, os.W_OK)):
        raise UsageError(f"{out}: cannot be written. Choose another folder: --out FOLDER")
    out.mkdir(parents=True, exist_ok=True)
