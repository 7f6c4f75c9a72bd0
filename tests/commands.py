"""`recallatk` in a process of its own, forked from one that has imported it: that takes most of the time."""

import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

_FORKING = multiprocessing.get_context("forkserver")
# Libraries may be loaded there, and must not be used: threads do not survive a fork.
_FORKING.set_forkserver_preload(
    [
        *("commands", "recallatk.cli", "recallatk.bench.measurement", "recallatk.datasets.opening"),
        *("recallatk.linter", "recallatk.truths.search", "recallatk.analysis", "recallatk.tuning.flow"),
        *("recallatk.reporting.run_report", "recallatk.reporting.tuned", "recallatk.reporting.html.page"),
        *("altair", "faiss", "pyarrow.dataset", "pyarrow.parquet", "scipy.special"),
    ]
)


# An ignored signal stays ignored in every process that is started from here, whoever began this one.
_ANSWERING_SIGNALS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""
_COMMAND = f"""{_ANSWERING_SIGNALS}
from recallatk.__main__ import main
sys.argv[0] = "recallatk"
main()
"""


def command(*arguments):
    """The command as a program to start, which answers signals however the tests were started."""
    return [sys.executable, "-c", _COMMAND, *map(str, arguments)]


def answer_signals():
    """Let signals do in this process what they usually do."""
    exec(_ANSWERING_SIGNALS, {})


def forked(target, *arguments, **options):
    """A function of a module that begins in a process of its own at once."""
    process = _FORKING.Process(target=target, args=arguments, kwargs=options)
    process.start()
    return process


def recallatk(*arguments, cwd=None, env=None):
    """Run the command as a shell would; what it wrote and its exit code."""
    words = [str(each) for each in arguments]
    with tempfile.TemporaryDirectory() as name:
        written = Path(name, "stdout"), Path(name, "stderr")
        environment = dict(os.environ, **env or {})
        process = forked(_become, words, str(cwd or Path.cwd()), environment, written)
        process.join()
        said = [path.read_text() for path in written]
    code = process.exitcode
    process.close()
    return CompletedProcess(["recallatk", *words], code, *said)


def _become(words, folder, environment, written):
    """Be the command in this process."""
    from recallatk.__main__ import main

    answer_signals()
    for number, path in enumerate(written, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = ["recallatk", *words]
    main()


def run_bench_file(path, plugins, **options):
    """What `recallatk run` does between its audit and its report, with engines that stand in a folder."""
    from recallatk import run

    answer_signals()
    sys.path.insert(0, plugins)
    os.environ["PYTHONPATH"] = plugins
    sys.exit(int(bool(run(path, **options).failures)))
