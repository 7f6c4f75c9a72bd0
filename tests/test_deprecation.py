"""Deprecation notes point at the caller's own line and name what replaces the old name."""

import warnings

import pytest

from recallatk.deprecation import deprecated


def test_it_names_both_and_the_version():
    with pytest.warns(DeprecationWarning, match=r"old is deprecated and will be removed in 0\.3; use new"):
        deprecated("old", "new")


def test_it_points_at_the_first_frame_outside_the_package():
    inside = {"__name__": "recallatk.somewhere", "deprecated": deprecated}
    exec("def old_name():\n    deprecated('old_name', 'new_name')", inside)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inside["old_name"]()
    assert [each.filename for each in caught] == [__file__]
