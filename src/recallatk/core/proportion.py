"""How many rows and queries belong together: far more queries than rows suggest that the two are swapped."""

from __future__ import annotations

from recallatk.counting import counted

# Query logs of small corpora may well be larger than these; ten times as large is rare.
MOST_QUERIES_PER_ROW = 10


def swapped(rows: int | None, queries: int) -> str | None:
    """What to say where corpus and queries look swapped; None where they do not or nobody knows."""
    if rows is None or queries < MOST_QUERIES_PER_ROW * rows:
        return None
    asked = counted(queries, "query", "queries")
    return (
        f"the corpus has {counted(rows, 'row', 'rows')} and there are {asked}: are corpus and queries "
        "swapped? The corpus comes first"
    )
