"""Warnings about a run: reasons to doubt its numbers, found while measuring."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.latency import keeping_up
from recallatk.analysis.weighting import few_effective, scored_weights
from recallatk.bench.sentinel import drift
from recallatk.bench.short_stages import short_stages
from recallatk.core import Caution, Mode
from recallatk.core.filtering import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Measurement

# Latency differences below the machine's own drift are meaningless.
DRIFT = 0.10
# More than half of the cores were busy before the first measurement.
BUSY_SHARE = 0.5
LATE_SHARE = 0.01
# Parameters that count candidates; others count lists, partitions or nodes, for which k is no limit.
_CANDIDATES = re.compile(r"(^|_|\b)ef|candidates|expansion|search_l$", re.IGNORECASE)
# Facts that must not change when a run is resumed.
_MACHINE = ("processor", "cores", "memory_bytes", "processor_limit", "python", "packages")


def cautions_of(
    measurements: Sequence[Measurement], before: Sequence[float] | None, cores: int
) -> tuple[Caution, ...]:
    """All warnings about these measurements.

    Args:
        measurements: the finished trials.
        before: load averages of the machine before the first trial.
        cores: number of cores.
    """
    found = [*_noise(measurements), *_busy(before, cores), *_below_k(measurements)]
    found += [*_weights(measurements), *_refused(measurements), *short_stages(measurements)]
    for each in measurements:
        found += [*_cold(each), *_late(each), *_changing(each)]
    return tuple(found)


def _weights(measurements: Sequence[Measurement]) -> Iterator[Caution]:
    """A few queries that carry the weighted means; trials of one run have the same weights."""
    for each in measurements:
        few = few_effective(scored_weights(each.score))
        if few is not None:
            yield few
            return


def _below_k(measurements: Sequence[Measurement]) -> Iterator[Caution]:
    """The warning that efforts below k gave equal answers: some libraries keep at least k candidates."""
    groups: dict[Any, list[Measurement]] = {}
    for each in measurements:
        trial = each.trial
        groups.setdefault((trial.engine, trial.build, trial.load, trial.repeat), []).append(each)
    for (engine, *_), group in groups.items():
        for one, other in pairwise(group):
            name = _effort_below_k(one, other)
            if name is not None and np.array_equal(one.answers, other.answers):
                values = " and ".join(f"{name}={dict(each.trial.search)[name]}" for each in (one, other))
                yield Caution(
                    "effort below k",
                    f"{engine} gave the same answers at {values}: it searches with at least k = {one.k} "
                    f"candidates. To measure smaller values of {name}, lower the largest k (at, --at)",
                )
                break


def _refused(measurements: Sequence[Measurement]) -> Iterator[Caution]:
    """Engines that refused filters, and whether the others answered different queries."""
    sets = {b"" if each.refused is None else each.refused.refused.tobytes() for each in measurements}
    differ = "means not comparable, the settings answered different queries. " if len(sets) > 1 else ""
    said: dict[str, float] = {}
    for each in measurements:
        if each.refused is not None:
            text = f"{each.trial.engine}: {differ}{each.refused.in_words}"
            said.setdefault(text, float(each.refused.queries))
    for text, queries in said.items():
        yield Caution(REFUSED, text, queries)


def _effort_below_k(one: Measurement, other: Measurement) -> str | None:
    """The only parameter in which two trials differ, if it counts candidates and a value is below k."""
    before, after = dict(one.trial.search), dict(other.trial.search)
    differ = [name for name in before if before[name] != after.get(name)]
    if len(differ) != 1 or before.keys() != after.keys() or not _CANDIDATES.search(differ[0]):
        return None
    values = (before[differ[0]], after[differ[0]])
    below = all(isinstance(each, int) for each in values) and min(values) < one.k
    found = [mean.value for mean in one.score.measures.values()]
    return differ[0] if below and any(each is not None and each < 1 for each in found) else None


def other_machine(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> tuple[Caution, ...]:
    """The warning that the run was resumed on a different machine."""
    changed = [] if before is None else [name for name in _MACHINE if before.get(name) != now.get(name)]
    if not changed:
        return ()
    said = (
        f"the run was resumed on a different machine: {', '.join(changed)} differ, "
        "so latencies cannot be compared"
    )
    return (Caution("machine", said),)


def _noise(measurements: Sequence[Measurement]) -> Iterator[Caution]:
    paces = [each.sentinel_ns for each in measurements if each.sentinel_ns is not None]
    yield from noise(np.concatenate(paces) if paces else ())


def noise(paces: Sequence[int] | NDArray[np.int64]) -> Iterator[Caution]:
    """The warning that the machine's own pace varied too much to compare latencies."""
    moved = drift(paces)
    if moved is not None and moved > DRIFT:
        yield Caution(
            "noise",
            f"the machine was noisy: a fixed piece of work varied by {moved:.0%} from block to block "
            f"(quiet machines stay within {DRIFT:.0%}), so ignore latency differences of that size",
            moved,
            DRIFT,
        )


def _busy(before: Sequence[float] | None, cores: int) -> Iterator[Caution]:
    if before and before[0] > BUSY_SHARE * cores:
        yield Caution(
            "busy",
            f"the machine was busy before the measurements: load average {before[0]:.1f} on {cores} cores",
            before[0],
            BUSY_SHARE * cores,
        )


def _cold(measurement: Measurement) -> Iterator[Caution]:
    warm = measurement.warm_up
    if warm is not None and not warm.settled:
        yield Caution(
            "cold",
            f"{measurement.trial}: latencies had not settled after {warm.calls:,} warm-up calls",
            float(warm.calls),
        )


def _late(measurement: Measurement) -> Iterator[Caution]:
    if measurement.trial.load.mode is not Mode.RATE:
        return
    late = keeping_up(measurement.calls)
    if late.share is not None and late.share > LATE_SHARE:
        yield Caution(
            "late",
            f"{measurement.trial}: the client could not keep up: {late.share:.1%} of the calls were late, "
            f"the worst by {late.worst_ms:,.1f} ms. Latencies include that delay. More clients may help",
            late.share,
            LATE_SHARE,
        )


def _changing(measurement: Measurement) -> Iterator[Caution]:
    if measurement.others is not None:
        count = len(measurement.others)
        yield Caution(
            "changing",
            f"{measurement.trial}: {count:,} answers differ between calls with the same query. Recall counts "
            "every call",
            float(count),
        )
