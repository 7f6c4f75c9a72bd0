"""A run as a side of a comparison: every setting with its builds, and what is known of the queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from recallatk.analysis.cost import price_of
from recallatk.analysis.latency import percentiles, qps
from recallatk.analysis.query_groupings import KnownQueries, usual_groupings
from recallatk.analysis.sides import ComparedSide, SideBuild, SideKind, SideSetting
from recallatk.analysis.weighting import weights_of_run
from recallatk.bench.recorded_benchmark import RecordedBenchmark
from recallatk.core import Mode
from recallatk.errors import UsageError
from recallatk.fingerprint import fingerprint_measurement
from recallatk.goals.runs import trial_numbers

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from recallatk.analysis.segments import Grouping
    from recallatk.core import Measurement, Run, Trial, Truth


_MOST_NAMED = 20


class DescribedQueries(NamedTuple):
    """What readers need to know of the queries of a side."""

    ids: tuple[str, ...] | None
    texts: tuple[str | None, ...] | None
    groupings: tuple[Grouping, ...]


def run_side(run: Run, name: str, *, folder: Path | None = None, number: int | None = None) -> ComparedSide:
    """The settings of a run.

    Args:
        run: the run.
        name: as the user named it.
        folder: its folder.
        number: the one trial to compare, with all builds of its setting; by default all settings.
    """
    numbers = trial_numbers(run)
    by_setting: dict[Trial, list[Measurement]] = {}
    for each in run.candidates:
        by_setting.setdefault(replace(each.trial, repeat=0), []).append(each)
    if number is not None:
        chosen = next((trial for trial, its in numbers.items() if its == number), None)
        by_setting = {
            key: found
            for key, found in by_setting.items()
            if chosen is not None and key == replace(chosen, repeat=0)
        }
    if not by_setting:
        known = ", ".join(str(numbers[each.trial]) for each in run.candidates[:_MOST_NAMED])
        what = "no measured trial" if number is None else f"no measured trial {number}. Measured: {known}"
        raise UsageError(f"{name}: {what}")
    owner = str(folder.resolve()) if folder is not None else id(run)
    settings = [_setting(run, found, owner, numbers) for found in by_setting.values()]
    first = next(iter(by_setting.values()))[0]
    notes = ["The filters of the queries are synthetic."] if run.synthetic else []
    if run.sampled_from is not None:
        notes.append(f"{name}: the corpus is a sample of {run.sampled_from:,} rows.")
    return ComparedSide(
        name,
        SideKind.RUN,
        tuple(settings),
        run.metric,
        dict(run.fingerprints),
        len(first.answers),
        weights=weights_of_run(run),
        environment=run.environment,
        models=run.models,
        notes=tuple(notes),
        data=run.dataset,
    )


def described_run(side: ComparedSide, run: Run, folder: Path | None) -> ComparedSide:
    """The side with ids, texts and groups of its queries, as far as its data and truth can be opened."""
    recorded = RecordedBenchmark(run, folder)
    truth, dataset = recorded.truth, recorded.dataset
    if truth is None or len(truth) != side.queries:
        return side
    queries = None if dataset is None else dataset.queries
    columns = truth.query_columns if queries is None else queries.metadata
    facts = next((each.filters for each in run.measurements if each.filters is not None), None)
    known = KnownQueries(truth, columns, queries, side.weights, facts)
    text = "text" if queries is None else queries.text_column or "text"
    found = described_queries(truth, known, text, run.by)
    return replace(
        side,
        query_ids=found.ids,
        texts=found.texts,
        groupings=found.groupings,
        columns=columns,
        facts=facts,
    )


def described_queries(
    truth: Truth, known: KnownQueries, text: str = "text", by: tuple[str, ...] = ()
) -> DescribedQueries:
    """Ids, texts and groups of the queries of a truth."""
    ids = None if truth.query_ids is None else tuple(map(str, truth.query_ids.to_pylist()))
    texts = _texts(known.columns, text)
    return DescribedQueries(ids, texts, tuple(usual_groupings(by, known)))


def _texts(columns: pa.Table | None, name: str) -> tuple[str | None, ...] | None:
    if columns is None or name not in columns.column_names:
        return None
    return tuple(None if each is None else str(each) for each in columns[name].to_pylist())


def _setting(run: Run, found: list[Measurement], owner: Any, numbers: dict[Trial, int]) -> SideSetting:
    trial, built = found[0].trial, found[0].build
    return SideSetting(
        trial.engine,
        trial.build,
        trial.search,
        str(trial.load),
        tuple(_build(run, each, owner) for each in found),
        built.version,
        numbers[trial],
    )


def _build(run: Run, each: Measurement, owner: Any) -> SideBuild:
    rate = qps(each.calls, one_client=each.trial.load.mode is Mode.LATENCY).median
    price, built = price_of(run.settings), each.build
    costs = {
        "qps": rate,
        "memory": built.memory_bytes,
        "size": built.size_bytes,
        "build": built.seconds,
        "cost": None if price is None else price.per_million(rate),
    }
    values = {name: each.values(name) for name in each.score.per_query}
    return SideBuild(
        dict(each.score.measures),
        {name: value for name, value in values.items() if value is not None},
        percentiles(each.calls),
        costs,
        each.calls,
        # Trials of one build are measured in turns; two builds never have the same times and sizes.
        None if built.seconds is None else (owner, built),
        fingerprint_measurement(run, each),
    )
