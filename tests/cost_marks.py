"""Cost of tests: which need a server, a browser or a long time, so that `make quick` leaves them out.

Marks are given here and not in the test modules, so that one page shows what the quick suite leaves out.
"""

from pathlib import Path

import pytest

from recallatk.adapters import registered

TESTS = Path(__file__).parent

# One engine of each family: scan, graphs, lists, codes, SQL, a function of the user.
QUICK_ENGINES = {
    *("exact", "faiss-hnsw", "usearch", "faiss-ivf-flat", "faiss-ivf-pq", "sqlite-vec", "callable")
}
SERVER_ENGINES = {"chroma", "milvus", "pgvector-hnsw", "pgvector-ivfflat", "qdrant"}

# Folders in which a parameter that is the name of an engine means that the engine is built.
ENGINE_FOLDERS = {"adapters", "tuning"}

SERVER_MODULES = {
    *("test_databases", "test_databases_chroma", "test_databases_milvus", "test_databases_milvus_server"),
    *("test_databases_qdrant", "test_object_store", "test_pgvector_plans", "test_sql"),
}
# Why each takes long; a module whose reason is gone leaves its list.
SLOW_MODULES = {
    "every case is a process": {
        *("test_command_line", "test_dry_run", "test_interrupted", "test_inputs_of_runs", "test_run_command"),
        *("test_report_command", "test_secrets_and_text", "test_show_command", "test_tune_command"),
        *("test_full_disk", "test_docs", "test_public_names", "test_export_command", "test_audit_command"),
        *("test_contributing", "test_architecture"),
    },
    "processes are killed, interrupted or limited": {
        *("test_faults", "test_kill", "test_resume", "test_signals", "test_process_log"),
        *("test_child_process", "test_program_runs", "test_scratch_folders", "test_run_faults"),
    },
    "engines are measured or tuned for real": {
        *("test_measured_by_run", "test_measure", "test_real_engines", "test_targets_kept", "test_tuning"),
        *("test_final_timing", "test_worker_process", "test_supervisor", "test_loads_on_engines"),
        *(
            "test_attached_command",
            "test_live_objects",
            "test_contract_catches",
            "test_memory_model",
            "test_snippets",
        ),
        *("test_demo_data", "test_clean", "test_data_rules", "test_run_rules", "test_truth_rules"),
    },
    "arrivals and clients take their time": {"test_open_loop", "test_processes", "test_closed_loops"},
    "pages are drawn": {"test_page", "test_tuned_page", "test_charts", "test_plot", "test_notebook"},
    "the data are large or many": {
        *("test_scale", "test_extreme_sizes", "test_many_filters", "test_long_filters", "test_peers"),
        "test_layers",
    },
}
SLOW = frozenset().union(*SLOW_MODULES.values())


def mark(item):
    """Give a test the marks of what it needs."""
    engine = engine_of(item)
    if "browser" in item.fixturenames:
        item.add_marker(pytest.mark.browser)
    if engine in SERVER_ENGINES or (item.path.stem in SERVER_MODULES and engine not in QUICK_ENGINES):
        item.add_marker(pytest.mark.server)
    costly = engine is not None and engine not in QUICK_ENGINES
    if item.path.stem in SLOW or costly or compiled_by_numba(item):
        item.add_marker(pytest.mark.slow)


def engine_of(item):
    """The name of the engine that a test builds; None where it builds none, or several."""
    if item.path.parent.name not in ENGINE_FOLDERS:
        return None
    kind = getattr(item.cls, "engine", None)
    if kind is not None:
        return getattr(kind, "name", kind)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((each for each in parameters if isinstance(each, str) and each in registered()), None)


def compiled_by_numba(item):
    """Whether a test needs what numba compiles for minutes in every process."""
    return "pynndescent" in item.nodeid.lower()
