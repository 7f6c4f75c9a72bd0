"""HTML renderer: one file with template, style, script, data and a content security policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from recallatk.reporting.charts.theme import specification
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut
from recallatk.reporting.text import printable
from recallatk.version import __version__

if TYPE_CHECKING:
    from recallatk.reporting.document import Document

_SENTENCE, _CELL, _CODE_LINE = 800, 400, 400


def render_html(document: Document) -> str:
    """A self-contained file: it loads nothing, and its content security policy enforces that."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    # Without charts a page needs no library, which is most of its size.
    library = chart_library() if document.charts else ""
    script, style = _file("page.js"), _file("page.css")
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown,
        "cell": lambda text: shown(text, _CELL),
        "code": _shown_code,
        "kind": lambda block: type(block).__name__,
    }
    return environment.get_template("page.html.jinja").render(
        document=document,
        version=__version__,
        policy=Markup(policy([each for each in (library, script) if each], style)),  # noqa: S704 - hashes only
        library=Markup(library),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        data=Markup(inert_json(_data(document))),  # noqa: S704 - no character of it can end the element
    )


def _data(document: Document) -> dict[str, Any]:
    """The script's data: charts, parts that follow the chosen setting, and files to save."""
    texts = _TextTable()
    return {
        "chosen": document.chosen,
        "charts": {name: specification(chart) for name, chart in document.charts.items()},
        "parts": [texts.numbered(part) for part in document.parts],
        "texts": texts.all,
        "files": {name: _packed(text) for name, text in document.files.items()},
    }


class _TextTable:
    """Deduplicated texts: settings share most of their words."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._known: dict[str, int] = {}

    def numbered(self, value: Any) -> Any:
        """Texts as their numbers, tables as objects."""
        if isinstance(value, str):
            return {"t": self._number(value)}
        if isinstance(value, Table):
            cells = [[self._number(cell) for cell in row] for row in [value.header, *value.rows]]
            return {"title": self._number(value.title), "cells": cells, "words": value.words}
        if isinstance(value, dict):
            return {name: self.numbered(each) for name, each in value.items()}
        return [self.numbered(each) for each in value] if isinstance(value, list) else value

    def _number(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.all)
            self.all.append(text)
        return self._known[text]


def shown(text: str, longest: int = _SENTENCE) -> str:
    """User text with control characters escaped, truncated where it is long."""
    return cut(printable(text), longest)


def _shown_code(text: str) -> str:
    """Code with control characters escaped, line by line."""
    return "\n".join(shown(line, _CODE_LINE) for line in text.split("\n"))


def _packed(text: str) -> str:
    """A file to save, compressed."""
    # No timestamp, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0)).decode()


def inert_json(value: Any) -> str:
    """JSON that is safe inside a script element, whatever texts it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(scripts: list[str], style: str) -> str:
    """The content security policy: these scripts and this style, and nothing else."""
    allowed = " ".join(_content_hash(each) for each in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_content_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _content_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _file(name: str) -> str:
    return files("recallatk.reporting.html").joinpath(name).read_text(encoding="utf-8").replace("\r", "")


def chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which evaluates expressions without compiling them."""
    return _file("vega-embed.js")
