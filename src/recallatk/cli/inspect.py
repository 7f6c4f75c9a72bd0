"""`recallatk inspect`: contents and problems of vector files."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from recallatk.cli.exits import BAD_INPUT, complain
from recallatk.cli.options import IdColumn, VectorColumn
from recallatk.cli.progress import progress
from recallatk.errors import RecallError


def inspect(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, glob patterns, folders or URLs (s3://, gs://)."),
    ],
    format: Annotated[str | None, typer.Option(help="Format of the files, if not detected.")] = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per file.")] = False,
) -> None:
    """Show shape, types, norms, duplicates and fingerprints, and count bad values.

    Example: recallatk inspect corpus.parquet queries.parquet
    """
    from recallatk.datasets import inspect as look
    from recallatk.redaction import without_secrets

    refused = 0
    for file in files:
        try:
            with progress(f"looking at {without_secrets(file)}") as step:
                found = look(
                    file,
                    format=format,
                    id_column=id_column,
                    vector_column=vector_column,
                    progress=step,
                )
            typer.echo(json.dumps(found, ensure_ascii=False) if as_json else described(found))
        except RecallError as problem:
            complain(str(problem))
            refused += 1
    if refused:
        raise typer.Exit(BAD_INPUT)


def described(found: dict[str, Any]) -> str:
    """What was found, as lines for people."""
    from recallatk.reporting.text import printable

    head = f"{found['file']}  ({found['format']}{_extras(found)})"
    lines = [head, *_part(found)]
    if "queries" in found:
        lines += ["  queries:", *("  " + line for line in _part(found["queries"]))]
    return "\n".join(printable(line) for line in lines)


def _extras(found: dict[str, Any]) -> str:
    said = [f"metric {found['metric']}"] if found["metric"] else []
    said += ["with ground truth"] if found["has_truth"] else []
    said += ["with qrels"] if found["has_qrels"] else []
    return "".join(f", {each}" for each in said)


def _part(found: dict[str, Any]) -> list[str]:
    norm, prints = found["norm"], found["fingerprint"]
    columns = ", ".join(f"{name}: {kind}" for name, kind in found["columns"].items())
    ids = f"{found['id_type']} (column {found['id_column']})" if found["id_column"] else "row numbers"
    lines = [
        f"  vectors      {found['rows']:,} x {found['dimension']:,} {found['dtype']}",
        f"  ids          {ids}",
        f"  columns      {columns or 'none'}",
        f"  norms        {_norms(norm)}",
        f"  duplicates   {found['duplicate_vectors']:,} rows equal another "
        f"({_percent(found['duplicate_share'])}, largest group {found['largest_duplicate_group']:,})",
        f"  fingerprint  vectors {prints['vectors']}",
        f"               ids {prints['ids']}",
        f"               metadata {prints['metadata']}",
    ]
    return lines + [f"  warning      {warning}" for warning in _warnings(found)]


def _norms(norm: dict[str, Any]) -> str:
    if norm["mean"] is None:
        return "none is finite"
    share = norm["unit_share"]
    unit = "all" if share == 1 else "none" if share == 0 else _percent(share)
    return f"{norm['min']:.6g} to {norm['max']:.6g}, mean {norm['mean']:.6g}; {unit} of length 1"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _warnings(found: dict[str, Any]) -> list[str]:
    from recallatk.core import VECTOR_DTYPES

    warnings = []
    if found["dtype"] not in VECTOR_DTYPES:
        warnings.append(f"{found['dtype']} is a type of neighbor ids, not of vectors: commands refuse it")
    if found["missing_ids"] or found["repeated_ids"]:
        warnings.append(
            f"{found['missing_ids']:,} ids missing, {found['repeated_ids']:,} repeated: commands refuse them"
        )
    if found["rows_not_finite"]:
        warnings.append(
            f"{found['rows_not_finite']:,} rows with NaN ({found['nan']:,}) or Inf "
            f"({found['infinite']:,}): every command refuses them"
        )
    if found["zero_vectors"]:
        warnings.append(f"{found['zero_vectors']:,} vectors of zeros: refused with cosine")
    return warnings
