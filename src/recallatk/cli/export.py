"""`recallatk export`: a run in formats of other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from recallatk.cli.exits import complain
from recallatk.cli.options import IdColumn, RunPath, VectorColumn, Where, open_run
from recallatk.cli.pages import measured_files
from recallatk.errors import UsageError, unknown


def export(
    run: RunPath,
    to: Annotated[str, typer.Option(help="csv, json, parquet, ann-benchmarks-hdf5 or hdrhistogram.")],
    out: Annotated[str, typer.Option(help="Output file; for ann-benchmarks-hdf5 a new folder.")],
    corpus: Annotated[str | None, typer.Option(help="Corpus of the run, for formats with distances.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="Queries of the run, if they are not in the corpus file.")
    ] = None,
    where: Where = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
) -> None:
    """Write a run as CSV, JSON, Parquet, ann-benchmarks results or an HdrHistogram log.

    Example: recallatk export recallatk-demo --to csv --out demo.csv
    """
    from recallatk.bench.recorded_benchmark import NamedFiles, RecordedBenchmark
    from recallatk.files import require_not_among
    from recallatk.reporting.exports import FORMATS, HOLD_DISTANCES
    from recallatk.reporting.exports import export as write

    if to not in FORMATS:
        raise UsageError(f"--to: {unknown('format', to, FORMATS)}")
    named = NamedFiles(corpus, queries, where=where, id_column=id_column, vector_column=vector_column)
    found, folder = open_run(run)
    require_not_among(out, (*measured_files(folder), corpus, queries))
    dataset = None
    if to in HOLD_DISTANCES:
        recorded = RecordedBenchmark(found, folder, named)
        dataset = recorded.dataset
        if recorded.no_dataset:
            complain(f"cannot use the data of the run: {recorded.no_dataset}")
    written = write(found, to, out, dataset)
    for note in written.notes:
        complain(note)
    count = len(written.files)
    typer.echo(f"{out}: {len(found.measurements):,} trials" if count == 1 else f"{out}: {count:,} files")
