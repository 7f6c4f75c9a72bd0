"""`recallatk demo`: the five steps on real data that ships with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from recallatk.core import Dataset, Run, Truth

EFFORTS = (10, 20, 40, 80, 160)
DEPTH = 100


def demo(
    out: Annotated[Path, typer.Option(help="Where the files go.")] = Path("recallatk-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:
    """Measure an HNSW index on 20,000 real embeddings: exact truth, five efforts, recall and cost.

    Example: recallatk demo --out my-first-run
    """
    from recallatk.datasets import open_demo
    from recallatk.history import save_run
    from recallatk.report import to_markdown, to_text
    from recallatk.truth import save_truth

    dataset = open_demo()
    truth = _truth(dataset)
    save_truth(truth, dataset, out / "truth.parquet")
    run = _measured(dataset, truth)
    save_run(run, dataset, out)
    from recallatk.files import write_text

    write_text(out / "report.md", to_markdown(run))
    typer.echo(
        json.dumps(_object(run, out))
        if as_json
        else f"{_steps(dataset, truth)}\n\n{to_text(run)}\n\n{_next(out)}"
    )


def _truth(dataset: Dataset) -> Truth:
    from recallatk.truth import ground_truth

    with progress("computing ground truth") as step:
        return ground_truth(dataset, depth=DEPTH, progress=step)


def _measured(dataset: Dataset, truth: Truth) -> Run:
    from recallatk.bench import measure

    with progress("measuring") as step:
        return measure(
            dataset,
            truth,
            engine="faiss-hnsw",
            search=[{"ef": ef} for ef in EFFORTS],
            progress=lambda phase, done, total: step(done, total) if phase == "search" else None,
        )


def _object(run: Run, out: Path) -> dict[str, object]:
    from recallatk.report.summary import summarise

    return {
        "dataset": run.dataset,
        "metric": run.metric,
        "timed": run.timed,
        "fingerprints": dict(run.fingerprints),
        "environment": dict(run.environment),
        "trials": [line.to_json() for line in summarise(run)],
        "out": str(out),
    }


def _steps(dataset: Dataset, truth: Truth) -> str:
    corpus, queries = dataset.corpus, dataset.queries
    return "\n".join(
        [
            f"1. Loaded {corpus.rows:,} WordNet definitions and {queries.rows:,} usage examples "
            f"({corpus.dimension} dimensions).",
            f"2. Computed the exact {truth.depth} nearest definitions of every example "
            f"(truth {truth.fingerprints['vectors'][:12]}).",
            "3. Built an HNSW index in a process of its own.",
            "4. Asked it every example, one at a time, at five search efforts (ef).",
            "5. Compared the ids with the truth: recall@k is the share of the true top k returned.",
        ]
    )


def _next(out: Path) -> str:
    from recallatk.datasets.demo import DEMO_FOLDER

    return "\n".join(
        [
            f"Files: {out}/run.json, {out}/truth.parquet, {out}/trial-1.parquet …, {out}/report.md",
            "",
            "Next, try:",
            f"  recallatk inspect {_quoted(DEMO_FOLDER)}",
            f"  recallatk convert {_quoted(DEMO_FOLDER / 'corpus.parquet')} corpus.fvecs",
            "  recallatk inspect YOUR_VECTORS.parquet",
        ]
    )


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
