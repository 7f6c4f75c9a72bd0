"""The contract catches broken engines, each by the test that is meant for its fault."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from broken_engines import CAUGHT, Little, OnlyCosine

from recallatk.testing import EngineContract

SUITE = """
from broken_engines import CAUGHT, Little, OnlyCosine
from recallatk.testing import EngineContract, clients

clients.PATIENCE_SECONDS = 3.0
for kind in (Little, OnlyCosine, *CAUGHT):
    globals()[f"Test{kind.__name__}"] = type(f"Test{kind.__name__}", (EngineContract,), {"engine": kind})
"""

# A broken engine takes the test that is meant for it alone: what else it fails is nobody's question.
SELECTION = """
from broken_engines import CAUGHT

def pytest_collection_modifyitems(items):
    items[:] = [each for each in items if CAUGHT.get(each.cls.engine, each.name) == each.name]
"""

# They ask what all engines inherit, so that an engine cannot fail them.
OF_THE_BASE = {"test_unknown_parameters_are_refused", "test_metrics_that_it_does_not_have_are_refused"}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Which tests of the contract each engine failed of those that it took, by its name."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "conftest.py").write_text(SELECTION)
    (folder / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "--junitxml=outcomes.xml"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "test_suite.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    found = {}
    for case in ET.parse(folder / "outcomes.xml").iter("testcase"):
        kind = case.get("classname").rpartition(".Test")[2]
        outcomes = found.setdefault(kind, set())
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes.add(case.get("name"))
    return found


def test_a_correct_engine_passes_everything(failed):
    assert failed[Little.__name__] == set()


def test_a_correct_engine_of_another_metric_passes_everything(failed):
    assert failed[OnlyCosine.__name__] == set()


@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_a_broken_engine_is_caught_by_the_test_that_is_meant_for_it(failed, kind):
    assert CAUGHT[kind] in failed[kind.__name__]


def test_every_test_of_the_contract_catches_something():
    tests = {name for name in dir(EngineContract) if name.startswith("test_")}
    assert set(CAUGHT.values()) == tests - OF_THE_BASE
