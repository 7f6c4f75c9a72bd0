"""The base of vector database engines: a collection in a temporary folder or on a server."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from recallatk.adapters.base import Engine
from recallatk.core import Metric
from recallatk.errors import EngineError, RecallError
from recallatk.redaction import redact_text
from recallatk.references import expanded, secret_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.scratch import ScratchFolder


class Database(Engine):
    """A collection in a temporary folder of this process, or on a server where an address is given."""

    metrics = frozenset(Metric)
    secret_variables: ClassVar[tuple[str, ...]]
    """The first holds the key or token of a server."""

    connection: Any = None
    folder: ScratchFolder | None = None

    def key(self) -> str | None:
        """The key or token of the server."""
        return secret_variable(self.secret_variables[0])

    def told(self) -> contextlib.AbstractContextManager[None]:
        """Turn errors of the library or the server into ours."""
        return told(self.name)

    def in_process(self) -> bool:
        """True unless a server holds the index."""
        return self.folder is not None

    def size_bytes(self) -> int | None:
        """Size of the folder in bytes; None for a server."""
        if self.folder is None:
            return None
        return sum(each.stat().st_size for each in self.folder.path.rglob("*"))


def address(engine: str, url: str) -> str:
    """The server address with `${NAME}` expanded; a password in it is refused, since parameters are saved."""
    url = expanded(url, "url", engine)
    try:
        holds_secret = "@" in urlsplit(url).netloc
    except ValueError:
        holds_secret = True
    if holds_secret:
        raise EngineError(
            f"{engine}: an address must not contain a user or password; see the help of its parameter"
        )
    return url


@contextlib.contextmanager
def dropping(engine: str, collection: str) -> Iterator[None]:
    """Turn a failure to drop a collection on the user's server into a warning, and continue closing."""
    try:
        yield
    except Exception as problem:
        kind = type(problem).__name__
        warnings.warn(f"{engine}: the collection {collection} could not be dropped ({kind})", stacklevel=3)


@contextlib.contextmanager
def told(engine: str) -> Iterator[None]:
    """Turn any failure of a library or a connection into an EngineError."""
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        # Redact before truncating: part of a secret is no longer recognized.
        reason = redact_text(" ".join(f"{type(problem).__name__}: {problem}".split()))
        raise EngineError(f"{engine} failed: {reason[:300]}") from None
