"""ARCHITECTURE.md tells the truth: rooms, layers, homes of ideas and walks are those of the code."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from recallatk.cli import COMMANDS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "recallatk"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
# Runs a command and prints the modules whose functions it enters, in order.
WALK = """
import sys, threading
from recallatk import cli

root = {root!r}
found = {{}}

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & 2 and code.co_filename.startswith(root):
        found.setdefault(code.co_filename[len(root):])

sys.argv = ["recallatk", *sys.argv[1:]]
sys.setprofile(note)
threading.setprofile(note)
try:
    cli.app()
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
    print("\\n".join(found), file=sys.stderr)
"""
BENCH = """
[data]
corpus = "corpus.npy"
queries = "queries.npy"
metric = "l2"
[measure]
at = [1, 10]
rounds = 1
[[engine]]
name = "faiss-hnsw"
build = { M = 8 }
search = { ef = [10, 20] }
"""
IMPORTED_BY_NAME = {
    "__init__.py": "public names, on first use",
    "adapters/callable.py": "the user's function",
    "adapters/registry.py": "engines, by their entry point",
    "adapters/target_schemes.py": "collections, by the scheme of their URL",
    "cli/application.py": "commands, by their name",
    "bench/__init__.py": "public names, on first use",
    "datasets/registry.py": "formats, by their name",
    "linter/rules/__init__.py": "rules, by their module",
    "reporting/__init__.py": "public names, on first use",
    "reporting/exports/__init__.py": "exports, by their format",
    "testing/__init__.py": "public names, on first use",
}


def block(title):
    """The first code block below a heading."""
    return re.search(rf"^##? {title}\n.*?^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_rooms_are_those_of_the_tree():
    listed = re.findall(r"^  (\w+(?:\.py|/)) ", block("Architecture"), re.MULTILINE)
    there = [f"{path.name}/" for path in PACKAGE.iterdir() if any(path.glob("*.py"))]
    there += [path.name for path in PACKAGE.glob("*.py")]
    assert sorted(listed) == sorted(there)


def test_no_room_bears_the_name_of_a_command():
    assert not set(COMMANDS) & {path.stem for path in PACKAGE.iterdir()}


def test_the_layers_are_those_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers, testing = settings["tool"]["importlinter"]["contracts"]
    assert block("Layers").splitlines() == layers["layers"]
    listed = {name for line in layers["layers"] for name in line.split(" | ")} - {"testing"}
    assert {f"recallatk.{name}" for name in listed} == set(testing["source_modules"])


def test_modules_are_imported_by_name_only_where_the_page_says_so():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
                found.add(str(path.relative_to(PACKAGE)))
    assert found == set(IMPORTED_BY_NAME)


def test_every_idea_has_a_home_that_exists():
    table = PAGE.partition("## Where is it decided?")[2].partition("##")[0]
    homes = re.findall(r"`([\w/]+\.py)`", table)
    assert len(homes) > 15
    assert [home for home in homes if not (PACKAGE / home).is_file()] == []


def walk(command):
    text = re.search(rf"^`recallatk {command}`:\n((?:\d+\. .*\n)+)", PAGE, re.MULTILINE)[1]
    lines = re.findall(r"^(\d+)\. (\(?)`([\w/]+\.py)`", text, re.MULTILINE)
    assert [int(number) for number, _, _ in lines] == list(range(1, len(lines) + 1))
    assert [module for _, _, module in lines if not (PACKAGE / module).is_file()] == []
    return [module for _, inside, module in lines if not inside]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    random = np.random.default_rng(0)
    np.save(folder / "corpus.npy", random.normal(size=(2000, 16)).astype("f4"))
    np.save(folder / "queries.npy", random.normal(size=(300, 16)).astype("f4"))
    np.save(folder / "answers.npy", random.integers(0, 2000, size=(300, 10)))
    (folder / "bench.toml").write_text(BENCH)
    return folder


# In this order: score and run find the truth that the first computed.
COMMAND_LINES = {
    "truth": "truth corpus.npy queries.npy --metric l2 --out truth.parquet",
    "score": "score truth.parquet answers.npy",
    "run": "run bench.toml --out run",
    "tune": "tune corpus.npy queries.npy --metric l2 --engine faiss-hnsw --target recall@10>=0.9 --out tuned",
}


@pytest.fixture(scope="module")
def entered(folder):
    """The modules that each command enters, in order."""
    own = {"XDG_CACHE_HOME": str(folder / "cache")}
    found = {}
    for command, line in COMMAND_LINES.items():
        ran = subprocess.run(
            [sys.executable, "-c", WALK.format(root=f"{PACKAGE}/"), *line.split()],
            cwd=folder,
            env=os.environ | own,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        found[command] = ran.stderr.split()
    return found


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_a_walk_goes_through_its_modules_in_order(command, entered):
    there = {module: place for place, module in enumerate(entered[command])}
    listed = walk(command)
    assert [module for module in listed if module not in there] == []
    assert listed == sorted(listed, key=there.get)
