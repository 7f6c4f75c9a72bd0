"""Numbers of examples for property tests, which `make quick` divides."""

from hypothesis import settings

FULL = 60
"""Examples of a property that asks for no number; the quick profile has fewer."""


def examples(count):
    """Settings for a property that needs this many examples in the whole suite."""
    return settings(max_examples=max(1, count * settings.default.max_examples // FULL))
