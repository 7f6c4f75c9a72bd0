"""`recallatk export`: a run as other tools read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import complain
from recallatk.cli.show import RunPath, opened
from recallatk.cli.truth import IdColumn, VectorColumn, Where
from recallatk.errors import RecallError, UsageError, choices

if TYPE_CHECKING:
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
    from recallatk.report.exports import FORMATS, HOLD_DISTANCES
    from recallatk.report.exports import export as write

    if to not in FORMATS:
        raise UsageError(f"--to {to}. Accepted: {choices(FORMATS)}")
    if corpus is None and (queries, where) != (None, None):
        raise UsageError("--queries and --where need --corpus too")
    found, _ = opened(run)
    dataset = None
    if to in HOLD_DISTANCES:
        options = {"where": where, "id_column": id_column, "vector_column": vector_column}
        dataset = _data(found, corpus, queries, options)
    written = write(found, to, out, dataset)
    for note in written.notes:
        complain(note)
    count = len(written.files)
    typer.echo(f"{out}: {len(found.measurements):,} trials" if count == 1 else f"{out}: {count:,} files")


def _data(
    run: Run, corpus: str | None, queries: str | None, options: dict[str, str | None]
) -> Dataset | None:
    """The data that is named, or else what the run says it was measured on, if that is still the same."""
    from recallatk.datasets import open_dataset

    if corpus is not None:
        return open_dataset(corpus, queries, metric=run.metric, **options)
    if not run.settings.get("data"):
        return None
    try:
        return _recorded(run)
    except (RecallError, OSError) as problem:
        complain(f"the data that the run names cannot be used: {problem}")
        return None


def _recorded(run: Run) -> Dataset:
    """What the settings of the run name, split and sampled as they say."""
    from recallatk.bench.settings import open_data, settings_from
    from recallatk.history.run import require_same_data

    data = {name: value for name, value in run.settings["data"].items() if value is not None}
    # Settings name an engine; which one is of no matter to the data.
    dataset = open_data(settings_from({"name": run.dataset, "data": data, "engine": [{"name": "exact"}]}))
    require_same_data(run, dataset)
    return dataset
