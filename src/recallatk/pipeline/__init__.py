"""Retrieval paths around an engine: filter, oversample and rerank, hybrid fusion."""
