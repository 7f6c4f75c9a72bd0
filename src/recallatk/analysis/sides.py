"""Sides of a comparison: settings of a run, tuning, probe or answer file, with values by query and build."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.compatibility import different_data
from recallatk.core.trials import called
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.latency import Percentile
    from recallatk.analysis.segments import Grouping
    from recallatk.core import Calls, FilterFacts, Mean, Metric, Parameters, Weights

    Floats = NDArray[np.float64]

# What must be equal for a comparison query by query.
_PARTS = {
    "vectors": "corpus vectors",
    "ids": "corpus ids",
    "metadata": "metadata",
    "queries": "queries",
    "truth": "truth",
}


class SideKind(StrEnum):
    """Where the values of a side come from."""

    RUN = "run"
    TUNING = "tuning"
    PROBE = "probe"
    ANSWERS = "answers"
    BASELINE = "baseline"


@dataclass(frozen=True, eq=False)
class SideBuild:
    """One build of a setting."""

    means: Mapping[str, Mean]
    """Each measure over the queries, as it was reported."""
    values: Mapping[str, Floats] = field(default_factory=dict)
    """Each measure by query, NaN for queries that do not count; empty where only means are known."""
    latencies: Mapping[str, Percentile] = field(default_factory=dict)
    """Percentiles in milliseconds."""
    costs: Mapping[str, float | None] = field(default_factory=dict)
    """`qps`, `memory`, `size` and `build` in the units of budgets, and `cost` per million queries."""
    calls: Calls | None = None
    """Every timed call, for ratios within rounds."""
    index: Any = None
    """Equal for settings that were measured in turns on one index; None if that is not known."""
    origin: str = ""
    """Equal for one and the same measurement, in whichever file it is; empty if that is not known."""


@dataclass(frozen=True, eq=False)
class SideSetting:
    """One setting of an engine, built once or several times."""

    engine: str
    build: Parameters
    search: Parameters
    load: str
    builds: tuple[SideBuild, ...]
    version: str | None = None
    number: int | None = None
    """Number of its first trial in the run."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two settings the same."""
        return self.engine, self.build, self.search, self.load

    @property
    def label(self) -> str:
        """The setting in words."""
        build, search = (
            ", ".join(f"{name}={public(value, name)}" for name, value in part)
            for part in (self.build, self.search)
        )
        load = "" if self.load in ("", "latency") else f" {self.load}"
        return f"{called(self.engine, build, search)}{load}"

    @property
    def measures(self) -> list[str]:
        """The measures that all of its builds have, by query or as a mean."""
        first, *others = self.builds
        known = list(first.values) or list(first.means)
        return [name for name in known if all(name in (each.values or each.means) for each in others)]

    def by_build(self, measure: str) -> Floats | None:
        """(builds, queries) values of a measure; None where only means are known."""
        found = [each.values.get(measure) for each in self.builds]
        known = [each for each in found if each is not None]
        return np.array(known) if len(known) == len(found) else None


def where_both(first: SideSetting, second: SideSetting) -> SideSetting:
    """The first setting with the values of those queries alone that the second one answered."""
    known = [each for build in second.builds for each in build.values.values()]
    there = ~np.isnan(np.array(known)).all(axis=0)
    builds = (
        replace(each, values={name: np.where(there, found, np.nan) for name, found in each.values.items()})
        for each in first.builds
    )
    return replace(first, builds=tuple(builds))


def same_indexes(first: SideSetting, second: SideSetting) -> bool:
    """Whether two settings were measured in turns on the same indexes."""
    pairs = list(zip(first.builds, second.builds, strict=False))
    same = all(one.index is not None and one.index == other.index for one, other in pairs)
    return same and len(first.builds) == len(second.builds)


def same_measurement(first: SideSetting, second: SideSetting) -> bool:
    """Whether two settings are one measurement, such as a run and the baseline that was accepted from it."""
    origins = [[each.origin for each in side.builds] for side in (first, second)]
    return first is second or (all(origins[0]) and origins[0] == origins[1])


@dataclass(frozen=True, eq=False)
class ComparedSide:
    """Everything that one side of a comparison measured."""

    name: str
    """As the user named it, without secrets."""
    kind: SideKind
    settings: tuple[SideSetting, ...]
    metric: Metric | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of corpus, queries and truth, as far as they are known."""
    queries: int | None = None
    """Number of queries that its values are of."""
    query_ids: tuple[str, ...] | None = None
    """The user's ids of the queries; None for row numbers."""
    texts: tuple[str | None, ...] | None = None
    """The text of each query; None if there is none."""
    columns: pa.Table | None = field(default=None, repr=False)
    """Columns of the queries, for segments that goals name."""
    facts: FilterFacts | None = field(default=None, repr=False)
    """What the filters of the queries admit; None without filters."""
    groupings: tuple[Grouping, ...] = ()
    """Groups of the queries."""
    weights: Weights | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The embedding models of `corpus` and `queries`, as far as they are known."""
    notes: tuple[str, ...] = ()
    """What a reader must know, such as synthetic filters or a sampled corpus."""
    data: str = ""
    """Name of the data set or of the collection; empty if it is not known."""


_WEIGHTED = {SideKind.RUN, SideKind.BASELINE}
"""Sides that say of themselves whether queries have weights."""


def different_parts(first: ComparedSide, second: ComparedSide) -> list[str]:
    """What keeps two sides from being compared query by query, in words; empty if nothing does."""
    found = []
    if None not in (first.metric, second.metric) and first.metric is not second.metric:
        found.append(f"the metric ({first.metric} and {second.metric})")
    parts = different_data(first.fingerprints, second.fingerprints, first.models, second.models)
    found += [f"the {name}" for name in part_names(parts)]
    if None not in (first.queries, second.queries) and first.queries != second.queries:
        found.append(f"the number of queries ({first.queries:,} and {second.queries:,})")
    if first.weights is not None and second.weights is not None:
        same = np.array_equal(first.weights.values, second.weights.values)
        found += [] if same else ["the weights of the queries"]
    elif first.weights is not second.weights and {first.kind, second.kind} <= _WEIGHTED:
        found.append("the weights of the queries, which one of them has")
    return found


def part_names(parts: Iterable[str]) -> list[str]:
    """What fingerprints are of, in words."""
    return [_PARTS.get(name, name) for name in parts]


def with_queries_of(side: ComparedSide, other: ComparedSide) -> ComparedSide:
    """The side with what another one of the same queries knows of them: ids, texts, columns and groups."""
    return replace(
        side,
        query_ids=other.query_ids,
        texts=other.texts,
        columns=other.columns,
        facts=other.facts,
        groupings=other.groupings,
    )


def without_queries(side: ComparedSide) -> bool:
    """Whether only means are known of a side."""
    return not any(each.values for setting in side.settings for each in setting.builds)
