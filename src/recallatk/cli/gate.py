"""`recallatk gate`: whether a candidate is as good as its baseline, as an exit code and a comment for CI."""

from __future__ import annotations

import json
import os
import secrets
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, say
from recallatk.cli.gate_input import GateInput
from recallatk.cli.history import HistoryFile, history_for, remember_in
from recallatk.cli.options import Json, Quiet
from recallatk.cli.probe import MadeFrom, Rate, Search, Settings, Statement, Timeout
from recallatk.cli.volume import note, set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.goals.gated import Gated


class WhenUndecided(StrEnum):
    """What an undecided gate ends as."""

    UNDECIDED = "undecided"
    FAIL = "fail"
    PASS = "pass"  # noqa: S105 - an outcome


What = Annotated[
    str,
    typer.Argument(
        metavar="BASELINE|BENCH|TARGET",
        help="What was accepted: recall-baseline.json, a run folder, or answers. Alone: what to measure, a "
        "bench file (.toml) or an existing collection.",
    ),
]
CandidatePath = Annotated[
    str | None,
    typer.Argument(metavar="[CANDIDATE]", help="What is judged: a run folder, or answers with --truth."),
]
BaselineFile = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="Of what is measured: the accepted baseline. Default: recall-baseline.json beside the bench "
        "file, or here.",
    ),
]
Queries = Annotated[
    str | None, typer.Option(help="Of a collection: real queries; a file, folder or query log.")
]
Goals = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help='Goal, absolute or relative, e.g. "recall@10 >= baseline - 0.01"; repeatable. Default: recall '
        "at every k at most 0.01 lower.",
    ),
]
CostGoals = Annotated[
    list[str] | None, typer.Option("--budget", help='Cost goal, e.g. "p95 <= 1.2x baseline"; repeatable.')
]
TruthPath = Annotated[
    str | None,
    typer.Option("--truth", help="Ground truth of answer files; source of a collection's: exact or stream."),
]
At = Annotated[
    str | None,
    typer.Option(help="Cutoffs k of answers. Default: those of 1,10,100 that any of them reaches."),
]
Undecided = Annotated[
    WhenUndecided,
    typer.Option("--undecided", help="Exit of an undecided gate: undecided (3), fail (1), pass (0)."),
]
Accept = Annotated[
    bool, typer.Option("--accept", help="Write the candidate as the baseline file; judge nothing.")
]
SinceFirst = Annotated[
    bool,
    typer.Option(
        "--since-first", help="Judge against the first accepted baseline too, which the file keeps."
    ),
]
Markdown = Annotated[Path | None, typer.Option(help="Also write a comment for a pull request to this file.")]
JUnit = Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML to this file.")]


def gate(
    what: What,
    candidate: CandidatePath = None,
    target: Goals = None,
    budget: CostGoals = None,
    baseline: BaselineFile = None,
    queries: Queries = None,
    truth: TruthPath = None,
    at: At = None,
    search: Search = None,
    settings: Settings = None,
    corpus: MadeFrom = None,
    sql: Statement = None,
    max_rate: Rate = "20/s",
    timeout: Timeout = "30s",
    undecided: Undecided = WhenUndecided.UNDECIDED,
    since_first: SinceFirst = False,
    accept: Accept = False,
    markdown: Markdown = None,
    junit: JUnit = None,
    history: HistoryFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge a candidate against its baseline: exit 0 for PASS, 1 for FAIL, 3 for UNDECIDED.

    A bench file or a collection alone is measured first, only as much as the verdict needs. Recall may fall
    only within the margin of its goals; a goal that nothing measured is an error (2). In GitHub Actions, a
    summary and annotations are written too.

    Example: recallatk gate bench.toml --target "recall@10 >= baseline - 0.01"

    Example: recallatk gate recall-baseline.json runs/candidate --accept
    """
    from recallatk.reporting.gate import gate_to_dict, gate_to_text

    set_quiet(quiet)
    asked = GateInput(
        what, candidate, [*(target or ()), *(budget or ())], baseline, queries, truth, at, search, settings,
        corpus, sql, max_rate, timeout, since_first,
    )  # fmt: skip
    asked.require_fit()
    if accept:
        refused = {"--target": target, "--budget": budget, "--markdown": markdown, "--junit": junit,
                   "--json": as_json, "--since-first": since_first, "--history": history}  # fmt: skip
        _refuse_with_accept([name for name, value in refused.items() if value])
        say(asked.accepted())
        return
    _require_outputs(asked, markdown, junit)
    remembered = history_for(history)
    found = asked.judged()
    comment = _written(asked, found, undecided, markdown, junit)
    if as_json:
        say(json.dumps(gate_to_dict(found), ensure_ascii=False))
    else:
        _show(gate_to_text(found))
    remember_in(remembered, found)
    _tell_github(found, comment, as_json=as_json)
    _end(found, undecided)


def _require_outputs(asked: GateInput, *paths: Path | None) -> None:
    """Refuse, before anything is measured, files that cannot be written or would replace an input."""
    from recallatk.files import require_not_among, require_writable

    for path in paths:
        if path is not None:
            require_not_among(path, asked.inputs)
            require_writable(path)


def _written(
    asked: GateInput, found: Gated, undecided: WhenUndecided, markdown: Path | None, junit: Path | None
) -> str:
    """The comment for a pull request, after both files are written."""
    from recallatk.files import write_text
    from recallatk.reporting.gate import gate_to_junit, gate_to_markdown

    reproduce = asked.command()
    reproduce += "" if undecided is WhenUndecided.UNDECIDED else f" --undecided {undecided}"
    comment = gate_to_markdown(found, reproduce)
    for path, text in ((markdown, comment), (junit, gate_to_junit(found))):
        if path is not None:
            write_text(path, text)
            note(str(path))
    return comment


def _show(text: str) -> None:
    """The verdict; a job of GitHub Actions is kept from reading commands in texts of queries."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        token = secrets.token_hex(16)
        text = f"::stop-commands::{token}\n{text}\n::{token}::"
    say(text)


def _end(found: Gated, undecided: WhenUndecided) -> None:
    codes = {WhenUndecided.UNDECIDED: UNDECIDED, WhenUndecided.FAIL: FAILED, WhenUndecided.PASS: 0}
    outcome = found.verdict.outcome
    code = FAILED if outcome == "FAIL" else codes[undecided] if outcome == "UNDECIDED" else 0
    if code:
        raise typer.Exit(code)


def _tell_github(found: Gated, comment: str, *, as_json: bool) -> None:
    """Annotations and the summary of a job of GitHub Actions."""
    from recallatk.reporting.gate import gate_annotations

    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in gate_annotations(found):
            typer.echo(line, err=as_json)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        # Several steps write to one file.
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"{comment}\n")


def _refuse_with_accept(names: list[str]) -> None:
    if names:
        raise UsageError(f"{', '.join(names)} cannot be combined with --accept, which judges nothing")
