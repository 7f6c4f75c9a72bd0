"""Parameter grids of an engine entry: values, lists, ranges, and their valid combinations."""

# pydantic reads the annotations of RangeSettings when the module is imported, so they are not postponed.
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from recallatk.adapters import Engine
from recallatk.adapters.attached import json_object
from recallatk.adapters.names_elsewhere import PARAMETERS
from recallatk.bench.settings.problems import Place, Problems, described, keys_of
from recallatk.bench.settings.values import Table, refuse_secrets
from recallatk.core import Knob
from recallatk.core.trials import KnobValue, Parameters
from recallatk.deprecation import deprecated
from recallatk.errors import UsageError, unknown

MOST = 100_000
# Enough digits to keep steps distinct, without tails such as 0.30000000000000004.
_DIGITS = 12


class RangeSettings(Table):
    """A range of a parameter, both ends included."""

    from_: Annotated[float, Field(alias="from")]
    to: float
    steps: Annotated[int, Field(ge=2, le=1_000)] = 6
    scale: Literal["log", "linear"] | None = None

    @model_validator(mode="after")
    def _upwards(self) -> "RangeSettings":
        if self.from_ > self.to:
            raise ValueError(f"from {self.from_:g} to {self.to:g}. Accepted: a from no larger than to")
        if self.scale == "log" and self.from_ <= 0:
            raise ValueError(f'from {self.from_:g} on a log scale. Accepted: above 0, or scale = "linear"')
        return self


_RANGE_KEYS = frozenset(keys_of(RangeSettings))


def range_values(given: RangeSettings, scale: str = "linear", *, whole: bool = False) -> tuple[float, ...]:
    """The distinct values in ascending order, both ends included; `scale` applies if the range names none."""
    low, high = given.from_, given.to
    ratio = high / low if (given.scale or scale) == "log" else None
    values = [low]
    for step in range(1, given.steps - 1):
        share = step / (given.steps - 1)
        # A sum of two products: the difference of the ends could overflow.
        value = low * (1 - share) + high * share if ratio is None else low * ratio**share
        values.append(min(max(value if whole else float(f"{value:.{_DIGITS}g}"), low), high))
    values.append(high)
    if whole:
        return tuple(sorted({round(value) for value in values}))
    return tuple(sorted(set(values)))


@dataclass(frozen=True)
class Axis:
    """The values of one parameter."""

    values: tuple[KnobValue, ...]
    grid: bool = False
    """Whether the values come from a list or a range, so that invalid ones may be dropped."""


@dataclass(frozen=True)
class Axes:
    """Every parameter of an engine with its values, defaults included."""

    build: dict[str, Axis]
    search: dict[str, Axis]

    @property
    def grids(self) -> frozenset[str]:
        """Names of the parameters given as a list or a range."""
        return frozenset(name for part in (self.build, self.search) for name in part if part[name].grid)


def read_axes(
    engine: type[Engine], build: Mapping[str, Any], search: Mapping[str, Any]
) -> tuple[Axes, Problems]:
    """The axes of an engine entry, and its problems with places relative to the entry."""
    parts = {"build": engine.build_knobs, "search": engine.search_knobs}
    given = {"build": build, "search": search}
    problems, made = Problems(), {}
    reader = _Reader(engine.name, problems)
    for part, knobs in parts.items():
        more = engine.stated_search_knobs if part == "search" else engine.stated_build_knobs
        known = {knob.name: knob for knob in (*knobs, *(each for each in more if each.name in given[part]))}
        other = "search" if part == "build" else "build"
        free: dict[str, Axis] = {}
        for name in given[part]:
            if part == "search" and name in engine.deprecated_search:
                deprecated(f"the search parameter {name!r} of {engine.name}", "its parameters by their names")
            if part == "search" and engine.free_search and name not in known:
                free[name] = reader.free(engine, name, given[part][name])
            elif name not in known:
                elsewhere = name in {knob.name for knob in parts[other]}
                said = unknown(f"{part} parameter of {engine.name}", name, known, PARAMETERS, placed=True)
                table = other if engine.family == "path" else f"[engine.{other}]"
                problems.add((part, name), f"belongs in {table}" if elsewhere else said)
        made[part] = {
            name: reader.axis(knob, given[part][name], (part, name))
            if name in given[part]
            else Axis((knob.plain(knob.default),))
            for name, knob in known.items()
        } | free
    return Axes(made["build"], made["search"]), problems


class _Reader:
    """Conversion of bench file values to values that an engine's knobs accept."""

    def __init__(self, engine: str, problems: Problems) -> None:
        self.engine, self.problems = engine, problems

    def axis(self, knob: Knob, given: Any, place: Place) -> Axis:
        """The axis of one parameter; invalid values become the default so that the rest can be checked."""
        if isinstance(given, list | tuple):
            if not given:
                self.problems.add(place, "an empty list. Accepted: at least one value")
            read = [self._one(knob, each, (*place, number)) for number, each in enumerate(given)]
            values, grid = tuple(value for each in read for value in each), True
        else:
            values = self._one(knob, given, place)
            grid = isinstance(given, Mapping) and (not is_json(knob) or len(values) > 1)
        return Axis(tuple(dict.fromkeys(values)) or (knob.plain(knob.default),), grid)

    def free(self, engine: type[Engine], name: str, given: Any) -> Axis:
        """The axis of a parameter that the engine does not declare: a plain value, a list or a range."""
        place: Place = ("search", name)
        refused = engine.unaccepted(name)
        if refused is not None:
            self.problems.add(place, refused)
        if isinstance(given, Mapping) and {"from", "to"} <= given.keys() <= _RANGE_KEYS:
            found = self._read_range(given, place)
            whole = all(isinstance(given[end], int) for end in ("from", "to"))
            return Axis(() if found is None else range_values(found, whole=whole), grid=True)
        grid = isinstance(given, list | tuple | range) or (hasattr(given, "tolist") and given.ndim == 1)
        if grid and not len(given):
            self.problems.add(place, "an empty list. Accepted: at least one value")
        values = [self._plain(each, name, place) for each in (given if grid else [given])]
        return Axis(tuple(dict.fromkeys(values)), grid)

    def _plain(self, value: Any, name: str, place: Place) -> Any:
        """One value of a free parameter; only scalars can be saved with the run."""
        plain = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
        if plain is not None and not isinstance(plain, bool | int | float | str):
            accepted = "numbers, strings, true, false or a list of them"
            self.problems.add(place, f"{described(plain)}. Accepted: {accepted}")
            return None
        try:
            refuse_secrets(plain if isinstance(plain, str) else "", name)
        except ValueError as problem:
            self.problems.add(place, str(problem))
        return plain

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
                place, f'{knob.name} has a log scale, which starts above 0. Accepted: scale = "linear" too'
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
        """A table as JSON text; a range in it yields one text per value."""
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
            self.problems.add(place, f"contains a value that JSON cannot represent: {problem}")
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
    """Whether a knob holds JSON text, which a bench file may write as a table."""
    return isinstance(knob.default, str) and knob.default.startswith("{")


def _accepted(knob: Knob, *, alone: bool) -> str:
    if is_json(knob):
        return "a table, or its JSON as a string"
    if isinstance(knob.default, str):
        return knob.accepted if knob.choices else "a string"
    return f"{knob.accepted}, a list of them or a range" if alone else knob.accepted


@dataclass(frozen=True)
class Combined:
    """The valid combinations of an entry, and the reasons against the others."""

    builds: tuple[tuple[Parameters, tuple[Parameters, ...]], ...]
    """Each build with its searches."""
    dropped: Mapping[str, int]
    """Reasons for dropped grid combinations, with their counts."""
    refused: tuple[str, ...]
    """Constraints violated by values outside of any grid."""


def combine(engine: type[Engine], axes: Axes, known: Mapping[str, Any]) -> Combined:
    """All valid combinations, given the known values of `k`, `rows` and `dimension`."""
    count = math.prod(len(axis.values) for part in (axes.build, axes.search) for axis in part.values())
    if count > MOST:
        return Combined((), {}, (f"{count:,} combinations of its parameters. Accepted: up to {MOST:,}",))
    dropped: Counter[str] = Counter()
    refused: dict[str, None] = {}
    builds = []
    for build in _product(axes.build):
        searches = []
        for search in _product(axes.search):
            alone, among = violations(engine, {**known, **build, **search}, axes.grids)
            refused |= dict.fromkeys(alone)
            dropped.update(among[:1])
            if not alone and not among:
                searches.append(tuple(search.items()))
        if searches:
            builds.append((tuple(build.items()), tuple(searches)))
    if not builds and not refused:
        by_k = any("k = " in each for each in dropped)
        lower = ". To keep small values, lower the largest k (at, --at)" if by_k else ""
        refused["no combination is left: " + "; ".join(dropped) + lower] = None
    return Combined(tuple(builds), dropped, tuple(refused))


def _product(part: Mapping[str, Axis]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*(axis.values for axis in part.values())):
        yield dict(zip(part, values, strict=True))


def violations(
    engine: type[Engine], known: Mapping[str, Any], grids: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Constraints violated by single values, and those violated by a grid value."""
    alone: list[str] = []
    among: list[str] = []
    for constraint in engine.constraints:
        values = {name: known[name] for name in constraint.names if name in known}
        if len(values) == len(constraint.names) and not constraint.holds(**values):
            listed = ", ".join(f"{name} = {value}" for name, value in values.items())
            said = f"{engine.name} needs {constraint.text}, but has {listed}"
            (among if grids & values.keys() else alone).append(said)
    return alone, among
