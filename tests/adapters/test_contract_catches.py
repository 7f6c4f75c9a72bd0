"""The contract catches broken engines, each by the test that is meant for its fault."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from broken_engines import CAUGHT, Little, Modest, OnlyCosine

from recallatk.testing import EngineContract

SUITE = """
from broken_engines import CAUGHT, Little, Modest, OnlyCosine
from recallatk.testing import EngineContract, clients

clients.PATIENCE_SECONDS = 3.0
for kind in (Little, Modest, OnlyCosine, *CAUGHT):
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
def outcomes(tmp_path_factory):
    """Of those tests of the contract that each engine took, by its name, what did not just pass."""
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
        outcomes = found.setdefault(kind, {"failed": set(), "skipped": {}})
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes["failed"].add(case.get("name"))
        if case.find("skipped") is not None:
            outcomes["skipped"][case.get("name")] = case.find("skipped").get("message")
    return found


def test_a_correct_engine_passes_everything(outcomes):
    assert outcomes[Little.__name__] == {"failed": set(), "skipped": {}}


def test_a_correct_engine_of_another_metric_passes_everything(outcomes):
    assert outcomes[OnlyCosine.__name__] == {"failed": set(), "skipped": {}}


def test_what_the_contract_cannot_ask_an_engine_is_skipped_with_a_reason(outcomes):
    """A test that passes without asking would be taken for a proof."""
    assert not outcomes[Modest.__name__]["failed"]
    reasons = {name: said.partition(":")[0] for name, said in outcomes[Modest.__name__]["skipped"].items()}
    assert reasons == {
        "test_threads_change_no_answer": "abilities.threads is False",
        "test_a_forked_copy_searches_on": "abilities.forks is False",
        "test_a_client_searches_while_rows_come_and_go": "abilities.reads_during_writes is False",
        "test_more_effort_does_not_cost_recall": "no search knob is marked as effort",
    }


@pytest.mark.parametrize("kind", CAUGHT, ids=lambda kind: kind.__name__)
def test_a_broken_engine_is_caught_by_the_test_that_is_meant_for_it(outcomes, kind):
    assert CAUGHT[kind] in outcomes[kind.__name__]["failed"]


def test_every_test_of_the_contract_catches_something():
    tests = {name for name in dir(EngineContract) if name.startswith("test_")}
    assert set(CAUGHT.values()) == tests - OF_THE_BASE
