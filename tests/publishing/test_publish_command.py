"""`recallatk publish`: what it prints, what it leaves out, and what it refuses."""

import json
import signal
import subprocess
import time

import pytest
from published_runs import saved

from commands import command, recallatk
from recallatk import load_run, remember


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, one of them damaged, and a history."""
    found = tmp_path_factory.mktemp("a folder with spaces")
    saved(found / "runs" / "sound")
    saved(found / "runs" / "damaged")
    path = found / "runs" / "damaged" / "trial-1.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    remember(load_run(found / "runs" / "sound"), found / "runs" / "history.db")
    return found


def test_a_site_is_written_and_what_is_left_out_is_said(folder):
    done = recallatk("publish", "runs", "--out", "my site", "--history", "runs/history.db", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "my site/index.html: 1 run, 4 pages\n"
    assert "left out: damaged: " in done.stderr and "trial-1.parquet" in done.stderr
    names = {str(path.relative_to(folder / "my site")) for path in (folder / "my site").rglob("*.*")}
    assert {"index.html", "trends.html", "reports/sound.html", "data/results.csv", ".nojekyll"} <= names
    assert "Trends" in (folder / "my site" / "index.html").read_text()


def test_json_has_the_counts_and_an_older_site_is_replaced(folder):
    first = recallatk("publish", "runs", "--out", "again", "--json", "--quiet", cwd=folder)
    found = json.loads(first.stdout)
    assert (found["runs"], found["pages"], found["removed"]) == (1, 3, 0)
    assert found["left_out"][0]["name"] == "damaged"
    words = (
        "publish",
        "runs/sound/run.json",
        "--out",
        "again",
        "--title",
        "Ours <b>",
        "--level",
        "0.5",
        "--json",
    )
    second = recallatk(*words, cwd=folder)
    assert json.loads(second.stdout)["left_out"] == []
    page = (folder / "again" / "index.html").read_text()
    assert "Ours &lt;b&gt;" in page and "≥ 0.5" in page and "≥ 0.95" not in page


def test_an_interruption_says_how_to_publish_again(folder, tmp_path):
    program = subprocess.Popen(
        command("publish", folder / "runs", "--out", tmp_path / "site"), stderr=subprocess.PIPE, text=True
    )
    # The folder is there once the program has begun to publish.
    while not (tmp_path / "site").exists():
        assert program.poll() is None
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate()
    assert program.returncode == 130
    assert "stopped; every page is whole. Publish again with: recallatk publish" in said
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "nothing: no such run folder"),
        (("runs", "--level", "95"), "such as 0.95"),
        (("runs", "--history", "none.db"), "none.db: no history"),
        (("runs", "--out", "runs"), "runs: holds other files and no site"),
        ((), "RUNS"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(folder, words, said):
    before = sorted(folder.rglob("*"))
    done = recallatk("publish", *words, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before
