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


def test_every_public_name_can_be_imported():
    for name in recallatk.__all__:
        assert getattr(recallatk, name) is not None
    assert dir(recallatk) == sorted(recallatk.__all__)


def test_type_checkers_are_told_the_same_names():
    stub = ast.parse(Path(recallatk.__file__).with_suffix(".pyi").read_text())
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(recallatk.__all__)


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
