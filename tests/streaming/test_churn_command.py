"""`recallatk churn` as people type it: results, exit codes, refusals, and a kill in the middle."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from commands import command, recallatk

BOOK = "random-replacement:steps=3,share=10%"
DATA = ["corpus.parquet", "queries.parquet", "--metric", "l2", "--at", "5"]


def test_it_prints_a_line_per_engine_and_writes_reports(data):
    done = recallatk("churn", BOOK, *DATA, "--engine", "usearch", "--engine", "faiss-ivf-flat", cwd=data)
    assert done.returncode == 0, done.stderr
    for text in ("random-replacement", "usearch", "faiss-ivf-flat", "rebuild", "Recall over steps"):
        assert text in done.stdout
    folder = data / "runs" / "corpus-churn"
    assert (folder / "report.html").exists()
    plain = json.loads((folder / "churn.json").read_text())
    # The same command measures nothing again.
    again = recallatk(
        *("churn", BOOK, *DATA, "--engine", "usearch", "--engine", "faiss-ivf-flat", "--json"), cwd=data
    )
    told = json.loads(again.stdout)
    assert told["curves"] == plain["curves"]
    assert told["out"] == str(Path("runs", "corpus-churn"))


@pytest.mark.parametrize(
    ("target", "code"), [("recall@5 >= 0.2", 0), ("recall@5 >= 0.9999", 1), ("p99 <= 1s", 3)]
)
def test_goals_decide_the_exit_code(data, target, code):
    done = recallatk(
        *("churn", BOOK, *DATA, "--engine", "faiss-ivf-flat", "--search", "nprobe=4", "--no-recover"),
        *("--target", target) if target.startswith("recall") else ("--budget", target),
        cwd=data,
    )
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["gorwth", *DATA],
            "gorwth: no such runbook. Accepted: a file (.toml, .yaml), or random-replacement",
        ),
        ([BOOK], "no corpus. Name one after the runbook"),
        (
            [BOOK, *DATA, "--engine", "faiss-hnsw"],
            "faiss-hnsw cannot insert and delete rows. Accepted: chroma",
        ),
        ([BOOK, *DATA, "--concurrent"], "hnswlib cannot be searched while another thread writes"),
        ([BOOK, *DATA, "--where", "x = 1"], "No such option"),
        (["tenant-leaving:column=owner", *DATA], "no corpus column 'owner'. Accepted: tenant"),
        (["bad.yaml", *DATA], "bad.yaml: step 2, line 5: deletes row 9, not in the index at this step"),
        (
            [BOOK, *DATA, "--target", "recall@5 >= 0.5 in tenant=t1"],
            "a replay judges recall over all queries",
        ),
    ],
)
def test_mistakes_end_with_a_message_and_2(data, words, said):
    lines = ["mine:", "  1: {operation: insert, start: 0, end: 5}", "", "  # comment", "  2:"]
    lines += ["    operation: delete", "    start: 9", "    end: 10", "  3: {operation: search}"]
    (data / "bad.yaml").write_text("\n".join(lines) + "\n")
    done = recallatk("churn", *words, cwd=data)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (data / "runs" / "corpus-churn" / "journal.jsonl").exists()


def test_a_killed_replay_is_resumed(data):
    words = ("churn", "random-replacement:steps=12,share=5%", *DATA, "--engine", "usearch", "--json")
    journal = data / "runs" / "corpus-churn" / "journal.jsonl"
    killed = subprocess.Popen(command(*words), cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and killed.poll() is None:
        if journal.exists() and journal.read_bytes().count(b'"search') >= 3:
            break
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = journal.read_text().splitlines()
    done = recallatk(*words, cwd=data)
    assert done.returncode == 0, done.stderr
    (curve,) = json.loads(done.stdout)["curves"]
    assert len(curve["searches"]) == 15
    assert journal.read_text().splitlines()[: len(before) - 1] == before[:-1]
