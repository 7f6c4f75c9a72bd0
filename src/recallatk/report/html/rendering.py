"""The page of a run: what its template says, and the data that its script reads."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from recallatk.report.charts.rendering import specification
from recallatk.report.html import origin
from recallatk.report.html.drawings import heat_map
from recallatk.report.html.sheet import HEADING, legend, packed, sheet, shown
from recallatk.report.html.trials import cost_table, ordered, settings_table
from recallatk.report.tables import Table, tables
from recallatk.report.text import printable
from recallatk.report.verdict import load_said

if TYPE_CHECKING:
    from recallatk.report.html.page import ReportData

_MOST_LISTED = 100


def rendered(found: ReportData) -> str:
    """One file with everything inside."""
    return sheet("page.html.jinja", _said(found), _data(found))


def _said(found: ReportData) -> dict[str, Any]:
    curve, run, number = found.curve, found.run, found.verdict.number
    rows, _, columns, _ = heat_map(curve, found.facts)
    return {
        "found": found,
        "charts": found.charts,
        "title": f"{shown(run.dataset, 120)}: recall and its cost",
        "curve": curve,
        "chosen": None if number is None else curve.points[number],
        "part": None if number is None else found.parts[number],
        "load_said": load_said(curve),
        "legend": legend(list(curve.engines.values())),
        "order": ordered(curve),
        "settings": settings_table(curve),
        "cost": cost_table(curve),
        "loads": _loads(found),
        "heat": Table(
            "Segments at the settings of the front",
            ["Segment", "Setting", curve.measure or "", "Queries"],
            [[row["segment"], row["setting"], row["text"], f"{row['queries']:,}"] for row in rows],
            2,
        ),
        "heat_columns": len(columns),
        "environment": origin.environment(run),
        "identity": origin.identity(run),
        "bench": origin.bench_file(run),
        "command": origin.command(run),
        "settings_text": origin.settings_text(run) if run.settings else "",
        "heading": shown(found.contents.title, HEADING),
        "about": [shown(each, HEADING) for each in found.contents.about],
        "timed": shown(run.timed or "-"),
        "untold": shown(found.untold),
        "failures": _first(found.contents.failures),
        "cautions": _first(found.contents.cautions),
        "notes": [shown(each) for each in found.contents.notes],
        "refusals": [] if found.comparison is None else [shown(each) for each in found.comparison.refusals],
    }


def _first(said: list[str]) -> list[str]:
    """As many as can be read, and how many there are beside them."""
    more = len(said) - _MOST_LISTED
    beside = [f"{more:,} more; run.json, under Data, has all"] if more > 0 else []
    return [*map(shown, said[:_MOST_LISTED]), *beside]


def _loads(found: ReportData) -> list[Table]:
    """What was measured under load: a table for each mode but plain latency."""
    curve = found.curve
    members = [line for line in curve.lines if line.trial.load != curve.loads[0]]
    return [_printed(table) for table in tables(found.run, members, curve.names)]


def _printed(table: Table) -> Table:
    rows = [[printable(cell) for cell in row] for row in table.rows]
    header = [name or "Front" for name in table.header]
    return Table(table.title, header, [[_front(cell) for cell in row] for row in rows], table.words)


def _front(cell: str) -> str:
    return "front" if cell == "*" else cell


def _data(found: ReportData) -> dict[str, Any]:
    """What the script needs: charts, what follows a setting, and files to save."""
    texts = _Texts()
    return {
        "chosen": found.verdict.number,
        "charts": {name: specification(chart) for name, chart in found.charts.items()},
        "parts": [texts.plain(part) for part in found.parts],
        "texts": texts.all,
        "files": {name: packed(text) for name, text in _files(found).items()},
    }


def _files(found: ReportData) -> dict[str, str]:
    from recallatk.report.as_dict import run_to_dict
    from recallatk.report.exports.csv import csv_text

    bench = origin.bench_file(found.run)
    return {
        "trials.csv": csv_text(found.run),
        "run.json": json.dumps(run_to_dict(found.run), indent=1, allow_nan=False) + "\n",
        **({} if bench is None else {"bench.toml": bench}),
    }


class _Texts:
    """Every text once: settings share most of their words."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._known: dict[str, int] = {}

    def plain(self, value: Any) -> Any:
        """Texts as their numbers, tables as objects."""
        if isinstance(value, str):
            if value not in self._known:
                self._known[value] = len(self.all)
                self.all.append(value)
            return {"t": self._known[value]}
        if is_dataclass(value) and isinstance(value, Table):
            cells = [[self.plain(cell)["t"] for cell in row] for row in [value.header, *value.rows]]
            return {"title": self.plain(value.title)["t"], "cells": cells, "words": value.words}
        if isinstance(value, dict):
            return {name: self.plain(each) for name, each in value.items()}
        return [self.plain(each) for each in value] if isinstance(value, list) else value
