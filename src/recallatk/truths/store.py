"""The store: truths on disk, found again by the content that they were made from.

A truth lies under a name made of every fingerprint, the metric and the depth, so that other content has
another name and a stale truth cannot be picked up. Beside it lies one digest for each corpus row, by
which a later corpus is compared with this one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, Origin, Truth
from recallatk.errors import RecallError
from recallatk.files import atomic_file, require_ordinary, write_text
from recallatk.fingerprint import Hash
from recallatk.truths.checkpoint import Checkpoint
from recallatk.truths.truth_file import FORMAT_VERSION, load_truth, save_truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from recallatk.files import PathLike

_TRUTH, _DIGESTS, _ENTRY, _CHECKPOINT = "truth.parquet", "rows.npy", "entry.json", "checkpoint.npz"


@dataclass(frozen=True)
class Identity:
    """What decides a truth, bit for bit."""

    fingerprints: Mapping[str, str]
    metric: Metric
    depth: int
    sampled_from: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "format_version": FORMAT_VERSION,
            "fingerprints": dict(self.fingerprints),
            "metric": str(self.metric),
            "depth": self.depth,
            "sampled_from": self.sampled_from,
        }

    @property
    def name(self) -> str:
        """What it is called in the store."""
        return Hash("truth identity", json.dumps(self.as_json(), sort_keys=True)).text()

    def of(self, truth: Truth) -> bool:
        """Whether a truth was made from just this."""
        return (
            truth.origin is Origin.COMPUTED
            and dict(truth.fingerprints) == dict(self.fingerprints)
            and truth.metric is self.metric
            and truth.depth == self.depth
            and truth.sampled_from == self.sampled_from
        )


@dataclass(frozen=True)
class Entry:
    """A truth in the store that could be updated, described without loading it."""

    folder: Path
    identity: Identity
    corpus_rows: int
    rows: str | None
    """The fingerprint of the digests of its rows, where it has some."""

    @classmethod
    def read(cls, file: Path) -> Entry | None:
        """The entry that a file tells of; None unless it is whole and lies where it belongs."""
        try:
            require_ordinary(file)
            said = json.loads(file.read_text(encoding="utf-8"))
            identity = Identity(
                said["fingerprints"], Metric(said["metric"]), said["depth"], said["sampled_from"]
            )
            entry = cls(file.parent, identity, int(said["corpus_rows"]), said.get("rows"))
        except Exception:
            # A damaged file is skipped: its truth can be computed again.
            return None
        return entry if identity.name == file.parent.name else None

    @property
    def vectors(self) -> str:
        """The fingerprint of its corpus vectors."""
        return self.identity.fingerprints["vectors"]

    def digests(self) -> NDArray[np.uint64] | None:
        """One digest per row of its corpus; None when there are none that can be believed."""
        try:
            with (self.folder / _DIGESTS).open("rb") as file:
                found: NDArray[np.uint64] = np.lib.format.read_array(file, allow_pickle=False)
        except Exception:
            # Whatever is wrong with the file, the truth can be computed without it.
            return None
        whole = found.shape == (self.corpus_rows, 2) and found.dtype == np.uint64
        return found if whole and _print_of(found) == self.rows else None

    def truth(self) -> Truth | None:
        """Its truth; None when it cannot be read, or is another's."""
        try:
            truth = load_truth(self.folder / _TRUTH)
        except (RecallError, OSError):
            return None
        whole = truth.certificate is not None and truth.corpus_rows == self.corpus_rows
        return truth if whole and self.identity.of(truth) else None


def _print_of(digests: NDArray[np.uint64]) -> str:
    state = Hash("row digests")
    state.update(digests)
    return state.text()


class Store:
    """A folder of truths."""

    def __init__(self, folder: PathLike | None = None) -> None:
        self.folder = default_folder() if folder is None else Path(folder)

    def path(self, identity: Identity) -> Path:
        """Where the truth of this content is, or would be."""
        return self.folder / "truth" / identity.name / _TRUTH

    def find(self, identity: Identity) -> Truth | None:
        """The truth of just this content; a damaged file counts as none."""
        entry = Entry.read(self.path(identity).with_name(_ENTRY))
        return None if entry is None else entry.truth()

    def save(self, identity: Identity, truth: Truth, digests: NDArray[np.uint64] | None) -> Path:
        """Keep a truth; the file that names it is written last."""
        path = self.path(identity)
        said = {**identity.as_json(), "corpus_rows": truth.corpus_rows}
        if digests is not None:
            with atomic_file(path.parent / _DIGESTS) as scratch, scratch.open("wb") as file:
                np.save(file, digests, allow_pickle=False)
            said["rows"] = _print_of(digests)
        save_truth(truth, path)
        write_text(path.parent / _ENTRY, json.dumps(said))
        return path

    def checkpoint(
        self, identity: Identity, every_seconds: float, earlier: Entry | None = None
    ) -> Checkpoint:
        """Where a computation, from nothing or from an earlier truth, keeps what it has done."""
        path = self.path(identity).parent / _CHECKPOINT
        begun_from = None if earlier is None else earlier.vectors
        return Checkpoint(path, {**identity.as_json(), "begun_from": begun_from}, every_seconds)

    def relatives(self, identity: Identity) -> Iterator[Entry]:
        """Truths of the same queries, metric and depth on any vectors, without filters; newest first."""
        files = sorted(self.folder.glob(f"truth/*/{_ENTRY}"), key=_modified, reverse=True)
        for entry in filter(None, map(Entry.read, files)):
            theirs = entry.identity
            prints = theirs.fingerprints
            same = (theirs.metric, theirs.depth, theirs.sampled_from, prints.get("queries")) == (
                identity.metric,
                identity.depth,
                identity.sampled_from,
                identity.fingerprints["queries"],
            )
            if same and "metadata" not in prints and "vectors" in prints:
                yield entry


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def default_folder() -> Path:
    """The user's cache directory for this tool."""
    from platformdirs import user_cache_path

    return user_cache_path("recallatk", appauthor=False)
