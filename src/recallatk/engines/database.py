"""What the engines of vector databases share: a collection of their own, in a folder or on a server."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from recallatk.core import Metric
from recallatk.engines.base import Engine
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
    """The first holds the key or token for a server."""

    connection: Any = None
    folder: ScratchFolder | None = None

    def key(self) -> str | None:
        """What a server is shown."""
        return secret_variable(self.secret_variables[0])

    def told(self) -> contextlib.AbstractContextManager[None]:
        """Errors of the library or the server, as ours."""
        return told(self.name)

    def in_process(self) -> bool:
        """Without a server, the index is in this process."""
        return self.folder is not None

    def size_bytes(self) -> int | None:
        """What the folder takes; a server does not tell."""
        if self.folder is None:
            return None
        return sum(each.stat().st_size for each in self.folder.path.rglob("*"))


def address(engine: str, url: str) -> str:
    """The address of a server, `${NAME}` expanded; parameters are saved, so it may hold no password."""
    url = expanded(url, "url", engine)
    try:
        holds_secret = "@" in urlsplit(url).netloc
    except ValueError:
        holds_secret = True
    if holds_secret:
        raise EngineError(
            f"{engine}: an address must hold no user or password; see the help of its parameter"
        )
    return url


@contextlib.contextmanager
def dropping(engine: str, collection: str) -> Iterator[None]:
    """What cannot be dropped is said: it may stay behind on somebody's server. Closing goes on."""
    try:
        yield
    except Exception as problem:
        kind = type(problem).__name__
        warnings.warn(f"{engine}: the collection {collection} could not be dropped ({kind})", stacklevel=3)


@contextlib.contextmanager
def told(engine: str) -> Iterator[None]:
    """What goes wrong in a library or on the way to a server, as an EngineError."""
    try:
        yield
    except RecallError:
        raise
    except Exception as problem:
        # Redacted before it is cut: a secret of which a part is left is no longer recognized.
        reason = redact_text(" ".join(f"{type(problem).__name__}: {problem}".split()))
        raise EngineError(f"{engine} failed: {reason[:300]}") from None
