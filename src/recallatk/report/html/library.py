"""The script that draws charts: Vega, Vega-Lite and Vega-Embed in one piece, put together once."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from recallatk.files import write_text

if TYPE_CHECKING:
    from pathlib import Path


# All that the page calls.
_SNIPPET = "window.vegaEmbed=vegaEmbed;"


@cache
def chart_library() -> str:
    """The script, with what evaluates expressions without compiling them.

    Putting it together takes seconds, so that it is kept in the user's cache beside its own hash.
    """
    place = _place()
    kept = _kept(place)
    if kept is not None:
        return kept
    import vl_convert

    text: str = vl_convert.javascript_bundle(_SNIPPET)
    # HTML knows no escape inside a script, so that its end may not be spelled there.
    text = text.replace("</script", "<\\/script").replace("\r", "")
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, f"{_hash(text)}\n{text}")
    return text


def _place() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("recallatk", appauthor=False) / f"vega-embed-{version('vl-convert-python')}.js"


def _kept(place: Path) -> str | None:
    """What was kept, if it is still what it was."""
    try:
        stamp, _, text = place.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return None
    return text if stamp == _hash(text) else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
