"""What an engine reads besides vectors: ids, corpus columns, texts and sparse vectors of the queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.errors import unknown

if TYPE_CHECKING:
    from recallatk.adapters.base import Engine
    from recallatk.core import Dataset


@dataclass(frozen=True)
class Inputs:
    """What an engine reads besides vectors and the columns of filters."""

    ids: bool = False
    """The user's ids; engines that attach always get them."""
    columns: tuple[str, ...] = ()
    """Corpus columns that must exist."""
    optional: tuple[str, ...] = ()
    """Corpus columns that it reads if they exist."""
    texts: bool = False
    """The text of each query, in `QueryBatch.texts`."""
    functions: bool = False
    """Functions of the user, which may lie in the current folder."""
    sparse_files: tuple[str, ...] = ()
    """Files with a sparse vector of each corpus row, which workers get as columns of that name."""
    sparse: str | None = None
    """Query column or file with a sparse vector of each query, for `QueryBatch.sparse`."""


def missing_inputs(engine: type[Engine], dataset: Dataset) -> list[str]:
    """What an engine reads and the data lack, in words; empty if they have all of it."""
    corpus, queries = dataset.corpus, dataset.queries
    found = [
        f"{engine.name} reads a corpus column. {unknown('corpus column', name, corpus.metadata_names)}"
        for name in engine.inputs.columns
        if name not in corpus.columns.schema.names
    ]
    if engine.inputs.texts and queries.text_column is None:
        found.append(
            f"{engine.name} reads the text of the queries, and {queries.name} has no text column. "
            'Add one named "text"'
        )
    return found
