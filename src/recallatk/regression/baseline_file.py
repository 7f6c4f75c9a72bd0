"""`recall-baseline.json`: an accepted measurement as a small file for version control.

Format 1: a JSON object with the fingerprints of the data, every setting with its builds, and each measure by
query, packed: its distinct values, and the compressed index of the value of each query. `origin` of a build
is equal for one and the same measurement, and empty or missing where that is not known. `first` is the same
object of the first baseline that was accepted for these data, null if this is it. `checksum` is of all other
keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.latency import Percentile
from recallatk.analysis.sides import ComparedSide, SideBuild, SideKind, SideSetting
from recallatk.core import Metric, Weights
from recallatk.errors import FormatError, RecallError, UsageError
from recallatk.files import write_text
from recallatk.redaction import public
from recallatk.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT, VERSION = "recall-baseline", 1
_ACCEPTED = "a file that recallatk gate --accept wrote"
_RESTORE = "Restore it from version control, or delete it and accept again"
_ENVIRONMENT = ("recallatk", "python", "system", "machine", "processor", "cores", "memory_bytes")
_CONFLICT = ("<<<<<<< ", "=======\n", ">>>>>>> ")
_DAMAGE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    zlib.error,
    RecallError,
)
# One byte per query for each of the queries that a baseline may have.
_MOST_QUERIES = 100_000_000


def is_baseline_file(path: Path) -> bool:
    """Whether a file claims to be a baseline, damaged or not."""
    try:
        with path.open(encoding="utf-8") as file:
            start = file.read(10_000)
    except (OSError, ValueError):
        return False
    return f'"{FORMAT}"' in start


def write_baseline(side: ComparedSide, path: Path) -> None:
    """Write a side as a baseline, whole or not at all; the first one of the same data stays in the file."""
    stored = stored_side(side, _checked(path, str(path)) if path.exists() else None)
    write_text(path, f"{json.dumps(stored, ensure_ascii=False, indent=1)}\n")


def stored_side(side: ComparedSide, replaced: dict[str, Any] | None = None) -> dict[str, Any]:
    """A side as it is stored, with its checksum.

    Args:
        side: what is accepted.
        replaced: the baseline that it replaces, checked; its first one stays if it is of the same data.
    """
    if not all(each.values for setting in side.settings for each in setting.builds):
        raise UsageError(f"{side.name} has no values per query. Accepted: a run, or answers with --truth")
    stored: dict[str, Any] = {
        "format": FORMAT,
        "format_version": VERSION,
        "recallatk": __version__,
        "accepted": datetime.now(UTC).isoformat(timespec="seconds"),
        "name": side.name,
        "metric": None if side.metric is None else str(side.metric),
        "fingerprints": dict(side.fingerprints),
        "models": {name: list(each) for name, each in side.models.items()},
        "queries": side.queries,
        "environment": {name: side.environment[name] for name in _ENVIRONMENT if name in side.environment},
        "weights": None
        if side.weights is None
        else {"column": side.weights.column, **_packed(side.weights.values)},
        "settings": [_setting(each) for each in side.settings],
    }
    stored["first"] = None if replaced is None else _first_of_same_data(stored, replaced)
    try:
        json.dumps(stored, allow_nan=False)
    except ValueError:
        raise UsageError(
            f"{side.name} has values that are not finite, which a baseline cannot hold"
        ) from None
    stored["checksum"] = _checksum(stored)
    return stored


def _first_of_same_data(stored: dict[str, Any], replaced: dict[str, Any]) -> dict[str, Any] | None:
    """The first baseline of one that is replaced, if it is of the same data."""
    earlier = {name: each for name, each in replaced.items() if name not in ("first", "checksum")}
    earliest: dict[str, Any] = replaced.get("first") or earlier
    same = all(earliest[name] == stored[name] for name in ("metric", "fingerprints", "queries"))
    return earliest if same else None


def read_baseline(path: Path, name: str, *, first: bool = False) -> ComparedSide:
    """Read a baseline as a side of a comparison; damage and newer versions are refused by name.

    Args:
        path: the file.
        name: the file as the user named it.
        first: read the first baseline that was accepted for these data instead.
    """
    stored = _checked(path, name)
    return read_stored((stored.get("first") or stored) if first else stored, name)


def read_stored(stored: dict[str, Any], name: str) -> ComparedSide:
    """A checked baseline as a side."""
    try:
        return _side(stored, name)
    except _DAMAGE as problem:
        raise FormatError(name, f"a damaged baseline: {problem}", _ACCEPTED) from problem


def _checked(path: Path, name: str) -> dict[str, Any]:
    return checked_stored(parsed_file(path, name), name)


def parsed_file(path: Path, name: str) -> Any:
    """The JSON of a file of baselines; half merged and damaged files are refused."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if any(line.startswith(_CONFLICT) for line in text.splitlines(keepends=True)):
        raise FormatError(name, "git conflict markers: the file is half merged", _ACCEPTED, hint=_RESTORE)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError(name, "a damaged baseline: no JSON", _ACCEPTED, hint=_RESTORE) from None


def checked_stored(stored: Any, name: str) -> dict[str, Any]:
    """A stored side, if it is a whole baseline of a known version."""
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise FormatError(name, "no baseline", _ACCEPTED)
    version = stored.get("format_version")
    if version != VERSION:
        found = f"format version {version!r} of a baseline"
        raise FormatError(name, found, f"version {VERSION}", hint="Update: pip install -U recallatk")
    unsealed = {key: each for key, each in stored.items() if key != "checksum"}
    if stored.get("checksum") != _checksum(unsealed):
        raise FormatError(
            name, "a damaged or edited baseline: its checksum differs", _ACCEPTED, hint=_RESTORE
        )
    return unsealed


def _side(stored: dict[str, Any], name: str) -> ComparedSide:
    queries, weights = int(stored["queries"]), stored["weights"]
    if not 0 < queries <= _MOST_QUERIES:
        raise ValueError(f"{queries} queries")
    return ComparedSide(
        name,
        SideKind.BASELINE,
        tuple(_read_setting(each, queries) for each in stored["settings"]),
        None if stored["metric"] is None else Metric(stored["metric"]),
        {str(key): str(value) for key, value in stored["fingerprints"].items()},
        queries,
        weights=None if weights is None else Weights(str(weights["column"]), _unpacked(weights, queries)),
        environment=dict(stored["environment"]),
        models={str(key): list(map(str, value)) for key, value in stored["models"].items()},
        notes=(f"{name}: accepted {stored['accepted']}.",),
    )


def _setting(setting: SideSetting) -> dict[str, Any]:
    return {
        "engine": setting.engine,
        "version": setting.version,
        "build": [[name, public(value, name)] for name, value in setting.build],
        "search": [[name, public(value, name)] for name, value in setting.search],
        "load": setting.load,
        "builds": [
            {
                "values": {name: _packed(values) for name, values in each.values.items()},
                "latency_ms": {
                    name: [found.value, found.low, found.high] for name, found in each.latencies.items()
                },
                "costs": dict(each.costs),
                "origin": each.origin,
            }
            for each in setting.builds
        ],
    }


def _read_setting(stored: dict[str, Any], queries: int) -> SideSetting:
    build, search = (
        tuple((str(key), _plain(value)) for key, value in stored[part]) for part in ("build", "search")
    )
    builds = tuple(_read_build(each, queries) for each in stored["builds"])
    version = None if stored["version"] is None else str(stored["version"])
    return SideSetting(str(stored["engine"]), build, search, str(stored["load"]), builds, version)


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise ValueError("a parameter is no plain value")
    return value


def _read_build(stored: dict[str, Any], queries: int) -> SideBuild:
    values = {str(name): _unpacked(each, queries) for name, each in stored["values"].items()}
    latencies = {
        str(name): Percentile(*(None if each is None else float(each) for each in found))
        for name, found in stored["latency_ms"].items()
    }
    costs = {str(name): None if each is None else float(each) for name, each in stored["costs"].items()}
    means = {name: mean_of(each, name) for name, each in values.items()}
    return SideBuild(means, values, latencies, costs, origin=str(stored.get("origin", "")))


def _packed(values: NDArray[np.float64]) -> dict[str, Any]:
    """Distinct values, which are few, and the index of each query's value."""
    distinct, places = np.unique(values, return_inverse=True)
    index = zlib.compress(places.astype("<u4").tobytes(), 9)
    named = [None if np.isnan(each) else float(each) for each in distinct]
    return {"distinct": named, "index": base64.b64encode(index).decode()}


def _unpacked(stored: dict[str, Any], queries: int) -> NDArray[np.float64]:
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(base64.b64decode(stored["index"], validate=True), 4 * queries + 1)
    places = np.frombuffer(raw, "<u4")
    if len(places) != queries:
        raise ValueError(f"values of {len(places):,} queries, not of {queries:,}")
    distinct = np.array([np.nan if each is None else float(each) for each in stored["distinct"]], np.float64)
    return np.asarray(distinct[places], np.float64)


def _checksum(stored: dict[str, Any]) -> str:
    canonical = json.dumps(stored, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
