"""From what a page says to the page: template, style, script, data, and the policy that holds them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import is_dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from recallatk.report.charts.rendering import specification
from recallatk.report.charts.theme import colours, shapes
from recallatk.report.html import origin
from recallatk.report.html.drawings import heat_map
from recallatk.report.html.library import chart_library
from recallatk.report.html.trials import cost_table, ordered, settings_table
from recallatk.report.html.verdict import load_said
from recallatk.report.naming import cut
from recallatk.report.tables import Table, tables
from recallatk.report.text import printable
from recallatk.version import __version__

if TYPE_CHECKING:
    from recallatk.report.html.page import ReportData

# Symbols of the legend in a box of 16 by 16.
_SYMBOLS = {
    "circle": "M8 2a6 6 0 1 0 .01 0Z",
    "square": "M3 3h10v10H3Z",
    "triangle-up": "M8 2l6 11H2Z",
    "diamond": "M8 1l5 7-5 7-5-7Z",
    "cross": "M6 2h4v4h4v4h-4v4H6v-4H2V6h4Z",
    "triangle-down": "M8 14L2 3h12Z",
}


_HEADING, _SENTENCE = 240, 800


def rendered(found: ReportData) -> str:
    """One file with everything inside."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    library, script, style = chart_library(), _file("page.js"), _file("page.css")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_file("page.html.jinja"))
    return template.render(
        **_said(found),
        policy=Markup(policy([library, script], style)),  # noqa: S704 - hashes only
        library=Markup(library),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        data=Markup(inert_json(_data(found))),  # noqa: S704 - no character of it can end the element
    )


def _said(found: ReportData) -> dict[str, Any]:
    curve, run, number = found.curve, found.run, found.verdict.number
    names = list(curve.engines.values())
    legend = zip(names, colours(names).values(), shapes(names).values(), strict=True)
    rows, _, columns, _ = heat_map(curve, found.facts)
    return {
        "found": found,
        "title": f"{_shown(run.dataset, 120)}: recall and its cost",
        "curve": curve,
        "chosen": None if number is None else curve.points[number],
        "part": None if number is None else found.parts[number],
        "load_said": load_said(curve),
        "legend": [(name, colour, _SYMBOLS[shape]) for name, colour, shape in legend],
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
        "heading": _shown(found.contents.title, _HEADING),
        "about": [_shown(each, _HEADING) for each in found.contents.about],
        "timed": _shown(run.timed),
        "untold": _shown(found.untold),
        "failures": [_shown(each) for each in found.contents.failures],
        "cautions": [_shown(each) for each in found.contents.cautions],
        "notes": [_shown(each) for each in found.contents.notes],
        "refusals": [] if found.comparison is None else [_shown(each) for each in found.comparison.refusals],
        "version": __version__,
    }


def _shown(text: str, longest: int = _SENTENCE) -> str:
    """Somebody's text: nothing in it is obeyed, and it is no longer than a reader can bear."""
    return cut(printable(text), longest)


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
        "files": {name: _packed(text) for name, text in _files(found).items()},
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


def _packed(text: str) -> str:
    # Without a time in it, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0)).decode()


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


def inert_json(value: Any) -> str:
    """JSON that can stand in a script element whatever texts it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(scripts: list[str], style: str) -> str:
    """What the page may do: run these very scripts and this very style, and nothing else."""
    allowed = " ".join(_hash(each) for each in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _file(name: str) -> str:
    return files("recallatk.report.html").joinpath(name).read_text(encoding="utf-8").replace("\r", "")
