"""Embedding models that the user states for vectors: one name, one per side, or a column of names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from recallatk.core import Corpus, QuerySet
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from recallatk.core import Dataset, Records

Part = TypeVar("Part", Corpus, QuerySet)

# Names under which pipelines store the model; `model` alone may be that of a car.
MODEL_COLUMNS = (
    "embedding_model",
    "embedding_model_name",
    "embed_model",
    "embedder",
    "encoder",
    "vector_model",
)


@dataclass(frozen=True)
class ModelLabels:
    """What is stated about the embedding models of a dataset."""

    model: str | None = None
    """Of all vectors."""
    query_model: str | None = None
    """Of the queries, if it is another one."""
    column: str | None = None
    """Column with the model of each vector, in the corpus, the queries or both."""

    def __post_init__(self) -> None:
        if self.column is not None and (self.model or self.query_model):
            raise UsageError(
                f"both a model and the model column {self.column!r}. Accepted: one of them, and query_model "
                "beside model"
            )

    @property
    def models(self) -> dict[str, tuple[str, ...]]:
        """The models by name, without a column."""
        found = {"corpus": self.model, "queries": self.query_model or self.model}
        return {part: (model,) for part, model in found.items() if model is not None}

    def on(self, dataset: Dataset) -> Dataset:
        """The dataset with these labels; labels that it has stay unless others are stated."""
        named = {*dataset.corpus.metadata_names, *dataset.queries.metadata_names}
        if self.column is not None and self.column not in named:
            raise UsageError(unknown("model column", self.column, sorted(named)))
        return replace(
            dataset,
            corpus=self._on(dataset.corpus, self.model),
            queries=self._on(dataset.queries, self.query_model or self.model),
        )

    def on_corpus(self, corpus: Corpus) -> Corpus:
        """The corpus with these labels."""
        if self.column is not None and self.column not in corpus.metadata_names:
            raise UsageError(unknown("model column", self.column, corpus.metadata_names))
        return self._on(corpus, self.model)

    def _on(self, records: Part, model: str | None) -> Part:
        if self.column is not None and self.column in records.metadata_names:
            return replace(records, model=None, model_column=self.column)
        return records if model is None else replace(records, model=model, model_column=None)


def stated_models(records: Records) -> tuple[str, ...]:
    """The models of the labels, or of a column that is named like one; empty if none is stated."""
    if records.models:
        return records.models
    schema = records.columns.schema
    for name in records.metadata_names:
        kind = schema.field(name).type
        if name.lower() in MODEL_COLUMNS and (pa.types.is_string(kind) or pa.types.is_dictionary(kind)):
            values = records.columns.read([name], 0, records.rows)[name].unique().to_pylist()
            return tuple(sorted(str(each) for each in values if each is not None))
    return ()
