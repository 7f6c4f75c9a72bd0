"""The contract of existing collections: discovered, searched as production does it, and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from recallatk.core.probed import Discovery as Discovery  # noqa: TC001, PLC0414 - part of this contract
from recallatk.errors import EngineError, UsageError, unknown
from recallatk.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.base import Constraint
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.core import Corpus, Knob
    from recallatk.filters import Filter


@dataclass(frozen=True)
class CollectionTarget:
    """The text that names an existing collection, taken apart.

    `scheme://place?name=value`: what the place is, a server with a database or a path, is up to the scheme.
    """

    text: str
    """As typed, without a password."""
    scheme: str
    url: str
    """As typed, without the names in `options`."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """What follows the scheme."""
        return self.url.partition("://")[2]

    def required(self, name: str, example: str) -> str:
        """An option that the target cannot do without."""
        if not self.options.get(name):
            raise UsageError(f"{self.text}: no {name}. Name it: {self.scheme}://...?{name}={example}")
        return self.options[name]


def parse_target(text: str, names: Sequence[str]) -> CollectionTarget:
    """Take a URL apart; options of other names stay in the URL for the driver.

    Args:
        text: the URL.
        names: the options that the scheme knows, such as `table`.
    """
    try:
        # A path may contain #.
        parts = urlsplit(text, allow_fragments=False)
    except ValueError as problem:
        said = "Write [ and ] in a path as %5B and %5D"
        raise UsageError(f"{without_secrets(text)} is no URL: {problem}. {said}") from None
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in given if name in names}
    rest = "&".join(part for part in parts.query.split("&") if part and part.partition("=")[0] not in names)
    shown = text
    if parts.password is not None:
        shown = text.replace(f":{parts.password}@", "@", 1)
    url = urlunsplit(parts._replace(query=rest))
    if parts.scheme and f"{parts.scheme}://" not in url:
        # urlunsplit drops the empty host of URLs such as lancedb:///data.
        url = url.replace(f"{parts.scheme}:", f"{parts.scheme}://", 1)
    return CollectionTarget(shown, parts.scheme, url, own)


class Answer(NamedTuple):
    """The answer to one query."""

    ids: list[Any]
    """Ids as the collection stores them, best first."""
    seconds: float | None
    """As this client saw it; None if no call was needed, because the filter cannot be true."""
    used_index: bool | None
    """Whether this call used the index; None if the engine does not tell."""


class Neighbors(NamedTuple):
    """The exact neighbors of one query, nearest first."""

    ids: list[Any]
    distances: NDArray[Any]
    """Of each neighbor, lower is nearer; equal distances are ties."""
    complete: bool
    """Whether there are no further rows that pass the filter."""


class AnswerPair(NamedTuple):
    """An answer and the exact neighbors, taken back to back."""

    answer: Answer
    exact: Neighbors | None
    """None if the collection has no exact search, or was not asked."""
    changed: bool | None
    """Whether rows were written in between; None if the engine cannot tell."""


class Collection:
    """An existing collection. Nothing that it does may change the collection, its settings or its server.

    Subclasses open a target in `open`, and write `discovery`, `answer`, `sample` and `batches`; those with an
    exact mode also `exact` or `pair`, and `passing`.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[str, ...]] = ()
    """Names of the target's options."""
    exact_mode = False
    """Whether `exact` works."""
    snapshots = False
    """Whether the two halves of a pair see the same rows."""
    on_copy = False
    """Whether a copy is searched, because opening the original would write to it."""
    statement: str | None = None
    """A statement of the user's that is the search."""
    corpus: Any = None
    """What the collection was made from, if its target names that; its certified truth is used."""

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> Collection:
        """Open an existing collection without changing it."""
        raise NotImplementedError

    def bind(self, corpus: Corpus) -> None:
        """Get what the collection was made from, opened, before anything is asked; most need no corpus."""

    def discovery(self) -> Discovery:
        """What the collection reports about itself."""
        raise NotImplementedError

    def knobs(self) -> tuple[Knob, ...]:
        """Search parameters that can be set for single calls; the effort is marked as such."""
        return ()

    def constraints(self) -> tuple[Constraint, ...]:
        """Conditions on the values of `knobs` and on k."""
        return ()

    def without_effort(self) -> str:
        """Why none of the knobs is the effort of a call."""
        none = self.discovery().index is None
        return "there is no index" if none else "it has no parameter for the effort of one call"

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set the parameters of the next searches, for this client alone.

        Args:
            search: values of `knobs`.
            settings: settings of the engine by their own names, such as hnsw.iterative_scan.
        """
        if settings:
            raise UsageError(f"{self.title} takes no --set. Use --search for its parameters")
        if search:
            known = [each.name for each in self.knobs()]
            raise UsageError(f"--search: {unknown('parameter', next(iter(search)), known)}")

    @property
    def title(self) -> str:
        """The engine's name, for messages."""
        return self.discovery().engine

    def refusal(self, condition: Filter) -> str | None:
        """Why this filter cannot run natively; None if it can."""
        return f"{self.title} cannot filter during search"

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """Search as production does."""
        raise NotImplementedError

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """The nearest rows by the engine's own exact search; needs `exact_mode`."""
        raise EngineError(f"{self.title} has no exact search")

    def passing(self, condition: Filter) -> int:
        """Number of rows with a vector that pass a filter; needs `exact_mode`."""
        raise NotImplementedError

    def remedy_for_short(self) -> str | None:
        """What to set if filtered answers have too few rows; None if nothing is known to help."""
        return None

    def writes(self) -> object | None:
        """A value that changes with every write; None if the engine has none."""
        return None

    def pair(self, vector: NDArray[Any], k: int, depth: int, condition: Filter | None) -> AnswerPair:
        """The answer and the exact neighbors, back to back."""
        before = self.writes()
        answer, exact = self.answer(vector, k, condition), self.exact(vector, depth, condition)
        after = self.writes()
        return AnswerPair(answer, exact, None if before is None or after is None else before != after)

    def sample(self, count: int, seed: int) -> tuple[list[Any], NDArray[Any]]:
        """Ids and vectors of random rows, at most `count`."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows that have a vector, block by block: `id`, `vector` (float32 lists) and these columns."""
        raise NotImplementedError

    def snippet(self, search: Mapping[str, Any]) -> str:
        """Text to paste that makes production search with these parameters."""
        return ", ".join(f"{name}={value}" for name, value in search.items())

    def close(self) -> None:
        """Let go of the collection; may be called twice."""

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
