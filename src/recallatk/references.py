"""References to environment variables: `${NAME}` in a URL, header, body, command or parameter."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from recallatk.errors import UsageError
from recallatk.redaction import literal_secret, remember
from recallatk.redaction.known import passwords_in
from recallatk.redaction.names import is_secret_variable

# $${NAME} is the text ${NAME} itself.
_REFERENCE = re.compile(r"\$\$\{\w+\}|\$\{(\w+)\}")
Value = TypeVar("Value")


def expanded(value: Value, name: str, where: str) -> Value:
    """A text, or a table of texts, with `${NAME}` replaced by environment variables.

    From now on, the values are removed from everything written or shown.

    Args:
        value: the user's text.
        name: the parameter's name, such as `headers`, which tells a secret from a host name.
        where: the location for the error message if a variable is not set.
    """
    remember_references({name: value})
    found: Value = _mapped(value, lambda match: _look_up(match[1], where) if match[1] else match[0][1:])
    return found


def expanded_template(value: Value, name: str, where: str, own: Collection[str]) -> Value:
    """Like `expanded`, for a template that has variables of its own and writes a dollar as `$$`."""
    remember_references({name: value})

    def filled(match: re.Match[str]) -> str:
        if match[1] is None or match[1] in own:
            return match[0]
        return _look_up(match[1], where).replace("$", "$$")

    found: Value = _mapped(value, filled)
    return found


def _mapped(value: Any, fill: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _mapped(each, fill) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, fill) for each in value)
    return _REFERENCE.sub(fill, value) if isinstance(value, str) else value


def _look_up(name: str, where: str) -> str:
    if name not in os.environ:
        raise UsageError(
            f"{where}: the environment variable {name} is not set. Set it: export {name}=... (for the "
            f"literal text ${{{name}}}, write $${{{name}}})"
        )
    return os.environ[name]


def remember_references(parameters: Mapping[str, Any]) -> None:
    """Remove the values of all referenced variables from everything written or shown."""
    for name, value in parameters.items():
        for text in _texts(value):
            for found in _REFERENCE.finditer(text):
                variable = found[1]
                if variable is not None:
                    secret = is_secret_variable(variable) or _is_place_of_secret(value, name, variable)
                    remember(os.environ.get(variable), variable, secret=secret)


def _is_place_of_secret(value: Any, name: str, variable: str) -> bool:
    """Whether a literal value at the variable's position would be refused as a secret."""
    reference = f"${{{variable}}}"
    written = _mapped(value, lambda found: "x" if found[0] == reference else found[0])
    return literal_secret({name: written}) is not None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def remember_variables(names: Collection[str]) -> None:
    """Remove the secrets in these variables from everything written or shown."""
    for name in names:
        value = os.environ.get(name)
        if value is not None and is_secret_variable(name):
            remember(value, name)
        for password in passwords_in(value or ""):
            remember(password)


def secret_variable(name: str) -> str | None:
    """The value of a secret variable, which is removed from everything written or shown."""
    value = os.environ.get(name)
    remember(value, name)
    return value
