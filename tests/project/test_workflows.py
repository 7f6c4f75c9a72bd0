"""The workflows of GitHub: it can read them, and their steps do here what they should do there.

Not run: `make check` and `make test`, which run this; installations; and publishing but for its words.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from recallatk import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GH = '#!/bin/sh\nprintf "%s\\n" "$@" > "$ASKED"\n'
# Of the steps that install software of the system or from the package index.
INSTALLS = re.compile(r"^(apt-get update|python -m pip install) ")


def jobs():
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield path.stem, name, job


def commands():
    """Every step that runs something, once."""
    found = {}
    for workflow, job, held in jobs():
        for step in held["steps"]:
            if "run" in step:
                found.setdefault(step["run"].strip(), (f"{workflow}-{job}", step))
    return [pytest.param(step, id=f"{place}-{number}") for number, (place, step) in enumerate(found.values())]


@pytest.fixture
def github(tmp_path):
    """Runs a step with bash as GitHub does, in a checkout."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    for name in ("python", "python3"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (programs / name).chmod(0o755)
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    (checkout / "src" / "recallatk").mkdir(parents=True)
    for name in ("CHANGELOG.md", "CITATION.cff", "Makefile", "pyproject.toml", "src/recallatk/version.py"):
        shutil.copy(ROOT / name, checkout / name)

    def step(text, **environment):
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=checkout,
            env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    step.folder = checkout
    return step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_github_can_read_it_and_it_may_do_no_more_than_it_has_to(path):
    held = yaml.safe_load(path.read_text())
    # YAML 1.1 reads the key `on` as a boolean.
    assert held["name"] and held[True]
    assert held["permissions"] == {"contents": "read"}
    for name, job in held["jobs"].items():
        assert job["runs-on"] and job["steps"], name
        assert set(job.get("needs", "").split()) <= set(held["jobs"])
        wider = set(job.get("permissions", {})) - {"contents"}
        assert not wider or name == "publish"
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"[\w-]+/[\w.-]+@\S+", step.get("uses", "some/action@v1"))
            # Text of a pull request in a script would run as a part of it.
            assert "${{" not in step.get("run", "")


def test_every_supported_python_and_system_is_tested():
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert tests["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert tests["core"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    assert {"make check", "make test"} <= {step.get("run") for job in tests.values() for step in job["steps"]}


def test_check_has_the_site_and_the_package_that_other_workflows_make(github):
    planned = github("make -n check")
    assert planned.returncode == 0, planned.stderr
    for line in ("build_site.py", "twine check", "try_install.py", "generate_docs.py --check"):
        assert line in planned.stdout


@pytest.mark.parametrize("step", commands())
def test_a_step_does_what_it_says(step, github):
    text = step["run"].strip()
    if INSTALLS.match(text):
        pytest.skip("installs software from elsewhere")
    if text.startswith("make "):
        # The targets are run by `make check` and by this suite; here it counts that they exist.
        assert github(f"make -n {text.removeprefix('make ')}").returncode == 0
        return
    known = {
        "TAG": f"v{__version__}",
        "GITHUB_REPOSITORY": "some/repository",
        "ASKED": str(github.folder / "asked"),
    }
    if "gh release" in text:
        (github.folder / "build" / "dist").mkdir(parents=True)
        (github.folder / "build" / "dist" / "some.whl").touch()
    done = github(text, **known)
    assert done.returncode == 0, done.stderr
    if "gh release" in text:
        asked = (github.folder / "asked").read_text().splitlines()
        assert asked[:3] == ["release", "create", f"v{__version__}"]
        assert "build/dist/some.whl" in asked
    if "release_notes" in text:
        assert (github.folder / "release-notes.md").read_text().startswith("### ")


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("src/recallatk/version.py", r'"\d.*"', '"9.9.9"', "version.py says 9.9.9"),
        ("CITATION.cff", r"version: \d.*", "version: 9.9.9", "CITATION.cff says 9.9.9"),
        ("CHANGELOG.md", r"## \[\d[^\n]*", "## [9.9.9]", "CHANGELOG.md has no changes of"),
    ],
)
def test_a_release_whose_files_do_not_agree_is_refused(github, file, before, after, said):
    changed = re.sub(before, after, (github.folder / file).read_text(), flags=re.MULTILINE)
    (github.folder / file).write_text(changed)
    done = github(f"python3 scripts/release_notes.py v{__version__}")
    assert done.returncode == 1
    assert said in done.stderr


def test_publishing_has_no_token_and_waits_for_the_wheel_to_be_tried():
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert release["publish"]["needs"] == "try"
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert release["publish"]["environment"] == "release"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
