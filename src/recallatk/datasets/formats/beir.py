"""BEIR folders: texts and judgments, with the vectors in a file beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from recallatk.core import Records
from recallatk.datasets.batches import BatchColumns
from recallatk.datasets.formats.jsonl import JsonLines
from recallatk.datasets.formats.pair import sibling
from recallatk.datasets.layout import VECTOR_NAMES, id_column, table_records
from recallatk.datasets.qrels import find_qrels
from recallatk.datasets.source import CORPUS, QUERIES, Format, OpenOptions, Source
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.files import Location


@dataclass(frozen=True, eq=False)
class TextColumns:
    """The lines of a text file that stands beside a matrix, one line for each row."""

    lines: JsonLines
    vectors: Records

    @cached_property
    def _columns(self) -> BatchColumns:
        """The columns, once it is sure that lines and rows belong together."""
        if self.lines.rows != self.vectors.rows:
            raise MismatchError(
                f"{self.lines.text} has {self.lines.rows} lines "
                f"and {self.vectors.name} has {self.vectors.rows} vectors"
            )
        columns = BatchColumns(self.lines, vector="")
        if self.vectors.id_column is not None:
            texts = Records(self.lines.text, self.vectors.vectors, columns, id_column(self.lines, None))
            if not texts.ids.equals(self.vectors.ids):
                raise MismatchError(
                    f"{self.lines.text} and {self.vectors.name} have different ids, "
                    "or the same in another order"
                )
        return columns

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return self._columns.schema

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of some rows."""
        return self._columns.read(names, start, stop)


class Beir(Format):
    """corpus.jsonl, queries.jsonl and qrels/, with corpus.* and queries.* holding the vectors."""

    name = "beir"

    def recognizes_folder(self, children: list[Location]) -> bool:
        """A folder with corpus.jsonl and queries.jsonl."""
        return {"corpus.jsonl", "queries.jsonl"} <= {child.name for child in children}

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open both parts, each as texts with vectors beside them."""
        (folder,) = shards
        parts = {role: _joined(folder, role, options) for role in (CORPUS, QUERIES)}
        return Source(folder.text, self.name, parts, qrels=find_qrels(folder))


def _joined(folder: Location, role: str, options: OpenOptions) -> Records:
    lines = JsonLines(folder / f"{role}.jsonl", options.vector_column)
    if any(name in VECTOR_NAMES for name in lines.head.names):
        return table_records(lines, options)
    beside = sibling(folder, role, options, without=".jsonl").part(role)
    columns = TextColumns(lines, beside)
    return Records(lines.text, beside.vectors, columns, id_column(lines, options.id_column))
