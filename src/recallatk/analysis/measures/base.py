"""Base class of measures: a name that can be parsed back, and one value per query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from recallatk.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared
    from recallatk.core import Metric


@dataclass(frozen=True)
class Measure:
    """One measure; `str` of it can be parsed back to an equal one."""

    k: int

    needs_scores: ClassVar[bool] = False
    """Whether the measure needs scores of the answers, computed from the vectors."""
    lower_is_better: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    """Whether every value lies in [0, 1], as betting bounds require."""

    def __post_init__(self) -> None:
        if self.k != int(self.k) or self.k < 1:
            raise UsageError(f"k = {self.k!r}. Accepted: whole numbers from 1")

    @property
    def is_share(self) -> bool:
        """Whether each query counts as yes or no, so that the mean is a share of queries."""
        return False

    @property
    def deepest(self) -> int:
        """Depth of truth that the measure needs."""
        return self.k

    def require_metric(self, metric: Metric) -> None:
        """Refuse a metric under which the measure is undefined."""

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        """Value of every query; NaN for queries without one, which the mean leaves out."""
        raise NotImplementedError

    def by_ids(self, compared: Compared) -> NDArray[np.float64] | None:
        """The same by strict ids, for measures in which ties count."""
        return None


def require_fraction(value: float, name: str, *, inclusive: bool = True) -> None:
    """Refuse a parameter that is not a share."""
    if not (0 < value <= 1 if inclusive else 0 < value < 1):
        raise UsageError(f"{name} = {value!r}. Accepted: above 0 and {'up to' if inclusive else 'below'} 1")


def plain(value: float) -> str:
    """Shortest text of a parameter that parses back to it."""
    return repr(float(value)).removesuffix(".0")
