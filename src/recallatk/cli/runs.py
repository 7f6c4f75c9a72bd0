"""`recallatk runs`: the runs in a folder with their progress."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recallatk.storage import ListedRun


def runs(
    folder: Annotated[str, typer.Argument(help="Folder to search, with its subfolders.")] = "runs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List every run in a folder with its dataset, engines, trials, start and size.

    Example: recallatk runs my-runs
    """
    from recallatk.storage import list_runs

    found = list_runs(folder)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(found, folder)))


def _lines(found: list[ListedRun], folder: str) -> list[str]:
    from recallatk.reporting.text import printable

    if not found:
        return [printable(f"no runs in {folder} or its subfolders")]
    head = ["run", "dataset", "engines", "trials", "begun", "size"]
    # A name with a line break in it would otherwise break the table as well.
    rows = [[printable(cell) for cell in row] for row in [head, *map(_row, found)]]
    problems = [printable(f"{each.name}: {each.problem}") for each in found if each.problem is not None]
    return [*_aligned(rows), *([""] if problems else []), *problems]


def _row(run: ListedRun) -> list[str]:
    planned = "" if run.planned is None else f" of {run.planned:,}"
    failed = f", {run.failed:,} failed" if run.failed else ""
    kept = f", {run.kept:,} kept" if run.kept else ""
    return [
        run.name,
        run.dataset or "-",
        " ".join(run.engines) or "-",
        f"{run.done:,}{planned}{failed}{kept}",
        run.begun or "-",
        _size(run.size_bytes),
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    """All columns to the left but the size, which is a number."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    *left, last = widths
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], left, strict=True)), row[-1].rjust(last)]
        )
        for row in rows
    ]


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
