"""How many queries have which recall: what a mean hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts.theme import COLOURS, WIDTH, finished, inline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.analysis.distribution import Distribution
    from recallatk.report.charts.kinds import Chart, Row

BINS = (*(f"{low / 10:.1f} to {low / 10 + 0.1:.1f}" for low in range(9)), "0.9 to below 1", "1")


def chart(found: Mapping[int, Distribution], measure: str, chosen: int) -> Chart | None:
    """Bars from zero, of the chosen setting."""
    import altair as alt

    rows = [row for number, each in found.items() for row in bins(each, number)]
    if not rows:
        return None
    said = [
        alt.Tooltip("bin:N", title=measure),
        alt.Tooltip("queries:Q", title="Queries", format=","),
        alt.Tooltip("share:Q", title="Share", format=".2%"),
    ]
    drawn = (
        alt.Chart(inline(rows))
        .transform_filter("datum.n === chosen")
        .mark_bar(color=COLOURS[0])
        .encode(
            x=alt.X(
                "bin:N", sort=list(BINS), title=f"{measure} of a single query", axis=alt.Axis(labelAngle=-40)
            ),
            y=alt.Y(
                "share:Q", title="Share of the queries", axis=alt.Axis(format="%"), scale=alt.Scale(zero=True)
            ),
            tooltip=said,
        )
        .add_params(alt.param(name="chosen", value=chosen))
        .properties(width=WIDTH, height=240)
    )
    return finished(drawn, f"The share of queries by their own {measure}, of the chosen setting.")


def bins(found: Distribution, number: int) -> list[Row]:
    """Ten bins, the last one parted: queries that found everything are a kind of their own."""
    ones = round(found.ones.value * found.n)
    counts = [*found.histogram[:-1], found.histogram[-1] - ones, ones]
    return [
        {"n": number, "bin": name, "queries": count, "share": count / found.n}
        for name, count in zip(BINS, counts, strict=True)
    ]
