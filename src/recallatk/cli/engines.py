"""`recallatk engines`: the engines, what each can do, and its parameters."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.options import Json, engine_names

if TYPE_CHECKING:
    from recallatk.adapters.registry import Described


def engines(
    name: Annotated[
        str | None, typer.Argument(autocompletion=engine_names, help="Engine to describe in full.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the engines with versions or install commands, abilities and parameters.

    Example: recallatk engines faiss-hnsw
    """
    from recallatk.adapters.registry import catalogue, describe

    if as_json:
        found = catalogue() if name is None else [describe(name)]
        typer.echo(json.dumps([asdict(each) for each in found], ensure_ascii=False))
    else:
        typer.echo("\n".join(_table(catalogue()) if name is None else _in_full(describe(name))))


def _table(found: list[Described]) -> list[str]:
    from recallatk.reporting.text import printable

    rows = [["engine", "family", "library", "metrics", "can", "knobs"], *map(_row, found)]
    missing = [f"{each.name} is not installed: {each.install}" for each in found if each.installed is None]
    return [printable(line) for line in [*_to_the_left(rows), *([""] if missing else []), *missing]]


def _row(engine: Described) -> list[str]:
    return [
        engine.name,
        engine.family or "-",
        engine.installed or "-",
        " ".join(engine.metrics),
        " ".join(name for name, able in engine.abilities.items() if able) or "-",
        " ".join(knob["name"] for knob in engine.knobs) or "-",
    ]


def _to_the_left(rows: list[list[str]]) -> list[str]:
    """All columns to the left, as words are."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _in_full(engine: Described) -> list[str]:
    from recallatk.reporting.text import printable

    lines = [
        f"{engine.name}  ({engine.family or 'unknown'}, {engine.package})",
        f"  {engine.about}",
        f"  library     {engine.installed or f'not installed: {engine.install}'}",
        f"  metrics     {', '.join(engine.metrics) or '-'}",
        f"  can         {', '.join(name for name, able in engine.abilities.items() if able) or '-'}",
        f"  cannot      {', '.join(name for name, able in engine.abilities.items() if not able) or '-'}",
    ]
    for knob in engine.knobs:
        effort = ", effort" if knob["effort"] else ""
        said = f"; {knob['help']}" if knob["help"] else ""
        accepted = f"({knob['accepted']}{effort}{said})"
        lines.append(f"  {knob['when']:<6}      {knob['name']} = {knob['default']!r} {accepted}")
    lines += [f"  needs       {each}" for each in engine.constraints]
    return [printable(line) for line in lines]
