"""From a file to what a system answered, whatever wrote the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.datasets.registry import detect, get_format
from recallatk.errors import FormatError
from recallatk.files import PathLike, locate

if TYPE_CHECKING:
    from recallatk.core import Answers

_ACCEPTED = (
    "a table with neighbors (Parquet, Arrow, JSON Lines, CSV), a TREC run, a matrix of ids (npy, ivecs, "
    "ibin) or an ann-benchmarks result"
)


def read_answers(path: PathLike, *, format: str | None = None) -> Answers:
    """Read the answers that a system gave; its ids stay as it wrote them, and nothing is looked up.

    Args:
        path: a Parquet, Arrow, JSON Lines or CSV table, npy, ivecs, ibin (also with distances), an
            ann-benchmarks result or a TREC run.
        format: the format's name, when its ending and first bytes do not tell.
    """
    location = locate(path)
    if location.is_folder:
        raise FormatError(location.text, "a folder", f"one file: {_ACCEPTED}")
    if location.size == 0:
        raise FormatError(location.text, "the file is empty", _ACCEPTED)
    chosen = get_format(format) if format else detect(location)
    found = chosen.read_answers(location)
    if found is None:
        raise FormatError(location.text, f"no answers in a file of the format {chosen.name}", _ACCEPTED)
    return found
