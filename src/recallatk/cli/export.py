"""`recallatk export`: a run as other tools read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import complain
from recallatk.cli.show import RunPath, opened
from recallatk.cli.truth import IdColumn, VectorColumn, Where
from recallatk.errors import UsageError, choices

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.bench.inputs import Named
    from recallatk.core import Dataset, Run


def export(
    run: RunPath,
    to: Annotated[str, typer.Option(help="csv, json, parquet, ann-benchmarks-hdf5 or hdrhistogram.")],
    out: Annotated[str, typer.Option(help="The file to write; for ann-benchmarks-hdf5 a new folder.")],
    corpus: Annotated[
        str | None, typer.Option(help="The corpus of the run, for formats that hold distances.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Its queries, where they are not in the corpus file.")
    ] = None,
    where: Where = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
) -> None:
    """Write a run as CSV, JSON, Parquet, ann-benchmarks results or an HdrHistogram log.

    Example: recallatk export recallatk-demo --to csv --out demo.csv
    """
    from recallatk.bench.inputs import Named
    from recallatk.report.exports import FORMATS, HOLD_DISTANCES
    from recallatk.report.exports import export as write

    if to not in FORMATS:
        raise UsageError(f"--to {to}. Accepted: {choices(FORMATS)}")
    named = Named(corpus, queries, where=where, id_column=id_column, vector_column=vector_column)
    found, folder = opened(run)
    dataset = _data(found, folder, named) if to in HOLD_DISTANCES else None
    written = write(found, to, out, dataset)
    for note in written.notes:
        complain(note)
    count = len(written.files)
    typer.echo(f"{out}: {len(found.measurements):,} trials" if count == 1 else f"{out}: {count:,} files")


def _data(run: Run, folder: Path, named: Named) -> Dataset | None:
    """The data that the user names, or else the data that the run names, if they are still the same."""
    from recallatk.bench.inputs import run_inputs

    found = run_inputs(run, folder, named)
    if found.no_dataset:
        complain(f"the data of the run cannot be used: {found.no_dataset}")
    return found.dataset
