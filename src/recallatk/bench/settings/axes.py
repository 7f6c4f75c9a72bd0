"""The parameters of an engine entry as axes: one value each, or the values of a grid."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from recallatk.bench.settings.models import RangeSettings
from recallatk.bench.settings.problems import described, keys_of, unknown
from recallatk.bench.settings.ranges import range_values
from recallatk.bench.settings.secrets import refuse_secrets
from recallatk.engines.attached import json_object
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.bench.settings.models import EngineSettings
    from recallatk.bench.settings.problems import Place, Problems
    from recallatk.core import Knob
    from recallatk.core.trials import KnobValue
    from recallatk.engines import Engine

_RANGE_KEYS = frozenset(keys_of(RangeSettings))


@dataclass(frozen=True)
class Axis:
    """The values that one parameter takes."""

    values: tuple[KnobValue, ...]
    grid: bool = False
    """Whether they were given as a list or a range, of which some may be left out."""


@dataclass(frozen=True)
class Axes:
    """Every parameter of an engine with its values, the defaults included."""

    build: dict[str, Axis]
    search: dict[str, Axis]

    @property
    def grids(self) -> frozenset[str]:
        """The parameters that were given as a list or a range."""
        return frozenset(name for part in (self.build, self.search) for name in part if part[name].grid)


def read_axes(engine: type[Engine], entry: EngineSettings, place: Place, problems: Problems) -> Axes:
    """The axes of an entry; what is wrong with it is added to the problems."""
    parts = {"build": engine.build_knobs, "search": engine.search_knobs}
    made = {}
    for part, knobs in parts.items():
        given: Mapping[str, Any] = getattr(entry, part)
        known = {knob.name: knob for knob in knobs}
        other = "search" if part == "build" else "build"
        for name in given:
            if name not in known:
                elsewhere = name in {knob.name for knob in parts[other]}
                said = unknown(f"parameter of {engine.name}", name, known)
                moved = f"it belongs into [engine.{other}]"
                problems.add((*place, part, name), moved if elsewhere else said)
        reading = _Reading(engine.name, problems)
        made[part] = {
            name: reading.axis(knob, given[name], (*place, part, name))
            if name in given
            else Axis((knob.plain(knob.default),))
            for name, knob in known.items()
        }
    return Axes(made["build"], made["search"])


class _Reading:
    """Values as the file has them turned into what the knobs of an engine take."""

    def __init__(self, engine: str, problems: Problems) -> None:
        self.engine, self.problems = engine, problems

    def axis(self, knob: Knob, given: Any, place: Place) -> Axis:
        """One parameter; where something is wrong, its default stands in so that the rest can be checked."""
        if isinstance(given, list | tuple):
            if not given:
                self.problems.add(place, "an empty list. Accepted: at least one value")
            read = [self._one(knob, each, (*place, number)) for number, each in enumerate(given)]
            values, grid = tuple(value for each in read for value in each), True
        else:
            values = self._one(knob, given, place)
            grid = isinstance(given, Mapping) and (not is_json(knob) or len(values) > 1)
        return Axis(tuple(dict.fromkeys(values)) or (knob.plain(knob.default),), grid)

    def _one(self, knob: Knob, given: Any, place: Place) -> tuple[KnobValue, ...]:
        if isinstance(given, Mapping) and is_json(knob):
            return self._table(knob, given, place)
        if isinstance(given, Mapping) and not isinstance(knob.default, str):
            return self._range(knob, given, place)
        if not knob.accepts(given):
            accepted = _accepted(knob, alone=isinstance(place[-1], str))
            self.problems.add(place, f"{described(given)}. Accepted: {accepted}")
            return ()
        return self._text(knob, given, place) if isinstance(given, str) else (knob.plain(given),)

    def _range(self, knob: Knob, given: Mapping[str, Any], place: Place) -> tuple[KnobValue, ...]:
        found = self._read_range(given, place)
        if found is None:
            return ()
        whole = isinstance(knob.default, int)
        for key, end in (("from", found.from_), ("to", found.to)):
            if not knob.accepts(int(end) if whole and end.is_integer() else end):
                self.problems.add((*place, key), f"{described(given[key])}. Accepted: {knob.accepted}")
                return ()
        if found.scale is None and knob.scale == "log" and found.from_ <= 0 < found.to:
            self.problems.add(
                place, f'{knob.name} has a log scale, which begins above 0. Accepted: scale = "linear" too'
            )
            return ()
        return tuple(knob.plain(value) for value in range_values(found, knob.scale, whole=whole))

    def _read_range(self, given: Mapping[str, Any], place: Place) -> RangeSettings | None:
        try:
            return RangeSettings.model_validate(dict(given))
        except ValidationError as error:
            self.problems.add_all(error, RangeSettings, place)
            return None

    def _table(self, knob: Knob, given: Mapping[str, Any], place: Place) -> tuple[KnobValue, ...]:
        """A table as JSON text; ranges in it make one text for each of their values."""
        axes: dict[str, tuple[Any, ...]] = {}
        for name, value in given.items():
            axes[name] = (value,)
            if isinstance(value, Mapping) and {"from", "to"} <= value.keys() <= _RANGE_KEYS:
                found = self._read_range(value, (*place, name))
                whole = all(isinstance(value[end], int) for end in ("from", "to"))
                axes[name] = () if found is None else range_values(found, whole=whole)
        tables = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        try:
            texts = [json.dumps(table, ensure_ascii=False, allow_nan=False) for table in tables]
        except (TypeError, ValueError) as problem:
            self.problems.add(place, f"holds what JSON cannot: {problem}")
            return ()
        return tuple(text for each in texts for text in self._text(knob, each, place))

    def _text(self, knob: Knob, given: str, place: Place) -> tuple[KnobValue, ...]:
        try:
            refuse_secrets(given, knob.name)
            if is_json(knob):
                json_object(self.engine, knob.name, given)
        except (UsageError, ValueError) as problem:
            self.problems.add(place, str(problem))
            return ()
        return (given,)


def is_json(knob: Knob) -> bool:
    """Whether a knob is a JSON object in a text, which the file may write as a table."""
    return isinstance(knob.default, str) and knob.default.startswith("{")


def _accepted(knob: Knob, *, alone: bool) -> str:
    if is_json(knob):
        return "a table, or its JSON as a text"
    if isinstance(knob.default, str):
        return knob.accepted if knob.choices else "a text"
    return f"{knob.accepted}, a list of them or a range" if alone else knob.accepted
