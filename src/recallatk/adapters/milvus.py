"""milvus: graph, cluster and flat indexes of Milvus Lite in a temporary folder, or of a server."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Abilities, Constraint
from recallatk.adapters.batch import QueryBatch, float32_matrix, padded
from recallatk.adapters.database import Database, address, dropping
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.stored_columns import StoredColumns
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.filters import And, ContainsAll, ContainsAny, Exists, In, Not, Or, Prefix, Range
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter

# A server builds no index for smaller segments, yet reports that it has finished.
SMALLEST_SEGMENT = 1024
_TYPES = {
    "text": "VARCHAR",
    "whole": "INT64",
    "number": "DOUBLE",
    "truth": "BOOL",
    "moment": "INT64",
    "clock": "INT64",
}
_ELEMENTS = {"texts": "VARCHAR", "wholes": "INT64"}
_LONGEST_LIST = 4096
_OPERATORS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


class Milvus(Database):
    """Milvus collection; all rows are flushed first, because Milvus Lite scans rows that are not."""

    name = "milvus"
    family = "milvus"
    distribution = "pymilvus"
    extra = "milvus"
    secret_variables = ("MILVUS_TOKEN",)
    column_indexes = False
    abilities = Abilities(filters=True, updates=True, clients=True)
    build_knobs = (
        Knob("uri", default="", help="server URI; without one, Milvus Lite (token: MILVUS_TOKEN)"),
        Knob("index", default="HNSW", choices=("HNSW", "IVF_FLAT", "FLAT")),
        Knob("M", default=16, low=2, high=256, help="of HNSW"),
        Knob("ef_construction", default=200, low=1, high=5000, effort=True, help="of HNSW"),
        Knob("nlist", default=128, low=1, high=65_536, help="of IVF_FLAT"),
    )
    search_knobs = (
        Knob("ef", default=64, low=1, high=10_000, effort=True, help="of HNSW"),
        Knob("nprobe", default=8, low=1, high=65_536, effort=True, help="of IVF_FLAT"),
    )

    list_knob = "nlist"
    # A server refuses an ef below k, and raising it would measure another setting.
    constraints = (
        Constraint(
            "ef of at least k with HNSW",
            ("index", "ef", "k"),
            lambda index, ef, k: index != "HNSW" or ef >= k,
        ),
        Constraint(
            "nprobe of at most nlist with IVF_FLAT",
            ("index", "nprobe", "nlist"),
            lambda index, nprobe, nlist: index != "IVF_FLAT" or nprobe <= nlist,
        ),
    )

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The server, if the build names one."""
        return "the server at uri" if parameters["uri"] else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert and flush every row, index, and load."""
        from pymilvus import MilvusClient

        self.close()
        self.parameters, self.rows = parameters, 0
        self.columns = StoredColumns(self.name, corpus)
        self.columns.limit_lists(_LONGEST_LIST)
        self.collection = f"recallatk_{uuid.uuid4().hex}"
        if not parameters["uri"]:
            self.folder = ScratchFolder()
        # pymilvus logs a traceback for every failure; the error raised here already says why.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        with self.told():
            if self.folder is None:
                uri = address(self.name, parameters["uri"])
                self.connection = MilvusClient(uri, token=self.key() or "", timeout=600)
            else:
                self.connection = MilvusClient(self._path(self.folder))
            self._create(corpus.dimension)
            for start, block in blocks(corpus.vectors):
                self._add(block, self.columns.read(start, start + len(block)))
            self.connection.flush(self.collection)
            self._index(metric)
            self.connection.load_collection(self.collection)

    def _create(self, dimension: int) -> None:
        from pymilvus import DataType

        schema = self.connection.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        for column in self.columns.stored.values():
            options: dict[str, Any] = {"max_length": 65_535} if column.kind in ("text", "texts") else {}
            if column.kind in _ELEMENTS:
                element = DataType[_ELEMENTS[column.kind]]
                options |= {"element_type": element, "max_capacity": _LONGEST_LIST}
            kind = DataType[_TYPES.get(column.kind, "ARRAY")]
            schema.add_field(column.key, kind, nullable=True, **options)
        self.connection.create_collection(self.collection, schema=schema, consistency_level="Strong")

    def _index(self, metric: Metric) -> None:
        kind, given = self.parameters["index"], self.parameters
        shape = {
            "HNSW": {"M": given["M"], "efConstruction": given["ef_construction"]},
            "IVF_FLAT": {"nlist": given["nlist"]},
            "FLAT": {},
        }
        wanted = self.connection.prepare_index_params()
        # Lite ignores these silently unless they are nested once more; a server accepts both forms.
        params = {"params": shape[kind]}
        wanted.add_index("vector", index_type=kind, metric_type=metric.upper(), params=params)
        self.connection.create_index(self.collection, wanted)

    def _add(self, vectors: NDArray[Any], payloads: list[dict[str, Any]]) -> None:
        lines = enumerate(zip(float32_matrix(vectors), payloads, strict=True), self.rows)
        self.connection.insert(
            self.collection, [{"id": row, "vector": vector, **payload} for row, (vector, payload) in lines]
        )
        self.rows += len(vectors)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows by the index; queries with the same filter are sent together."""
        if self.connection is None:
            raise self.unbuilt()
        matrix = float32_matrix(batch.vectors)
        answers: list[list[int]] = [[] for _ in matrix]
        effort = {"HNSW": {"ef": self.settings["ef"]}, "IVF_FLAT": {"nprobe": self.settings["nprobe"]}}
        params = {"params": effort.get(self.parameters["index"], {})}
        with self.told():
            for condition, numbers in batch.by_filter():
                where = "" if condition is None else self.compiled(condition)
                if where is None:
                    continue
                found = self.connection.search(
                    self.collection,
                    data=list(matrix[numbers]),
                    filter=where,
                    limit=k,
                    search_params=params,
                    output_fields=["id"],
                )
                for number, hits in zip(numbers, found, strict=True):
                    answers[number] = [hit["id"] for hit in hits]
        return padded(answers, k)

    def compiled(self, condition: Filter) -> str | None:
        """The filter as an expression of Milvus; an empty one lets every row pass, and None lets none."""
        reduced = self.columns.reduced(condition)
        return ("" if reduced else None) if isinstance(reduced, bool) else expression(reduced)

    def exercised(self) -> str:
        """Rows in the index files of Lite, or a server's description of its index."""
        if self.connection is None:
            raise self.unbuilt()
        kind = self.parameters["index"]
        if kind == "FLAT":
            return f"flat scan of {self.rows:,} rows (index type FLAT)"
        if self.folder is not None:
            held = sum(_rows_of_index(each) for each in self.folder.path.rglob("*.vector.*.idx"))
        else:
            with self.told():
                held = self.connection.describe_index(self.collection, "vector")["indexed_rows"]
            if self.rows < SMALLEST_SEGMENT:
                raise EngineError(f"Milvus servers build no index below {SMALLEST_SEGMENT:,} rows")
        if held < self.rows:
            raise EngineError(
                f"milvus: {held:,} of {self.rows:,} rows are in an index; the others are scanned"
            )
        return f"{held:,} of {self.rows:,} rows in {kind} indexes"

    def call(self) -> str:
        """One request; Lite, too, is called over a local connection."""
        return "gRPC round trip within this process" if self.folder is not None else "gRPC round trip"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows, flushed so that they are indexed."""
        with self.told():
            self._add(vectors, self.columns.inserted(metadata, len(vectors)))
            self.connection.flush(self.collection)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows."""
        with self.told():
            self.connection.delete(self.collection, ids=rows.tolist())

    def version(self) -> str | None:
        """The version of Milvus Lite or of the server."""
        return (
            super().version() if self.connection is None else f"milvus {self.connection.get_server_version()}"
        )

    def close(self) -> None:
        """Drop the collection, stop Lite and remove its folder."""
        client, self.connection = self.connection, None
        if client is not None:
            with dropping(self.name, self.collection):
                client.drop_collection(self.collection)
            client.close()
        folder, self.folder = self.folder, None
        if folder is not None:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(self._path(folder))
            folder.remove()

    def _path(self, folder: ScratchFolder) -> str:
        return str(folder.path / "milvus.db")

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that inserts, flushes, indexes, loads, and searches."""
        build, search, kind = setting.build, setting.search, setting.build["index"]
        shapes = {
            "HNSW": f'{{"M": {build["M"]}, "efConstruction": {build["ef_construction"]}}}',
            "IVF_FLAT": f'{{"nlist": {build["nlist"]}}}',
        }
        efforts = {"HNSW": f'{{"ef": {search["ef"]}}}', "IVF_FLAT": f'{{"nprobe": {search["nprobe"]}}}'}
        shape, effort = shapes.get(kind, "{}"), efforts.get(kind, "{}")
        return lines(
            "from pymilvus import DataType, MilvusClient",
            "",
            INPUTS,
            f"client = MilvusClient({build['uri'] or './milvus.db'!r})",
            "schema = client.create_schema(auto_id=False)",
            'schema.add_field("id", DataType.INT64, is_primary=True)',
            'schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])',
            'client.create_collection("items", schema=schema, consistency_level="Strong")',
            "for start in range(0, len(vectors), 1000):",
            "    part = enumerate(vectors[start : start + 1000], start)",
            '    client.insert("items", [{"id": row, "vector": vector} for row, vector in part])',
            'client.flush("items")',
            "index = client.prepare_index_params()",
            "# Milvus Lite needs the parameters nested once more; a server accepts both forms.",
            "index.add_index(",
            f'    "vector", index_type="{kind}", metric_type="{setting.metric.upper()}", '
            f'params={{"params": {shape}}}',
            ")",
            'client.create_index("items", index)',
            'client.load_collection("items")',
            "",
            "answers = client.search(",
            f'    "items", data=list(queries), limit={setting.k}, search_params={{"params": {effort}}}',
            ")",
            'found = [[hit["id"] for hit in hits] for hits in answers]',
        )


def expression(condition: Filter) -> str:
    """A reduced filter as a Milvus expression, with JSON literals."""
    match condition:
        case And(operands) | Or(operands):
            return f" {condition.word} ".join(f"({expression(each)})" for each in operands)
        case Not(operand):
            return f"not ({expression(operand)})"
        case Exists(key):
            return f"{key} is not null"
        case In(key, values):
            return " or ".join(f"{key} == {json.dumps(value, ensure_ascii=False)}" for value in values)
        case Prefix(key, prefix):
            # LIKE has no escapes that Lite and servers share.
            if set(prefix) & set("%_\\"):
                return expression(condition.range())
            return f"{key} like {json.dumps(prefix + '%', ensure_ascii=False)}"
        case ContainsAny(key, values) | ContainsAll(key, values):
            listed = json.dumps(list(values), ensure_ascii=False)
            return f"array_contains_{condition.word}({key}, {listed})"
        case Range(key):
            parts = condition.bounds().items()
            return " and ".join(
                f"{key} {_OPERATORS[each]} {json.dumps(value, ensure_ascii=False)}" for each, value in parts
            )
    raise EngineError(f"milvus cannot filter by {type(condition).__name__}")


def _rows_of_index(file: Path) -> int:
    """Number of rows in a Lite index, which is a faiss file."""
    import faiss

    return int(faiss.read_index(str(file)).ntotal)
