"""Two embeddings of the same rows to a recommendation: overlap, relevance, settings, costs, mixed spaces."""

from recallatk.migration.migrate import migrate

__all__ = ["migrate"]
