"""Addresses of pages: file names that every system and every web server takes, whatever a run is called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Iterable

INDEX, TRENDS = "index.html", "trends.html"
REPORTS, BOARDS, DATA = "reports", "leaderboards", "data"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
# Names of devices, which Windows keeps for itself with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])")
_LONGEST = 50
_DIGITS = 8


def page_addresses(folder: str, names: Iterable[str]) -> dict[str, str]:
    """The address of the page of every name, relative to the site; the same for a name on every site.

    Args:
        folder: the folder of the pages.
        names: names, all different.
    """
    taken: dict[str, str] = {}
    for name in names:
        stem = _file_stem(name)
        # A run may be called like the fingerprinted name of another.
        while stem in taken:
            stem = _file_stem(f"{stem}/")
        taken[stem] = name
    return {name: f"{folder}/{stem}.html" for stem, name in taken.items()}


def _file_stem(name: str) -> str:
    """A name as lower-case letters, digits and hyphens, with a fingerprint if that changes it."""
    if _PLAIN.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()[: 4 * _LONGEST]).strip("-")[:_LONGEST].strip("-")
    mark = blake3(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{words}-{mark}" if words else mark
