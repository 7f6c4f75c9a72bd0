"""What every measure is: a name that says all of it, and a number for each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from recallatk.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class Measure:
    """One measure; `str` of it can be parsed back to an equal one."""

    k: int

    needs_scores: ClassVar[bool] = False
    """Whether the answers' own scores have to be computed from the vectors."""
    lower_is_better: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    """Whether the number of every query lies between 0 and 1, so that a betting bound holds for its mean."""

    def __post_init__(self) -> None:
        if self.k != int(self.k) or self.k < 1:
            raise UsageError(f"k = {self.k!r}. Accepted: whole numbers from 1")

    @property
    def is_share(self) -> bool:
        """Whether each query counts as yes or no, so that the mean is a share of queries."""
        return False

    @property
    def deepest(self) -> int:
        """How deep a truth it needs."""
        return self.k

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        """The number of every query; NaN for one that has none and leaves the mean."""
        raise NotImplementedError

    def by_ids(self, compared: Compared) -> NDArray[np.float64] | None:
        """The same by strict ids, for measures in which ties count."""
        return None


def require_fraction(value: float, name: str, *, inclusive: bool = True) -> None:
    """Refuse a parameter that is no share."""
    if not (0 < value <= 1 if inclusive else 0 < value < 1):
        raise UsageError(f"{name} = {value!r}. Accepted: above 0 and {'up to' if inclusive else 'below'} 1")


def plain(value: float) -> str:
    """A parameter as short as it can be read back."""
    return repr(float(value)).removesuffix(".0")
