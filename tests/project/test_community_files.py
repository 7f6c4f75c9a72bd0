"""What GitHub and other services read: templates of issues, the citation, hooks before a commit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import recallatk

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_an_issue_form_is_one_that_github_takes(name):
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(form)
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    for each in fields:
        assert each["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert each["attributes"]["label"]


def test_the_commands_that_templates_name_exist():
    from recallatk.cli.overview import COMMANDS

    for path in (ROOT / ".github").rglob("*"):
        if path.is_file():
            for named in re.findall(r"`recallatk ([a-z]+)", path.read_text()):
                assert named in COMMANDS


def test_the_citation_names_this_version():
    held = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= set(held)
    assert held["version"] == recallatk.__version__
    assert all(set(each) <= {"name", "family-names", "given-names"} for each in held["authors"])


def test_hooks_before_a_commit_run_what_make_check_runs():
    held = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    checked = (ROOT / "Makefile").read_text()
    hooks = [each for repository in held["repos"] for each in repository["hooks"]]
    assert {each["id"] for each in hooks} == {"ruff", "ruff-format", "layers", "docs"}
    for each in hooks:
        program, *words = each["entry"].split()
        found = Path(sys.executable).parent / Path(program).name
        assert found.exists()
        assert " ".join(words[:3]).removesuffix(" --force-exclude") in checked or found.name in checked
        if each.get("pass_filenames", True):
            ran = subprocess.run([found, *words, "scripts/release_notes.py"], cwd=ROOT, capture_output=True)
            assert ran.returncode == 0, ran.stdout
