"""All errors that a user can cause; `except RecallError` catches them all.

RecallError
├── UsageError         invalid call: an unknown name, an impossible option
│   ├── MissingExtraError   an optional dependency is not installed; shows the install command
│   ├── MissingFileError    a file or folder to read does not exist
│   └── WriteError          a file cannot be written: no space, no permission
├── FilterError        a filter does not parse, or does not fit the columns
├── DataError          invalid file; says where, what was found and what is accepted
│   ├── FormatError    invalid container: wrong magic, truncated, ragged, a pickle, an unknown layout
│   └── BadValueError   invalid values: NaN, a zero vector under cosine, duplicate ids
├── MismatchError      two inputs do not match: dimensions, fingerprints, metrics
└── EngineError        an engine failed, or does not support a request
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recallatk.redaction import hide_known, redact_text, writable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class RecallError(Exception):
    """Base of all errors that the user can cause or fix; the command line prints them without a traceback.

    Messages are safe to write anywhere: known secrets are removed, and lone surrogates are escaped.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(hide_known(writable(message)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments than the message, and errors cross between processes.
        return _restored, (type(self), str(self), vars(self))


def _restored(kind: type[RecallError], message: str, state: Mapping[str, Any]) -> RecallError:
    error = kind.__new__(kind)
    RecallError.__init__(error, message)
    vars(error).update(state)
    return error


class UsageError(RecallError):
    """Invalid call."""


class MissingExtraError(UsageError):
    """A required optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed. Install it: pip install 'recallatk[{extra}]'")


class MissingFileError(UsageError):
    """A file or folder to read does not exist; while it is written anew, that is no mistake."""


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


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Turn a missing module into an error with the command that installs its extra.

    Args:
        what: the library and what needs it, such as `h5py, which reads and writes HDF5 files,`.
        extra: the name of the extra.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise MissingExtraError(what, extra) from None


def unknown(
    what: str,
    name: object,
    known: Iterable[object],
    alike: Mapping[str, Sequence[str]] | None = None,
    *,
    placed: bool = False,
) -> str:
    """The refusal of a name: the nearest known one, and all that are accepted.

    Args:
        what: what the name should have been, such as `engine` or `parameter of faiss-hnsw`.
        name: the name as written.
        known: the accepted names.
        alike: other tools' names, in lower case without punctuation, each with ours for the same thing.
        placed: whether the message begins with the place of the name, which need not be repeated.
    """
    names = [str(each) for each in known]
    kind, _, owner = what.partition(" of ")
    named = f"{owner} has no {kind} {name!r}." if owner else f"no {kind} {name!r}."
    refused = f"no such {what}." if placed else named
    return f"{refused}{did_you_mean(name, names, alike)} Accepted: {choices(names) or 'none'}"


def did_you_mean(
    name: object, known: Iterable[object], alike: Mapping[str, Sequence[str]] | None = None
) -> str:
    """` Did you mean NAME?` with the nearest known name; empty where none is near."""
    near = _nearest(str(name), [str(each) for each in known], alike or {})
    return "" if near is None else f" Did you mean {near}?"


def _nearest(name: str, known: list[str], alike: Mapping[str, Sequence[str]]) -> str | None:
    from difflib import get_close_matches

    bare = _bare(name)
    same = next((each for each in known if _bare(each) == bare), None)
    meant = next((each for each in alike.get(bare, ()) if each in known), None)
    if same or meant:
        return same or meant
    lowered = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _bare(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())


def kind_of(value: object) -> str:
    """The type of a value with its article, such as `an int`."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def choices(names: Iterable[object]) -> str:
    """The accepted names, joined with commas and "or"."""
    listed = [str(name) for name in names]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
