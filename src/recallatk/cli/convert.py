"""`recallatk convert`: vectors in another format."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.options import IdColumn, VectorColumn
from recallatk.cli.pages import require_pages
from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from recallatk.datasets.conversion import Conversion


def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file, a glob pattern, a folder or a URL.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Output file; its extension selects the format.")
    ],
    part: Annotated[str | None, typer.Option(help="corpus or queries, if the source holds both.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Convert to this dtype, e.g. float16. Default: keep the dtype.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(help="Queries to store with the corpus (.hdf5 targets only)."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="cosine or l2 (.hdf5 targets only).")] = None,
    format: Annotated[str | None, typer.Option(help="Format of the source, if not detected.")] = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write vectors in another format: Parquet, Arrow, npy, fvecs, fbin, JSON Lines, CSV, HDF5.

    An .hdf5 target is an ann-benchmarks file: it needs queries, and their exact ground truth is
    computed and stored with them.

    Example: recallatk convert sift.fvecs sift.parquet
    """
    from recallatk.datasets import convert as write
    from recallatk.datasets.registry import format_for_writing

    columns = {"format": format, "id_column": id_column, "vector_column": vector_column}
    holds_queries = format_for_writing(target).holds_queries
    require_pages([target], (source, queries))
    if holds_queries:
        _refuse(target, "holds a corpus with its queries", {"--part": part})
        done = _with_truth(source, target, queries, metric, dtype, columns)
    else:
        _refuse(target, "holds one matrix", {"--queries": queries, "--metric": metric})
        with progress(f"writing {target}") as step:
            done = write(source, target, part=part, dtype=dtype, progress=step, **columns)
    typer.echo(json.dumps(asdict(done)) if as_json else _described(done))
    if done.left_out:
        typer.echo(f"not written, because {done.format} cannot hold it: {', '.join(done.left_out)}", err=True)


def _refuse(target: str, why: str, options: dict[str, str | None]) -> None:
    """Refuse options that mean nothing for the target, rather than pass over them."""
    from recallatk.errors import UsageError

    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name} cannot be combined with {target}, which {why}")


def _with_truth(
    source: str,
    target: str,
    queries: str | None,
    metric: str | None,
    dtype: str | None,
    columns: dict[str, str | None],
) -> Conversion:
    from recallatk.datasets import open_dataset
    from recallatk.datasets.conversion import convert_dataset, rounded_dataset
    from recallatk.hdf5 import hdf5_library
    from recallatk.truths import ground_truth

    hdf5_library()  # before the truth is computed
    dataset = open_dataset(source, queries, metric=metric, **columns)
    if dtype is not None:
        dataset = rounded_dataset(dataset, dtype)
    with progress("computing ground truth") as step:
        truth = ground_truth(dataset, progress=step)
    return convert_dataset(dataset, truth, target)


def _described(done: Conversion) -> str:
    from recallatk.reporting.text import printable

    size = f"{done.rows:,} x {done.dimension:,} {done.dtype}"
    return printable(f"wrote {done.path} ({done.format}, {size})")
