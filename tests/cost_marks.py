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
    "test_collections_milvus",
    *("test_probe_postgres", "test_probe_postgres_mistakes", "test_probe_postgres_safety"),
    *("test_probe_postgres_tables", "test_notebooks"),
}
# Why each takes long; a module whose reason is gone leaves its list.
SLOW_MODULES = {
    "every case is a process": {
        *("test_command_line", "test_dry_run", "test_interrupted", "test_inputs_of_runs", "test_run_command"),
        *("test_report_command", "test_secrets_and_text", "test_show_command", "test_tune_command"),
        *("test_full_disk", "test_docs", "test_public_names", "test_export_command", "test_audit_command"),
        *("test_contributing", "test_architecture", "test_truth_command", "test_score_command"),
        *("test_measure_callable", "test_shared_flags", "test_mistakes", "test_tensors"),
        *("test_compare_command", "test_strict_goals", "test_gate_command", "test_measured_gate"),
        *(
            "test_pytest_plugin",
            "test_extras",
            "test_workflows",
            "test_publish_command",
            "test_churn_command",
        ),
    },
    "processes are killed, interrupted or limited": {
        *("test_faults", "test_kill", "test_resume", "test_signals", "test_process_log"),
        *("test_child_process", "test_program_runs", "test_scratch_folders", "test_run_faults"),
        *("test_quality_cache", "test_log_processes", "test_site_folder"),
    },
    "engines are measured or tuned for real": {
        *("test_live_objects", "test_notebook_user", "test_notebooks", "test_printed"),
        *("test_loss_evidence", "test_planted_losses"),
        *(
            "test_measured_by_run",
            "test_paths_by_run",
            "test_run_paths",
            "test_measure",
            "test_real_engines",
            "test_replay",
            "test_lasting_effort",
            "test_targets_kept",
            "test_tuning",
        ),
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
    "pages are drawn": {
        *("test_page", "test_tuned_page", "test_charts", "test_plot", "test_notebook"),
        *("test_site", "test_bad_runs", "test_site_content"),
    },
    "the data are large or many": {
        *("test_scale", "test_extreme_sizes", "test_many_filters", "test_long_filters", "test_peers"),
        "test_layers",
    },
}
SLOW = frozenset().union(*SLOW_MODULES.values())

# Every argument is tried with every kind of data: while you work, the first case of each test is enough.
FIRST_CASES = {
    *("test_truth_one_answer", "test_truth_oracle", "test_checkpoint", "test_store", "test_space_bounds"),
    *("test_arithmetic", "test_updating", "test_space_rotation", "test_truth_hard_data", "test_verifying"),
    *("test_golden", "test_run_damage", "test_damage", "test_npz", "test_digests", "test_resuming"),
    *("test_betting", "test_jsonl", "test_csv", "test_exports", "test_binary_blocks", "test_run_folder"),
    *("test_vectors", "test_bad_values", "test_in_memory", "test_answers", "test_binary_conversion"),
    *("test_answers_refused", "test_detection", "test_redaction", "test_answers_text", "test_xbin"),
    *("test_scoring_forms", "test_settings_starter", "test_arrow", "test_thresholds", "test_truth_file"),
}

# Tests of seconds in modules of milliseconds.
SLOW_TESTS = {
    *("test_a_file_of_very_many_columns_is_described", "test_a_vector_of_very_many_numbered_columns_is_read"),
    *("test_a_cut_or_flipped_truth_is_never_believed", "test_flipped_digests_change_no_truth"),
    *("test_damaged_library_files_are_refused_or_other_numbers", "test_one_difference_differs"),
    *("test_no_cut_and_no_flipped_byte_gives_other_neighbors", "test_one_trial_is_one_trial"),
    *("test_a_module_that_a_worker_misses_is_an_error_with_its_install_line",),
    *("test_cores_that_do_not_exist_are_refused_with_those_that_do",),
    *("test_one_flipped_bit_anywhere_is_refused_or_changes_nothing",),
    *("test_a_computation_stays_within_its_budget", "test_processes_that_share_a_store_all_end_well"),
    *("test_a_cut_or_flipped_checkpoint_changes_no_truth",),
    *("test_each_work_in_a_store_has_its_own_checkpoint",),
    *("test_trial_files_can_be_scored_by_the_command", "test_a_real_search_turns_by_itself"),
    *("test_an_update_goes_on_with_other_blocks_though_other_queries_have_to_be_redone",),
    *("test_goals_that_the_data_cannot_answer_are_refused",),
    *("test_many_queries_that_the_kernel_cannot_prove_are_exact_at_every_block_size",),
    *("test_ties_beyond_the_candidates_are_all_found_under_filters_at_every_block_size",),
    *("test_what_older_formats_do_not_check_is_said_by_commands",),
    *("test_no_trial_is_read_again_while_others_are_added",),
    *("test_two_processes_do_not_measure_into_one_folder",),
    *("test_a_process_that_is_killed_while_it_makes_or_removes_a_folder_leaves_nothing_for_good",),
    *("test_the_row_is_counted_through_all_of_a_large_file",),
    *("test_a_web_server_that_has_no_such_file_or_gives_no_parts_of_files_says_so",),
    *("test_a_log_is_scored_against_the_truth_of_its_queries",),
    *("test_an_audit_reads_production_queries_from_a_log", "test_an_index_to_build_is_tuned_by_a_log"),
}


def mark(item):
    """Give a test the marks of what it needs."""
    engine = engine_of(item)
    if "browser" in item.fixturenames:
        item.add_marker(pytest.mark.browser)
    if engine in SERVER_ENGINES or (item.path.stem in SERVER_MODULES and engine not in QUICK_ENGINES):
        item.add_marker(pytest.mark.server)
    costly = engine is not None and engine not in QUICK_ENGINES
    if item.path.stem in SLOW or item.originalname in SLOW_TESTS or costly or compiled_by_numba(item):
        item.add_marker(pytest.mark.slow)


def mark_later_cases(items):
    """Mark as slow every case but the first, in the modules where one is enough."""
    seen = set()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if item.path.stem in FIRST_CASES and function in seen:
            item.add_marker(pytest.mark.slow)
        seen.add(function)


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
