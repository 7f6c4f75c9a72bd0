"""Targets that name a collection on a server by host, port and name; without a port, they are paths."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from recallatk.errors import EngineError, UsageError

if TYPE_CHECKING:
    from recallatk.adapters.collection import CollectionTarget
    from recallatk.adapters.probe_limits import ProbeLimits

_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:@\[\]]+):(?P<port>\d{1,5})(/(?P<name>[^/?]*))?")


class RemoteCollection(NamedTuple):
    """A collection on a server."""

    host: str
    port: int
    name: str


def remote_collection(target: CollectionTarget) -> RemoteCollection | None:
    """What `scheme://host:port/name` names; None for a path."""
    place, _, rest = target.place.partition("?")
    found = _SERVER.fullmatch(place)
    if found is None:
        return None
    if not found["name"]:
        raise UsageError(
            f"{target.text} names no collection. Type it as {target.scheme}://host:port/collection"
        )
    if rest:
        raise UsageError(f"{target.text}: no option {rest.partition('=')[0]!r}")
    return RemoteCollection(found["host"].strip("[]"), int(found["port"]), found["name"])


def stated_flag(target: CollectionTarget, name: str) -> bool:
    """An option that is true or false; false by default."""
    value = target.options.get(name, "false")
    if value not in ("true", "false"):
        raise UsageError(f"{target.text}: {name}={value}. Accepted: true or false")
    return value == "true"


def require_server(target: CollectionTarget, remote: RemoteCollection, limits: ProbeLimits) -> None:
    """Refuse a server that does not accept connections within the time limit."""
    try:
        socket.create_connection((remote.host, remote.port), limits.connect_seconds).close()
    except (OSError, OverflowError) as problem:
        raise EngineError(
            f"{target.text}: {remote.host}:{remote.port} cannot be reached: {problem}. Start the server, or "
            f"type a folder without a port: {target.scheme}://path/to/folder"
        ) from None


def beyond_limit(target: CollectionTarget, limits: ProbeLimits) -> EngineError:
    """The error of a call that took too long."""
    return EngineError(
        f"{target.text}: a call exceeded the time limit of {limits.seconds:g} s. Raise it with --timeout"
    )


def lost_connection(target: CollectionTarget, problem: Exception) -> EngineError:
    """The error of a server that went away."""
    said = " ".join(str(problem).split()) or type(problem).__name__
    return EngineError(
        f"{target.text}: the connection was lost: {said}. Start the probe again once the server answers"
    )
