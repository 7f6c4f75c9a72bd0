"""An error that nobody foresaw: its exit code is no verdict, and its traceback shows no secret."""

import os
import subprocess
import sys

CODE = """
import recallatk.cli
from recallatk.redaction import remember

def broken():
    remember("hush-hush-hush")
    raise RuntimeError("a bug with hush-hush-hush")

recallatk.cli.main = broken
from recallatk.__main__ import main
main()
"""


def test_an_unforeseen_error_has_an_exit_code_of_its_own():
    ran = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert ran.returncode == 70
    assert "RuntimeError: a bug with" in ran.stderr
    assert "internal error, and no verdict" in ran.stderr
    assert "hush-hush-hush" not in ran.stderr.rpartition("RuntimeError")[2]
