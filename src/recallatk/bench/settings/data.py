"""The data of a bench file: opened, checked, split and sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from recallatk.adapters.inputs import missing_inputs
from recallatk.analysis.query_groupings import require_groupable
from recallatk.bench.settings.bench_file import check_ability
from recallatk.bench.settings.problems import Problems
from recallatk.bench.settings.values import filled
from recallatk.core import Corpus, QuerySet, in_memory
from recallatk.datasets import open_dataset, open_demo, read_qrels, sample_queries, sampled, split_queries
from recallatk.datasets.demo import is_demo
from recallatk.errors import RecallError, unknown
from recallatk.filters import parse_filter

if TYPE_CHECKING:
    from recallatk.bench.settings.settings import Settings
    from recallatk.core import Dataset

_MOST_BYTES = 256 << 20
Part = TypeVar("Part", Corpus, QuerySet)


def open_data(settings: Settings) -> Dataset:
    """The dataset that the settings name: one side of the split, then the samples.

    Checks the columns, samples and engines of the settings against the data. Reads small data into memory,
    because truth, linter, engines and report all read them.
    """
    data = settings.data
    dataset = _demo(settings) if data.queries is None and is_demo(data.corpus) else _opened(settings)
    dataset = data.labels.on(_with_qrels(dataset, data.qrels))
    _check(settings, dataset)
    queries = dataset.queries
    if data.split is not None:
        queries = split_queries(queries, seed=data.seed)[data.split == "validate"]
    if data.sample_queries is not None:
        queries = sample_queries(queries, data.sample_queries, seed=data.seed)
    dataset = replace(dataset, queries=queries, name=settings.name)
    if data.sample_corpus is not None:
        dataset = sampled(dataset, data.sample_corpus, seed=data.seed)
    return replace(dataset, corpus=_held(dataset.corpus), queries=_held(dataset.queries))


def _held(records: Part) -> Part:
    return replace(records, vectors=in_memory(records.vectors, _MOST_BYTES))


def _demo(settings: Settings) -> Dataset:
    """The bundled demo data."""
    dataset = open_demo()
    where = settings.data.where
    return dataset if where is None else replace(dataset, queries=dataset.queries.where(parse_filter(where)))


def _opened(settings: Settings) -> Dataset:
    data = settings.data
    return open_dataset(
        filled(data.corpus, "data.corpus"),
        None if data.queries is None else filled(data.queries, "data.queries"),
        metric=data.metric,
        where=data.where,
        format=data.format,
        id_column=data.id_column,
        vector_column=data.vector_column,
    )


def _with_qrels(dataset: Dataset, path: str | None) -> Dataset:
    """The data with the judgments that the settings name, which replace those of a folder."""
    return dataset if path is None else replace(dataset, qrels=read_qrels(filled(path, "data.qrels")))


def _check(settings: Settings, dataset: Dataset) -> None:
    problems = Problems()
    _check_groups(settings, dataset, problems)
    corpus, queries = dataset.corpus, dataset.queries
    for key, most in (("sample_corpus", corpus.rows), ("sample_queries", queries.rows)):
        count = getattr(settings.data, key)
        if count is not None and count > most:
            problems.add(("data", key), f"{count}. Accepted: up to {most}; there are no more")
    given = [each for each in queries.filters or () if each is not None]
    for each in dict.fromkeys(given[:1] if settings.data.where else ()):
        missing = sorted(each.columns() - set(corpus.columns.schema.names))
        for name in missing:
            problems.add(("data", "where"), unknown("corpus column", name, corpus.metadata_names))
    _check_engines(settings, dataset, problems)
    problems.require_none(settings.name)


def require_measurable_data(settings: Settings, dataset: Dataset) -> None:
    """Refuse groups that a dataset lacks, and engines that cannot search it by metric or filters."""
    problems = Problems()
    _check_groups(settings, dataset, problems)
    _check_engines(settings, dataset, problems)
    problems.require_none(settings.name)


def _check_groups(settings: Settings, dataset: Dataset, problems: Problems) -> None:
    corpus, queries = dataset.corpus, dataset.queries
    for number, name in enumerate(settings.measure.by):
        try:
            require_groupable(
                name,
                queries.metadata_names,
                weighted=settings.measure.weight is not None,
                filtered=queries.filtered,
            )
        except RecallError as problem:
            problems.add(("measure", "by", number), str(problem))
    for number, name in enumerate(settings.measure.by_row):
        if name not in corpus.metadata_names:
            problems.add(("measure", "by_row", number), unknown("corpus column", name, corpus.metadata_names))


def _check_engines(settings: Settings, dataset: Dataset, problems: Problems) -> None:
    # Where some queries have no filter, an engine that cannot filter is measured on those.
    filtered = "the queries have filters" if dataset.queries.all_filtered else None
    for number, entry in enumerate(settings.entries):
        paths = number - len(settings.engine)
        place = ("engine", number) if paths < 0 else ("path", paths)
        for said in missing_inputs(entry.engine, dataset):
            problems.add(place, said)
        check_ability(
            entry.engine,
            place,
            problems,
            metric=dataset.metric,
            filtered=filtered,
            build=entry.build,
        )
