"""A checked request for a truth on Ray: cuts, fingerprints and the checkpoints that belong to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.files import require_writable
from recallatk.fingerprint import fingerprint_shards, fingerprints
from recallatk.redaction import is_url
from recallatk.truths.ray_search import RaySearch, require_reopening
from recallatk.truths.shard_checkpoints import ShardCheckpoints
from recallatk.truths.shard_plan import ShardPlan, shard_plan, task_memory
from recallatk.truths.store import Identity

if TYPE_CHECKING:
    from recallatk.core import Dataset
    from recallatk.truths.ray_cluster import RayCluster
    from recallatk.truths.search import Progress

# Nobody has asked a cluster yet how many workers it has when its work is cut.
_WORKERS_ELSEWHERE = 64
_FOLDER = "shards"


@dataclass(frozen=True, eq=False)
class RayWork:
    """What to compute, and the fingerprints of the data, for which the driver reads them once."""

    dataset: Dataset
    depth: int
    cuts: ShardPlan
    prints: list[str]
    fingerprints: dict[str, str]
    cluster: RayCluster
    memory: int
    threads: int
    kernel: tuple[str, str | None]
    """The backend and the device."""

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        depth: int,
        memory: int | str | None,
        threads: int,
        kernel: tuple[str, str | None],
        cluster: RayCluster,
    ) -> RayWork:
        """Cut the work and read the data once; a NaN in the last shard is found here, before any scan."""
        require_reopening(dataset.corpus)
        if cluster.checkpoints is not None and not is_url(cluster.checkpoints):
            require_writable(Path(cluster.checkpoints) / _FOLDER)
        size = task_memory(memory)
        workers = threads if cluster.address is None else _WORKERS_ELSEWHERE
        cuts = shard_plan(dataset, depth, size, workers)
        # Whatever is wrong with ids or filters shows here, too.
        _ = dataset.eligibility, dataset.queries.ids, dataset.corpus.id_column and dataset.corpus.ids
        whole, prints = fingerprint_shards(dataset.corpus.vectors, cuts.shards)
        found = fingerprints(dataset, whole)
        return cls(dataset, depth, cuts, prints, found, cluster, size, threads, kernel)

    @property
    def identity(self) -> Identity:
        """What decides the truth, bit for bit."""
        return Identity(self.fingerprints, self.dataset.metric, self.depth, self.dataset.corpus.sampled_from)

    def search(self, progress: Progress | None, beside: Path | None = None) -> RaySearch:
        """The search; it resumes what its checkpoints hold.

        Args:
            progress: called with the pairs of query and row that are done, and how many there are.
            beside: the folder for checkpoints where the cluster names none; None for none.
        """
        checkpoints, cuts, prints = self._checkpoints(beside), self.cuts, self.prints
        if checkpoints is not None:
            cuts = checkpoints.begin(cuts)
        if cuts != self.cuts:
            # It was begun with other cuts, under which its shards are saved.
            _, prints = fingerprint_shards(self.dataset.corpus.vectors, cuts.shards)
        return RaySearch(
            self.dataset,
            self.depth,
            cuts,
            self.cluster,
            memory=self.memory,
            threads=self.threads,
            kernel=self.kernel,
            prints=prints,
            progress=progress,
            checkpoints=checkpoints,
        )

    def _checkpoints(self, beside: Path | None) -> ShardCheckpoints | None:
        given = self.cluster.checkpoints
        if given is None and beside is None:
            return None
        folder = str(beside) if given is None else _inside(given, self.identity.name)
        if not is_url(folder):
            folder = str(Path(folder).absolute())
        return ShardCheckpoints.of(_inside(folder, _FOLDER), self.identity.as_json())


def _inside(folder: str, name: str) -> str:
    """A folder in a folder; what follows ? in a URL configures its store."""
    before, mark, query = folder.partition("?") if is_url(folder) else (folder, "", "")
    return f"{before.rstrip('/')}/{name}{mark}{query}"
