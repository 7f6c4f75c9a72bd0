"""The pytest plugin in real sessions: verdicts, report, baseline, xdist, and suites that do not use it."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from recallatk.core.asserted import AskedQuery, RecallAssertion
from recallatk.core.judgments import GoalResult, Outcome
from recallatk.core.measured import Mean
from recallatk.reporting.assertions import assertions_to_html
from recallatk.testing import assert_recall, tiny_dataset

pytest_plugins = ["pytester"]

# A search that loses every n-th row: its recall is that of the rows that are left.
SEARCH = """
import os
import numpy as np
import pytest
import recallatk

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(400, 8)).astype("float32")
QUERIES = RANDOM.normal(size=(int(os.environ.get("ASKED", 150)), 8)).astype("float32")
DATASET = recallatk.open_dataset(VECTORS, QUERIES, metric="l2")
LOST = int(os.environ.get("LOST", 0))

def losing(every):
    kept = np.arange(len(VECTORS))
    kept = kept if every == 0 else kept[kept % every != 0]
    def search(queries, k):
        far = ((VECTORS[None, kept] - np.asarray(queries)[:, None]) ** 2).sum(axis=2)
        return kept[np.argsort(far, axis=1)[:, :k]].tolist()
    return search
"""
TESTS = """
@pytest.mark.recall(min=0.8)
def test_marked(recall):
    recall(losing(LOST), DATASET)

def test_without_min(recall):
    recall(losing(LOST), DATASET, at=5)
"""


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """Import what sessions in this process need: pytester unloads what they import, and NumPy loads once."""
    for name in (
        "testing.recall_fixture",
        "testing.plugin",
        "adapters.faiss_library",
        "analysis.side_comparison",
    ):
        importlib.import_module(f"recallatk.{name}")
    importlib.import_module("faiss")
    assertions_to_html([])
    with pytest.raises(AssertionError):
        assert_recall(lambda queries, k: [[0]] * len(queries), tiny_dataset(), min=0.9)


@pytest.fixture
def suite(pytester, monkeypatch):
    """A folder with tests of recall; returns a function that adds a module."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def write(tests=TESTS, name="test_search"):
        pytester.makepyfile(**{name: SEARCH + tests})

    write()
    return write


@pytest.fixture
def session(pytester, monkeypatch):
    """Run a session in this process."""

    def run(*arguments, **environment):
        for name in ("LOST", "ASKED"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    return run


def said(result):
    return result.stdout.str() + result.stderr.str()


def baseline(pytester):
    return json.loads((pytester.path / "recall-baseline.json").read_text())


def test_min_decides_without_a_baseline(suite, session):
    found = session()
    found.assert_outcomes(passed=1, failed=1)
    assert "test_without_min: nothing to compare with: no min" in said(found)
    assert "pytest --recall-accept" in said(found)
    found = session("-k", "marked", LOST=3)
    found.assert_outcomes(failed=1)
    assert "recall@10 >= 0.8: FAIL" in said(found)
    assert "Worst queries" in said(found)
    assert "<recall of test_search.py::test_marked>" in said(found)
    assert "recallatk tune" not in said(found), "no command can name an object of the test"


def test_an_accepted_session_is_what_later_ones_are_judged_by(suite, session, pytester):
    accepted = session("--recall-accept", LOST=20)
    accepted.assert_outcomes(passed=2)
    assert "recall-baseline.json: 2 recall assertions accepted. Commit this file." in said(accepted)
    assert list(baseline(pytester)["assertions"]) == [
        "test_search.py::test_marked",
        "test_search.py::test_without_min",
    ]
    before = (pytester.path / "recall-baseline.json").read_bytes()
    session(LOST=20).assert_outcomes(passed=2)
    session(LOST=0).assert_outcomes(passed=2)
    worse = session(LOST=9)
    worse.assert_outcomes(failed=2)
    text = said(worse)
    assert "recall@10 >= 0.8 and recall@10 >= baseline - 0.01: FAIL" in text
    assert "recall@10 >= 0.8: met" in text and "recall@10 >= baseline - 0.01: missed" in text
    assert "recall@5 >= baseline - 0.01: missed" in text
    assert re.search(r"Worst queries\nE +\d+  0\.\d+ \(baseline [\d.]+\)", text)
    assert (pytester.path / "recall-baseline.json").read_bytes() == before, "nothing ratchets by itself"


def test_a_margin_and_undecided_assertions_are_as_stated(suite, session):
    stated = """
@pytest.mark.recall(margin=0.2)
def test_wide(recall):
    recall(losing(LOST), DATASET)

@pytest.mark.recall(margin=0.2, undecided="pass")
class TestNarrow:
    @pytest.mark.recall(margin=0.011)
    def test_closest_mark_wins(self, recall):
        recall(losing(LOST), DATASET)

    def test_the_call_wins(self, recall):
        recall(losing(LOST), DATASET, margin=0.011, undecided="fail")
"""
    suite(stated)
    session("--recall-accept", LOST=20).assert_outcomes(passed=3)
    found = session(LOST=16)
    found.assert_outcomes(passed=2, failed=1)
    assert "UNDECIDED" in said(found)
    assert re.search(r"About [\d,]+ more quer", said(found))


def test_each_query_has_its_own_recall_in_the_baseline(suite, session, pytester):
    from recallatk.regression.session_baseline import SessionBaseline

    session("--recall-accept", "-k", "marked", LOST=20).assert_outcomes(passed=1)
    side = SessionBaseline(pytester.path / "recall-baseline.json", "file").side("test_search.py::test_marked")
    random = np.random.default_rng(0)
    vectors = random.normal(size=(400, 8)).astype("f4").astype("f8")
    queries = random.normal(size=(150, 8)).astype("f4").astype("f8")
    right = np.argsort(((vectors[None] - queries[:, None]) ** 2).sum(axis=2), axis=1)[:, :10]
    [build] = side.settings[0].builds
    assert build.values["recall@10"].tolist() == pytest.approx((right % 20 != 0).mean(axis=1).tolist())


def test_only_what_passed_is_accepted_and_the_rest_stays(suite, session, pytester):
    suite(
        TESTS
        + """
def test_fails_later(recall):
    recall(losing(LOST), DATASET, min=0.5)
    assert LOST == 0
"""
    )
    session("--recall-accept").assert_outcomes(passed=3)
    first = baseline(pytester)["assertions"]
    found = session("--recall-accept", LOST=5)
    found.assert_outcomes(passed=1, failed=2)
    assert "1 recall assertion accepted" in said(found)
    assert "not accepted, because they failed: 2" in said(found)
    second = baseline(pytester)["assertions"]
    changed = {name for name in first if first[name] != second[name]}
    assert changed == {"test_search.py::test_without_min"}
    kept = second["test_search.py::test_without_min"]["first"]
    assert kept["settings"] == first["test_search.py::test_without_min"]["settings"]


def test_several_assertions_of_a_test_have_names_of_their_own(suite, session, pytester):
    suite(
        """
def test_several(recall):
    for _ in range(2):
        recall(losing(0), DATASET)
    for _ in range(2):
        recall(losing(0), DATASET, name="low")
"""
    )
    session("--recall-accept").assert_outcomes(passed=1)
    names = list(baseline(pytester)["assertions"])
    assert [each.removeprefix("test_search.py::test_several") for each in names] == [
        *("", " #2", " #low", " #low #2")
    ]
    session().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda text: "<<<<<<< ours\n" + text, "git conflict markers"),
        (lambda text: text[: len(text) // 2], "a damaged baseline"),
        (lambda text: text.replace('"queries": 150', '"queries": 151'), "its checksum differs"),
        (lambda text: text.replace('"format_version": 1', '"format_version": 2', 1), "format version 2"),
        (lambda text: text.replace('test_marked": {', 'test_other": {', 1), "that of another assertion"),
        (lambda text: '{"format": "recall-assertions", "format_version": 1}', "no assertions"),
        (lambda text: "[]", "no baseline of recall assertions"),
    ],
)
def test_a_damaged_baseline_is_refused_and_not_replaced(suite, session, pytester, damage, problem):
    session("--recall-accept", "-k", "marked").assert_outcomes(passed=1)
    path = pytester.path / "recall-baseline.json"
    path.write_text(damage(path.read_text()))
    before = path.read_bytes()
    found = session("-k", "marked")
    found.assert_outcomes(failed=1)
    assert problem in said(found)
    refused = session("--recall-accept")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert problem in said(refused)
    assert path.read_bytes() == before


def test_other_data_and_another_k_are_refused_by_name(suite, session, pytester):
    session("--recall-accept").assert_outcomes(passed=2)
    found = session("-k", "marked", ASKED=140)
    found.assert_outcomes(failed=1)
    assert "accepted for other data: the queries" in said(found)
    assert "pytest --recall-accept 'test_search.py::test_marked'" in said(found)
    suite(TESTS.replace("at=5", "at=6"))
    found = session("-k", "without_min")
    found.assert_outcomes(failed=1)
    assert "has recall@5 and not recall@6" in said(found)


def test_the_baseline_of_a_gate_is_left_alone(suite, session, pytester):
    path = pytester.path / "recall-baseline.json"
    path.write_text('{"format": "recall-baseline", "format_version": 1}')
    session("-k", "marked").assert_outcomes(passed=1)
    found = session("-k", "without_min")
    found.assert_outcomes(failed=1)
    assert "recall_baseline = tests/recall-baseline.json" in said(found)
    assert session("--recall-accept").ret == pytest.ExitCode.USAGE_ERROR
    pytester.makeini("[pytest]\nrecall_baseline = tests/of recall.json\n")
    session("--recall-accept").assert_outcomes(passed=2)
    assert (pytester.path / "tests" / "of recall.json").exists()
    assert path.read_text() == '{"format": "recall-baseline", "format_version": 1}'


def test_wrong_calls_and_marks_say_what_is_accepted(suite, session):
    suite(
        """
@pytest.mark.recall(minimum=0.9)
def test_unknown(recall): ...

@pytest.mark.recall(0.9)
def test_position(recall): ...

def test_margin(recall):
    recall(losing(0), DATASET, min=0.5, margin=2)

def test_dataset(recall):
    recall(losing(0), (VECTORS, QUERIES), min=0.5)

def test_word(recall):
    recall(losing(0), DATASET, min=0.5, undecided="maybe")
"""
    )
    found = session()
    found.assert_outcomes(errors=2, failed=3)
    for text in (
        "'minimum'",
        "options need names, such as min=0.95",
        "margin = 2. Accepted: a number from 0, below 1",
        "a tuple is no dataset. Accepted: recallatk.open_dataset",
        "undecided = 'maybe'. Accepted: 'fail' and 'pass'",
    ):
        assert text in said(found), text


def test_workers_report_through_the_controller(suite, pytester, monkeypatch):
    monkeypatch.setenv("LOST", "20")
    options = ("-p", "no:cacheprovider", "-n", "1", "--dist", "loadgroup", "--recall-accept")
    suite(TESTS.replace("def test_without_min", '@pytest.mark.xdist_group("g")\ndef test_without_min'))
    found = pytester.runpytest_subprocess(*options, "--recall-report", "out of it.html")
    found.assert_outcomes(passed=2)
    assert sorted(baseline(pytester)["assertions"]) == [
        "test_search.py::test_marked",
        "test_search.py::test_without_min",
    ]
    page = (pytester.path / "out of it.html").read_text()
    assert "All of 2 recall assertions passed." in page
    assert "test_search.py::test_without_min" in page


def test_the_report_shows_every_assertion_and_its_failures(suite, session, pytester):
    suite(
        TESTS.replace("def test_marked(recall):", "def test_marked(recall):\n    recall(losing(0), DATASET)")
    )
    session("--recall-accept", "-k", "without_min", LOST=20)
    found = session("--recall-report=page.html", LOST=3)
    assert "page.html: 3 recall assertions" in said(found)
    page = (pytester.path / "page.html").read_text()
    assert "2 of 3 recall assertions failed." in page
    for text in (
        "test_marked #2",
        "Queries that lost most",
        "Worst queries",
        "recall@5 &gt;= baseline - 0.01",
    ):
        assert text in page
    found = session("--recall-report=page.html", "-k", "nothing")
    assert "No test of this session asserted recall." in (pytester.path / "page.html").read_text()
    pytester.mkdir("folder")
    refused = session("--recall-report=folder")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "is a folder" in said(refused)


def test_the_page_loads_nothing_and_escapes_names():
    odd = "test_a[<script>alert(1)</script>]"
    goal = GoalResult("recall@10 >= 0.9", Outcome.MISSED, 0.5, 0.4, 0.6)
    failed = RecallAssertion(
        odd, False, "FAIL", "search", "ef=1", 10, Mean(0.5, 0.5, 8, 0.4, 0.6), 9, (goal,), None,
        (AskedQuery("<b>", 0.0),), ("<i>",),
    )  # fmt: skip
    broken = RecallAssertion("test_b", False, "ERROR", advice=("a tuple is no dataset",))
    assert RecallAssertion.from_dict(json.loads(json.dumps(failed.to_dict()))) == failed
    page = assertions_to_html([failed, broken])
    body = page[page.index("<body") :]
    assert "<script>alert" not in page and "<b>" not in body and "<i>" not in body
    assert "default-src 'none'" in page
    assert "8 of 9" in body and "a tuple is no dataset" in body


def test_an_interrupted_session_accepts_nothing(suite, session, pytester):
    suite(TESTS + "\ndef test_stop():\n    pytest.exit('enough')\n")
    found = session("--recall-accept")
    assert "unchanged, because the session was interrupted" in said(found)
    assert not (pytester.path / "recall-baseline.json").exists()


FOREIGN = """
import sys
import pytest

@pytest.fixture
def recall():
    return 0.5

@pytest.mark.recall(1, of="another tool")
def test_their_own_fixture_and_mark(recall):
    assert recall == 0.5

@pytest.mark.parametrize("recall", [1])
def test_their_own_parameter(recall):
    assert recall == 1

def test_nothing_is_imported():
    ours = sorted(name for name in sys.modules if name.partition(".")[0] == "recallatk")
    heavy = [name for name in ("numpy", "pyarrow", "pydantic", "rich", "typer") if name in sys.modules]
    assert heavy == []
    allowed = {"", ".deprecation", ".display", ".testing", ".testing.plugin", ".version"}
    assert {name.removeprefix("recallatk") for name in ours} <= allowed, ours
"""


def test_a_suite_that_does_not_use_it_pays_and_notices_nothing(pytester, monkeypatch):
    pytester.makepyfile(FOREIGN)
    # Other plugins that are installed may import what they like.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    strict = ("-W", "error", "--strict-markers", "--strict-config")
    found = pytester.runpytest_subprocess("-p", "recallatk.testing.plugin", *strict)
    found.assert_outcomes(passed=3)
    found.stdout.no_fnmatch_line("*-- recall --*")


def test_it_can_be_left_out(pytester):
    pytester.makepyfile("def test_search(recall): ...")
    found = pytester.runpytest_subprocess("-p", "no:recallatk")
    found.assert_outcomes(errors=1)
    assert "fixture 'recall' not found" in said(found)
    refused = pytester.runpytest_subprocess("-p", "no:recallatk", "--recall-accept")
    assert "unrecognized arguments: --recall-accept" in said(refused)


def test_an_option_that_another_plugin_has_stays_that_plugins(pytester):
    pytester.makepyfile(
        another="""
def pytest_addoption(parser):
    parser.addoption("--recall-report", dest="theirs", default="x")
"""
    )
    pytester.makepyfile("def test_theirs(request): assert request.config.option.theirs == 'y.html'")
    pytester.syspathinsert()
    found = pytester.runpytest_subprocess("-p", "another", "--recall-report", "y.html")
    found.assert_outcomes(passed=1)
    assert not (pytester.path / "y.html").exists()


def test_the_plugin_is_an_entry_point():
    from importlib.metadata import entry_points

    [ours] = [each for each in entry_points(group="pytest11") if each.name == "recallatk"]
    assert ours.value == "recallatk.testing.plugin"


def test_the_example_of_the_docs_passes(session, pytester):
    page = (Path(__file__).parent.parent / "docs" / "pytest.md").read_text()
    block = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(1)
    (pytester.path / "test_example.py").write_text(block)
    session("--recall-accept").assert_outcomes(passed=2)
    session("--recall-report=recall.html").assert_outcomes(passed=2)
    assert "All of 2 recall assertions passed." in (pytester.path / "recall.html").read_text()
