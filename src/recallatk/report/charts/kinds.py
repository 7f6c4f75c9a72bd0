"""What charts are made of: rows of plain values, and Altair's charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import altair as alt

    Chart: TypeAlias = alt.LayerChart | alt.Chart | alt.HConcatChart | alt.VConcatChart

Row: TypeAlias = dict[str, Any]
