"""`recallatk engines`: what there is, what is installed, and a plugin that cannot be imported."""

import json

import pytest
from typer.testing import CliRunner

from recallatk.adapters.registry import catalogue, describe, registered
from recallatk.cli import app
from recallatk.errors import UsageError


def run(*arguments):
    return CliRunner().invoke(app, ["engines", *arguments])


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    described = tmp_path / "some_plugin-2.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugin\nVersion: 2\n")
    (described / "entry_points.txt").write_text(
        "[recallatk.engines]\nsome-engine = some_plugin:SomeEngine\nexact = some_plugin:Other\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registered.cache_clear()
    yield tmp_path
    registered.cache_clear()


def test_the_table_names_every_engine_with_its_version_or_the_line_that_installs_it():
    shown = run()
    assert shown.exit_code == 0
    for each in catalogue():
        assert f"\n{each.name} " in shown.output
        if each.installed is None:
            assert f"{each.name} is not installed: {each.install}" in shown.output


def test_json_is_a_list_of_objects():
    found = json.loads(run("--json").output)
    assert [each["name"] for each in found] == list(registered())
    keys = {"name", "family", "installed", "install", "abilities", "knobs"}
    assert all(keys <= set(each) for each in found)
    graph = next(each for each in found if each["name"] == "faiss-hnsw")
    assert graph["installed"]
    assert {knob["name"] for knob in graph["knobs"]} == {"M", "ef_construction", "ef"}
    assert [knob["effort"] for knob in graph["knobs"]] == [False, True, True]


def test_one_engine_is_shown_in_full():
    shown = run("faiss-hnsw").output
    assert "ef = 64 (whole numbers from 1 to 10000, effort" in shown
    assert "cosine, ip, l2" in shown
    assert json.loads(run("faiss-hnsw", "--json").output)[0]["name"] == "faiss-hnsw"


def test_an_unknown_engine_is_refused_with_the_known_ones():
    shown = run("no-such-engine")
    assert shown.exit_code == 2
    assert "no engine 'no-such-engine'. Accepted: " in shown.output
    with pytest.raises(UsageError):
        describe("no-such-engine")


def test_a_plugin_that_cannot_be_imported_is_listed_with_the_reason(plugin):
    found = describe("some-engine")
    assert (found.package, found.installed) == ("some-plugin", None)
    assert "No module named 'some_plugin'" in found.about
    assert describe("exact").package == "recallatk", "ours win over others of the same name"


def test_a_plugin_is_an_engine_like_ours(plugin):
    (plugin / "some_plugin.py").write_text(
        "from recallatk.core import Knob, Metric\n"
        "from recallatk.adapters import Engine\n"
        "class SomeEngine(Engine):\n"
        "    '''Somebody's index.'''\n"
        "    name, family, metrics = 'some-engine', 'some', frozenset([Metric.L2])\n"
        "    search_knobs = (Knob('effort', 1, 1, 9, effort=True, help='how hard it tries'),)\n"
    )
    found = describe("some-engine")
    assert (found.installed, found.install) == ("2", "pip install some-plugin")
    assert found.about == "Somebody's index."
    assert found.metrics == ["l2"]
    assert "how hard it tries" in run("some-engine").output
