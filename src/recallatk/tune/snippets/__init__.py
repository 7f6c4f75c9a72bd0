"""A setting as code to paste: Python for libraries, SQL for pgvector, JSON for what is attached."""

from recallatk.tune.snippets.choosing import snippet

__all__ = ["snippet"]
