"""What an export has written, and what a reader of it must know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Exported:
    """The files of an export, and what is to be said about them."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
