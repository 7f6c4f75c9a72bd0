"""Extras: the first commands need none, and a missing one prints the line that installs it."""

import importlib.util
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from recallatk import save_run
from recallatk.cli import app
from recallatk.errors import MissingExtraError
from recallatk.reporting.charts.theme import write_images

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import scored_run

ROOT = Path(__file__).parents[2]

# Refuses whatever the core dependencies do not bring, in this process and in those that it starts.
BLOCKED = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture(scope="module")
def weights():
    spec = importlib.util.spec_from_file_location("install_weight", ROOT / "scripts" / "install_weight.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def core_only(weights, tmp_path_factory):
    """Runs the command in an environment that has the core dependencies and nothing else."""
    core = weights.closure("recallatk")
    tops = metadata.packages_distributions()
    names = {top for top, by in tops.items() if not any(weights.name_of(each) in core for each in by)}
    assert {"h5py", "vl_convert", "usearch", "pandas", "hnswlib"} <= names
    folder = tmp_path_factory.mktemp("core")
    (folder / "sitecustomize.py").write_text(BLOCKED.format(names=names))

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "recallatk", *map(str, arguments)],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True,
        )  # fmt: skip

    run.folder = folder
    return run


def test_the_first_commands_need_no_extra(core_only):
    random = np.random.default_rng(0)
    np.save(core_only.folder / "corpus.npy", random.normal(size=(3_000, 8)).astype("f4"))
    np.save(core_only.folder / "queries.npy", random.normal(size=(300, 8)).astype("f4"))
    np.save(core_only.folder / "answers.npy", random.integers(3_000, size=(300, 10)))
    data = ("corpus.npy", "queries.npy", "--metric", "l2")
    for line in (
        ("engines",),
        ("inspect", "corpus.npy"),
        ("truth", *data, "--out", "truth.parquet"),
        ("run", *data, "--engine", "faiss-hnsw", "--search", "ef=20", "--out", "run"),
        ("score", "truth.parquet", "answers.npy"),
        ("audit", "run"),
        ("report", "run"),
        ("compare", "run", "run", "--html", "compared.html"),
        ("tune", *data, "--target", "recall@10 >= 0.5", "--engine", "faiss-ivf-flat", "--time", "20s"),
    ):
        done = core_only(*line)
        assert done.returncode == 0, (line, done.stderr)
    assert "vega" in (core_only.folder / "run" / "report.html").read_text()
    for line, extra in (
        (("report", "run", "--png", "charts"), "images"),
        (("convert", "corpus.npy", "data.hdf5", "--queries", "queries.npy", "--metric", "l2"), "hdf5"),
    ):
        done = core_only(*line)
        assert done.returncode == 2, (line, done.stdout)
        assert f"pip install 'recallatk[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.fixture
def without(monkeypatch):
    return lambda *names: [monkeypatch.setitem(sys.modules, name, None) for name in names]


def test_hdf5_files_name_their_extra_before_anything_is_computed(without, tmp_path):
    without("h5py")
    run, dataset, _ = scored_run()
    save_run(run, dataset, tmp_path / "run")
    (tmp_path / "some.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    for words in (
        ("inspect", "some.hdf5"),
        ("score", "some.hdf5", "some.hdf5"),
        ("export", "run", "--to", "ann-benchmarks-hdf5", "--out", "exported"),
    ):
        ran = CliRunner().invoke(
            app, [str(tmp_path / each) if (tmp_path / each).exists() else each for each in words]
        )
        assert ran.exit_code == 2, ran.output
        assert "pip install 'recallatk[hdf5]'" in ran.output
    assert not Path("exported").exists()


def test_pictures_name_their_extra_and_leave_no_folder(without, tmp_path):
    without("vl_convert")
    with pytest.raises(MissingExtraError, match=r"pip install 'recallatk\[images\]'"):
        write_images({}, tmp_path / "charts", "png")
    assert not (tmp_path / "charts").exists()


def test_every_extra_is_in_the_guide_to_installation_and_in_all():
    extras = set(metadata.metadata("recallatk").get_all("Provides-Extra"))
    page = (ROOT / "docs" / "install.md").read_text()
    assert [each for each in extras - {"all", "bench", "dev"} if f"`{each}`" not in page] == []
    project = (ROOT / "pyproject.toml").read_text()
    [everything] = [line for line in project.splitlines() if line.startswith("all = ")]
    assert [each for each in extras - {"all", "bench", "dev", "jax", "ray"} if each not in everything] == []


def test_the_chart_library_in_reports_is_the_one_that_its_script_bundles():
    script = ROOT / "scripts" / "bundle_charts.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
