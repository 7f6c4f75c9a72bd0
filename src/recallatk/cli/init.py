"""`recallatk init`: a commented bench file for your data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from recallatk.cli.options import CorpusPath, IdColumn, MetricName, Qrels, QueriesPath, VectorColumn
from recallatk.cli.pages import require_pages
from recallatk.cli.progress import progress
from recallatk.errors import UsageError


def init(
    corpus: CorpusPath,
    queries: QueriesPath = None,
    out: Annotated[Path, typer.Option(help="Output file.")] = Path("bench.toml"),
    metric: MetricName = None,
    qrels: Qrels = None,
    engine: Annotated[str, typer.Option(help="Engine of the first [[engine]] entry.")] = "faiss-hnsw",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    format: Annotated[str | None, typer.Option(help="Format of the files, if not detected.")] = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
) -> None:
    """Write a commented bench file for your data: columns, filters and a first parameter grid.

    Example: recallatk init corpus.parquet queries.parquet --metric cosine --out bench.toml
    """
    from recallatk.bench.starter import starter
    from recallatk.files import write_text
    from recallatk.reporting.text import printable

    if out.exists() and not force:
        raise UsageError(f"{out}: already exists. Choose another with --out, or overwrite it with --force")
    # A bench file may lie in the folder of the data, and is no part of them.
    require_pages([out], () if out.suffix == ".toml" else (corpus, queries, qrels))
    with progress("reading the data") as step:
        text = starter(
            corpus,
            queries,
            metric=metric,
            qrels=qrels,
            engine=engine,
            folder=out.absolute().parent,
            format=format,
            id_column=id_column,
            vector_column=vector_column,
            progress=step,
        )
    write_text(out, text)
    typer.echo(printable(f"wrote {out}"))
    typer.echo(printable(f"Next: recallatk run {shlex.quote(str(out))}"))
