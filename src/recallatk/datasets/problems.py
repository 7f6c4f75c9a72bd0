"""What goes wrong inside a reader library, said as our own error with the file's name."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, RecallError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What numpy, Arrow, HDF5 and zipfile raise on damaged bytes. Arrow's own errors derive from these.
_DAMAGE = (
    ValueError,
    OSError,
    KeyError,
    IndexError,
    TypeError,
    RuntimeError,
    MemoryError,
    OverflowError,
    EOFError,
    AttributeError,
    SyntaxError,
    AssertionError,
)


@contextlib.contextmanager
def reading(where: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader library raises on a damaged file into a FormatError."""
    try:
        yield
    except RecallError:
        raise
    except _DAMAGE as problem:
        said = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise FormatError(where, f"cannot be read as {kind}: {said}", f"a sound {kind}") from problem
