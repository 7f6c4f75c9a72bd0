"""Whether a look of a watch is worth a probe: triggers on the latest queries and on the collection's size."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.target_schemes import collection_in_use
from recallatk.datasets import open_queries
from recallatk.datasets.sampling import latest_queries
from recallatk.errors import UsageError
from recallatk.probing.references import made_from
from recallatk.triggers import FEWEST, growth_trigger, open_snapshot, shifts

if TYPE_CHECKING:
    from recallatk.adapters.collection import Collection
    from recallatk.core.drifted import Shifts, Trigger
    from recallatk.core.probed import Probed

DEFAULT_AT_LEAST = 24 * 3600.0


@dataclass
class Worth:
    """Triggers between a baseline and the latest queries, from look to look.

    Args:
        baseline: queries from a time when recall was good.
        at_least: seconds after which a probe is due without any trigger.
    """

    baseline: Any
    at_least: float = DEFAULT_AT_LEAST
    _probed: float | None = None
    _rows: int | None = None

    def __post_init__(self) -> None:
        if self.at_least <= 0:
            raise UsageError(f"a probe at least every {self.at_least:g} seconds. Accepted: more than 0")
        self.baseline = open_snapshot(self.baseline)
        if self.baseline.queries is None:
            raise UsageError(f"{self.baseline.name} holds no queries. A watch compares queries with queries")

    def look(
        self,
        target: str | Collection,
        queries: Any,
        recent: int | None,
        *,
        timeout: float = 30.0,
        corpus: Any = None,
        seed: int = 0,
    ) -> Shifts | None:
        """The triggers; None if a probe is due anyway, or if there are too few queries to compare.

        Args:
            target: the collection.
            queries: queries as for `probe`.
            recent: number of the latest ones.
            timeout: time limit of each statement or call, in seconds.
            corpus: what the collection was made from.
            seed: random seed.
        """
        if queries is None:
            raise UsageError("triggers compare queries, and there are none: give --queries with --baseline")
        with collection_in_use(target, timeout) as opened:
            made_from(opened, corpus)
            found = opened.discovery()
        asked = open_queries(queries)
        asked = asked if recent is None else latest_queries(asked, recent)
        due = self._probed is not None and time.monotonic() - self._probed >= self.at_least
        if due or asked.rows < FEWEST:
            return None
        compared = shifts(self.baseline, asked, metric=found.metric, seed=seed)
        grown: tuple[Trigger, ...] = ()
        if self._rows and found.rows is not None:
            grown = (growth_trigger(self._rows, found.rows),)
        return replace(compared, triggers=(*compared.triggers, *grown))

    def probed(self, found: Probed) -> None:
        """Remember when a probe was, and how large the collection was then."""
        self._probed, self._rows = time.monotonic(), found.rows
