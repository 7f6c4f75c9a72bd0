"""Writes the parts of docs/ that the code determines; with --check, fails when one is stale."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from python_reference import python_page

from recallatk.cli import app
from recallatk.linter import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.linter import Rule

DOCS = Path(__file__).parent.parent / "docs"
INTRODUCTION = """# Command line

Generated from the commands by `make docs`; do not edit.

`recallatk COMMAND --help` prints the same. `python -m recallatk` is `recallatk`. Results go to standard
output; progress, warnings and errors go to standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the check failed |
| 2 | bad usage or bad input; the message names the problem, its place and the accepted values |
| 3 | undecided: `probe`, `watch --once`, `gate`, and `--strict` |
| 130, 143, 129 | Ctrl-C, SIGTERM or SIGHUP; the message says what work is saved, if any, and how to resume |
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(section(name, command) for name, command in every_command())])


def every_command() -> Iterator[tuple[str, Any]]:
    """All commands by the words that call them; the first of a group needs no word of its own."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
            continue
        for number, (second, each) in enumerate(inner.items()):
            yield (f"{name} {second}" if number else name), each


def section(name: str, command: Any) -> str:
    """One command: usage, what it does, and a table of what it takes."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(f"{each.name.upper()}{'…' if each.nargs == -1 else ''}" for each in arguments)
    rows = [f"| {shown(each)} | {cell(each)} |" for each in command.params if each.name != "help"]
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    said = inspect.cleandoc(command.callback.__doc__)
    return f"## recallatk {name}\n\n    recallatk {name} {usage} [OPTIONS]\n\n{said}\n\n{table}\n".replace(
        "  [", " ["
    )


def shown(parameter: Any) -> str:
    """How the parameter is written."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{each}`" for each in parameter.opts)


def cell(parameter: Any) -> str:
    """What the parameter means, with its default where it has one worth saying."""
    default = (
        ""
        if parameter.default in (None, False) or parameter.required
        else f" Default: `{parameter.default}`."
    )
    return f"{parameter.help}{default}"


RULES_INTRODUCTION = """# The linter's rules

Generated from the rules by `make docs`; do not edit.

`recallatk audit bench.toml` checks a benchmark before it is measured, `recallatk audit RUN` afterwards.
Each finding has a rule code, a severity, the measured number and its threshold.

- **error**: a number does not mean what it says. `--strict` exits with 1.
- **warning**: a number can mislead readers who do not know about the problem.
- **note**: worth knowing; nothing is wrong.

To accept a finding, waive it in the bench file. Reports show the reason:

```toml
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "cosine"

[[engine]]
name = "faiss-hnsw"

[[waive]]
rule = "R03"
reason = "production has the same duplicates"
```

[Common mistakes](mistakes.md) measures the faults behind many of these rules.
"""


def rules_page() -> str:
    """Table of all rules with links to their pages."""
    rows = [f"| [{each.code}](rules/{file_name(each)}) | {each.severity} | {each.title} |" for each in RULES]
    table = "\n".join(["| rule | highest severity | finding |", "|---|---|---|", *rows, ""])
    return f"{RULES_INTRODUCTION}\n{table}"


def rule_page(rule: Rule) -> str:
    """The page of one rule: threshold, reason, remedy and waiver."""
    needs = ", ".join(sorted(rule.needs))
    # Rules link to other pages relative to docs/.
    why, remedy, source = (
        re.sub(r"\]\((?=[\w-]+\.md)", "](../", each) for each in (rule.why, rule.remedy, rule.source)
    )
    return f"""# {rule.code}: {rule.title}

Generated from `linter/rules/{Path(inspect.getfile(type(rule))).name}` by `make docs`; do not edit.

| | |
|---|---|
| rule | {rule.code} `{rule.name}` |
| severity | up to {rule.severity} |
| threshold | {rule.threshold} |
| needs | {needs or "nothing in particular"} |

## Why it matters

{why}

## What to do

{remedy}

## Where the threshold comes from

{source}

## How to waive it

In the bench file, with a reason; reports show it:

```toml
[[waive]]
rule = "{rule.code}"
reason = "…"
```

[All rules](../rules.md) · [common mistakes](../mistakes.md)
"""


LEADERBOARD_INTRODUCTION = """# Leaderboard

Generated from [leaderboard.json](leaderboard.json) by `make docs`; do not edit. `make leaderboard` measures
it anew.

Engines that run inside a Python process, each at its cheapest measured setting whose recall surely reaches a
level. One query at a time, one thread; builds have default parameters except where
`benchmarks/leaderboard.toml` says otherwise. Engines share a rank (`=`) unless their intervals are apart: see
[how leaderboards compare](publish.md#how-leaderboards-compare). Ranks hold for these data, these versions and
this machine.
"""


def leaderboard_page() -> str:
    """The tables of the recorded leaderboard, with machine and date."""
    record = json.loads((DOCS / "leaderboard.json").read_text(encoding="utf-8"))
    parts = [LEADERBOARD_INTRODUCTION]
    known = ""
    for each in record["tables"]:
        heading = f"{each['data']}: {each['queries']:,} queries, {each['metric']}, top {each['k']}"
        if heading != known:
            version, load = record["recallatk"], each["load_average"]
            busy = "" if load is None else f" The load average was {load:.1f} at the start."
            cores = re.search(r"(\d+) cores", each["machine"])
            if load is not None and cores and load > int(cores[1]):
                busy += " Other work competed for the cores: compare recall and memory here, and not times "
                busy += "or ranks."
            said = f"Measured on {each['date']} with recallatk {version} on {each['machine']}.{busy}"
            parts.append(f"## {heading}\n\n{said}\n")
        known = heading
        parts.append(f"### {each['measure']} ≥ {each['level']:g}\n\n{standings_table(each)}\n")
    return "\n".join(parts)


def standings_table(table: dict[str, Any]) -> str:
    """One leaderboard; engines that do not reach the level are listed below."""
    costs = [table["ranked_by"], "95 %", "QPS", "memory MB", "build s"]
    header = ["rank", "engine", "setting", "library", "recall", *costs]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * 4}{'---:|' * 6}"]
    ranks = [each["rank"] for each in table["standings"]]
    beaten = []
    for each in table["standings"]:
        if each["rank"] is None:
            beaten.append(f"`{each['engine']}` ({each['at_least']:.3f})")
            continue
        rank = f"{each['rank']}{'=' if ranks.count(each['rank']) > 1 else ''}"
        lines.append(f"| {' | '.join([rank, *standing_cells(each)])} |")
    said = f"\n\nNot reached, with the highest bound: {', '.join(beaten)}." if beaten else ""
    return "\n".join(lines) + said


def standing_cells(standing: dict[str, Any]) -> list[str]:
    """One engine with its setting, recall and costs."""
    cost, recall = standing["cost"], standing["recall"]
    parameters = {**standing["build"], **standing["search"]}
    setting = ", ".join(f"{name}={value}" for name, value in parameters.items() if value != "")
    margin = max(recall["value"] - recall["low"], recall["high"] - recall["value"])
    ends = [cost[end] for end in ("low", "high")]
    memory, build = standing["memory_bytes"], standing["build_seconds"]
    return [
        f"`{standing['engine']}`",
        setting or "-",
        standing["version"],
        f"{recall['value']:.3f} ±{margin:.3f}",
        f"{cost['value']:.3f}",
        "-" if None in ends else f"{ends[0]:.3f} to {ends[1]:.3f}",
        f"{standing['qps']:,.0f}",
        "-" if memory is None else f"{memory / 1e6:,.0f}",
        "-" if build is None else f"{build:,.1f}",
    ]


def file_name(rule: Rule) -> str:
    """What the page of a rule is called."""
    return f"{rule.code}-{rule.name}.md"


def every_page() -> dict[str, str]:
    """All that is generated, by its name under docs/."""
    rules = {f"rules/{file_name(each)}": rule_page(each) for each in RULES}
    generated = {
        "cli.md": page(),
        "python.md": python_page(),
        "rules.md": rules_page(),
        "leaderboard.md": leaderboard_page(),
    }
    return {**generated, **rules}


def main() -> None:
    pages = every_page()
    strange = [each for each in DOCS.glob("rules/*") if f"rules/{each.name}" not in pages]
    if "--check" not in sys.argv:
        (DOCS / "rules").mkdir(exist_ok=True)
        for each in strange:
            each.unlink()
        for name, wanted in pages.items():
            (DOCS / name).write_text(wanted, encoding="utf-8")
        return
    known = {name: DOCS / name for name in pages}
    stale = [
        name
        for name, path in known.items()
        if not path.exists() or path.read_text(encoding="utf-8") != pages[name]
    ]
    if stale or strange:
        sys.exit(f"docs/{[*stale, *strange][0]} is stale; run: make docs")


if __name__ == "__main__":
    main()
