"""Engine parameters from options: `--search ef=10,20,40`, `--build hnswlib.M=16`, `--set url=...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.adapters import get_engine
from recallatk.adapters.names_elsewhere import PARAMETERS
from recallatk.errors import UsageError, choices, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Knob

Entries = dict[str, dict[str, dict[str, Any]]]
_OTHER = {"--search": "--build", "--build": "--search"}


def engine_parameters(
    engines: Sequence[str], search: Sequence[str], build: Sequence[str], settings: Sequence[str]
) -> Entries:
    """Build and search parameters of each engine; a name without an engine goes to all that have it.

    Args:
        engines: the engines of the command.
        search: texts of --search, such as `ef=10,20` or `hnswlib.ef=40`.
        build: texts of --build.
        settings: texts of --set: one text each, never a list.
    """
    found: Entries = {name: {"build": {}, "search": {}} for name in engines}
    for option, texts in (("--search", search), ("--build", build), ("--set", settings)):
        for text in texts:
            _read(option, text, found)
    return found


def _read(option: str, text: str, found: Entries) -> None:
    written, sign, value = text.partition("=")
    if not sign or not written or not value:
        example = "url=http://localhost:6333" if option == "--set" else "ef=10,20,40"
        raise UsageError(f"{option} {text}: no value. Accepted: NAME=VALUE, such as {option} {example}")
    engine, _, name = written.strip().rpartition(".")
    if engine and engine not in found:
        raise UsageError(f"{option} {text}: {unknown('engine', engine, found)}")
    part = "search" if option == "--search" else "build"
    able = {each: knob for each in ([engine] if engine else found) if (knob := _knob(option, each, name))}
    if not able:
        raise UsageError(f"{option} {text}: {_refusal(option, name, [engine] if engine else list(found))}")
    for each, knob in able.items():
        found[each][part][name] = value if option == "--set" else _values(value, knob)


def _knob(option: str, engine: str, name: str) -> Knob | None:
    return _knobs(option, engine).get(name)


def _knobs(option: str, engine: str) -> dict[str, Knob]:
    made = get_engine(engine)
    if option == "--search":
        return {knob.name: knob for knob in made.search_knobs}
    known = {knob.name: knob for knob in made.build_knobs}
    # A setting is an address or another text, of which a grid makes no sense.
    return known if option == "--build" else {name: each for name, each in known.items() if _is_text(each)}


def _is_text(knob: Knob) -> bool:
    return isinstance(knob.default, str) and not knob.choices


def _refusal(option: str, name: str, engines: list[str]) -> str:
    other = _OTHER.get(option, "--build")
    if any(name in _knobs(other, each) for each in engines):
        return f"{name} is a parameter of {other}. Write {other} {name}=VALUE"
    kind = {"--search": "search parameter", "--build": "build parameter", "--set": "setting"}[option]
    known = list(dict.fromkeys(each for engine in engines for each in _knobs(option, engine)))
    return unknown(f"{kind} of {choices(engines)}", name, known, PARAMETERS)


def _values(text: str, knob: Knob) -> Any:
    """One value, or a list of those between commas; a free text may have commas of its own."""
    if _is_text(knob):
        return text
    values = [_value(each.strip(), knob) for each in text.split(",")]
    return values if len(values) > 1 else values[0]


def _value(text: str, knob: Knob) -> Any:
    if isinstance(knob.default, str):
        return text
    if isinstance(knob.default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
