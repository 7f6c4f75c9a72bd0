"""`recallatk score`: answers against the ground truth, with intervals, segments and a diagnosis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.exits import warn_if_swapped
from recallatk.cli.options import (
    By,
    ByRow,
    IdColumn,
    Json,
    MetricName,
    ModelColumn,
    ModelName,
    Qrels,
    QueryModel,
    Quiet,
    Sample,
    VectorColumn,
    Verbose,
    Weight,
    Where,
    cutoffs,
)
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.core import Answers, Corpus, Dataset, FilterFacts, Truth
    from recallatk.datasets.model_labels import ModelLabels


TruthPath = Annotated[
    str, typer.Argument(help="Truth file: of `recallatk truth`, ann-benchmarks HDF5, ivecs, ibin, npy.")
]
AnswersPath = Annotated[
    str | None,
    typer.Argument(
        help="Parquet, Arrow, JSONL, CSV, NPY, ivecs, ibin, TREC run, result HDF5 or a log of "
        "`recallatk.tap`; omit it with --stage."
    ),
]
Stage = Annotated[
    list[str] | None,
    typer.Option(help="List of one stage of a path as NAME=FILE, first stage first; repeatable."),
]
At = Annotated[
    str | None,
    typer.Option(
        help="Cutoffs k of recall@k. Default: 1,10,100, up to the truth's depth and the most answers."
    ),
]
Measures = Annotated[
    list[str] | None, typer.Option(help="Additional measure, e.g. robust(0.9)@10; repeatable.")
]
Against = Annotated[
    list[str] | None, typer.Option(help="Other answers to compare with, query by query; repeatable.")
]
KnownCorpus = Annotated[
    str | None, typer.Option(help="Corpus, to detect unknown ids; with --queries also ineligible ones.")
]
KnownQueries = Annotated[str | None, typer.Option(help="Queries, for their columns and filters.")]
Format = Annotated[str | None, typer.Option(help="Format of the answers, if not detected.")]
RowNumbers = Annotated[bool, typer.Option("--row-numbers", help="Read the answers as row numbers, not ids.")]


def score(
    truth: TruthPath,
    answers: AnswersPath = None,
    stage: Stage = None,
    at: At = None,
    by: By = None,
    by_row: ByRow = None,
    weight: Weight = None,
    measure: Measures = None,
    against: Against = None,
    qrels: Qrels = None,
    corpus: KnownCorpus = None,
    queries: KnownQueries = None,
    where: Where = None,
    metric: MetricName = None,
    format: Format = None,
    row_numbers: RowNumbers = False,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    model: ModelName = None,
    query_model: QueryModel = None,
    model_column: ModelColumn = None,
    sample: Sample = None,
    seed: Annotated[int, typer.Option(help="Random seed for sampling.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score answers against the truth: recall with intervals, tails, segments and warnings.

    Example: recallatk score truth.parquet answers.parquet --at 1,10 --by category
    """
    from recallatk.analysis.compatibility import require_same_models
    from recallatk.bench.truth_lookup import TruthFile
    from recallatk.cli.scored_stages import stage_files
    from recallatk.datasets import read_qrels
    from recallatk.datasets.model_labels import ModelLabels

    set_quiet(quiet)
    alone: dict[str, Any] = {"against": against or (), "measures": measure or (), "by_row": by_row or ()}
    files, file = stage_files(answers, stage, alone), TruthFile(truth)
    stated = metric or file.metric
    labels = ModelLabels(model, query_model, model_column)
    known, dataset = _data(corpus, queries, stated, where, id_column, vector_column, labels)
    right = file.read(known, stated)
    require_same_models(right, labels.models)
    warn_if_swapped(right.sampled_from or right.corpus_rows, len(right))
    given = [_read_answers(each, format) for each in files.values() or (str(answers), *(against or ()))]
    if sample is not None:
        right, dataset, given = _sampled(right, dataset, given, sample, seed)
    options: dict[str, Any] = {
        "at": None if at is None else cutoffs(at), "by": by or (), "weight": weight,
        "qrels": None if qrels is None else read_qrels(qrels),
        "corpus": known, "dataset": dataset, "row_numbers": row_numbers,
    }  # fmt: skip
    if files:
        _assess_stages(right, dict(zip(files, given, strict=True)), options, as_json, verbose)
    else:
        own = alone | {"against": given[1:], "missed": verbose, "facts": _correlation(dataset, by)}
        _assess(right, given, options | own, as_json, verbose)


def _assess(truth: Truth, answers: list[Answers], options: Any, as_json: bool, verbose: bool) -> None:
    from recallatk.analysis import assess
    from recallatk.reporting import assessment_to_dict, assessment_to_text

    found = assess(truth, answers[0], **options)
    _print(assessment_to_dict(found) if as_json else assessment_to_text(found, verbose=verbose))


def _assess_stages(
    truth: Truth, stages: dict[str, Answers], options: Any, as_json: bool, verbose: bool
) -> None:
    from recallatk.analysis import assess_stages
    from recallatk.reporting import stages_to_dict, stages_to_text

    found = assess_stages(truth, stages, **options)
    _print(stages_to_dict(found) if as_json else stages_to_text(found, verbose=verbose))


def _print(result: dict[str, Any] | str) -> None:
    """Text as it is, anything else as one JSON object."""
    typer.echo(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


def _correlation(dataset: Dataset | None, by: list[str] | None) -> FilterFacts | None:
    """What grouping by the correlation of filter and query needs; None if nothing groups by it."""
    from recallatk.analysis.query_groupings import names_correlation
    from recallatk.api import filter_facts

    if dataset is None or not names_correlation(by or (), dataset.queries.metadata_names):
        return None
    with progress("truth without filters") as line:
        return filter_facts(dataset, progress=line)


def _sampled(
    truth: Truth, dataset: Dataset | None, answers: list[Answers], count: int, seed: int
) -> tuple[Truth, Dataset | None, list[Answers]]:
    from recallatk.cli.scored_sample import sampled_queries

    return sampled_queries(truth, dataset, answers, count, seed)


def _read_answers(path: str, format: str | None) -> Answers:
    from recallatk.datasets import read_answers
    from recallatk.datasets.call_sets import split_calls
    from recallatk.truths import is_truth_file

    if is_truth_file(split_calls(path)[0]):
        raise UsageError(f"{path} is a truth file. The truth comes first: recallatk score TRUTH ANSWERS")
    return read_answers(path, format=format)


def _data(
    corpus: str | None,
    queries: str | None,
    metric: str | None,
    where: str | None,
    id_column: str | None,
    vector_column: str | None,
    labels: ModelLabels,
) -> tuple[Corpus | None, Dataset | None]:
    """The corpus, and with queries the whole data set, as far as they were named."""
    from recallatk.datasets import open_corpus, open_dataset

    if corpus is None:
        if queries is not None or where is not None or labels.column is not None:
            raise UsageError("--queries, --where and --model-column need --corpus")
        return None, None
    if queries is None:
        return labels.on_corpus(open_corpus(corpus, id_column=id_column, vector_column=vector_column)), None
    dataset = open_dataset(
        corpus,
        queries,
        metric=metric,
        where=where,
        id_column=id_column,
        vector_column=vector_column,
    )
    dataset = labels.on(dataset)
    return dataset.corpus, dataset
