"""What a truth keeps of its data beside neighbours, so that answers can be scored without the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from recallatk.core import Corpus, QuerySet

# All ids of a corpus are kept up to this many rows; beyond, unknown ids are told only with the corpus.
MOST_IDS = 1 << 22


def kept_ids(corpus: Corpus) -> pa.Array | None:
    """All ids of a corpus, unless they are its row numbers or too many."""
    return None if corpus.id_column is None or corpus.rows > MOST_IDS else corpus.ids


def kept_columns(queries: QuerySet) -> pa.Table | None:
    """The columns of plain values beside the queries."""
    names = [name for name in queries.metadata_names if _is_plain(queries.columns.schema.field(name).type)]
    if not names:
        return None
    table = queries.columns.read(names, 0, queries.rows)
    decoded = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(decoded, names)


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
