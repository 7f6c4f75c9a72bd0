"""What a latency covers: the call that is timed, its k, and the threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.counting import counted

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class TimedCall:
    """One timed call of a trial."""

    engine: str
    call: str
    """What one search is, as the engine said once it was built: library call, HTTP round trip."""
    k: int
    search_threads: int
    build_threads: int


def describe_calls(calls: Iterable[TimedCall]) -> str | None:
    """The calls of a run in one phrase; None where nothing was measured."""
    distinct = list(dict.fromkeys(calls))
    if not distinct:
        return None
    threads = _listed(counted(each.search_threads, "search thread", "search threads") for each in distinct)
    build = _listed(counted(each.build_threads, "thread", "threads") for each in distinct)
    top = _listed(each.k for each in distinct)
    return f"one {_kinds(distinct)} for the top {top}, {threads}; build on {build}"


def _kinds(calls: list[TimedCall]) -> str:
    """Each kind of call, with its engines where there are several kinds."""
    engines: dict[str, list[str]] = {}
    for each in calls:
        named = engines.setdefault(each.call, [])
        if each.engine not in named:
            named.append(each.engine)
    if len(engines) == 1:
        return calls[0].call
    return ", ".join(f"{call} ({', '.join(named)})" for call, named in engines.items())


def _listed(values: Iterable[object]) -> str:
    return " or ".join(dict.fromkeys(map(str, values)))
