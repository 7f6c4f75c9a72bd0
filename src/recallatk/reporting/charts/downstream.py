"""The chart of downstream quality against recall, with exact search as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.charts.curve import recall_scale
from recallatk.reporting.charts.theme import HEIGHT, QUIET, WIDTH, by_color, by_shape, finished, inline
from recallatk.reporting.labels import number, with_margin

if TYPE_CHECKING:
    from recallatk.analysis.downstream import Downstream
    from recallatk.reporting.charts.theme import Chart, Row
    from recallatk.reporting.labels import Naming


def quality_curve(found: Downstream, labels: Naming) -> Chart | None:
    """Quality over recall, one point per setting; None where nothing is known of exact search."""
    import altair as alt

    exact = found.exact.value
    if exact is None:
        return None
    rows = quality_rows(found, labels)
    engines = list(dict.fromkeys(labels.engines))
    across = f"{found.recall} (share of the true neighbors)"
    ends = [end for row in rows for end in (row["low"], row["high"])]
    room = 0.08 * max(exact, *ends, 1e-9)
    span = alt.Scale(domain=[min(0.0 if exact < 0.05 else exact, *ends) - room, max(exact, *ends) + room])
    x = alt.X("recall:Q", title=across, scale=recall_scale(rows))
    y = alt.Y("quality:Q", title=f"{found.measure} (mean)", scale=span)
    said = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (("label", "Setting"), ("recallText", "Recall"), ("qualityText", found.measure))
    ]
    said.append(alt.Tooltip("lostText:N", title="Lost"))
    base, color = alt.Chart(), by_color(engines)
    layers = [
        base.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=QUIET).encode(
            y=alt.Y("exact:Q", title=f"{found.measure} (mean)", scale=span)
        ),
        base.mark_rule(strokeWidth=1, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", title=f"{found.measure} (mean)", scale=span), y2="high:Q", color=color
        ),
        base.mark_point(filled=True, size=80, opacity=1).encode(
            x=x, y=y, color=color, shape=by_shape(engines), tooltip=said
        ),
    ]
    drawn = alt.layer(*layers, data=inline(rows)).properties(width=WIDTH, height=HEIGHT)
    return finished(drawn, f"{found.measure} of every setting by {found.recall}; line: exact search.")


def quality_rows(found: Downstream, labels: Naming) -> list[Row]:
    """One row per setting; the ends are those of exact search less the difference."""
    exact = found.exact.value or 0.0
    rows = []
    for point in found.points:
        quality, loss = exact - point.loss.value, point.loss
        rows.append(
            {
                "engine": point.trial.engine,
                "label": labels.label(point.trial),
                "recall": point.recall,
                "recallLow": point.recall,
                "recallHigh": point.recall,
                "recallText": number(point.recall, ".3f"),
                "quality": quality,
                "qualityText": with_margin(point.mean),
                "low": quality if loss.high is None else exact - loss.high,
                "high": quality if loss.low is None else exact - loss.low,
                "lostText": f"{loss.value:+.4f}",
                "exact": exact,
            }
        )
    return rows
