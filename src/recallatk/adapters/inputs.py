"""What an engine reads besides vectors: ids, corpus columns, texts and sparse vectors of the queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recallatk.errors import choices, unknown
from recallatk.redaction import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from recallatk.adapters.base import Engine
    from recallatk.core import Dataset


class ColumnKind(NamedTuple):
    """What a column must hold."""

    name: str
    """In one word, such as `text`."""
    fits: Callable[[pa.DataType], bool]
    """Whether columns of a type hold it."""


@dataclass(frozen=True)
class Inputs:
    """What an engine reads besides vectors and the columns of filters."""

    ids: bool = False
    """The user's ids; engines that attach always get them."""
    columns: tuple[str, ...] = ()
    """Corpus columns that must exist."""
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    """What some of these columns must hold."""
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
    schema = corpus.columns.schema
    for name, kind in engine.inputs.kinds.items():
        if name in schema.names and not kind.fits(schema.field(name).type):
            fitting = [each.name for each in schema if kind.fits(each.type)]
            remedy = f"Accepted: {choices(fitting)}" if fitting else f"The corpus has no {kind.name} column"
            held = schema.field(name).type
            found.append(
                f"{engine.name} reads {name!r} as a {kind.name} column, but it holds {held}. {remedy}"
            )
    found += _missing_sparse(engine, dataset)
    if engine.inputs.texts and queries.text_column is None:
        found.append(
            f"{engine.name} reads the text of the queries, and {queries.name} has no text column. "
            'Add one named "text"'
        )
    return found


def _missing_sparse(engine: type[Engine], dataset: Dataset) -> list[str]:
    """Sparse vectors that are neither in a column nor in a file."""
    reads, queries = engine.inputs, dataset.queries
    found = [
        f"{engine.name} reads the sparse vectors of the corpus from {file!r}: no such file"
        for file in reads.sparse_files
        if file not in dataset.corpus.columns.schema.names and not _is_there(file)
    ]
    source = reads.sparse
    if source is not None and source not in queries.columns.schema.names and not _is_there(source):
        found.append(
            f"{engine.name} reads a sparse vector of each query from {source!r}, which is neither a column "
            f"of {queries.name} nor a file. Name one of them in the sparse stage: queries = ..."
        )
    return found


def _is_there(file: str) -> bool:
    return is_url(file) or Path(file).exists()
