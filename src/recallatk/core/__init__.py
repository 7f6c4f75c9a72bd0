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
    in_memory,
)
from recallatk.core.measured import (
    Build,
    Calls,
    Caution,
    Failure,
    Mean,
    Measurement,
    Others,
    Run,
    Score,
    WarmUp,
)
from recallatk.core.timed_calls import TimedCall, describe_calls
from recallatk.core.trials import Knob, Load, Mode, Parameters, Trial, Via
from recallatk.core.truth import Origin, Truth

__all__ = [
    "BLOCK_BYTES",
    "VECTOR_DTYPES",
    "Answers",
    "ArrayVectors",
    "Build",
    "Calls",
    "Caution",
    "Columns",
    "Corpus",
    "Dataset",
    "Failure",
    "Knob",
    "Load",
    "Mean",
    "Measurement",
    "Metric",
    "Mode",
    "Origin",
    "Others",
    "Parameters",
    "QuerySet",
    "Records",
    "Run",
    "Score",
    "TimedCall",
    "Trial",
    "Truth",
    "Vectors",
    "Via",
    "WarmUp",
    "blocks",
    "describe_calls",
    "in_memory",
]
