"""What every page is made of: a template, style, script, data, and the policy that holds them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from recallatk.report.charts.theme import colours, shapes
from recallatk.report.html.library import chart_library
from recallatk.report.naming import cut
from recallatk.report.text import printable
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADING, SENTENCE = 240, 800
# Symbols of the legend in a box of 16 by 16.
_SYMBOLS = {
    "circle": "M8 2a6 6 0 1 0 .01 0Z",
    "square": "M3 3h10v10H3Z",
    "triangle-up": "M8 2l6 11H2Z",
    "diamond": "M8 1l5 7-5 7-5-7Z",
    "cross": "M6 2h4v4h4v4h-4v4H6v-4H2V6h4Z",
    "triangle-down": "M8 14L2 3h12Z",
}


def sheet(template: str, said: Mapping[str, Any], data: Any) -> str:
    """One file with everything inside.

    Args:
        template: the file of the template, beside this module.
        said: what the template names.
        data: what the script reads: charts, what follows a setting, and files to save.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    library, script, style = chart_library(), _file("page.js"), _file("page.css")
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        **said,
        version=__version__,
        policy=Markup(policy([library, script], style)),  # noqa: S704 - hashes only
        library=Markup(library),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup(style),  # noqa: S704 - our own file
        data=Markup(inert_json(data)),  # noqa: S704 - no character of it can end the element
    )


def legend(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each engine with its colour and the path of its symbol."""
    found = zip(names, colours(names).values(), shapes(names).values(), strict=True)
    return [(name, colour, _SYMBOLS[shape]) for name, colour, shape in found]


def shown(text: str, longest: int = SENTENCE) -> str:
    """Somebody's text: nothing in it is obeyed, and it is no longer than a reader can bear."""
    return cut(printable(text), longest)


def packed(text: str) -> str:
    """A file to save, as small as it gets in a page."""
    # Without a time in it, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0)).decode()


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
