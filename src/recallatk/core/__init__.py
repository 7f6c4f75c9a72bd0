"""The nouns: what a corpus, a query set, a truth, a trial and a run are, and nothing they do."""

from recallatk.core.answers import Answers
from recallatk.core.data import (
    BLOCK_BYTES,
    VECTOR_DTYPES,
    ArrayVectors,
    Columns,
    Corpus,
    Dataset,
    Metric,
    QuerySet,
    Records,
    Vectors,
    blocks,
)
from recallatk.core.measured import Build, Knob, Mean, Measurement, Parameters, Run, Score, Trial
from recallatk.core.truth import Origin, Truth

__all__ = [
    "BLOCK_BYTES",
    "VECTOR_DTYPES",
    "Answers",
    "ArrayVectors",
    "Build",
    "Columns",
    "Corpus",
    "Dataset",
    "Knob",
    "Mean",
    "Measurement",
    "Metric",
    "Origin",
    "Parameters",
    "QuerySet",
    "Records",
    "Run",
    "Score",
    "Trial",
    "Truth",
    "Vectors",
    "blocks",
]
