"""What goes wrong inside a reader library, said as our own error with the file's name."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, RecallError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def reading(where: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader library raises on a damaged file into a FormatError.

    Damaged bytes make numpy, Arrow, HDF5, zipfile, zlib and tokenize raise errors with no common
    ancestor, so every Exception is taken; the first one stays visible as the cause.
    """
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        said = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise FormatError(where, f"cannot be read as {kind}: {said}", f"a sound {kind}") from problem
