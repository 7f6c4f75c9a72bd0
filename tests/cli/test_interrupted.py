"""Ctrl-C at moments when no command is running: while it is imported, and while Python closes."""

import subprocess
import sys

from recallatk.cli.exits import _again

ONESELF = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
"""
IMPORTING = """
class Interrupting:
    def find_spec(self, name, *rest):
        if name == "recallatk.cli.overview":
            interrupt()
sys.meta_path.insert(0, Interrupting())
"""
CLOSING = "atexit.register(interrupt)\n"
MAIN = "from recallatk.__main__ import main; sys.argv = ['recallatk', '--version']; main()"


def ended(moment):
    return subprocess.run(
        [sys.executable, "-c", f"{ONESELF}\n{moment}\n{MAIN}"], capture_output=True, text=True, timeout=60
    )


def test_while_importing_it_stops_in_one_line():
    done = ended(IMPORTING)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "recallatk: stopped\n")


def test_after_the_last_word_it_changes_nothing():
    done = ended(CLOSING)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("recallatk ")


def test_the_command_to_go_on_with_does_not_begin_anew(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["recallatk", "run", "my bench.toml", "--fresh"])
    assert _again() == "recallatk run 'my bench.toml'"
