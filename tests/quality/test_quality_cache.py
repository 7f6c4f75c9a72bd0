"""Judged values on disk: damaged entries, full disks, processes that share a cache, are killed or stopped."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from commands import forked
from judge_service import judge, judge_all, score
from recallatk.quality import Quality, QualityJudge
from recallatk.quality.cache import QualityCache
from test_full_disk import mounting, needs_mounts

KEY = "ab" + "0" * 30


def entries(folder):
    return sorted(folder.rglob("*.json"))


def test_a_value_is_found_again_bit_for_bit(tmp_path):
    cache = QualityCache(tmp_path / "new" / "cache")
    for number, value in enumerate([0.1 + 0.2, -1e-310, 1e300, 0.0, 3.0]):
        cache.save(f"{number}{KEY[1:]}", value)
        assert QualityCache(tmp_path / "new" / "cache").find(f"{number}{KEY[1:]}") == value
    assert cache.find(KEY) is None


def test_a_cut_or_changed_entry_counts_as_none(tmp_path):
    QualityCache(tmp_path).save(KEY, 0.5)
    [file] = entries(tmp_path)
    whole = file.read_bytes()
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        assert QualityCache(tmp_path).find(KEY) is None
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert QualityCache(tmp_path).find(KEY) in (None, 0.5)
    for said in (b"[]", b"null", b"{}", b"\xff", whole + b" " * 5000, json.dumps({"value": 0.9}).encode()):
        file.write_bytes(said)
        assert QualityCache(tmp_path).find(KEY) is None
    file.write_bytes(whole.replace(b"0.5", b"NaN"))
    assert QualityCache(tmp_path).find(KEY) is None
    # The value of another retrieval under this name.
    other = tmp_path / "cd" / f"cd{KEY[2:]}.json"
    other.parent.mkdir()
    other.write_bytes(whole)
    assert QualityCache(tmp_path).find(other.stem) is None


def test_an_entry_that_is_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / KEY[:2]).mkdir()
    os.mkfifo(tmp_path / KEY[:2] / f"{KEY}.json")
    assert QualityCache(tmp_path).find(KEY) is None


def test_damaged_entries_are_judged_again(service, dataset, rows, tmp_path):
    def values():
        return QualityJudge(Quality(judge, cache=tmp_path), dataset, 5).values(rows)["quality"].tolist()

    first = values()
    files = entries(tmp_path)
    assert len(files) == 12
    files[3].write_bytes(b"")
    files[8].write_text(files[2].read_text())
    assert values() == first
    assert len(service.requests) == 14
    assert values() == first
    assert len(service.requests) == 14


def test_values_that_cannot_be_written_are_used_and_reported(service, dataset, rows, tmp_path):
    made = QualityJudge(Quality(judge, cache=tmp_path / "cache"), dataset, 5)
    made.values(rows[:, :1])
    folder = tmp_path / "cache"
    for each in folder.iterdir():
        each.rename(tmp_path / f"was-{each.name}")
    folder.rmdir()
    folder.write_text("now a file")
    found = made.values(rows)["quality"]
    assert not np.isnan(found).any()
    [caution] = made.cautions()
    assert caution.message.startswith("12 values were not saved, and a later run pays for them again")
    assert made.values(rows)["quality"].tolist() == found.tolist()
    assert len(service.requests) == 24


@needs_mounts
def test_a_disk_that_fills_up_costs_no_value(tmp_path):
    program = """
import sys
from judge_service import small_dataset, retrievals
from recallatk.quality import Quality, QualityJudge

judge = QualityJudge(Quality(lambda *_: 0.5, version="1", cache=sys.argv[1]), small_dataset(), 5)
print(judge.values(retrievals())["quality"].tolist() == [0.5] * 12)
for each in judge.cautions():
    print(each.message)
"""
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = [*mounting(tmp_path, "32k"), sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(told, capture_output=True, text=True, env=known)
    assert ran.returncode == 0, ran.stderr
    same, caution = ran.stdout.splitlines()
    assert same == "True"
    assert "values were not saved" in caution
    assert "No space left on device" in caution


def test_nothing_else_is_left_in_the_folder(service, dataset, rows, tmp_path):
    QualityJudge(Quality(judge, cache=tmp_path, clients=4), dataset, 5).values(rows)
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert len(files) == 12
    assert {each.suffix for each in files} == {".json"}
    assert not any(each.stat().st_mode & stat.S_IXUSR for each in files)


def test_two_processes_pay_for_each_retrieval_once(service, tmp_path):
    service.delay = 0.05
    outs = [tmp_path / f"{number}.npy" for number in range(2)]
    processes = [forked(judge_all, str(tmp_path / "cache"), service.url, str(out), clients=2) for out in outs]
    for each in processes:
        each.join()
        assert each.exitcode == 0
    assert sorted(service.queries) == sorted(f"q{number}" for number in range(12))
    one, other = map(np.load, outs)
    assert one.tolist() == other.tolist()
    assert one.tolist() == pytest.approx([score(each["retrieved"]) for each in _in_order(service)])


def _in_order(service):
    return sorted(service.requests, key=lambda each: int(each["query"]["id"][1:]))


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_what_was_judged_is_not_paid_for_again(service, tmp_path, number):
    cache, out = tmp_path / "cache", tmp_path / "out.npy"
    service.hangs = {"q7"}
    process = forked(judge_all, str(cache), service.url, str(out))
    wait_for(lambda: "q7" in service.queries)
    # The value before was sent; it is saved before the next question is asked.
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode not in (0, None)
    assert len(entries(cache)) == 7
    service.hangs = set()
    process = forked(judge_all, str(cache), service.url, str(out))
    process.join()
    assert process.exitcode == 0
    # The call that was under way is the only one that is paid for twice.
    assert sorted(service.queries) == sorted(["q7", *(f"q{number}" for number in range(12))])
    assert not np.isnan(np.load(out)).any()


def test_a_process_that_is_stopped_holds_up_others_for_a_while_only(service, tmp_path):
    service.hangs = {"q0"}
    stopped = forked(judge_all, str(tmp_path / "cache"), service.url, str(tmp_path / "one.npy"))
    wait_for(lambda: service.requests)
    os.kill(stopped.pid, signal.SIGSTOP)
    service.hangs = set()
    try:
        options = {"timeout": "500ms", "retries": 0}
        other = forked(
            judge_all, str(tmp_path / "cache"), service.url, str(tmp_path / "other.npy"), **options
        )
        other.join(60)
        assert other.exitcode == 0
        assert not np.isnan(np.load(tmp_path / "other.npy")).any()
        assert service.queries.count("q0") == 2
    finally:
        stopped.kill()
        stopped.join()


def test_a_hanging_judge_does_not_keep_the_process_from_ending(service, tmp_path):
    service.hangs = {"q0", "q5"}
    out = tmp_path / "out.npy"
    options = {"timeout": "200ms", "retries": 0}
    process = forked(judge_all, str(tmp_path / "cache"), service.url, str(out), **options)
    process.join(60)
    assert process.exitcode == 0
    assert np.flatnonzero(np.isnan(np.load(out))).tolist() == [0, 5]
