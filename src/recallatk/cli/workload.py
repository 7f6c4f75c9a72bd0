"""`recallatk workload`: synthetic filters for data without natural ones."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.options import CorpusPath, IdColumn, Json, MetricName, QueriesPath, VectorColumn
from recallatk.cli.pages import require_pages
from recallatk.cli.progress import progress
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.datasets.synthetic_filters import Workload


def workload(
    corpus: CorpusPath,
    queries: QueriesPath = None,
    out: Annotated[Path, typer.Option(help="Output file for the queries with their filters.")] = Path(
        "queries-filtered.parquet"
    ),
    corpus_out: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the corpus with the columns of the filters. Default: beside --out."
        ),
    ] = None,
    metric: MetricName = None,
    selectivity: Annotated[
        str, typer.Option(help="Shares of the rows that filters admit, separated by commas.")
    ] = "50%,10%,1%,0.1%,0.01%",
    correlation: Annotated[
        str, typer.Option(help="Correlations between filter and query, separated by commas.")
    ] = "negative,none,positive",
    crossed: Annotated[
        bool, typer.Option("--crossed", help="Give every query every filter, instead of one of them.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    format: Annotated[str | None, typer.Option(help="Format of the files, if not detected.")] = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Json = False,
) -> None:
    """Write queries with synthetic filters, and the corpus with the columns that the filters read.

    The filters vary in selectivity (the share of rows that pass) and in correlation (whether a query's
    neighbors pass more or less often than other rows). Later outputs call them synthetic.

    Example: recallatk workload corpus.parquet queries.parquet --metric cosine --out queries-filtered.parquet
    """
    from recallatk.datasets import workload as make
    from recallatk.datasets.conversion import write_records
    from recallatk.units import parse_share

    corpus_out = out.with_name(f"{out.stem}-corpus{out.suffix}") if corpus_out is None else corpus_out
    _require_free(out, corpus_out, force=force)
    require_pages((out, corpus_out), [file for each in (corpus, queries) for file in _files(each)])
    columns = {"format": format, "id_column": id_column, "vector_column": vector_column}
    with progress("making filters") as step:
        made = make(
            corpus,
            queries,
            metric=metric,
            selectivities=[parse_share(each) for each in selectivity.split(",")],
            correlations=[each.strip() for each in correlation.split(",")],
            crossed=crossed,
            seed=seed,
            progress=step,
            **columns,
        )
    write_records(made.dataset.corpus, corpus_out)
    write_records(made.dataset.queries, out)
    said = json.dumps(_plain(made, out, corpus_out)) if as_json else _described(made, out, corpus_out)
    typer.echo(said)


def _require_free(out: Path, corpus_out: Path, *, force: bool) -> None:
    from recallatk.datasets.registry import format_for_writing

    if out.absolute() == corpus_out.absolute():
        raise UsageError(f"--out and --corpus-out are both {out}. Accepted: two files")
    for path in (out, corpus_out):
        if not format_for_writing(path).writes_columns:
            raise UsageError(
                f"{path}: this format holds no columns. Accepted: .parquet, .arrow, .jsonl, .csv"
            )
        if path.exists() and not force:
            raise UsageError(f"{path}: already exists. Choose another file, or overwrite it with --force")


def _files(given: str | None) -> list[str | Path | None]:
    """The files of a folder with a corpus and queries, where other files may lie; else what is given."""
    folder = Path(given or "")
    parts = {role: list(folder.glob(f"{role}.*")) for role in ("corpus", "queries")}
    return [given] if given is None or not all(parts.values()) else [*parts["corpus"], *parts["queries"]]


def _plain(made: Workload, out: Path, corpus_out: Path) -> dict[str, object]:
    return {
        "synthetic": True,
        "queries": str(out),
        "corpus": str(corpus_out),
        "cells": [asdict(each) for each in made.cells],
        "left_out": list(made.left_out),
    }


def _described(made: Workload, out: Path, corpus_out: Path) -> str:
    from recallatk.reporting.document import Document, Section, Sentences, Table
    from recallatk.reporting.text import render_text

    rows = [
        [f"{each.selectivity:.6g}", each.correlation, f"{each.rows:,}", f"{each.queries:,}"]
        for each in made.cells
    ]
    table = Table("", ["selectivity", "correlation", "rows that pass", "queries"], rows, 2)
    command = ["recallatk", "run", str(corpus_out), str(out), "--metric", str(made.dataset.metric)]
    total = made.dataset.corpus.rows
    lines = [
        *(
            f"left out: a share of {each:.6g} of {total:,} rows is less than one row"
            for each in made.left_out
        ),
        f"wrote {out} and {corpus_out}. The filters are synthetic.",
        f"Next: {shlex.join([*command, '--engine', 'faiss-hnsw'])}",
    ]
    return render_text(Document("", [Section("", [table, Sentences(lines)])]))
