"""`recallatk score`: answers against truth, with what the numbers mean and how sure they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import warn_if_swapped
from recallatk.cli.options import IdColumn, Json, MetricName, VectorColumn, Where, cutoffs
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.core import Corpus, Dataset, Truth


def score(
    truth: Annotated[
        str, typer.Argument(help="What `recallatk truth` wrote, or somebody else's truth file.")
    ],
    answers: Annotated[
        str, typer.Argument(help="Parquet, Arrow, JSONL, CSV, NPY, ivecs, ibin, TREC run or result HDF5.")
    ],
    at: Annotated[
        str | None,
        typer.Option(help="The values of k, such as 1,10,100. Default: these, as deep as the truth."),
    ] = None,
    by: Annotated[list[str] | None, typer.Option(help="Group queries by a column; may be repeated.")] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="Measure this too, such as robust(0.9)@10; may be repeated.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="Compare with these answers; may be repeated.")
    ] = None,
    qrels: Annotated[str | None, typer.Option(help="Judgements, for measures of relevance.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="The corpus, to tell unknown ids; with --queries also ineligible ones.")
    ] = None,
    queries: Annotated[str | None, typer.Option(help="The queries, for their columns and filters.")] = None,
    where: Where = None,
    metric: MetricName = None,
    format: Annotated[str | None, typer.Option(help="The answers' format, when it cannot be told.")] = None,
    row_numbers: Annotated[
        bool, typer.Option("--row-numbers", help="The answers are row numbers, whatever the ids are.")
    ] = False,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Json = False,
) -> None:
    """Score answers against the truth: recall with intervals, tails, segments and warnings.

    Example: recallatk score truth.parquet answers.parquet --at 1,10 --by category
    """
    from recallatk.analysis import assess
    from recallatk.bench.truth_lookup import TruthFile
    from recallatk.datasets import read_answers, read_qrels
    from recallatk.reporting import assessment_to_dict, assessment_to_text

    file = TruthFile(truth)
    stated = metric or file.metric
    known, dataset = _data(corpus, queries, stated, where, id_column, vector_column)
    found = assess(
        _looked_at(file.read(known, stated)),
        read_answers(answers, format=format),
        None if at is None else cutoffs(at),
        measures=measure or (),
        by=by or (),
        against=[read_answers(each, format=format) for each in against or ()],
        qrels=None if qrels is None else read_qrels(qrels),
        corpus=known,
        dataset=dataset,
        row_numbers=row_numbers,
    )
    said = json.dumps(assessment_to_dict(found), ensure_ascii=False) if as_json else assessment_to_text(found)
    typer.echo(said)


def _looked_at(truth: Truth) -> Truth:
    warn_if_swapped(truth.sampled_from or truth.corpus_rows, len(truth))
    return truth


def _data(
    corpus: str | None,
    queries: str | None,
    metric: str | None,
    where: str | None,
    id_column: str | None,
    vector_column: str | None,
) -> tuple[Corpus | None, Dataset | None]:
    """The corpus, and with queries the whole data set, as far as they were named."""
    from recallatk.datasets import open_corpus, open_dataset

    if corpus is None:
        if queries is not None or where is not None:
            raise UsageError("--queries and --where need --corpus too")
        return None, None
    if queries is None:
        return open_corpus(corpus, id_column=id_column, vector_column=vector_column), None
    dataset = open_dataset(
        corpus,
        queries,
        metric=metric,
        where=where,
        id_column=id_column,
        vector_column=vector_column,
    )
    return dataset.corpus, dataset
