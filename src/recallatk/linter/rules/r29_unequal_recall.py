"""R29: speeds compared at different recall."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, recall_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Load, Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 0.01


class UnequalRecall(Rule):
    """Fast because it finds less."""

    code, name, severity = "R29", "unequal-recall", Severity.WARNING
    title = "Engines are not comparable at equal recall"
    threshold = "no two settings of two engines under the same load have a recall within 0.01 of each other"
    source = "zilliztech/VectorDBBench#200, #212; 0.01 is the step in which recall is compared."
    why = (
        "Every engine is faster at lower recall, so a speed means nothing without its recall. Compare two "
        "engines only where both were measured at about the same recall."
    )
    remedy = "Sweep the efforts of both until their curves overlap, and compare along the curves."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Every two engines under every load."""
        loads: dict[Load, list[Measurement]] = {}
        for each in evidence.measurements:
            loads.setdefault(each.trial.load, []).append(each)
        said: dict[tuple[str, str], float] = {}
        for members in loads.values():
            groups = by_engine(members)
            values = {name: _values(found, evidence.headline) for name, found in groups.items()}
            known = {name: each for name, each in values.items() if each}
            for one, other in combinations(known, 2):
                apart = _nearest(known[one], known[other])
                if apart > MOST:
                    said[one, other] = max(apart, said.get((one, other), 0.0))
        for (one, other), apart in sorted(said.items()):
            yield self.finding(
                f"{one} and {other} come no nearer in {evidence.headline} than {apart:.3f}", apart, MOST
            )


def _nearest(some: list[float], others: list[float]) -> float:
    """The least distance between a value of one and a value of the other: in order, these are neighbors."""
    both = sorted([*((value, 0) for value in some), *((value, 1) for value in others)])
    return min(after - before for (before, one), (after, other) in pairwise(both) if one != other)


def _values(measured: list[Measurement], name: str) -> list[float]:
    means = (recall_of(each, name) for each in measured)
    return [mean.value for mean in means if mean is not None and mean.value is not None]
