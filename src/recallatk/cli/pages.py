"""Markdown and HTML that a command writes beside what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.volume import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Html = Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write Markdown to this file.")]


def require_pages(paths: Iterable[Path | None], inputs: Iterable[str | None]) -> None:
    """Refuse pages that cannot be written, or that would replace an input, before the work begins."""
    from recallatk.files import require_not_among, require_writable

    known = list(inputs)
    for path in paths:
        if path is not None:
            require_not_among(path, known)
            require_writable(path)


def write_pages(found: Any, pages: Iterable[tuple[Path | None, Callable[[Any], str]]]) -> None:
    """Write each page that is asked for, and name its file."""
    from recallatk.files import write_text

    for path, render in pages:
        if path is not None:
            write_text(path, render(found))
            note(str(path))
