"""The watch: probes of one collection at regular times, which outages of a server or file do not end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.target_schemes import open_collection
from recallatk.core.probed import WatchLook
from recallatk.errors import EngineError, FormatError, MissingFileError, RecallError, UsageError
from recallatk.probing.probe import probe
from recallatk.probing.worth import DEFAULT_AT_LEAST, Worth
from recallatk.storage import remember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recallatk.adapters.collection import Collection
    from recallatk.core.drifted import Shifts
    from recallatk.core.probed import Probed
    from recallatk.files import PathLike

DEFAULT_EVERY = 3600.0
DEFAULT_RECENT = 500
# After an outage the next look comes this soon, then after twice as long, up to the usual time.
_FIRST_RETRY_SECONDS = 10.0
# Files are written anew while a watch runs: for a moment they are missing, or half there.
_OUTAGES = (EngineError, MissingFileError, FormatError)


def watch(
    target: str,
    queries: Any = None,
    *,
    every: float = DEFAULT_EVERY,
    recent: int | None = DEFAULT_RECENT,
    looks: int | None = None,
    baseline: Any = None,
    at_least: float = DEFAULT_AT_LEAST,
    history: PathLike | None = None,
    sleep: Callable[[float], None] = time.sleep,
    sql: str | None = None,
    **asked: Any,
) -> Iterator[WatchLook]:
    """Probe a collection again and again; each look is yielded as soon as it is done.

    The first look must succeed. Later, a server that is away, or a file that is missing or half
    written, costs its look, and the next one comes sooner.
    A mistake that waiting does not mend is raised at any look, such as queries of two settings.

    Args:
        target: a URL such as `postgresql://host/db?table=items`; it is opened anew for each look.
        queries: real queries, such as the folder of a query log, read anew for each look.
        every: seconds from the start of one look to the start of the next.
        recent: number of latest queries to ask; None for all.
        looks: how many; None for no end.
        baseline: queries from a time when recall was good. Triggers between them and the latest queries then
            decide which looks are worth a probe; the first of several looks always is.
        at_least: seconds after which a look is worth a probe without any trigger.
        history: append each probe to this history.
        sleep: waits between looks.
        sql: a statement that is the search, for PostgreSQL.
        asked: what `probe` takes, such as goals, at, where and search.
    """
    if every <= 0:
        raise UsageError(f"every {every:g} seconds. Accepted: more than 0")
    worth = None if baseline is None else Worth(baseline, at_least)
    failures, done = 0, 0
    while looks is None or done < looks:
        started, now = time.monotonic(), datetime.now(UTC)
        found, problem, shifts = None, "", None
        try:
            given = {"seed": int(now.timestamp()), **asked, "recent": None if queries is None else recent}
            with _opened(target, sql, asked) as there:
                shifts, found = _look(there, queries, worth, given, first=not done and looks != 1)
        except _OUTAGES as failed:
            if done == 0:
                raise
            problem = str(failed)
        if history is not None and found is not None:
            problem = _remembered(found, history)
        done += 1
        failures = failures + 1 if problem and found is None else 0
        wait = _wait(every, failures, time.monotonic() - started)
        yield WatchLook(now.isoformat(timespec="seconds"), found, problem, wait, shifts)
        if looks is None or done < looks:
            sleep(wait)


def _look(
    target: str | Collection, queries: Any, worth: Worth | None, given: dict[str, Any], *, first: bool
) -> tuple[Shifts | None, Probed | None]:
    """The triggers where they decide, and the probe where it is worth it."""
    shifts = found = None
    if worth is not None and not first:
        shifts = worth.look(target, queries, given["recent"], seed=given["seed"], **_opening(given))
    if shifts is None or shifts.fired:
        found = probe(target, queries, **given)
    if worth is not None and found is not None:
        worth.probed(found)
    return shifts, found


@contextmanager
def _opened(target: str, sql: str | None, asked: dict[str, Any]) -> Iterator[str | Collection]:
    """What to probe: the target itself, or its collection with a statement of the user's."""
    if sql is None:
        yield target
        return
    limits = ProbeLimits(seconds=asked.get("timeout", ProbeLimits().seconds))
    with open_collection(target, limits, sql=sql) as opened:
        yield opened


def _opening(asked: dict[str, Any]) -> dict[str, Any]:
    """What of a probe's arguments it takes to open the collection."""
    return {name: asked[name] for name in ("timeout", "corpus") if asked.get(name) is not None}


def _remembered(found: Probed, history: PathLike) -> str:
    """Why a probe could not be appended to the history; empty if it was."""
    try:
        remember(found, history)
    except RecallError as failed:
        return str(failed)
    return ""


def _wait(every: float, failures: int, taken: float) -> float:
    """Seconds until the next look; soon after an outage, and later the longer it lasts."""
    if failures:
        return min(every, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 30))
    return max(0.0, every - taken)
