"""Problems of a bench file, each with its key and in TOML's terms."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from recallatk.errors import UsageError, choices, unknown

if TYPE_CHECKING:
    from pydantic import ValidationError

Place = tuple[str | int, ...]
NO_ENGINE = "is required: at least one [[engine]] with its name"

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN = 60
_WANTED = {
    "string_type": "a string",
    "string_too_short": "a non-empty string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "from {}"),
    "greater_than": ("gt", "above {}"),
    "less_than_equal": ("le", "to {}"),
    "less_than": ("lt", "below {}"),
}


class SettingsError(UsageError):
    """A bench file has problems; the message lists all of them."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        # One line per problem, even if a value contains line breaks.
        self.where, self.problems = where, tuple("\\n".join(each.splitlines()) for each in problems)
        one, *others = self.problems
        lines = [f"{where}: {len(self.problems)} problems", *(f"  {each}" for each in self.problems)]
        super().__init__("\n".join(lines) if others else f"{where}: {one}")


class Problems:
    """The distinct problems found so far, in the order of the file."""

    def __init__(self) -> None:
        self._added: dict[tuple[Place, str], None] = {}

    @property
    def found(self) -> list[str]:
        """Each problem, prefixed with its place."""
        return [f"{spelled(place)}: {message}" if place else message for place, message in self._added]

    def add(self, place: Place, message: str) -> None:
        """Add a problem at a place."""
        self._added[place, message] = None

    def add_all(self, error: ValidationError, model: type[BaseModel], place: Place = ()) -> None:
        """Add all problems that a model found."""
        for each in error.errors(include_url=False):
            self.add((*place, *each["loc"]), worded(each, model))

    def include(self, part: Problems, place: Place) -> None:
        """Add the problems of a part, with their places relative to this place."""
        for below, message in part._added:
            self.add((*place, *below), message)

    def moved(self, move: Callable[[Any], Place]) -> Problems:
        """The same problems at other places."""
        found = Problems()
        for place, message in self._added:
            found.add(move(place), message)
        return found

    def require_none(self, where: str) -> None:
        """Raise a SettingsError with all problems, if there are any."""
        if self._added:
            raise SettingsError(where, self.found)


def spelled(place: Place) -> str:
    """A place as people write it: `engine[1].search.ef`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f"{'.' if text else ''}{key(part)}"
    return text


def key(name: str) -> str:
    """A key as TOML writes it."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def worded(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """One problem in TOML's terms."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        *place, name = error["loc"]
        return unknown("key", name, keys_of(_model_at(model, place)), placed=True)
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = context[name]
        plain = int(bound) if float(bound).is_integer() else bound
        return f"{described(value)}. Accepted: {words.format(plain)}"
    if kind == "literal_error":
        accepted = choices(re.findall(r"'([^']*)'", context["expected"]))
        return f"{described(value)}. Accepted: {accepted}"
    if kind == "finite_number":
        return f"{described(value)}. Accepted: finite numbers"
    wanted = _WANTED.get(kind)
    return f"{described(value)}. Accepted: {wanted}" if wanted else f"{described(value)}: {error['msg']}"


def keys_of(model: type[BaseModel]) -> list[str]:
    """The accepted keys of a table, as written in the file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def described(value: object) -> str:
    """A value with its TOML type."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, int | float):
        return shown(value)
    if isinstance(value, dt.date | dt.time):
        return f"the date or time {value}"
    return f"{shown(value)}"


def shown(value: object) -> str:
    """A value on one line, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _model_at(model: type[BaseModel], place: Iterable[str | int]) -> type[BaseModel]:
    """The model of a table within another."""
    for part in place:
        field = model.model_fields.get(str(part))
        found = None if field is None else _model_in(field.annotation)
        model = found or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)
