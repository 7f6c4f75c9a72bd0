"""VectorDBBench folders: train shards, test, neighbors and scalar labels as Parquet."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.datasets.formats.parquet import open_table
from recallatk.datasets.imported import id_truth
from recallatk.datasets.layout import column_of, table_records
from recallatk.datasets.source import CORPUS, QUERIES, Format, OpenOptions, Source
from recallatk.errors import FormatError, MismatchError
from recallatk.ids import check_ids, plain_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Columns, Records, Truth
    from recallatk.datasets.batches import BatchSource
    from recallatk.files import Location

_TRAIN = re.compile(r"(?P<stem>shuffle_train|train)(-(?P<number>\d+)-of-(?P<count>\d+))?\.parquet\Z")
_TEST, _NEIGHBORS, _LABELS = "test.parquet", "neighbors.parquet", "scalar_labels.parquet"


@dataclass(frozen=True, eq=False)
class LabelledColumns:
    """The train columns with the scalar labels, which are indexed by id, beside them."""

    columns: Columns
    id_column: str
    labels: BatchSource

    @cached_property
    def _labels(self) -> pa.ChunkedArray:
        return column_of(self.labels, "labels")

    @cached_property
    def _label_ids(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ids that have labels, in order, and the position of each label, which is the id by default."""
        positions = np.arange(len(self._labels))
        if "id" not in self.labels.schema.names:
            return positions, positions
        where = f"{self.labels.text} (id)"
        ids = plain_ids(column_of(self.labels, "id"), where)
        if not pa.types.is_integer(ids.type):
            raise FormatError(where, f"ids of type {ids.type}", "integers")
        check_ids(ids, where)
        order = np.argsort(ids.to_numpy(), kind="stable")
        return ids.to_numpy()[order], order

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return self.columns.schema.append(self.labels.schema.field("labels"))

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of some rows."""
        if "labels" not in names:
            return self.columns.read(names, start, stop)
        wanted = dict.fromkeys([self.id_column, *(name for name in names if name != "labels")])
        own = self.columns.read(list(wanted), start, stop)
        ids = own[self.id_column].cast(pa.int64()).fill_null(-1).to_numpy()
        known, order = self._label_ids
        place = np.minimum(np.searchsorted(known, ids), max(0, len(known) - 1))
        unknown = known[place] != ids if len(known) else np.ones(len(ids), bool)
        if unknown.any():
            row = int(np.argmax(unknown))
            raise FormatError(
                self.labels.text, f"no label for id {ids[row]}", "a label for every id", row=start + row
            )
        labels = self._labels.take(pa.array(order[place])).combine_chunks()
        return own.append_column("labels", labels).select(names)


class VectorDBBench(Format):
    """A corpus, queries and truth; the metric is not in the folder and has to be stated."""

    name = "vectordbbench"

    def recognizes_folder(self, children: list[Location]) -> bool:
        """A folder with test.parquet and train shards."""
        names = [child.name for child in children]
        return _TEST in names and any(_TRAIN.match(name) for name in names)

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the train shards as the corpus and test as the queries."""
        (folder,) = shards
        children = {child.name: child for child in folder.children()}
        corpus = table_records(open_table(_train(folder, children)), options)
        if _LABELS in children:
            corpus = _labelled(corpus, children[_LABELS])
        queries = table_records(open_table([children[_TEST]]), options)
        neighbors = children.get(_NEIGHBORS)
        truth = partial(_truth, neighbors, corpus, queries) if neighbors else None
        return Source(folder.text, self.name, {CORPUS: corpus, QUERIES: queries}, truth=truth)


def _labelled(corpus: Records, location: Location) -> Records:
    labels = open_table([location])
    if "labels" not in labels.schema.names:
        raise FormatError(labels.text, "no column 'labels'", "one label for every id")
    schema = corpus.columns.schema
    if "labels" in schema.names:
        raise FormatError(labels.text, f"{corpus.name} has a column 'labels' too", "one of them")
    if corpus.id_column is None or not pa.types.is_integer(schema.field(corpus.id_column).type):
        raise FormatError(labels.text, f"{corpus.name} has no integer ids", "ids, which labels are found by")
    columns = LabelledColumns(corpus.columns, corpus.id_column, labels)
    return replace(corpus, columns=columns)


def _train(folder: Location, children: dict[str, Location]) -> list[Location]:
    """The shards of the corpus; the unshuffled ones where both are there."""
    found: dict[str, list[tuple[int, int, Location]]] = {}
    for name, child in children.items():
        if match := _TRAIN.match(name):
            shard = (int(match["number"] or 0), int(match["count"] or 1), child)
            found.setdefault(match["stem"], []).append(shard)
    shards = sorted(found.get("train") or found["shuffle_train"], key=lambda shard: shard[0])
    numbers, counts = [shard[0] for shard in shards], {shard[1] for shard in shards}
    if numbers != list(range(len(shards))) or counts != {len(shards)}:
        listed = ", ".join(location.name for _, _, location in shards)
        raise FormatError(
            folder.text,
            f"of {max(counts)} train shards only these exist: {listed}",
            "train.parquet, or every shard of one set",
        )
    return [location for _, _, location in shards]


def _truth(location: Location, corpus: Records, queries: Records) -> Truth:
    truth = id_truth(open_table([location]), corpus)
    if len(truth) != queries.rows:
        raise MismatchError(
            f"{location.text} has the neighbors of {len(truth)} queries and {queries.name} has {queries.rows}"
        )
    if truth.query_ids is None or queries.id_column is None:
        return truth
    place = pc.index_in(queries.ids.cast(pa.string()), value_set=truth.query_ids.cast(pa.string()))
    if place.null_count == len(place):
        # The file numbers the queries in its own way: the lists go by position.
        return replace(truth, query_ids=None)
    if place.null_count:
        missing = queries.ids.filter(place.is_null())[0]
        raise MismatchError(f"{location.text} has no neighbors of query {missing}, which {queries.name} has")
    return truth.take(place.to_numpy().astype(np.int64))
