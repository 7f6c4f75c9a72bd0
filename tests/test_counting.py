"""One of something is not several."""

from recallatk.units import counted, share_of


def test_numbers_agree_with_their_nouns():
    assert counted(1, "query", "queries") == "1 query"
    assert counted(0, "query", "queries") == "0 queries"
    assert counted(1_000, "query", "queries") == "1,000 queries"
    assert share_of(1, 50, "queries", "is asked", "are asked") == "1 of 50 queries (2.0%) is asked"
    assert share_of(2, 50, "queries", "is asked", "are asked") == "2 of 50 queries (4.0%) are asked"
