"""All errors that a user can cause; `except RecallError` catches them all.

RecallError
├── UsageError         invalid call: an unknown name, an impossible option
│   ├── MissingExtraError   an optional dependency is not installed; shows the install command
│   └── WriteError          a file cannot be written: no space, no permission
├── FilterError        a filter does not parse, or does not fit the columns
├── DataError          invalid file; says where, what was found and what is accepted
│   ├── FormatError    invalid container: wrong magic, truncated, ragged, a pickle, an unknown layout
│   └── BadValueError   invalid values: NaN, a zero vector under cosine, duplicate ids
├── MismatchError      two inputs do not match: dimensions, fingerprints, metrics
└── EngineError        an engine failed, or does not support a request
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.redaction import hide_known, redact_text, writable

if TYPE_CHECKING:
    from collections.abc import Iterable


class RecallError(Exception):
    """Base of all errors that the user can cause or fix; the command line prints them without a traceback.

    Messages are safe to write anywhere: known secrets are removed, and lone surrogates are escaped.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_known(writable(message)))


class UsageError(RecallError):
    """Invalid call."""


class MissingExtraError(UsageError):
    """A required optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed. Install it: pip install 'recallatk[{extra}]'")


class WriteError(UsageError):
    """A file cannot be written; the message names the file."""

    def __init__(self, where: object, reason: str, advice: str = "") -> None:
        self.reason = reason
        super().__init__(f"{where}: cannot be written: {reason}{f'. {advice}' if advice else ''}")


class FilterError(RecallError):
    """A filter does not parse, or does not fit the columns it is applied to."""


class DataError(RecallError):
    """Invalid file."""

    def __init__(
        self, where: str, found: str, accepted: str, *, row: int | None = None, hint: str = ""
    ) -> None:
        self.where, self.found, self.accepted, self.row = where, found, accepted, row
        place = where if row is None else f"{where}, row {row}"
        super().__init__(f"{place}: {found}. Accepted: {accepted}.{' ' + hint if hint else ''}")


class FormatError(DataError):
    """The container is damaged, of the wrong kind, or unknown."""


class BadValueError(DataError):
    """The container is intact, but its values are invalid."""


class MismatchError(RecallError):
    """Two inputs do not match."""


class EngineError(RecallError):
    """An engine failed, or does not support a request; text from its library or server is redacted."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redact_text(message))


def choices(names: Iterable[object]) -> str:
    """The accepted names, joined with commas and "or"."""
    listed = [str(name) for name in names]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
