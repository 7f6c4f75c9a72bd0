"""Settings of a search in pgvector: efforts, what a probe may set, and statements to paste."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.errors import UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EFFORTS = {
    "hnsw": Knob("ef_search", default=40, low=1, high=1000, effort=True, help="hnsw.ef_search"),
    "ivfflat": Knob("probes", default=1, low=1, high=32768, effort=True, help="ivfflat.probes"),
}
_SETTINGS = {"ef_search": "hnsw.ef_search", "probes": "ivfflat.probes"}
_ITERATIVE = {"hnsw": "strict_order", "ivfflat": "relaxed_order"}
# Settings that change which rows come back and how fast, and nothing else.
_ACCEPTED = re.compile(
    r"(hnsw|ivfflat|diskann|vchordrq)\.[a-z_]+|enable_[a-z_]+|plan_cache_mode|work_mem|jit"
)


def knobs_of(method: str) -> tuple[Knob, ...]:
    """The effort of an index method; none if it is not known."""
    return (_EFFORTS[method],) if method in _EFFORTS else ()


def checked_settings(
    knobs: Sequence[Knob], search: Mapping[str, Any], settings: Mapping[str, str]
) -> dict[str, str]:
    """Parameters and settings by the server's names; other settings than those of a search are refused."""
    known, found = {each.name: each for each in knobs}, {}
    for name, value in search.items():
        if name not in known:
            raise UsageError(f"--search: {unknown('parameter', name, known)}")
        if not known[name].accepts(value):
            raise UsageError(f"--search {name}={value}. Accepted: {known[name].accepted}")
        found[_SETTINGS[name]] = str(value)
    for name, value in settings.items():
        if not _ACCEPTED.fullmatch(name):
            raise UsageError(
                f"--set {name}: a probe sets only parameters of the search: hnsw.*, ivfflat.*, "
                "diskann.*, vchordrq.*, enable_*, plan_cache_mode, work_mem, jit"
            )
        found[name] = value
    return found


def iterative_scan_remedy(method: str, in_force: Mapping[str, Any]) -> str | None:
    """What makes filtered answers whole; None if it is set already, or the method cannot."""
    if method not in _ITERATIVE or in_force.get(f"{method}.iterative_scan") != "off":
        return None
    return f"Where answers are too short, try --set {method}.iterative_scan={_ITERATIVE[method]}"


def set_statements(search: Mapping[str, Any]) -> str:
    """SET statements for a session and for a role."""
    settings = {_SETTINGS[name]: value for name, value in search.items()}
    lines = [f"SET {name} = {value};" for name, value in settings.items()]
    lines += [
        f"-- for every session of a role: ALTER ROLE app SET {name} = {value};"
        for name, value in settings.items()
    ]
    return "\n".join(lines)
