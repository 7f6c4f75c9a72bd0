"""Value types of a bench file: lists, counts, durations, sizes, paths without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from recallatk.bench.settings.problems import described
from recallatk.core import Metric
from recallatk.errors import RecallError
from recallatk.redaction import is_url, literal_secret
from recallatk.references import expanded
from recallatk.units import (
    DURATION,
    RATE,
    SIZE,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_rate,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
LARGEST = 2**63 - 1
# A bench file is saved with its run, and so would be its secrets.
_REFUSAL = "may contain a secret, and this file is saved with the run. Take it from the environment: ${NAME}"


class Table(BaseModel):
    """Base of every table: values are never converted silently, and unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )


def one_or_many(value: Any) -> Any:
    """Convert a list to a tuple, and a single value to a tuple of one."""
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError("an empty list. Accepted: at least one value")
        return tuple(value)
    return (value,)


def none_or_many(value: Any) -> Any:
    """Like `one_or_many`, but accept an empty list."""
    return () if isinstance(value, list | tuple) and not value else one_or_many(value)


def as_list(value: Any) -> Any:
    """Convert a list to a tuple; the model refuses any other value."""
    return tuple(value) if isinstance(value, list) else value


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The distinct values in order."""
    return tuple(dict.fromkeys(values))


def plain_number(value: float) -> float:
    """Convert a whole float to an int, so that both are written and compared alike."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def _read(make: Callable[[Any], Any], accepted: str, *kinds: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"{described(value)}. Accepted: {accepted}")
        try:
            return make(value)
        except RecallError as problem:
            raise ValueError(str(problem)) from None

    return read


def _written(write: Callable[[Any], Any]) -> PlainSerializer:
    return PlainSerializer(lambda value: None if value is None else write(value))


def path_text(value: str) -> str:
    """Check that a path can be written to a text file."""
    if "\0" in value or not _is_unicode(value):
        raise ValueError("the path has characters that a text file cannot store")
    return value


def _is_unicode(value: str) -> bool:
    # Python decodes non-UTF-8 file names to lone surrogates, which cannot be encoded.
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def refuse_secrets(value: Any, name: str = "") -> None:
    """Refuse a parameter that spells out a password, a token or a key."""
    found = literal_secret(value, name)
    if found is not None:
        raise ValueError(f"{found} {_REFUSAL}")


def without_literals(value: str) -> str:
    """A path or URL, refused if it spells out a password or a key."""
    refuse_secrets(value)
    return value


def function_name(value: str) -> str:
    """The name of a function, which is imported only when it is used."""
    module, _, name = value.partition(":")
    if not module or not name:
        raise ValueError(f"{described(value)}. Accepted: module:function")
    return value


def rate_text(value: str) -> str:
    """A rate such as `20/s`, as written."""
    _read(parse_rate, RATE, str)(value)
    return value


def filled(text: str, key: str) -> str:
    """Expand `${NAME}` in a URL from the environment; paths are left unchanged.

    Args:
        text: a path or URL of the bench file.
        key: its key for messages, such as `data.corpus`.
    """
    return expanded(text, "url", key) if is_url(text) else text


Text = Annotated[str, Field(min_length=1)]
PathText = Annotated[Text, AfterValidator(path_text)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[float, Field(gt=0), AfterValidator(plain_number)]
MetricName = Annotated[Metric, BeforeValidator(_read(Metric, "cosine, ip or l2", str)), _written(str)]
Seconds = Annotated[
    float,
    BeforeValidator(_read(parse_duration, DURATION, str)),
    _written(format_duration),
]
Milliseconds = Annotated[
    float,
    BeforeValidator(_read(lambda text: parse_duration(text, unit="ms"), DURATION, str)),
    AfterValidator(plain_number),
    _written(lambda value: format_duration(value, unit="ms")),
]
Bytes = Annotated[int, BeforeValidator(_read(parse_bytes, SIZE, str, int)), _written(format_bytes)]
