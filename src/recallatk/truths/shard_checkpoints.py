"""Finished shards on a shared disk or in an object store, so that no failure computes them twice."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.errors import MismatchError
from recallatk.files import Location, place
from recallatk.truths.candidates import ShardCandidates
from recallatk.truths.checkpoint import packed, unpacked
from recallatk.truths.shard_plan import ShardPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

# 1: NPZ files named by query group and shard beside plan.json, which has the identity and the cuts.
FORMAT_VERSION = 1
_PLAN = "plan.json"


@dataclass(frozen=True)
class ShardCheckpoints:
    """A folder of finished shards of one computation."""

    folder: str
    """A path that all workers share, or a URL."""
    identity: str
    """What the computation is of, as JSON text."""

    @classmethod
    def of(cls, folder: str, identity: Mapping[str, Any]) -> ShardCheckpoints:
        """The checkpoints of a computation with this identity."""
        return cls(folder, json.dumps({"format_version": FORMAT_VERSION, **identity}, sort_keys=True))

    def _place(self, name: str) -> Location:
        return place(self.folder) / name

    def begin(self, plan: ShardPlan) -> ShardPlan:
        """The cuts of the computation that was begun here, or these where none was."""
        file = self._place(_PLAN)
        if not file.exists:
            file.write(json.dumps({"identity": self.identity, **plan.as_json()}).encode())
            return plan
        try:
            said = json.loads(file.read_at(0, file.size))
            identity, found = said["identity"], ShardPlan(tuple(said["rows"]), tuple(said["queries"]))
        except (ValueError, KeyError, TypeError):
            identity, found = None, plan
        if identity != self.identity or (found.rows[-1], found.queries[-1]) != (
            plan.rows[-1],
            plan.queries[-1],
        ):
            raise MismatchError(
                f"{file.text}: the checkpoints belong to a different computation (other data, depth, metric "
                "or version). Delete the folder or pass another one: --checkpoints FOLDER"
            )
        return found

    def load(self, group: int, shard: int) -> ShardCandidates | None:
        """The candidates of a finished shard; None where there are none that can be used."""
        file = self._place(_name(group, shard))
        if not file.exists:
            return None
        arrays = unpacked(io.BytesIO(file.read_at(0, file.size)), self._header(group, shard))
        return None if arrays is None else ShardCandidates.restored(arrays)

    def save(self, group: int, shard: int, found: ShardCandidates) -> None:
        """Keep the candidates of a shard."""
        target = io.BytesIO()
        packed(target, self._header(group, shard), found.arrays())
        self._place(_name(group, shard)).write(target.getvalue())

    def clear(self) -> None:
        """The result is stored elsewhere: remove all of them."""
        folder = place(self.folder)
        if folder.exists or not folder.local:
            folder.remove()

    def _header(self, group: int, shard: int) -> str:
        return f"{self.identity} {_name(group, shard)}"


def _name(group: int, shard: int) -> str:
    return f"queries-{group}-shard-{shard}.npz"
