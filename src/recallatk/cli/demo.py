"""`recallatk demo`: the five steps on real data that ships with the package."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.progress import progress
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.core import Dataset, Run, Truth

EFFORTS = (10, 20, 40, 80, 160)
DEPTH = 100


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the files.")] = Path("recallatk-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:
    """Measure an HNSW index on 20,000 real embeddings: exact truth, five efforts, recall and cost.

    Example: recallatk demo --out my-first-run
    """
    from recallatk.datasets import open_demo
    from recallatk.files import write_text
    from recallatk.history import save_run
    from recallatk.report import to_markdown, to_text
    from recallatk.truth import save_truth

    _require_writable(out)
    dataset = open_demo()
    truth = _truth(dataset)
    save_truth(truth, out / "truth.parquet")
    run = _measured(dataset, truth)
    save_run(run, dataset, out)
    write_text(out / "report.md", to_markdown(run))
    if as_json:
        typer.echo(json.dumps(_summary(run, out)))
    else:
        typer.echo("\n\n".join([_steps(dataset, run), to_text(run), _next(out)]))


def _truth(dataset: Dataset) -> Truth:
    from recallatk.truth import ground_truth

    with progress("computing ground truth") as step:
        return ground_truth(dataset, depth=DEPTH, progress=step)


def _measured(dataset: Dataset, truth: Truth) -> Run:
    from recallatk.bench import measure
    from recallatk.cli.live import live

    settings = [{"ef": effort} for effort in EFFORTS]
    with live() as view:
        return measure("faiss-hnsw", dataset, truth, search=settings, watch=view.show)


def _summary(run: Run, out: Path) -> dict[str, Any]:
    from recallatk.report.summary import summarise

    return {
        "dataset": run.dataset,
        "metric": run.metric,
        "timed": run.timed,
        "fingerprints": dict(run.fingerprints),
        "environment": dict(run.environment),
        "trials": [asdict(line) for line in summarise(run)],
        "out": str(out),
    }


def _steps(dataset: Dataset, run: Run) -> str:
    corpus, queries = dataset.corpus, dataset.queries
    return "\n".join(
        [
            f"1. Loaded {corpus.rows:,} WordNet definitions and {queries.rows:,} usage examples as queries "
            f"({corpus.dimension} dimensions, {dataset.metric}).",
            f"2. Computed the exact {DEPTH} nearest definitions of every query "
            f"(truth {run.fingerprints['truth'][:12]}).",
            "3. Built an HNSW index in a process of its own.",
            f"4. Asked it every query, one at a time, at {len(EFFORTS)} search efforts (ef).",
            "5. Compared the ids with the truth: recall@k is the share of the true top k that came back.",
        ]
    )


def _next(out: Path) -> str:
    from recallatk.datasets.demo import DEMO_FOLDER

    data, folder = shlex.quote(str(DEMO_FOLDER)), shlex.quote(str(out))
    program = "recallatk" if shutil.which("recallatk") else f"{shlex.quote(sys.executable)} -m recallatk"
    return "\n".join(
        [
            f"Files in {folder}: run.json, truth.parquet, report.md, and trial-1.parquet to "
            f"trial-{len(EFFORTS)}.parquet with every answer and latency.",
            "",
            "Try next:",
            f"  {program} score {folder}/truth.parquet {folder}/trial-1.parquet --by category",
            f"  {program} inspect {data}",
            f"  {program} convert {data} queries.npy --part queries --dtype float32",
            f"  {program} convert {data} demo.hdf5 --metric cosine",
        ]
    )


def _require_writable(out: Path) -> None:
    """Find out before the work, not after it, that its files have no place."""
    if out.exists() and not (out.is_dir() and os.access(out, os.W_OK)):
        raise UsageError(f"{out}: cannot be written to. Name another folder: --out FOLDER")
    out.mkdir(parents=True, exist_ok=True)
