"""Relevance judgements: which corpus ids somebody found relevant for which query."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from recallatk.errors import FormatError
from recallatk.files import locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.datasets.source import Qrels
    from recallatk.files import Location, PathLike

_GRADE = re.compile(r"-?[0-9]{1,9}")
_SPLITS = ("test.tsv", "dev.tsv", "train.tsv")


def find_qrels(folder: Location) -> Callable[[], Qrels] | None:
    """The judgements of a folder: qrels.tsv, or a split of qrels/, test before dev before train."""
    children = {child.name: child for child in folder.children()}
    if "qrels.tsv" in children:
        return partial(qrels_of, children["qrels.tsv"])
    if "qrels" in children and children["qrels"].is_folder:
        splits = {child.name: child for child in children["qrels"].children() if child.suffix == ".tsv"}
        for name in (*_SPLITS, *splits):
            if name in splits:
                return partial(qrels_of, splits[name])
    return None


def read_qrels(path: PathLike) -> Qrels:
    """The judgements of a file, in BEIR's layout or TREC's."""
    return qrels_of(locate(path))


def qrels_of(location: Location) -> Qrels:
    """BEIR's layout (a header, then query, document and grade) or TREC's (query, 0, document, grade)."""
    text = location.read_at(0, location.size).decode("utf-8-sig", "replace")
    judgements: dict[str, dict[str, int]] = {}
    for number, line in enumerate(text.split("\n")):
        cells = line.strip("\r").split("\t") if "\t" in line else line.split()
        if not cells or (number == 0 and not _is_grade(cells[-1])):
            continue
        if len(cells) not in (3, 4) or not _is_grade(cells[-1]):
            raise FormatError(
                location.text, f"{line[:80]!r}", "query-id, corpus-id and a whole grade", row=number
            )
        judgements.setdefault(cells[0], {})[cells[-2]] = int(cells[-1])
    return judgements


def _is_grade(cell: str) -> bool:
    return _GRADE.fullmatch(cell.strip()) is not None
