"""`--strict` of `run` and `audit`: the exit code follows the goals, and unmet ones are named."""

import json

import numpy as np
import pytest

from commands import recallatk


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with a run whose recall@10 is about 0.4, and the command that measured it."""
    folder = tmp_path_factory.mktemp("strict")
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 4_000), ("queries", 300)):
        np.save(folder / f"{name}.npy", random.normal(size=(rows, 16)).astype("float32"))
    words = ["run", "corpus.npy", "queries.npy", "--metric", "l2", "--engine", "faiss-ivf-flat"]
    words += ["--build", "nlist=32", "--search", "nprobe=3", "--at", "10", "--rounds", "1", "--out", "found"]
    first = recallatk(*words, "--target", "recall@10 >= 0.95", cwd=folder)
    assert first.returncode == 0, first.stderr
    return folder, words


GOALS = {
    "recall@10 >= 0.05": (0, ""),
    "recall@10 >= 0.95": (1, "recallatk: recall@10 >= 0.95: missed, 0."),
    # 300 calls have no 99.9th percentile, and no upper bound of the 99th.
    "p99.9 <= 1h": (2, "recallatk: p99.9 <= 1h: not measured"),
    "p99 <= 1h": (3, "recallatk: p99 <= 1h: undecided"),
}


@pytest.mark.parametrize("command", ["run", "audit"])
@pytest.mark.parametrize("goal", GOALS)
def test_the_exit_code_follows_the_goal(measured, command, goal):
    folder, words = measured
    code, said = GOALS[goal]
    option = "--budget" if goal.startswith("p99") else "--target"
    given = words if command == "run" else ["audit", "found"]
    if command == "audit":
        # The run recorded its goals; an audit adds to them.
        changed = recallatk(*words, option, "recall@10 >= 0.05", cwd=folder)
        assert changed.returncode == 0, changed.stderr
        option = "--target"
    ran = recallatk(*given, option, goal, "--strict", "--json", "--quiet", cwd=folder)
    assert ran.returncode == code, ran.stderr
    assert said in ran.stderr
    assert goal in [each["text"] for each in json.loads(ran.stdout)["verdict"]["goals"]]
    assert recallatk(*given, option, goal, "--quiet", cwd=folder).returncode == 0


def test_a_goal_that_was_not_measured_comes_before_one_that_is_missed(measured):
    folder, words = measured
    ran = recallatk(
        *words, "--target", "recall@10 >= 0.95", "--budget", "p99.9 <= 1h", "--strict", cwd=folder
    )
    assert ran.returncode == 2
    assert "missed" in ran.stderr and "not measured" in ran.stderr
