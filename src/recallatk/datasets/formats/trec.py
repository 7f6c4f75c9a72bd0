"""TREC runs: one answer a line, as evaluators of search engines read them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.datasets.answer_ids import ids_from_text
from recallatk.datasets.answer_tables import grouped
from recallatk.datasets.source import Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Answers
    from recallatk.files import Location

_BLOCK_BYTES = 8 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CELLS = 6
_QUERY, _DOCUMENT, _RANK, _SCORE = 0, 2, 3, 4
_ORDER = "score, equal scores by rank, then by line"
_ACCEPTED = "query, Q0, document, rank, score and tag in every line, separated by spaces"


class Trec(Format):
    """A line such as `q7 Q0 doc12 1 0.93 mine`."""

    name = "trec"
    suffixes = (".run", ".trec", ".res")
    holds_vectors = False

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Refuse: a run holds answers."""
        raise FormatError(
            shards[0].text,
            "a TREC run, which holds answers, not vectors",
            "a file with vectors",
            hint="Read it as answers: read_answers(path)",
        )

    def read_answers(self, location: Location) -> Answers | None:
        """The answers of each query by falling score, which evaluators go by; equal scores by rank."""
        queries: list[pa.Array] = []
        documents: list[pa.Array] = []
        ranks: list[NDArray[np.float64]] = []
        scores: list[NDArray[np.float64]] = []
        first_line = 0
        for block in _blocks(location):
            lines = _Lines(block, first_line, location.text)
            first_line += lines.count
            queries.append(lines.column(_QUERY))
            documents.append(lines.column(_DOCUMENT))
            ranks.append(lines.numbers(_RANK, "rank"))
            scores.append(lines.numbers(_SCORE, "score"))
        said = np.concatenate([np.empty(0), *scores])
        if not len(said):
            raise FormatError(location.text, "it has no lines", _ACCEPTED)
        found = grouped(
            ids_from_text(pa.chunked_array(queries), location.text),
            ids_from_text(pa.chunked_array(documents), location.text),
            said,
            [-said, np.concatenate(ranks)],
            location.text,
        )
        return replace(found, ordered_by=_ORDER)


class _Lines:
    """The lines of a block, taken apart; those without anything in them are passed over."""

    def __init__(self, block: bytes, first_line: int, where: str) -> None:
        self.where = where
        texts = pc.split_pattern(pa.array([_decoded(block, first_line, where)]), "\n").flatten()
        trimmed = pc.ascii_trim_whitespace(texts)
        filled = pc.not_equal(trimmed, "")
        self.count = block.count(b"\n")
        self.texts = trimmed.filter(filled)
        self.numbers_of_lines = first_line + np.flatnonzero(filled.to_numpy(zero_copy_only=False))
        cells = pc.ascii_split_whitespace(self.texts)
        wrong = pc.list_value_length(cells).to_numpy() != _CELLS
        if wrong.any():
            raise self._malformed(int(wrong.argmax()), "")
        self.cells = cells.flatten()

    def column(self, place: int) -> pa.Array:
        """One of the six cells of every line."""
        return self.cells.take(pa.array(np.arange(place, len(self.cells), _CELLS)))

    def numbers(self, place: int, what: str) -> NDArray[np.float64]:
        """A column of numbers; NaN has no place in an order."""
        texts = self.column(place)
        try:
            numbers: NDArray[np.float64] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            numbers = np.array([_number(text) for text in texts.to_pylist()])
        missing = np.isnan(numbers)
        if missing.any():
            row = int(missing.argmax())
            raise self._malformed(row, f"the {what} is {texts[row].as_py()!r:.40} in ")
        return numbers

    def _malformed(self, row: int, problem: str) -> FormatError:
        found = f"{problem}{self.texts[row].as_py()[:80]!r}"
        return FormatError(self.where, found, _ACCEPTED, row=int(self.numbers_of_lines[row]))


def _number(text: str) -> float:
    """The number that Arrow reads; NaN for what is none."""
    try:
        return float(pa.scalar(text).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return float("nan")


def _decoded(block: bytes, first_line: int, where: str) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as problem:
        row = first_line + block.count(b"\n", 0, problem.start)
        raise FormatError(where, f"invalid UTF-8: {problem.reason}", "UTF-8", row=row) from problem


def _blocks(location: Location) -> Iterator[bytes]:
    """Blocks of whole lines."""
    with reading(location.text, "TREC run"), location.open() as file:
        rest = bytes(file.read(len(_BYTE_ORDER_MARK))).removeprefix(_BYTE_ORDER_MARK)
        while piece := bytes(file.read(_BLOCK_BYTES)):
            whole, newline, tail = (rest + piece).rpartition(b"\n")
            if newline:
                yield whole + newline
            rest = tail
            if len(rest) > _BLOCK_BYTES:
                raise FormatError(location.text, f"a line of more than {_BLOCK_BYTES} bytes", _ACCEPTED)
        if rest:
            yield rest
