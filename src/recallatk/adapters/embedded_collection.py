"""The base of collections in local files: paths, parameters, ids, and what filters may name."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from recallatk.adapters.base import resolved
from recallatk.adapters.collection import Collection, CollectionTarget, Discovery
from recallatk.core import BLOCK_BYTES, Metric
from recallatk.errors import EngineError, MismatchError, MissingFileError, UsageError, choices, unknown
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from recallatk.adapters.sql import Column
    from recallatk.filters import Filter

_MOST_BLOCK_ROWS = 65_536


class EmbeddedCollection(Collection):
    """A collection that its library reads from local files in this process.

    Subclasses set `found` and `filterable` when they open a target.
    """

    found: Discovery
    filterable: Mapping[str, Column]
    """The columns that filters can use."""

    def __init__(self) -> None:
        self.search: dict[str, Any] = {}

    def discovery(self) -> Discovery:
        """What the files said when they were opened."""
        return self.found

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Set the parameters of the next searches; those not named keep the library's default."""
        if settings:
            raise UsageError(f"{self.title} takes no --set. Use --search for its parameters")
        checked = resolved(self.title, self.knobs(), search)
        self.search = {name: checked[name] for name in search}

    def refusal(self, condition: Filter) -> str | None:
        """Why a filter cannot run; None for unknown columns, which the search refuses by name."""
        for name in sorted(condition.columns() - set(self.filterable)):
            if name in self.found.columns:
                return f"{self.title} cannot filter by {name!r}, which holds {self.found.columns[name]}"
        return None

    @property
    def block_rows(self) -> int:
        """Rows per block of `batches`, so that memory stays bounded."""
        return max(1, min(_MOST_BLOCK_ROWS, BLOCK_BYTES // (4 * (self.found.dimension or 1))))


def local_path(target: CollectionTarget, example: str) -> Path:
    """The path that a target names; refuses options that the scheme does not have."""
    place, _, rest = target.place.partition("?")
    if rest:
        raise UsageError(f"{target.text}: no option {rest.partition('=')[0]!r}. Type it as {example}")
    if not place:
        raise UsageError(f"{target.text} names no path. Type it as {example}")
    return Path(unquote(place)).expanduser()


def existing_file(target: CollectionTarget, example: str) -> Path:
    """The file that a target names, which must exist."""
    path = local_path(target, example)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise MissingFileError(f"{target.text}: the file {path} {kind}. Type it as {example}")
    return path


def chosen(
    target: CollectionTarget, option: str, known: Mapping[str, Any], default: str | None, what: str
) -> str:
    """The column that an option names, else the default; an error that lists what there is."""
    named = target.options.get(option)
    if named and named not in known:
        raise UsageError(f"{target.text}: {unknown(what, named, known)}")
    if not named and default is None:
        raise UsageError(
            f"{target.text}: name the {what} with {option}=. The columns are: {choices(known) or 'none'}"
        )
    return named or str(default)


def chosen_metric(target: CollectionTarget, known: Metric | None, whose: str) -> Metric | None:
    """The metric of the index, which the option may repeat but not contradict; else the option's."""
    text = target.options.get("metric")
    if not text:
        return known
    try:
        stated = Metric(text)
    except ValueError:
        raise UsageError(f"{target.text}: {unknown('metric', text, list(Metric))}") from None
    if known not in (None, stated):
        raise MismatchError(f"metric mismatch: {whose} uses {known}, the target says metric={stated}")
    return stated


def require_rows(target: CollectionTarget, rows: int) -> None:
    """Refuse a collection without rows."""
    if not rows:
        raise EngineError(f"{target.text} has no rows. Probe a collection that has been filled")


def require_ids(target: CollectionTarget, column: str, *, missing: int, duplicates: int) -> None:
    """Refuse ids that are missing or occur twice: hits could not be counted."""
    for count, state in ((missing, "null"), (duplicates, "duplicate")):
        if count:
            ids = counted(count, f"{state} id", f"{state} ids")
            raise EngineError(f"{target.text} has {ids} in column {column!r}. Name a unique column with id=")


def null_note(missing: int, vector: str) -> tuple[str, ...]:
    """A note on rows without a vector."""
    rows = counted(missing, "row has", "rows have")
    return (f"{rows} no vector in {vector!r}; searches cannot find them",) if missing else ()


def list_vectors(column: Any, dimension: int) -> pa.FixedSizeListArray:
    """A column of vectors without nulls as fixed-size lists of float32."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.FixedSizeListArray.from_arrays(flat.flatten().cast(pa.float32()), dimension)


@contextmanager
def interrupted_after(seconds: float, interrupt: Callable[[], object], what: str) -> Iterator[None]:
    """Stop a statement that exceeds its time limit, with an error that says so."""
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as problem:
        if expired.is_set():
            raise EngineError(f"{what} took longer than {seconds:g} s and was stopped") from problem
        raise
    finally:
        timer.cancel()
