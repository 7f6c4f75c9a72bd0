"""Numbers in sentences: one of something is not several."""

from __future__ import annotations


def counted(count: int, one: str, several: str) -> str:
    """A number with its noun, such as `1 query` and `2 queries`."""
    return f"{count:,} {one if count == 1 else several}"


def share_of(count: int, whole: int, noun: str, one: str, several: str) -> str:
    """Some of a whole with their share and what is said of them: `1 of 50 queries (2.0%) is …`."""
    return f"{count:,} of {whole:,} {noun} ({count / whole:.1%}) {one if count == 1 else several}"
