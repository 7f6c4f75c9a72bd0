"""The GitHub Action: GitHub can read its file, and its steps, run as GitHub runs them, do what they say."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from recallatk import accept_measured

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ACTION = Path(__file__).parents[2] / "action.yml"
# A stand-in for GitHub: it lists one comment or none, and keeps what it was asked for.
GH = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$*" in *--paginate*) [ -f "$KNOWN" ] && cat "$KNOWN" ;; esac
exit 0
"""


BENCH = """
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "l2"
[measure]
at = [10]
rounds = 1
[[engine]]
name = "faiss-ivf-flat"
build = { nlist = 32 }
search = { nprobe = 16 }
"""


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load(ACTION.read_text())


@pytest.fixture
def github(runs, tmp_path):
    """Runs a step with bash as GitHub does, in the folder of the runs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "recallatk").write_text(f'#!/bin/sh\nexec {sys.executable} -m recallatk "$@"\n')
    for each in programs.iterdir():
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    for name in ("good.parquet", "bad.parquet", "truth.parquet"):
        shutil.copy(runs / name, tmp_path)

    def step(found, inputs):
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "ASKED": str(tmp_path / "asked"),
            "KNOWN": str(tmp_path / "known"),
            **{name: expanded(value, inputs) for name, value in found.get("env", {}).items()},
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    step.folder = tmp_path
    return step


def expanded(value, inputs):
    """An expression of GitHub's as the value that it has."""
    known = {f"inputs.{name}": text for name, text in inputs.items()}
    known |= {
        "github.token": "token",
        "github.repository": "me/shop",
        "github.event.pull_request.number": "7",
    }
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], value)


def steps_of(action):
    return {each["id"]: each for each in action["runs"]["steps"]}


def inputs_of(action, **changes):
    stated = {name: each.get("default", "") for name, each in action["inputs"].items()}
    return {**stated, "baseline": "good.parquet", "truth": "truth.parquet", **changes}


def test_it_is_a_composite_action_whose_scripts_take_no_expression(action):
    assert action["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(action)
    for each in action["runs"]["steps"]:
        # What a pull request can state must not become a part of a script.
        assert "${{" not in each["run"]
        assert each["shell"] == "bash"
    named = {name for each in action["runs"]["steps"] for name in re.findall(r"inputs\.([\w-]+)", str(each))}
    assert named == set(action["inputs"])


@pytest.mark.parametrize(
    ("candidate", "changes", "code"),
    [
        ("good.parquet", {}, 0),
        ("bad.parquet", {}, 1),
        ("bad.parquet", {"targets": "recall@1 >= baseline - 0.9\nrecall@10 >= 0.2\n"}, 0),
        ("missing file.parquet", {}, 2),
        ("bad.parquet", {"targets": "$(touch hacked)"}, 2),
    ],
)
def test_the_gate_ends_the_job_with_its_exit_code(action, github, candidate, changes, code):
    done = github(steps_of(action)["gate"], inputs_of(action, candidate=candidate, **changes))
    assert done.returncode == code, done.stderr
    assert (github.folder / "output").read_text() == f"exit-code={code}\n"
    comment = github.folder / "recallatk-gate.md"
    assert comment.exists() == (code < 2)
    if code < 2:
        assert comment.read_text().startswith("<!-- recallatk gate -->")
        assert (github.folder / "summary").read_text().strip()
    assert not (github.folder / "hacked").exists()


def test_a_bench_file_is_measured_in_place_of_a_candidate(action, github, runs):
    for name in ("corpus.parquet", "queries.parquet"):
        shutil.copy(runs / name, github.folder)
    (github.folder / "bench.toml").write_text(BENCH)
    accept_measured(github.folder / "bench.toml")
    inputs = {"measure": "bench.toml", "truth": "", "baseline": "recall-baseline.json"}
    goals = "recall@10 >= 0.999\nrecall@10 >= baseline - 0.05"
    done = github(steps_of(action)["gate"], inputs_of(action, targets=goals, **inputs))
    assert done.returncode == 1, done.stderr
    assert " of 300 queries asked" in (github.folder / "summary").read_text()
    done = github(steps_of(action)["gate"], inputs_of(action, candidate="good.parquet", **inputs))
    assert done.returncode == 2
    assert "--baseline cannot be combined with two results" in done.stderr


@pytest.mark.parametrize("known", ["", "4711\n"])
def test_one_comment_is_written_and_then_updated(action, github, known):
    steps, inputs = steps_of(action), inputs_of(action, candidate="bad.parquet")
    if known:
        (github.folder / "known").write_text(known)
    assert github(steps["comment"], inputs).returncode == 0
    assert not (github.folder / "asked").exists()  # nothing was judged, so there is nothing to say
    github(steps["gate"], inputs)
    assert github(steps["comment"], inputs).returncode == 0
    _, last = (github.folder / "asked").read_text().splitlines()
    file = f"body=@{github.folder / 'recallatk-gate.md'}"
    if known:
        assert last == f"api --method PATCH repos/me/shop/issues/comments/4711 --field {file}"
    else:
        assert last == f"api --method POST repos/me/shop/issues/7/comments --field {file}"


def test_an_installed_version_is_taken_as_it_is(action, github):
    done = github(steps_of(action)["install"], inputs_of(action, version="installed"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
