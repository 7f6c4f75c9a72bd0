"""Registry of engines: found through entry points of installed packages, imported on demand, described."""

from __future__ import annotations

import importlib
import sys
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from recallatk.adapters.installation import installed_version
from recallatk.adapters.names_elsewhere import ENGINES
from recallatk.errors import EngineError, UsageError, unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from recallatk.adapters.base import Engine
    from recallatk.adapters.live import LiveIndex
    from recallatk.core import Knob

GROUP = "recallatk.engines"
# Classes of index objects as `module:Class`, each with the engine that searches such an object.
_LIVE = {
    "annoy:AnnoyIndex": "annoy:LiveAnnoy",
    "chromadb.api.models.Collection:Collection": "chroma:LiveChroma",
    "faiss:Index": "faiss_live:LiveFaiss",
    "hnswlib:BFIndex": "hnswlib:LiveBruteForce",
    "hnswlib:Index": "hnswlib:LiveHnswlib",
    "lancedb.table:Table": "lancedb:LiveLanceTable",
    "pynndescent:NNDescent": "pynndescent:LivePyNNDescent",
    "qdrant_client:QdrantClient": "qdrant_live:LiveQdrantCollection",
    "qdrant_edge:EdgeShard": "qdrant_live:LiveQdrantShard",
    "scann.scann_ops.py.scann_ops_pybind:ScannSearcher": "scann:LiveScann",
    "sklearn.neighbors:NearestNeighbors": "sklearn:LiveNearestNeighbors",
    "usearch.index:Index": "usearch:LiveUsearch",
    "voyager:Index": "voyager:LiveVoyager",
}

# A client alone does not say which collection is meant.
_IN_PAIRS = "qdrant_client:QdrantClient"


@dataclass(frozen=True)
class Registered:
    """One engine declared by an installed package."""

    name: str
    path: str
    """`module:Class`."""
    package: str
    """The distribution that declares it."""


@cache
def registered() -> dict[str, Registered]:
    """Every engine by name, in alphabetical order; on a name clash, ours wins."""
    found: dict[str, Registered] = {}
    points = [
        Registered(point.name, point.value, "recallatk" if point.dist is None else point.dist.name)
        for point in metadata.entry_points(group=GROUP)
    ]
    for point in sorted(points, key=lambda each: (each.name, each.package != "recallatk", each.package)):
        found.setdefault(point.name, point)
    return found


_declared: dict[str, type[Engine]] = {}


def declare(engine: type[Engine]) -> type[Engine]:
    """Make an engine that no package registers known to this process by its name, such as a path.

    Another engine of the same name is replaced, because settings may be read twice; the names of registered
    engines are taken.
    """
    if engine.name in registered():
        raise UsageError(f"{engine.name} is the name of an engine. Choose another name")
    _declared[engine.name] = engine
    return engine


def declaration_of(name: str) -> Mapping[str, Any] | None:
    """The JSON form of a declared engine; None for a registered one, or one that text cannot describe."""
    return _declared[name].declaration if name in _declared and name not in registered() else None


def get_engine(name: str) -> type[Engine]:
    """The class of the engine of that name."""
    known = registered()
    if name not in known and name in _declared:
        return _declared[name]
    if name not in known:
        raise UsageError(unknown("engine", name, known, ENGINES))
    module, _, attribute = known[name].path.partition(":")
    try:
        found: type[Engine] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise EngineError(
            f"the engine {name} of {known[name].package} cannot be imported: {problem}"
        ) from problem
    return found


def live_engine(held: object, names: Collection[str] = ()) -> type[LiveIndex] | None:
    """The engine for an index object that the caller holds; None if its class is unknown.

    The caller must have imported the object's library, so recognition imports nothing.

    Args:
        held: the object; a Qdrant collection is `(client, "collection")`.
        names: names of the search parameters in the settings.
    """
    pair = isinstance(held, tuple) and len(held) == 2
    told = held[0] if isinstance(held, tuple) and pair else held
    for known, path in _LIVE.items():
        module, _, name = known.partition(":")
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(told, kind) and (not pair or known == _IN_PAIRS):
            ours, _, attribute = path.partition(":")
            found: type[LiveIndex] = getattr(importlib.import_module(f"recallatk.adapters.{ours}"), attribute)
            return found.of(held, names)
    return None


@dataclass(frozen=True)
class Described:
    """Description of one engine: class, installation, metrics, abilities and parameters."""

    name: str
    family: str | None
    about: str
    """First line of the class docstring, or the reason why the class cannot be imported."""
    installed: str | None
    """Version of its library, or of the declaring package if it needs no library."""
    install: str
    """The command that installs it."""
    package: str
    metrics: list[str]
    abilities: dict[str, bool]
    knobs: list[dict[str, Any]]
    constraints: list[str]


def describe(name: str) -> Described:
    """One engine by its name."""
    entry = registered().get(name)
    if entry is None:
        get_engine(name)  # raises an error that lists the known engines
        raise AssertionError
    try:
        engine = get_engine(name)
    except EngineError as problem:
        return Described(
            name, None, str(problem), None, f"pip install {entry.package}", entry.package, [], {}, [], []
        )
    return Described(
        name=name,
        family=engine.family,
        about=(engine.__doc__ or "").strip().partition("\n")[0],
        installed=_installed(engine, entry),
        install=_install_line(engine, entry),
        package=entry.package,
        metrics=sorted(engine.metrics),
        abilities=asdict(engine.abilities),
        knobs=[
            *(_knob(each, "build") for each in (*engine.build_knobs, *engine.stated_build_knobs)),
            *(_knob(each, "search") for each in engine.search_knobs),
            *(
                _knob(each, "search")
                for each in engine.stated_search_knobs
                if each.name not in engine.deprecated_search
            ),
        ],
        constraints=[each.text for each in engine.constraints],
    )


def catalogue() -> list[Described]:
    """All engines, by name."""
    return [describe(name) for name in registered()]


def _installed(engine: type[Engine], entry: Registered) -> str | None:
    if engine.distribution is not None:
        return installed_version(engine)
    return metadata.version(entry.package)


def _install_line(engine: type[Engine], entry: Registered) -> str:
    return (
        f"pip install '{entry.package}[{engine.extra}]'" if engine.extra else f"pip install {entry.package}"
    )


def _knob(knob: Knob, when: str) -> dict[str, Any]:
    numbers = (
        {} if isinstance(knob.default, str) else {"low": knob.low, "high": knob.high, "scale": knob.scale}
    )
    return {
        "name": knob.name,
        "when": when,
        "default": knob.default,
        **numbers,
        "choices": list(knob.choices),
        "effort": knob.effort,
        "help": knob.help,
        "accepted": knob.accepted,
    }
