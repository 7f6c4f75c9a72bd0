"""Answers of an index about the neighbors that a trial missed, as one file between worker and parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.bench.trial_result import load_arrays, save_arrays

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ProbedAnswers:
    """What the index answered, for as many queries as there was time for."""

    queries: NDArray[np.int64]
    """The queries that missed something, each once."""
    lists: dict[str, NDArray[np.int64]]
    """(queries, width) corpus rows by name of the list, -1 at the end."""
    asked: dict[str, NDArray[np.bool_]]
    """The queries for which each list was requested."""
    held: NDArray[np.int8]
    """Of each missed neighbor: 1 if the index has the row, 0 if not, -1 if not asked."""
    visited: NDArray[np.int8]
    """Of each missed neighbor: whether the search visited its part of the index, -1 if unknown."""
    returned: NDArray[np.int64]
    """Of each query: number of rows that the index returned to the filter, `NOT_ASKED` if not counted."""
    removed: NDArray[np.int64]
    """Of each query: number of these rows that the filter removed, `NOT_ASKED` if not counted."""
    latencies: dict[str, NDArray[np.int64]]
    """Latencies in ns by name of the list."""
    scans: bool
    full_scans: bool
    stopped: bool
    seconds: float
    notes: list[str]

    def save(self, path: Path) -> None:
        """Write it as one file of arrays."""
        facts = {name: getattr(self, name) for name in _FACTS}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"list_{name}": each for name, each in self.lists.items()}
        arrays |= {f"asked_{name}": each for name, each in self.asked.items()}
        arrays |= {f"ns_{name}": each for name, each in self.latencies.items()}
        save_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: Path) -> ProbedAnswers:
        """Read it back."""
        arrays, facts = load_arrays(path)
        named: dict[str, dict[str, Any]] = {
            kind: {
                name.removeprefix(f"{kind}_"): each
                for name, each in arrays.items()
                if name.startswith(f"{kind}_")
            }
            for kind in ("list", "asked", "ns")
        }
        rest: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(lists=named["list"], asked=named["asked"], latencies=named["ns"], **rest, **facts)


_ARRAYS = ("queries", "held", "visited", "returned", "removed")
_FACTS = ("scans", "full_scans", "stopped", "seconds", "notes")
