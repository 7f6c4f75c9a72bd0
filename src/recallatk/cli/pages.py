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


def require_pages(paths: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse outputs that cannot be written, or that would replace an input, before the work begins."""
    from recallatk.files import require_writable

    asked = [path for path in paths if path is not None]
    require_apart(asked, inputs)
    for path in asked:
        require_writable(path)


def require_apart(paths: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse outputs that would replace an input."""
    from recallatk.files import require_not_among

    known = list(inputs)
    for path in paths:
        if path is not None:
            require_not_among(path, known)


def measured_files(*folders: Path) -> list[Path]:
    """The files of runs or tunings that hold what was measured; its reports may be written anew."""
    from recallatk.reporting.tuned_file import TUNED
    from recallatk.storage.folder_scan import is_run_file

    files = (each for folder in folders for each in folder.iterdir())
    return [each for each in files if each.name == TUNED or is_run_file(each.name)]


def write_pages(found: Any, pages: Iterable[tuple[Path | None, Callable[[Any], str]]]) -> None:
    """Write each page that is asked for, and name its file."""
    from recallatk.files import write_text

    for path, render in pages:
        if path is not None:
            write_text(path, render(found))
            note(str(path))
