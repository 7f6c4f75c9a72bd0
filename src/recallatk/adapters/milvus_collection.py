"""Existing Milvus collections: of a server, searched as loaded, or of Milvus Lite, on a temporary copy."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from recallatk.adapters.base import Constraint
from recallatk.adapters.collection import Answer, CollectionTarget, Discovery
from recallatk.adapters.embedded_collection import EmbeddedCollection, chosen_metric, require_rows
from recallatk.adapters.milvus import SMALLEST_SEGMENT, expression
from recallatk.adapters.milvus_client import open_milvus, told_by_milvus
from recallatk.adapters.milvus_schema import read_fields, read_index
from recallatk.errors import EngineError, FilterError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.milvus_client import OpenedMilvus
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Knob
    from recallatk.filters import Filter

# Servers return no more rows at once, and messages have a limit too.
_MOST_PAGE_ROWS = 16_384
_PAGE_BYTES = 4 << 20
_TAKEN = 200


class MilvusCollection(EmbeddedCollection):
    """A collection; Milvus has no exact search beside an index, so its truth comes from its vectors."""

    schemes: ClassVar = ("milvus",)
    options: ClassVar = ("vector", "metric", "database", "https")

    def __init__(self, opened: OpenedMilvus, target: CollectionTarget, limits: ProbeLimits) -> None:
        super().__init__()
        self.opened: OpenedMilvus | None = opened
        self.client, self.name, self.on_copy = opened.client, opened.name, opened.copy is not None
        self.target, self.limits = target, limits
        self._made: dict[str, str | bool] = {}
        with told_by_milvus(self.target, self.limits):
            self._describe(target)

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> MilvusCollection:
        """Connect to a server, or to a copy of a local database."""
        opened = open_milvus(target, limits)
        try:
            return cls(opened, target, limits)
        except BaseException:
            opened.close()
            raise

    def _describe(self, target: CollectionTarget) -> None:
        wait, name = {"timeout": self.limits.seconds}, self.name
        if not self.client.has_collection(name, **wait):
            known = choices(sorted(self.client.list_collections(**wait))) or "none"
            raise UsageError(f"{target.text}: no collection {name!r}. The collections are: {known}")
        described = self.client.describe_collection(name, **wait)
        self.fields = read_fields(described, target)
        self.index = read_index(self._described_index(), self.fields.vector, target)
        self._require_loaded(target)
        (counted,) = self.client.query(name, filter="", output_fields=["count(*)"], **wait)
        rows = int(counted["count(*)"])
        require_rows(target, rows)
        self.level = str(described.get("consistency_level_name", "unknown"))
        self.found = Discovery(
            target=target.text,
            engine="milvus",
            rows=rows,
            dimension=self.fields.dimension,
            metric=chosen_metric(target, self.index.metric, f"the index {self.index.definition}"),
            index=self.index.definition,
            settings={"consistency_level": self.level},
            columns=self.fields.shown,
            notes=tuple(self._notes(rows, bool(described.get("enable_dynamic_field")))),
        )

    def _described_index(self) -> Mapping[str, Any] | None:
        for each in self.client.list_indexes(self.name):
            found: Mapping[str, Any] | None = self.client.describe_index(self.name, each)
            if found is not None and found.get("field_name") == self.fields.vector:
                return found
        return None

    def _require_loaded(self, target: CollectionTarget) -> None:
        if self.on_copy:
            self.client.load_collection(self.name)
            # The first search reads the index from its file, as production did long ago.
            first = np.ones(self.fields.dimension, np.float32)
            self.client.search(self.name, data=[first], anns_field=self.fields.vector, limit=1)
            return
        state = self.client.get_load_state(self.name, timeout=self.limits.seconds)["state"].name
        if state != "Loaded":
            raise EngineError(
                f"{target.text}: the collection is not loaded ({state}). Loading it changes the server, so a "
                f"probe does not. Load it first: client.load_collection({self.name!r})"
            )

    def _notes(self, rows: int, dynamic: bool) -> Iterator[str]:
        index = self.index
        if self.on_copy:
            yield "a temporary copy is searched: Milvus Lite writes to the database that it opens"
        elif self.level != "Strong":
            yield (
                f"searches have the collection's consistency level, {self.level}: they may miss the latest "
                "writes"
            )
        if not self.on_copy and not index.scans and rows < SMALLEST_SEGMENT:
            yield f"servers build no index for segments below {SMALLEST_SEGMENT:,} rows: searches scan them"
        elif not index.scans and self._indexed() < rows:
            yield f"at least {rows - self._indexed():,} rows are not in the index; every search scans them"
        if index.scans:
            yield f"{index.kind} compares every row: recall is 1 unless a filter loses rows"
        if dynamic:
            yield "fields outside the schema (dynamic fields) cannot be used in filters here"

    def _indexed(self) -> int:
        """Rows in the index; deleted ones may be among them."""
        held = None if self.opened is None else self.opened.indexed_rows(self.fields.vector)
        return self.index.indexed if held is None else held

    def knobs(self) -> tuple[Knob, ...]:
        """The effort of the index."""
        knob = self.index.knob(self.on_copy)
        return () if knob is None else (knob,)

    def constraints(self) -> tuple[Constraint, ...]:
        """Servers refuse less effort than k."""
        names = [each.name for each in self.knobs() if each.name != "nprobe"]
        if self.on_copy or not names:
            return ()
        (name,) = names
        return (Constraint(f"{name} of at least k", (name, "k"), lambda **given: given[name] >= given["k"]),)

    def without_effort(self) -> str:
        """Why there is no effort to tune."""
        return self.index.without_effort()

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set the parameters that are sent with the next searches."""
        super().configure(search, settings)
        in_force = {"consistency_level": self.level, **self.search}
        self.found = replace(self.found, settings=in_force)

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter has no exact form; None for unknown fields, which the search refuses by name."""
        known = condition.columns() <= self.fields.columns.columns.keys()
        return self.fields.refusal(condition) if known else None

    def _expression(self, condition: Filter) -> str | bool:
        """The filter as Milvus has it; True lets every row pass, and False none."""
        if condition.key not in self._made:
            reason = self.refusal(condition)
            if reason is not None:
                raise EngineError(reason)
            reduced = self.fields.columns.reduced(condition)
            self._made[condition.key] = reduced if isinstance(reduced, bool) else expression(reduced)
        return self._made[condition.key]

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One search with the collection's consistency level."""
        for each in self.constraints():
            if self.search and not each.holds(**self.search, k=k):
                raise UsageError(
                    f"milvus needs {each.text}, which is {k}. Raise it: --search {each.names[0]}={k}"
                )
        where = True if condition is None else self._expression(condition)
        if where is False:
            return Answer([], None, None)
        query = np.asarray(vector, np.float32)
        if len(query) != self.fields.dimension:
            raise EngineError(
                f"milvus: the query has {len(query):,} dimensions, {self.fields.vector!r} has "
                f"{self.fields.dimension:,}"
            )
        with told_by_milvus(self.target, self.limits):
            start = time.perf_counter()
            (found,) = self.client.search(
                self.name,
                data=[query],
                anns_field=self.fields.vector,
                filter=where if isinstance(where, str) else "",
                limit=k,
                search_params={"params": dict(self.search)},
                timeout=self.limits.seconds,
            )
            seconds = time.perf_counter() - start
        # Older servers do not name the primary key, and the client calls it `id`.
        ids = [hit[self.fields.id] if self.fields.id in hit else hit["id"] for hit in found]
        return Answer(ids, seconds, False if self.index.scans else None)

    def _pages(self, fields: Sequence[str], rows: int) -> Iterator[list[Any]]:
        """All rows in the order of their ids, page by page."""
        with told_by_milvus(self.target, self.limits):
            pages = self.client.query_iterator(
                self.name, batch_size=rows, output_fields=list(fields), timeout=self.limits.seconds
            )
        try:
            while True:
                with told_by_milvus(self.target, self.limits):
                    page = pages.next()
                if not page:
                    return
                yield page
        finally:
            pages.close()

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Random rows by their place in the order of ids."""
        rows = self.found.rows or 0
        places = np.random.default_rng(seed).choice(rows, min(count, rows), replace=False)
        wanted, start = set(places.tolist()), 0
        ids: list[Any] = []
        for page in self._pages([self.fields.id], _MOST_PAGE_ROWS):
            held = [each[self.fields.id] for each in page]
            ids += [each for place, each in enumerate(held, start) if place in wanted]
            start += len(held)
        vectors: dict[Any, Any] = {}
        for place in range(0, len(ids), _TAKEN):
            listed = json.dumps(ids[place : place + _TAKEN], ensure_ascii=False)
            with told_by_milvus(self.target, self.limits):
                found = self.client.query(
                    self.name,
                    filter=f"{self.fields.id} in {listed}",
                    output_fields=[self.fields.id, self.fields.vector],
                    timeout=self.limits.seconds,
                )
            vectors |= {each[self.fields.id]: each[self.fields.vector] for each in found}
        # Rows may have been deleted meanwhile.
        ids = [each for each in ids if each in vectors]
        return ids, np.array([vectors[each] for each in ids], np.float32).reshape(len(ids), -1)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their ids."""
        known = self.fields.columns.columns
        for name in columns:
            if name not in known:
                raise FilterError(f"no column {name!r}. The columns are: {', '.join(known) or 'none'}")
        kinds = [self.fields.arrow(name) for name in columns]
        kind = pa.string() if self.fields.text_ids else pa.int64()
        most = max(1, min(_MOST_PAGE_ROWS, self.block_rows, _PAGE_BYTES // (4 * self.fields.dimension)))
        fields = list(dict.fromkeys([self.fields.id, self.fields.vector, *columns]))
        for page in self._pages(fields, most):
            held = [each for each in page if each[self.fields.vector] is not None]
            matrix = np.array([each[self.fields.vector] for each in held], np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), self.fields.dimension)
            rest = [
                pa.array([_plain(each[name]) for each in held], held_kind)
                for name, held_kind in zip(columns, kinds, strict=True)
            ]
            ids = pa.array([each[self.fields.id] for each in held], kind)
            yield pa.record_batch([ids, vectors, *rest], ["id", "vector", *columns])

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The parameters of a search."""
        return f"client.search({self.name!r}, ..., search_params={{'params': {dict(search)}}})"

    def close(self) -> None:
        """Disconnect, and remove the copy."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.close()


def _plain(value: Any) -> Any:
    """A field's value; lists of messages become lists."""
    return value if value is None or isinstance(value, bool | int | float | str) else list(value)
