"""pytest plugin: the fixture `recall`, its marker, and a report and a baseline of all recall assertions.

pytest imports this module in every session, so it imports nothing but pytest until a test takes the fixture.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from recallatk.testing.recall_fixture import RecallFixture

_FIXTURE: pytest.StashKey[RecallFixture] = pytest.StashKey()
# How pytest and argparse refuse an option that there is already.
_TAKEN = (ValueError, argparse.ArgumentError)
_BASELINE = "recall-baseline.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; one that another plugin has stays that plugin's."""
    group = parser.getgroup("recallatk", "recall of vector search")
    with contextlib.suppress(*_TAKEN):
        group.addoption(
            "--recall-report",
            dest="recallatk_report",
            metavar="FILE",
            help="Write an HTML report of all recall assertions to this file.",
        )
    with contextlib.suppress(*_TAKEN):
        group.addoption(
            "--recall-accept",
            dest="recallatk_accept",
            action="store_true",
            help="Write the measured recalls as the baseline of later sessions.",
        )
    with contextlib.suppress(*_TAKEN):
        parser.addini("recall_baseline", "Baseline of recall assertions.", default=_BASELINE)


def pytest_configure(config: pytest.Config) -> None:
    """Explain the marker; with options, check first that their files can be written."""
    config.addinivalue_line(
        "markers",
        "recall(at=10, min=None, margin=0.01, parameters=None, undecided='fail', seed=0): what the fixture "
        "recall asserts in this test.",
    )
    report, accept = config.getoption("recallatk_report", None), _accepting(config)
    # Workers of xdist only measure; the reports of their tests carry the rest.
    if (report or accept) and not hasattr(config, "workerinput") and not config.getoption("collectonly"):
        path = config.invocation_params.dir / report if report else None
        config.pluginmanager.register(_SessionRecalls(config, path), "recallatk session")


@pytest.fixture
def recall(request: pytest.FixtureRequest) -> RecallFixture:
    """Assert the recall of a search or an index.

    Example: recall(index, dataset, at=10, min=0.95)
    """
    from recallatk.errors import UsageError
    from recallatk.testing.recall_fixture import RecallFixture

    marked: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("recall"))):
        if mark.args:
            raise UsageError(f"@pytest.mark.recall{mark.args}: options need names, such as min=0.95")
        marked.update(mark.kwargs)
    path, shown = _baseline(request.config)
    made = RecallFixture(_test_id(request.node), marked, path, shown, _accepting(request.config))
    request.node.stash[_FIXTURE] = made
    return made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach recall assertions to the report of their test, which xdist sends to the controller."""
    outcome: Any = yield
    made = item.stash.get(_FIXTURE, None)
    if made is not None and made.records:
        outcome.get_result().recallatk = made.records[:]
        made.records.clear()


def _accepting(config: pytest.Config) -> bool:
    return bool(config.getoption("recallatk_accept", False))


def _baseline(config: pytest.Config) -> tuple[Path, str]:
    """The file of the baseline, and its name in messages."""
    shown = str(config.getini("recall_baseline"))
    return config.rootpath / shown, shown


def _test_id(item: pytest.Item) -> str:
    """The id of a test, without the group that xdist appends to it."""
    group = item.get_closest_marker("xdist_group")
    name = str(group.args[0] if group.args else group.kwargs.get("name")) if group else None
    return item.nodeid if name is None else item.nodeid.removesuffix(f"@{name}")


class _SessionRecalls:
    """All recall assertions of a session, and what is written at its end."""

    def __init__(self, config: pytest.Config, report: Path | None) -> None:
        from recallatk.errors import RecallError
        from recallatk.files import require_writable
        from recallatk.regression.session_baseline import SessionBaseline

        self.config, self.report, self.accepting = config, report, _accepting(config)
        self.found: dict[str, dict[str, Any]] = {}
        self.lines: list[str] = []
        try:
            if report is not None:
                require_writable(report)
            if self.accepting:
                SessionBaseline(*_baseline(config))
        except RecallError as problem:
            raise pytest.UsageError(str(problem)) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what the report of a test carries; a repeated test counts as it ended."""
        for each in getattr(report, "recallatk", ()):
            kept = each["sealed"] if report.passed else None
            self.found[each["assertion"]["name"]] = {**each, "sealed": kept}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, then the baseline."""
        from recallatk.errors import RecallError

        try:
            if self.report is not None:
                self._write_report(self.report)
            if self.accepting:
                self._accept(interrupted=session.exitstatus == pytest.ExitCode.INTERRUPTED)
        except RecallError as problem:
            self.lines.append(str(problem))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the files that were written."""
        if self.lines:
            terminalreporter.section("recall", sep="-")
        for line in self.lines:
            terminalreporter.write_line(line)

    def _write_report(self, path: Path) -> None:
        from recallatk.core.asserted import RecallAssertion
        from recallatk.files import write_text
        from recallatk.reporting.assertions import assertions_to_html

        found = [RecallAssertion.from_dict(each["assertion"]) for each in self.found.values()]
        write_text(path, assertions_to_html(found))
        self.lines.append(f"{path}: {len(found):,} recall assertions")

    def _accept(self, *, interrupted: bool) -> None:
        from recallatk.regression.session_baseline import SessionBaseline
        from recallatk.units import counted

        path, shown = _baseline(self.config)
        sealed = {name: each["sealed"] for name, each in self.found.items() if each["sealed"] is not None}
        failed = len(self.found) - len(sealed)
        if interrupted:
            self.lines.append(f"{shown}: unchanged, because the session was interrupted")
        elif not sealed:
            self.lines.append(f"{shown}: unchanged, because no recall assertion passed")
        else:
            SessionBaseline(path, shown).accept(sealed)
            count = counted(len(sealed), "recall assertion", "recall assertions")
            self.lines.append(f"{shown}: {count} accepted. Commit this file.")
        if failed and not interrupted:
            self.lines.append(f"not accepted, because they failed: {failed:,}")
