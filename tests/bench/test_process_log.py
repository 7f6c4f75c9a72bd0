"""The log of a process: redacted before it is written, and complete when somebody asks for its end."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recallatk.bench import process_log
from recallatk.bench.process_log import ProcessLog

SECRET = "hush-hush-hush"


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_API_KEY", SECRET)
    with ProcessLog(tmp_path / "log.txt") as opened:
        yield opened


def said(log, tmp_path):
    log.close()
    return (tmp_path / "log.txt").read_text(encoding="utf-8")


def test_no_secret_reaches_the_file_even_in_pieces(log, tmp_path):
    for piece in ("using hush-", "hush-hu", "sh now\nand --token abc", "def\n"):
        os.write(log.descriptor, piece.encode())
        time.sleep(0.02)
    assert said(log, tmp_path) == "using ${OUR_API_KEY} now\nand --token …\n"


def test_the_end_is_there_as_soon_as_it_was_written(log):
    for number in range(100):
        os.write(log.descriptor, f"line {number}\n".encode())
    os.write(log.descriptor, b"not ended")
    assert log.tail().splitlines()[-2:] == ["line 99", "not ended"]
    assert len(log.tail().splitlines()) == 20
    log.close()
    assert log.tail().splitlines()[-1] == "not ended"


def test_a_flood_does_not_stop_the_process_and_an_endless_line_is_cut(log, tmp_path):
    flood = "import sys\nsys.stderr.write('x' * 3_000_000 + '\\n' + 'after\\n')"
    subprocess.run([sys.executable, "-c", flood], stderr=log.descriptor, check=True, timeout=60)
    text = said(log, tmp_path)
    assert len(text) < 100_000
    assert text.endswith("x\nafter\n")


def test_bytes_that_are_no_text_and_lines_of_a_progress_bar_are_kept(log, tmp_path):
    os.write(log.descriptor, b"\xff\xfe 10%\r 20%\r\nend")
    assert said(log, tmp_path).endswith(" 10%\n 20%\nend\n")
    assert log.tail().splitlines()[-1] == "end"


def test_a_child_that_lives_on_does_not_keep_the_log_open(log, tmp_path):
    staying = subprocess.Popen(["sleep", "60"], stderr=log.descriptor)
    try:
        os.write(log.descriptor, b"said\n")
        began = time.monotonic()
        assert said(log, tmp_path) == "said\n"
        assert time.monotonic() - began < 5
    finally:
        staying.kill()
        staying.wait()


FLOOD = """
import os, sys
os.write(1, b"began")
while True:
    os.write(2, b"a line of a library that says too much\\n" * 1000)
"""


def test_the_end_of_a_log_is_told_while_it_is_flooded(log):
    flooding = subprocess.Popen([sys.executable, "-c", FLOOD], stdout=subprocess.PIPE, stderr=log.descriptor)
    try:
        assert flooding.stdout.read(5) == b"began"
        told = []
        asking = threading.Thread(target=lambda: told.extend(log.tail() for _ in range(5)), daemon=True)
        asking.start()
        asking.join(60)
        assert len(told) == 5
    finally:
        flooding.kill()
        flooding.communicate()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_costs_the_log_and_not_the_process():
    with ProcessLog(Path("/dev/full")) as log:
        flood = "import sys\nsys.stderr.write('a line\\n' * 100_000 + 'the last')"
        subprocess.run([sys.executable, "-c", flood], stderr=log.descriptor, check=True, timeout=60)
        assert log.tail().splitlines()[-2:] == ["a line", "the last"]


def test_a_line_that_cannot_be_redacted_is_hidden_and_the_next_is_not(log, tmp_path, monkeypatch):
    def redacted(text, _):
        if "odd" in text:
            raise ValueError(text)
        return text

    monkeypatch.setattr(process_log, "redact_text", redacted)
    os.write(log.descriptor, b"one\nodd\ntwo\n")
    assert said(log, tmp_path) == "one\n…\ntwo\n"
