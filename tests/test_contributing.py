"""The recipes of CONTRIBUTING.md, followed to the letter on a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
STEP = re.compile(
    r"(?:The module `(?P<module>\S+)`"
    r"|Import it in `(?P<imported>\S+)`"
    r"|Add to `(?P<name>[^`]+)` in `(?P<into>\S+)`):\n\n```\w+\n(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
BENCH = """
[data]
corpus = "corpus.npy"
queries = "queries.npy"
metric = "l2"
[measure]
at = [5]
rounds = 1
[[engine]]
name = "backwards"
search = { percent = [50, 100] }
"""


def recipe(title):
    [section] = re.findall(rf"^### {title}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    return list(STEP.finditer(section))


class Checkout:
    """A copy of what a contributor edits, and commands that run in it."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)

    def follow(self, title):
        steps = recipe(title)
        assert steps, title
        for step in steps:
            if step["module"]:
                assert not (self.root / step["module"]).exists()
                (self.root / step["module"]).write_text(step["code"])
            elif step["imported"]:
                self.insert(step["imported"], r"from __future__ import annotations\n", step["code"])
            else:
                self.insert(step["into"], rf"^{re.escape(step['name'])}(?:[^\n]*[{{(\[])?\n", step["code"])

    def insert(self, file, opening, code):
        path = self.root / file
        found = re.search(opening, path.read_text(), re.MULTILINE)
        assert found, opening
        path.write_text(f"{found.string[: found.end()]}{code}{found.string[found.end() :]}")

    def install(self):
        """Write down the entry points, as pip would."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text())["project"]
        version = metadata.version("recallatk")
        described = self.root / "src" / f"recallatk-{version}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: recallatk\nVersion: {version}\n")
        declared = project["entry-points"]["recallatk.engines"]
        lines = "".join(f"{name} = {path}\n" for name, path in declared.items())
        (described / "entry_points.txt").write_text(f"[recallatk.engines]\n{lines}")

    def run(self, *arguments):
        own = {"PYTHONPATH": str(self.root / "src"), "XDG_CACHE_HOME": str(self.root / "cache")}
        ran = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.root,
            env=os.environ | own,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def files(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "corpus.npy", random.normal(size=(200, 4)).astype("f4"))
    np.save(tmp_path / "queries.npy", random.normal(size=(20, 4)).astype("f4"))
    return "corpus.npy", "queries.npy"


def test_an_engine(checkout, files):
    checkout.follow("Add an engine")
    checkout.install()
    (checkout.root / "bench.toml").write_text(BENCH)
    assert "backwards" in checkout.run("-m", "recallatk", "engines")
    shown = checkout.run("-m", "recallatk", "run", "bench.toml", "--out", "out", "--json")
    assert '"percent": 100' in shown


def test_the_engine_passes_the_contract(checkout):
    checkout.follow("Add an engine")
    checkout.install()
    (checkout.root / "test_backwards.py").write_text(
        "from recallatk.testing import EngineContract\n\n\n"
        'class TestBackwards(EngineContract):\n    engine = "backwards"\n'
    )
    assert "passed" in checkout.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_backwards.py")


def test_a_file_format(checkout):
    checkout.follow("Add a file format")
    (checkout.root / "corpus.vectors").write_text("1 0\n0 1\n")
    assert "plain-text" in checkout.run("-m", "recallatk", "inspect", "corpus.vectors")


def test_a_rule(checkout, files):
    checkout.follow("Add a rule of the linter")
    (checkout.root / "bench.toml").write_text(BENCH.replace("backwards", "exact").replace("search", "#"))
    assert "R42" in checkout.run("-m", "recallatk", "audit", "bench.toml")


def test_a_measure(checkout):
    checkout.follow("Add a measure")
    code = "recallatk.score(answers=[[1, 9]], truth=[[1, 2]], at=[2], measures=['success@2'])['success@2']"
    assert checkout.run("-c", f"import recallatk; print({code})").strip() == "1.0"


def test_a_command(checkout, files):
    checkout.follow("Add a command")
    assert checkout.run("-m", "recallatk", "count", files[0]).strip() == "200"
