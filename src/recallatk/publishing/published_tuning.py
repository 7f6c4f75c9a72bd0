"""What a site keeps of a tuning: the outcome, the setting and its goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.core.trials import called
from recallatk.reporting.labels import listed

if TYPE_CHECKING:
    from recallatk.core.tuned import Tuned


@dataclass(frozen=True)
class PublishedTuning:
    """One tuning of the site."""

    name: str
    page: str
    """Address of its report, relative to the site."""
    outcome: str
    """Met or missed."""
    setting: str
    """The choice, or the setting that comes nearest."""
    goals: str

    def to_dict(self) -> dict[str, Any]:
        """The tuning for JSON."""
        return {
            "tuning": self.name,
            "page": self.page,
            "outcome": self.outcome,
            "setting": self.setting,
            "goals": self.goals,
        }


def published_tuning(tuned: Tuned, name: str, page: str) -> PublishedTuning:
    """What a site keeps of a tuning.

    Args:
        tuned: the tuning.
        name: its name on the site.
        page: the address of its report.
    """
    shown = tuned.choice or tuned.nearest
    setting = "-" if shown is None else called(shown.engine, listed(shown.build), listed(shown.search))
    goals = ", ".join(map(str, [*tuned.targets, *tuned.budgets]))
    return PublishedTuning(name, page, "met" if tuned.met else "missed", setting, goals)
