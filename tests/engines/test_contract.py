"""The contract over every engine that comes with the package."""

from recallatk.testing import EngineContract


class TestExact(EngineContract):
    engine = "exact"


class TestFaissHnsw(EngineContract):
    engine = "faiss-hnsw"
