"""The charts of a report: one definition for HTML, SVG and PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.reporting.charts.theme import Chart

__all__ = ["charts_of"]


def charts_of(run: Run) -> dict[str, Chart]:
    """Every chart that the means of a run allow, by name, as Altair has them."""
    from recallatk.reporting.charts.breakdowns import build_costs, recall_across_k
    from recallatk.reporting.charts.curve import latency_curve, qps_curve
    from recallatk.reporting.charts.points import curve_of
    from recallatk.reporting.verdict_words import spoken_verdict

    curve = curve_of(run)
    chosen = spoken_verdict(curve).number
    made = {
        "recall-latency": latency_curve(curve, chosen),
        "recall-qps": qps_curve(curve, chosen),
        "recall-across-k": recall_across_k(curve, chosen),
        "cost": build_costs(curve),
    }
    return {name: chart for name, chart in made.items() if chart is not None}
