"""Relevance judgments: from files in two layouts, from folders of data, and from mappings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

from recallatk.datasets.in_memory import is_path
from recallatk.errors import FormatError, UsageError
from recallatk.files import locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.datasets.source import Qrels
    from recallatk.files import Location, PathLike

_GRADE = re.compile(r"-?[0-9]{1,9}")
_SPLITS = ("test.tsv", "dev.tsv", "train.tsv")


def find_qrels(folder: Location) -> Callable[[], Qrels] | None:
    """The judgments of a folder: qrels.tsv, or a split of qrels/, test before dev before train."""
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
    """The judgments of a file, in BEIR's layout or TREC's."""
    return qrels_of(locate(path))


def judgments(given: Any) -> Qrels | None:
    """Judgments from a file, or from grades by query id and corpus id; None for None."""
    if given is None:
        return None
    if is_path(given):
        return read_qrels(given)
    accepted = "a file, or a mapping from query ids to mappings from corpus ids to whole grades"
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        raise UsageError(f"qrels of type {type(given).__name__}. Accepted: {accepted}")
    return {
        str(query): {str(document): _grade(query, document, grade) for document, grade in grades.items()}
        for query, grades in given.items()
    }


def _grade(query: Any, document: Any, grade: Any) -> int:
    if isinstance(grade, bool) or not isinstance(grade, Integral):
        raise UsageError(f"qrels: query {query!r}, {document!r}: grade {grade!r}. Accepted: whole numbers")
    return int(grade)


def qrels_of(location: Location) -> Qrels:
    """BEIR's layout (a header, then query, document and grade) or TREC's (query, 0, document, grade)."""
    text = location.read_at(0, location.size).decode("utf-8-sig", "replace")
    judgments: dict[str, dict[str, int]] = {}
    for number, line in enumerate(text.split("\n")):
        cells = line.strip("\r").split("\t") if "\t" in line else line.split()
        if not cells or (number == 0 and not _is_grade(cells[-1])):
            continue
        if len(cells) not in (3, 4) or not _is_grade(cells[-1]):
            raise FormatError(
                location.text, f"{line[:80]!r}", "query-id, corpus-id and a whole grade", row=number
            )
        judgments.setdefault(cells[0], {})[cells[-2]] = int(cells[-1])
    return judgments


def _is_grade(cell: str) -> bool:
    return _GRADE.fullmatch(cell.strip()) is not None
