"""`recallatk watch`: probe a collection in use again and again, and tell when its recall falls."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, complain, nothing_to_resume, say
from recallatk.cli.history import HistoryFile, history_for
from recallatk.cli.options import By, Json, Quiet, Targets, Where, import_from_folder
from recallatk.cli.pages import require_apart
from recallatk.cli.probe import (
    MadeFrom,
    Rate,
    Search,
    Settings,
    Statement,
    TargetUrl,
    Timeout,
    TruthSource,
    parameters,
    rate_of,
    texts,
)
from recallatk.cli.volume import note, set_quiet
from recallatk.errors import UsageError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.probed import WatchLook
    from recallatk.reporting.metrics import ProbeMetrics

_HOOK_SECONDS = 600
Baseline = Annotated[
    str | None,
    typer.Option(help="Earlier queries: probe only if the latest ones, or the collection, have drifted."),
]
AtLeast = Annotated[str, typer.Option(help="With --baseline: longest time without a probe.")]
OnFail = Annotated[
    str | None,
    typer.Option(help="Command to run on FAIL, with the probe as JSON on standard input; then go on."),
]


def watch(
    target: TargetUrl,
    queries: Annotated[str | None, typer.Option(help="Real queries; a file, folder or query log.")] = None,
    every: Annotated[str, typer.Option(help="Time between the starts of two probes, e.g. 1h.")] = "1h",
    once: Annotated[bool, typer.Option("--once", help="Probe once, as for cron.")] = False,
    recent: Annotated[int, typer.Option(help="Number of latest queries to ask.")] = 500,
    sample: Annotated[int, typer.Option(help="Without --queries: rows that serve as queries.")] = 500,
    at: Annotated[int | None, typer.Option(help="Cutoff k of recall@k.")] = None,
    targets: Targets = None,
    where: Where = None,
    search: Search = None,
    settings: Settings = None,
    by: By = None,
    truth: TruthSource = None,
    corpus: MadeFrom = None,
    proxy: Annotated[bool, typer.Option("--proxy", help="Exact neighbors for every tenth query.")] = False,
    sql: Statement = None,
    baseline: Baseline = None,
    at_least: AtLeast = "24h",
    on_fail: OnFail = None,
    history: HistoryFile = None,
    textfile: Annotated[
        Path | None, typer.Option(help="Write Prometheus metrics to this file after each probe.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Serve Prometheus metrics, e.g. at 127.0.0.1:9464.")
    ] = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Probe a collection in use at regular times, with its latest captured queries.

    Ends with 1 on FAIL, unless --on-fail handles it. Outages of the collection are said and waited out.

    Example: recallatk watch "postgresql:///shop?table=items" --queries log/ --target "recall@10 >= 0.95"
    """
    from recallatk.probing import watch as looks_at
    from recallatk.units import parse_duration

    set_quiet(quiet)
    if on_fail is not None and not targets:
        raise UsageError('--on-fail runs when a target is missed. State one: --target "recall@10 >= 0.95"')
    require_apart([textfile], (target, queries, corpus, baseline, history))
    import_from_folder()
    asked: dict[str, Any] = {
        "goals": targets or (), "at": at, "where": where, "by": by or (), "sample": sample, "truth": truth,
        "search": parameters(search or ()), "settings": texts(settings or ()), "corpus": corpus,
        "proxy": proxy, "max_rate": rate_of(max_rate), "timeout": parse_duration(timeout),
    }  # fmt: skip
    looks = looks_at(
        target, queries, every=parse_duration(every), recent=recent, looks=1 if once else None,
        baseline=baseline, at_least=parse_duration(at_least),
        history=history_for(history), sql=sql, **asked,
    )  # fmt: skip
    with nothing_to_resume(), _metrics(textfile, listen) as metrics:
        for look in looks:
            _tell(look, metrics, textfile, as_json=as_json, last=once)
            _act(look, on_fail, once=once)


@contextmanager
def _metrics(textfile: Path | None, listen: str | None) -> Iterator[ProbeMetrics | None]:
    """Metrics where they are asked for, served for the time of the watch."""
    if textfile is None and listen is None:
        yield None
        return
    from recallatk.reporting.metrics import ProbeMetrics

    metrics = ProbeMetrics()
    with nullcontext() if listen is None else metrics.served(listen) as url:
        if url is not None:
            note(f"metrics: {url}")
        yield metrics


def _tell(
    look: WatchLook, metrics: ProbeMetrics | None, textfile: Path | None, *, as_json: bool, last: bool
) -> None:
    from recallatk.reporting.probe import look_to_dict, look_to_text

    if metrics is not None:
        _record(look, metrics, textfile)
    say(json.dumps(look_to_dict(look)) if as_json else look_to_text(look, last=last))


def _record(look: WatchLook, metrics: ProbeMetrics, textfile: Path | None) -> None:
    """Update the metrics; a file that cannot be written is said, and may be writable again."""
    if look.probed is not None:
        metrics.observe(look.probed)
    elif not look.skipped:
        metrics.fail()
    if textfile is None:
        return
    try:
        metrics.write(textfile)
    except WriteError as problem:
        complain(str(problem))


def _act(look: WatchLook, on_fail: str | None, *, once: bool) -> None:
    """Run the hook on FAIL, or end; a single look ends with the code of its verdict."""
    if look.outcome == "FAIL" and on_fail is not None:
        _run_hook(on_fail, look)
    if look.outcome == "FAIL" and (once or on_fail is None):
        raise typer.Exit(FAILED)
    if once and look.outcome == "UNDECIDED":
        raise typer.Exit(UNDECIDED)


def _run_hook(command: str, look: WatchLook) -> None:
    """The user's own command, through the shell as they typed it; its failure is said and ends nothing."""
    assert look.probed is not None  # noqa: S101 - a FAIL comes from a probe
    described = json.dumps(look.probed.to_dict())
    named = {"RECALLATK_TARGET": look.probed.target, "RECALLATK_VERDICT": "FAIL",
             "RECALLATK_RECALL": f"{look.probed.recall.value}"}  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S602 - a command of the user, typed for a shell
            command, shell=True, input=described, text=True, env={**os.environ, **named},
            timeout=_HOOK_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        complain(f"--on-fail: ended after {_HOOK_SECONDS} s")
        return
    except OSError as problem:
        raise UsageError(f"--on-fail: {problem}") from None
    if done.returncode:
        complain(f"--on-fail: the command ended with {done.returncode}")
