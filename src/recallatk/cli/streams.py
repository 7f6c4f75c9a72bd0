"""Standard output and error on any console: characters that its encoding lacks stay readable."""

from __future__ import annotations

import codecs
import json
import sys

_READABLE, _ESCAPED = "recallatk.readable", "recallatk.escaped"
# Signs of our own texts and charts.
_PLAIN = str.maketrans(
    {
        "±": "+-",
        "≥": ">=",
        "≤": "<=",
        "\u00d7": "x",
        "…": "...",
        "→": "->",
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "·": "-",
        "•": "*",
        "µ": "u",
        "δ": "delta",
        "ε": "eps",
        "│": "|",
        "┤": "+",
        "└": "+",
        "─": "-",
        **dict(zip("●■▲◆✚▼○□△◇✕▽", "*#A%+Vo=^&xv", strict=True)),
    }
)


def accept_any_text() -> None:
    """Make standard output and error accept every character, whatever the encoding of the console."""
    codecs.register_error(_READABLE, _readable)
    codecs.register_error(_ESCAPED, _escaped)
    # JSON must be read back to the same data, so that it is only escaped.
    way = _ESCAPED if "--json" in sys.argv else _READABLE
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=way)


def _readable(problem: UnicodeError) -> tuple[str, int]:
    missing, end = _missing(problem)
    plain = missing.translate(_PLAIN)
    return "".join(sign if sign.isascii() else json.dumps(sign)[1:-1] for sign in plain), end


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    missing, end = _missing(problem)
    return json.dumps(missing)[1:-1], end


def _missing(problem: UnicodeError) -> tuple[str, int]:
    """The characters that cannot be encoded, and where the text goes on."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return problem.object[problem.start : problem.end], problem.end
