"""For our tests and for those of others: small datasets with known answers."""

from recallatk.testing.tiny import tiny_dataset

__all__ = ["tiny_dataset"]
