"""Which tests of the contract our engines may skip: nothing else is skipped, by mistake or otherwise."""

import sys

import pytest

from recallatk.adapters import registered
from recallatk.testing import EngineContract

ATTACHED = {"callable", "command", "http"}
DATABASES = {"chroma", "milvus", "qdrant", "lancedb"}
FILTER_UPDATES = {
    *("faiss-ivf-flat", "faiss-ivf-sq8", "sqlite-vec", "pgvector-hnsw", "pgvector-ivfflat"),
    *DATABASES,
}
READ_DURING_WRITES = {"pgvector-hnsw", "pgvector-ivfflat"}
SKIPPED = {
    "test_a_client_searches_while_rows_come_and_go": set(registered()) - READ_DURING_WRITES,
    "test_inserted_metadata_is_what_filters_see": set(registered()) - FILTER_UPDATES,
    "test_threads_change_no_answer": {*ATTACHED, *DATABASES, "sqlite-vec"},
    "test_a_forked_copy_searches_on": {*DATABASES, "callable", "duckdb", "sqlite-vec"},
    "test_more_effort_does_not_cost_recall": {*ATTACHED, "exact", "faiss-factory", "faiss-sq", "sqlite-vec"},
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and issubclass(item.cls or object, EngineContract) and sys.platform == "linux":
        engine = item.instance.kind().name
        expected = engine in SKIPPED.get(item.originalname, ())
        if report.skipped and not hasattr(report, "wasxfail") and not expected:
            report.outcome, report.longrepr = (
                "failed",
                f"{engine} is not known to skip it: {report.longrepr[2]}",
            )
        elif report.passed and expected:
            report.outcome, report.longrepr = "failed", f"{engine} no longer skips it: take it off the list"
    return report
