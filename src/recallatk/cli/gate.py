"""`recallatk gate`: whether a candidate is as good as its baseline, as an exit code and a comment for CI."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import FAILED, UNDECIDED, say
from recallatk.cli.options import Json, Quiet, cutoffs
from recallatk.cli.progress import progress
from recallatk.cli.volume import note, set_quiet
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.goals.gated import Gated


class WhenUndecided(StrEnum):
    """What an undecided gate ends as."""

    UNDECIDED = "undecided"
    FAIL = "fail"
    PASS = "pass"  # noqa: S105 - an outcome


BaselinePath = Annotated[
    str,
    typer.Argument(help="What was accepted: recall-baseline.json, a run folder, or answers."),
]
CandidatePath = Annotated[str, typer.Argument(help="What is judged: a run folder, or answers with --truth.")]
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
TruthPath = Annotated[str | None, typer.Option("--truth", help="Ground truth of answer files.")]
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
    baseline: BaselinePath,
    candidate: CandidatePath,
    target: Goals = None,
    budget: CostGoals = None,
    truth: TruthPath = None,
    at: At = None,
    undecided: Undecided = WhenUndecided.UNDECIDED,
    since_first: SinceFirst = False,
    accept: Accept = False,
    markdown: Markdown = None,
    junit: JUnit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge a candidate against its baseline: exit 0 for PASS, 1 for FAIL, 3 for UNDECIDED.

    Recall may fall only within the margin of its goals; a goal that nothing measured is an error (2). In
    GitHub Actions, a summary and annotations are written too.

    Example: recallatk gate recall-baseline.json runs/candidate --target "recall@10 >= baseline - 0.01"

    Example: recallatk gate recall-baseline.json runs/candidate --accept
    """
    from recallatk.files import require_not_among, require_writable, write_text
    from recallatk.regression import accept_baseline, gate_results
    from recallatk.reporting.gate import gate_to_dict, gate_to_junit, gate_to_markdown, gate_to_text
    from recallatk.units import counted

    set_quiet(quiet)
    depths = None if at is None else cutoffs(at)
    if accept:
        refused = {"--target": target, "--budget": budget, "--markdown": markdown, "--junit": junit,
                   "--json": as_json, "--since-first": since_first}  # fmt: skip
        _refuse_with_accept([name for name, value in refused.items() if value])
        side = accept_baseline(candidate, baseline, truth=truth, at=depths)
        settings = counted(len(side.settings), "setting", "settings")
        say(f"{baseline}: {side.name} is the baseline, {settings}. Commit this file.")
        return
    for path in (markdown, junit):
        if path is not None:
            require_not_among(path, [baseline, candidate, truth])
            require_writable(path)
    goals = [*(target or ()), *(budget or ())]
    with progress("gate"):
        found = gate_results(baseline, candidate, goals, truth=truth, at=depths, since_first=since_first)
    reproduce = _command(baseline, candidate, goals, truth, at, since_first=since_first)
    reproduce += "" if undecided is WhenUndecided.UNDECIDED else f" --undecided {undecided}"
    comment = gate_to_markdown(found, reproduce)
    for path, text in ((markdown, comment), (junit, gate_to_junit(found))):
        if path is not None:
            write_text(path, text)
            note(str(path))
    if as_json:
        say(json.dumps(gate_to_dict(found), ensure_ascii=False))
    else:
        _show(gate_to_text(found))
    _tell_github(found, comment, as_json=as_json)
    _end(found, undecided)


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


def _command(
    baseline: str, candidate: str, goals: list[str], truth: str | None, at: str | None, *, since_first: bool
) -> str:
    """The command that repeats the verdict, without secrets."""
    from recallatk.redaction import hide_known, without_secrets

    words = ["recallatk", "gate", baseline, candidate]
    words += [word for goal in goals for word in ("--target", goal)]
    words += [] if truth is None else ["--truth", truth]
    words += [] if at is None else ["--at", at]
    words += ["--since-first"] if since_first else []
    return shlex.join(hide_known(without_secrets(each)) for each in words)
