"""Retrieval paths: the stages that a query passes through, from candidates to results."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LEXICAL, SPARSE = "bm25", "sparse"
EXACT, NATIVE = "exact", "native"
RRF, WEIGHTED = "rrf", "weighted"
AFTER = "after"
BINARY = "binary"


@dataclass(frozen=True)
class Retrieve:
    """A leg: one search for candidates."""

    engine: str
    """An engine by name, `bm25` or `sparse`."""
    name: str
    depth: Any = None
    """Number of candidates; a value, a list or a range, like all that follow."""
    oversample: Any = None
    """Number of candidates for each of the k results."""
    build: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    dimensions: Any = None
    """Leading dimensions to keep; None keeps all."""
    codes: str | None = None
    """`binary`: one bit per dimension; None keeps the numbers."""
    queries: str | None = None
    """Column or file with the sparse vectors of the queries."""

    @property
    def dense(self) -> bool:
        """Whether it searches the vectors of the dataset."""
        return self.engine not in (LEXICAL, SPARSE)

    @property
    def reduced(self) -> bool:
        """Whether it compares something smaller than the whole vectors."""
        return self.dimensions is not None or self.codes is not None


@dataclass(frozen=True)
class Fuse:
    """Fusion of the lists of all legs."""

    method: str
    name: str
    constant: Any = None
    weight: Any = None
    depth: Any = None


@dataclass(frozen=True)
class PostFilter:
    """The filter of the query, applied to candidates that were retrieved without it."""

    name: str


@dataclass(frozen=True)
class Rerank:
    """A new order of the candidates."""

    by: str | Callable[..., Any]
    """`exact`, `native`, or a function, also as `module:function`."""
    name: str
    depth: Any = None
    column: str | None = None
    """Text column of the corpus for the function; `text` if there is one."""
    timeout: float = 60.0
    """Seconds that one call of the function may take."""

    @property
    def calls(self) -> bool:
        """Whether it calls a function of the user."""
        return not isinstance(self.by, str) or self.by not in (EXACT, NATIVE)


Stage: TypeAlias = Retrieve | Fuse | PostFilter | Rerank


@dataclass(frozen=True)
class Path:
    """Stages that a query passes through, measured and tuned like an engine.

    Args:
        name: its name in tables and messages.
        stages: tables as in a bench file: `{"retrieve": "faiss-ivf-pq", "oversample": [2, 5]}`, then
            `{"fuse": "rrf"}` after several legs, `{"filter": "after"}`, `{"rerank": "exact"}`.
        k: the number of results; by default as many as are requested.
    """

    name: str
    stages: Sequence[Mapping[str, Any]]
    k: int | None = None

    def __post_init__(self) -> None:
        from recallatk.pipeline.stage_tables import placed, read_stages

        read, problems = read_stages(self.name, self.stages, self.k)
        if problems:
            listed = "; ".join(f"{placed(place)}{said}" for place, said in problems)
            raise UsageError(f"path {self.name}: {listed}")
        object.__setattr__(self, "stages", tuple(dict(each) for each in self.stages))
        object.__setattr__(self, "_read", read)

    @property
    def read(self) -> tuple[Stage, ...]:
        """The stages, checked."""
        found: tuple[Stage, ...] = self.__dict__["_read"]
        return found

    @cached_property
    def legs(self) -> tuple[Retrieve, ...]:
        """The stages that retrieve."""
        return tuple(each for each in self.read if isinstance(each, Retrieve))

    @cached_property
    def fuse(self) -> Fuse | None:
        """The fusion; None with one leg."""
        return next((each for each in self.read if isinstance(each, Fuse)), None)

    @cached_property
    def post_filter(self) -> PostFilter | None:
        """The filter after the search; None if legs filter."""
        return next((each for each in self.read if isinstance(each, PostFilter)), None)

    @cached_property
    def reranks(self) -> tuple[Rerank, ...]:
        """The reranking stages."""
        return tuple(each for each in self.read if isinstance(each, Rerank))

    @cached_property
    def stage_names(self) -> tuple[str, ...]:
        """Names of the stages in order; a leg that reranks itself is one stage."""
        return tuple(each.name for each in self.read if not _is_native(each))

    @property
    def by_vectors(self) -> bool:
        """Whether its results are to be those of exact search over the vectors of the dataset."""
        return self.fuse is None and self.legs[0].dense and not any(each.calls for each in self.reranks)

    @property
    def portable(self) -> bool:
        """Whether text describes all of it, so that another process can make it."""
        return all(isinstance(each.by, str) for each in self.reranks)

    def shape(self) -> dict[str, Any]:
        """What it is apart from the values of its parameters, which every trial states."""
        values = {"build", "search", "depth", "oversample", "dimensions", "constant", "weight", "timeout"}
        stages = [{name: value for name, value in each.items() if name not in values} for each in self.stages]
        return {"name": self.name, "k": self.k, "stages": stages}

    def to_plain(self) -> dict[str, Any]:
        """Its JSON form, which `from_plain` reads."""
        return {"name": self.name, "k": self.k, "stages": [dict(each) for each in self.stages]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Path:
        """The path of a JSON form."""
        return cls(plain["name"], plain["stages"], plain["k"])


def _is_native(stage: Stage) -> bool:
    return isinstance(stage, Rerank) and stage.by == NATIVE
