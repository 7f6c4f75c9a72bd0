"""Every engine described for people and programs: what it is, whether it is there, what it can do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from recallatk.engines.base import installed_version
from recallatk.engines.registry import get_engine, registered
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from recallatk.core import Knob
    from recallatk.engines.base import Engine
    from recallatk.engines.registry import Registered


@dataclass(frozen=True)
class Described:
    """One engine."""

    name: str
    family: str | None
    about: str
    """The first line of what its class says of itself, or why it cannot be imported."""
    installed: str | None
    """The version of its library; of one without a library, that of the package that declares it."""
    install: str
    """The line that installs it."""
    package: str
    metrics: list[str]
    abilities: dict[str, bool]
    knobs: list[dict[str, Any]]
    constraints: list[str]


def describe(name: str) -> Described:
    """One engine by its name."""
    entry = registered().get(name)
    if entry is None:
        get_engine(name)  # refuses it, with the known ones
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
            *(_knob(each, "build") for each in engine.build_knobs),
            *(_knob(each, "search") for each in engine.search_knobs),
        ],
        constraints=[each.text for each in engine.constraints],
    )


def catalogue() -> list[Described]:
    """All of them, by name."""
    return [describe(name) for name in registered()]


def _installed(engine: type[Engine], entry: Registered) -> str | None:
    if engine.distribution is not None:
        return installed_version(engine)
    from importlib import metadata

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
