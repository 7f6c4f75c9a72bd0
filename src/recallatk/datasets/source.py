"""The contract of a format, and the source that opening a file returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.errors import UsageError, choices

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from recallatk.core import Answers, Dataset, Metric, Records, Truth
    from recallatk.files import Location

ROWS, CORPUS, QUERIES = "rows", "corpus", "queries"

Qrels = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class OpenOptions:
    """What the user may have to say about a file's columns."""

    id_column: str | None = None
    vector_column: str | None = None
    calls: str = ""
    """Which calls of a query log to read, such as `k=10&ef=64`."""


@dataclass(frozen=True)
class Source:
    """Content of a file or folder: one matrix, or a corpus with queries and perhaps a truth."""

    text: str
    format: str
    parts: Mapping[str, Records]
    """One part called `rows`, or a `corpus` and perhaps `queries`."""
    metric: Metric | None = None
    truth: Callable[[], Truth] | None = None
    qrels: Callable[[], Qrels] | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    """What else the file says of itself, for `inspect`."""
    extra: tuple[str, ...] = ()
    """Further content of the file, such as the distances of neighbors."""

    def besides(self, role: str) -> tuple[str, ...]:
        """What the file holds that is not in one of its parts."""
        others = tuple(other for other in self.parts if other not in (role, ROWS))
        truth = ("ground truth",) if self.truth else ()
        return (*others, *truth, *(("qrels",) if self.qrels else ()), *self.extra)

    def part(self, role: str) -> Records:
        """The corpus or the queries; a file with one matrix serves as either."""
        if ROWS in self.parts:
            return self.parts[ROWS]
        if role in self.parts:
            return self.parts[role]
        raise UsageError(
            f"{self.text} ({self.format}) has no {role}; it has {choices(self.parts) or 'no vectors'}"
        )


class Format:
    """One file format: how it is detected, opened and written. One subclass per module."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    magics: ClassVar[tuple[bytes, ...]] = ()
    """What such a file begins with; these win over the name's ending."""
    headerless: ClassVar[bool] = False
    """Any bytes may begin such a file, so its name's ending wins over other formats' magics."""
    shardable: ClassVar[bool] = False
    """Whether several files can be one table."""
    writable: ClassVar[bool] = False
    writes_columns: ClassVar[bool] = False
    """Whether ids and metadata survive being written."""
    holds_vectors: ClassVar[bool] = True
    """Whether the file holds vectors; files of answers are skipped in folders."""
    holds_queries: ClassVar[bool] = False
    """Whether such a file is a corpus with its queries and truth, and is written as one."""
    stored: ClassVar[np.dtype[Any] | None] = None
    """The one type that such a file can hold; None when it can hold any."""

    def recognizes_folder(self, children: list[Location]) -> bool:
        """Whether a folder with these children is of this format."""
        return False

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open one file, several shards of one table, or a folder."""
        raise NotImplementedError

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """The ground truth that this file is, its ids looked up in the corpus; None when it holds none."""
        return None

    def read_answers(self, location: Location) -> Answers | None:
        """What a system answered, as this file has it; None when such a file holds no answers."""
        return None

    def write(self, records: Records, path: Path) -> None:
        """Write one matrix with its ids and metadata."""
        raise UsageError(f"the format {self.name} cannot be written")

    def write_dataset(self, dataset: Dataset, truth: Truth, path: Path) -> None:
        """Write a corpus with queries and their truth, for formats that hold all three."""
        raise UsageError(f"the format {self.name} holds one matrix, not a corpus with queries")
