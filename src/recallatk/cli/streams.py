"""Standard output and error that take any text, whatever the locale of the terminal."""

from __future__ import annotations

import codecs
import json
import sys

_ESCAPED = "recallatk.escaped"


def take_any_text() -> None:
    r"""Spell out characters that the encoding of a stream does not have as \uXXXX, which JSON reads back."""
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_ESCAPED)


def _escaped(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return json.dumps(problem.object[problem.start : problem.end])[1:-1], problem.end
