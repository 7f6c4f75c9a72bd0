"""Retrieval paths: legs that retrieve, fusion, filtering after the search, and reranking, as one engine."""

from recallatk.pipeline.path import Path

__all__ = ["Path"]
