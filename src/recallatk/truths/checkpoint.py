"""What a computation has done so far, on disk, so that a killed one goes on where it was.

Format history:
1. An uncompressed NPZ of named arrays; `header` is JSON with the format version and the identity of the
   work, `digest` the fingerprint of all others.
2. A sweep has `proven` beside `floors`, which may be guesses, and `errors`, how far its scores may be off.
3. `errors` are what scanners stated; `reach` and `largest_norm`, from which they were computed, are gone.
   `decided` in the results depends on the data alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from recallatk.files import atomic_file
from recallatk.fingerprint import Hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

FORMAT_VERSION = 3


class Checkpoint:
    """One file that is replaced every few seconds; `identity` says what work it belongs to."""

    def __init__(self, path: Path, identity: Mapping[str, Any], every_seconds: float = 10.0) -> None:
        self.path, self.every_seconds = Path(path), every_seconds
        self._header = json.dumps({"format_version": FORMAT_VERSION, "identity": dict(identity)})
        self._saved = time.monotonic()

    def load(self) -> dict[str, NDArray[Any]] | None:
        """What was saved for the same work; None when there is nothing, or nothing that can be used."""
        try:
            with self.path.open("rb") as opened:
                return unpacked(opened, self._header)
        except OSError:
            return None

    def offer(self, state: Callable[[], Mapping[str, NDArray[Any]]]) -> None:
        """Save the state if the last time is long enough ago."""
        if time.monotonic() - self._saved >= self.every_seconds:
            self.save(state())

    def save(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Save the state now."""
        with atomic_file(self.path) as scratch, scratch.open("wb") as file:
            packed(file, self._header, state)
        self._saved = time.monotonic()

    def clear(self) -> None:
        """The work is done, and its result is stored elsewhere."""
        self.path.unlink(missing_ok=True)


def packed(file: IO[bytes], header: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays, what they are of, and what shows that they are whole."""
    marks = {"header": np.asarray(header), "digest": np.asarray(_digest(arrays))}
    np.savez(file, allow_pickle=False, **marks, **arrays)


def unpacked(file: IO[bytes], expected: str) -> dict[str, NDArray[Any]] | None:
    """The arrays that `packed` wrote; None if they are damaged or of something else."""
    try:
        with np.load(file, allow_pickle=False) as opened:
            arrays = dict(opened)
    except Exception:
        # A damaged checkpoint only means starting over.
        return None
    header, digest = arrays.pop("header", None), arrays.pop("digest", None)
    if header is None or digest is None or str(header) != expected:
        return None
    return arrays if str(digest) == _digest(arrays) else None


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """What tells a whole file from a damaged one: a wrong state would be a wrong truth."""
    state = Hash("checkpoint")
    for name in sorted(arrays):
        part = np.asarray(arrays[name])
        state.update_text(f"{name} {part.dtype.str} {part.shape}")
        state.update(part)
    return state.text()
