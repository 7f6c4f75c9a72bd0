"""Data from files of every format and from memory: corpus, queries, dataset, answers, imported truth."""

from recallatk.datasets.answer_sources import read_answers
from recallatk.datasets.conversion import convert
from recallatk.datasets.demo import open_demo
from recallatk.datasets.formats.query_log import parameter_sets
from recallatk.datasets.inspection import inspect
from recallatk.datasets.opening import (
    make_corpus,
    make_queries,
    open_corpus,
    open_dataset,
    open_queries,
    read_truth,
)
from recallatk.datasets.qrels import read_qrels
from recallatk.datasets.sampling import (
    queries_from_corpus,
    sample_corpus,
    sample_queries,
    sampled,
    split_queries,
)
from recallatk.datasets.synthetic_filters import workload

__all__ = [
    "convert",
    "inspect",
    "make_corpus",
    "make_queries",
    "open_corpus",
    "open_dataset",
    "open_demo",
    "open_queries",
    "parameter_sets",
    "queries_from_corpus",
    "read_answers",
    "read_qrels",
    "read_truth",
    "sample_corpus",
    "sample_queries",
    "sampled",
    "split_queries",
    "workload",
]
