"""Static sites of results: runs found, compared at equal recall, and written as pages that need no server."""

from recallatk.publishing.site import PublishedSite, publish

__all__ = ["PublishedSite", "publish"]
