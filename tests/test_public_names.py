"""The public face: exact, typed and lazy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recallatk

HEAVY = ("numpy", "pyarrow", "faiss", "h5py", "scipy", "altair", "optuna", "psutil", "rich.console")

# Every build starts a worker, and pandas alone takes half a second.
NOT_FOR_WORKERS = ("altair", "faiss", "jinja2", "optuna", "pandas", "scipy.stats", "typer")


OLD = {
    "Build": "recallatk.core.Build",
    "Measurement": "recallatk.core.Measurement",
    "Vectors": "recallatk.core.Vectors",
    "is_at_least": "recallatk.analysis.is_at_least",
    "lower_bound": "recallatk.analysis.lower_bound",
    "obtain_truth": "recallatk.ground_truth",
    "read_truth": "recallatk.load_truth",
}
PUBLIC = [
    "Answers",
    "Assessment",
    "Churned",
    "Corpus",
    "Dataset",
    "Drifted",
    "Engine",
    "EngineContract",
    "Filter",
    "Finding",
    "Knob",
    "Limits",
    "Load",
    "Mean",
    "Metric",
    "Migrated",
    "Path",
    "Probed",
    "Quality",
    "QualityJudge",
    "QuerySet",
    "RecallError",
    "Run",
    "Score",
    "SequentialTest",
    "StagedAssessment",
    "Trend",
    "Trial",
    "Truth",
    "Tuned",
    "TunedEffort",
    "Verdict",
    "__version__",
    "accept_baseline",
    "accept_measured",
    "assess",
    "assess_stages",
    "assessment_to_dict",
    "assessment_to_text",
    "audit_run",
    "audit_settings",
    "churn",
    "compare",
    "compare_results",
    "convert",
    "drift",
    "explain",
    "export",
    "filter_from_json",
    "gate",
    "gate_results",
    "ground_truth",
    "history",
    "inspect",
    "list_runs",
    "load_run",
    "load_truth",
    "make_corpus",
    "make_queries",
    "measure",
    "migrate",
    "open_corpus",
    "open_dataset",
    "open_demo",
    "open_queries",
    "parse_filter",
    "parse_measure",
    "plan_truth",
    "probe",
    "publish",
    "queries_from_corpus",
    "queries_to_tell",
    "read_answers",
    "read_qrels",
    "read_settings",
    "remember",
    "run",
    "run_to_dict",
    "sample_corpus",
    "sample_queries",
    "save_run",
    "save_truth",
    "score",
    "split_queries",
    "stages_to_dict",
    "stages_to_text",
    "tap",
    "to_html",
    "to_markdown",
    "to_text",
    "tune",
    "tune_effort",
    "verify_truth",
    "watch",
    "workload",
]


def test_every_public_name_can_be_imported():
    for name in recallatk.__all__:
        assert getattr(recallatk, name) is not None
    assert dir(recallatk) == sorted(recallatk.__all__)


def test_the_list_is_the_one_we_mean():
    """Every name is a promise: add to this list, and to the docs, on purpose."""
    assert recallatk.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


def test_type_checkers_are_told_the_same_names():
    stub = ast.parse(Path(recallatk.__file__).with_suffix(".pyi").read_text())
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(recallatk.__all__) | set(OLD)


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_works_and_says_what_to_write(name):
    with pytest.warns(
        DeprecationWarning, match=rf"recallatk\.{name} is deprecated .*; use {OLD[name]}"
    ) as noted:
        assert getattr(recallatk, name) is not None
    assert noted[0].filename == __file__
    assert name not in recallatk.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'recal'"):
        recallatk.recal  # noqa: B018


@pytest.mark.parametrize("code", ["import recallatk", "import recallatk.cli"])
def test_importing_pays_for_nothing_heavy(code):
    check = f"{code}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_worker_imports_nothing_that_it_does_not_use():
    check = f"import recallatk.bench.worker, sys; print([m for m in {NOT_FOR_WORKERS!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_version_is_said_by_both_doors():
    for command in (["-m", "recallatk", "--version"],):
        ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == f"recallatk {recallatk.__version__}"
    script = Path(sys.executable).parent / "recallatk"
    ran = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"recallatk {recallatk.__version__}"
