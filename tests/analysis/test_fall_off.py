"""Where recall falls off with selectivity, and where an engine scans: planted, and by definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from recallatk.analysis.fall_off import (
    find_fall_off,
    find_scan_switch,
    find_undecided_fall,
    rank_correlation,
)
from recallatk.analysis.filtered import FilterGroup, filter_groups
from recallatk.analysis.segments import SELECTIVITY
from recallatk.core import Build, Calls, FilterFacts, Mean, Measurement, Score, Trial
from recallatk.reporting.filtered import changes_said

ROWS, EACH = 100_000, 60
SHARES = (1.0, 0.3, 0.03, 0.003, 0.0003)


def group(name, value, low=None, high=None):
    return FilterGroup(name, 50, 0, Mean(value, None, 50, low, high), 0.0, 0.0, 1.0, 100.0)


def planted(recalls, latency_of):
    """A trial with this recall in each decade, and latencies by the number of eligible rows."""
    random = np.random.default_rng(0)
    spread = random.uniform(0.8, 1.2, (len(SHARES), EACH))
    spread[0] = 1.0
    eligible = (np.array(SHARES)[:, None] * ROWS * spread).astype(np.int64).ravel()
    values = (random.random((len(SHARES), EACH)) < np.array(recalls)[:, None]).astype(float).ravel()
    query = np.arange(len(eligible), dtype=np.int32)
    noise = random.uniform(0.95, 1.05, len(query))
    calls = Calls(
        query,
        *(np.zeros(len(query), dtype) for dtype in (np.int16, np.int16, np.int64)),
        latency_ns=(latency_of(eligible) * noise).astype(np.int64),
        late_ns=np.zeros(len(query), np.int64),
        round_ns=np.array([9]),
    )
    return Measurement(
        Trial("e", (), ()),
        Build("e", None, (), 1, None, None, None),
        10,
        np.tile(np.arange(10), (len(query), 1)),
        calls,
        None,
        Score(len(query), len(query), {}, {}, {"recall@10": values}),
        filters=FilterFacts(eligible < ROWS, eligible, ROWS),
    )


def found_in(measurement):
    groups = filter_groups(measurement, "recall@10")[SELECTIVITY]
    return find_fall_off(groups), find_scan_switch(groups, measurement)


def constant(eligible):
    return np.full(len(eligible), 1e5)


def scanning(eligible):
    return np.where(eligible < 0.01 * ROWS, 1e4 + 100.0 * eligible, 1e5)


def test_a_planted_fall_off_and_a_switch_to_a_scan_are_found_and_named():
    fall, switch = found_in(planted([0.95, 0.95, 0.5, 1.0, 1.0], scanning))
    assert (fall.group, fall.broadest) == ("1 to 10 % of the rows", "all rows")
    assert (switch.group, switch.broader) == ("0.1 to 1 % of the rows", "1 to 10 % of the rows")
    assert switch.latency_follows is True
    fall, switch = found_in(planted([0.95, 0.95, 0.5, 1.0, 1.0], constant))
    assert switch.latency_follows is False


def test_flat_recall_has_neither():
    assert found_in(planted([0.9] * 5, constant)) == (None, None)
    assert found_in(planted([1.0] * 5, scanning)) == (None, None), "an engine that always scans"


def test_a_fall_needs_size_and_confidence():
    first = group("all rows", 0.95, 0.94, 0.96)
    assert find_fall_off([first, group("a", 0.935, 0.933, 0.937)]) is None, "0.015 below"
    assert find_fall_off([first, group("a", 0.90, 0.85, 0.945)]) is None, "intervals overlap"
    assert find_fall_off([first, group("a", None), group("b", 0.9, 0.88, 0.92)]).group == "b"
    assert find_fall_off([]) is None and find_fall_off([group("a", None)]) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=60))
def test_the_rank_correlation_is_spearmans(pairs):
    one, other = np.array(pairs).T
    if len(set(one)) > 1 and len(set(other)) > 1:
        assert abs(rank_correlation(one, other) - spearmanr(one, other).statistic) < 1e-9
    else:
        assert rank_correlation(one, other) == 0.0


BROADEST = group("all rows", 0.996, 0.99, 1.0)


def test_a_fall_off_names_its_first_group_and_its_worst():
    mild, bad = group("10 to 100 %", 0.949, 0.93, 0.96), group("1 to 10 %", 0.539, 0.48, 0.6)
    found = find_fall_off([BROADEST, mild, bad])
    assert (found.group, found.worst, found.worst_recall.value) == ("10 to 100 %", "1 to 10 %", 0.539)
    assert find_undecided_fall([BROADEST, mild, bad]) is None
    said = changes_said("e", [BROADEST, mild, bad], planted([0.9] * 5, constant))
    assert "falls off at 10 to 100 %: 0.949 ±0.019 against 0.996 ±0.006" in said[0]
    assert said[0].endswith("; lowest at 1 to 10 %: 0.539 ±0.061.")


def test_a_large_difference_with_wide_intervals_is_undecided_and_not_denied():
    groups = [group("all rows", 0.997, 0.549, 1.0), group("1 to 10 %", 0.69, 0.2, 1.0)]
    assert find_fall_off(groups) is None
    assert find_undecided_fall(groups).group == "1 to 10 %"
    (said,) = changes_said("e", groups, planted([0.9] * 5, constant))
    assert "too few queries to tell whether recall falls off" in said
    level = [BROADEST, group("1 to 10 %", 0.99, 0.98, 1.0)]
    assert find_undecided_fall(level) is None
    (said,) = changes_said("e", level, planted([0.9] * 5, constant))
    assert said == "e: recall does not fall off, not even at 1 to 10 %."
