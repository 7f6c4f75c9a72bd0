"""Triggers on what goes with vectors: filters, what they admit, k, and columns of few values."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.analysis.two_samples import difference_of_means, pool_of, variation
from recallatk.capture.log_format import FILTER, RAW_FILTER, K
from recallatk.core.drifted import Trigger

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from recallatk.analysis.two_samples import Pool, Statistic
    from recallatk.filters import Filter

# Rarer values are one kind: mixes of more kinds vary too much by chance to be compared.
MOST_KINDS = 40
# A column of more values is a text or an id. Every column makes all tests stricter.
_MOST_VALUES, _MOST_COLUMNS = 200, 10
MIX, SELECTIVITY = 0.10, 1.5
_FEWEST_FILTERED = 20


@dataclass(frozen=True, eq=False)
class MixSamples:
    """What goes with the sampled vectors of both sides."""

    part: str
    first: pa.Table
    second: pa.Table
    """Columns of the sampled vectors."""
    filters: tuple[Sequence[Filter | None], Sequence[Filter | None]] | None = None
    shares: tuple[Sequence[float | None], Sequence[float | None]] | None = None
    """For each sampled query, the share of rows that its filter admits; None for queries without a filter."""
    seed: int = 0

    @property
    def pool(self) -> Pool:
        """Both samples as one."""
        return pool_of(self.first.num_rows, self.second.num_rows, self.seed)


def mix_triggers(samples: MixSamples) -> Iterator[Trigger]:
    """Every trigger on filters, k and columns that both sides have."""
    if samples.filters is not None and any(each is not None for side in samples.filters for each in side):
        yield _filters(samples, *samples.filters)
        yield from _selectivity(samples)
    names = [name for name in samples.first.column_names if name in samples.second.column_names]
    if K in names and pa.types.is_integer(samples.first.schema.field(K).type):
        kinds = [side[K].to_pylist() for side in (samples.first, samples.second)]
        yield _mix(samples, "k", kinds, "{:.0%} of the queries have another k")
    yield from _columns(samples, [name for name in names if name not in (K, FILTER, RAW_FILTER)])


def _filters(samples: MixSamples, first: Sequence[Filter | None], second: Sequence[Filter | None]) -> Trigger:
    """Filters by their text where there are few, else by their form without values."""
    kinds = [[None if each is None else each.key for each in side] for side in (first, second)]
    if len(set(kinds[0]) | set(kinds[1])) > MOST_KINDS:
        kinds = [[None if each is None else _form(each) for each in side] for side in (first, second)]
    return _mix(samples, "filters", kinds, "{:.0%} of the queries have another filter")


def _form(condition: Filter) -> str:
    """A filter without its values."""

    def without(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: value if key == "column" else without(value) for key, value in sorted(node.items())}
        return [without(each) for each in node if isinstance(each, dict)] if isinstance(node, list) else "?"

    return json.dumps(without(condition.to_json()))


def _selectivity(samples: MixSamples) -> Iterator[Trigger]:
    """The geometric mean share of rows that filters admit, over the queries with a filter."""
    if samples.shares is None:
        return
    logs = [np.log([each for each in side if each is not None]) for side in samples.shares]
    if min(map(len, logs)) < _FEWEST_FILTERED:
        return
    pool = pool_of(len(logs[0]), len(logs[1]), samples.seed)
    found = pool.ratio(difference_of_means(np.concatenate(logs)))
    said = f"filters admit {found.number:.3g} times the share of rows"
    yield Trigger(
        samples.part, "selectivity", found.number, SELECTIVITY, 1 / SELECTIVITY, found.low, found.high,
        found.p, said,
    )  # fmt: skip


def _columns(samples: MixSamples, names: Sequence[str]) -> Iterator[Trigger]:
    """The mix of each column of few values."""
    found = 0
    for name in names:
        kinds = [_plain(side[name]) for side in (samples.first, samples.second)]
        if kinds[0] is None or kinds[1] is None:
            continue
        distinct = len({*kinds[0], *kinds[1]})
        if 1 < distinct <= _MOST_VALUES and found < _MOST_COLUMNS:
            found += 1
            yield _mix(
                samples, f"column {name}", [kinds[0], kinds[1]], "{:.0%} have another value of " + name
            )


def _plain(column: pa.ChunkedArray) -> list[Any] | None:
    """Values of a column that can have kinds; None for numbers, times and lists."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    usable = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    return column.to_pylist() if usable else None


def _mix(samples: MixSamples, name: str, kinds: Sequence[Sequence[Hashable]], said: str) -> Trigger:
    found = samples.pool.distance(_variation(kinds))
    return Trigger(
        samples.part, name, found.number, MIX, None, found.low, found.high, found.p,
        said.replace("{:.0%}", f"{found.number:.0%}"),
    )  # fmt: skip


def _variation(kinds: Sequence[Sequence[Hashable]]) -> Statistic:
    """The variation of a mix, in which rare values are one kind."""
    counts = Counter(each for side in kinds for each in side)
    known = {value: place for place, (value, _) in enumerate(counts.most_common(MOST_KINDS))}
    labels = np.array([known.get(each, len(known)) for side in kinds for each in side], np.int64)
    return variation(labels, len(known) + 1)
