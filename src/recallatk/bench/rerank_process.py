"""The order that a function of the user gives to exact lists, from a process that may crash or hang."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recallatk.adapters.registry import declaration_of
from recallatk.bench.job import Job
from recallatk.bench.messages import NO_SPACE, Failed
from recallatk.bench.process_usage import Limits
from recallatk.bench.supervisor import TrialFailed, WorkerProcess
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.bench.job import TrialSettings
    from recallatk.core import Metric
    from recallatk.pipeline.path import Rerank
    from recallatk.pipeline.path_engine import PathEngine

# A call that can be interrupted ends by itself at its timeout; this much later, it is in C code and hangs.
_GRACE_SECONDS = 5.0
_TASK = "while it ordered the exact lists that are the truth of the path"


@dataclass
class RerankProcess:
    """Orders lists in a new process each time: a function that ends it costs the trials of its path alone."""

    data: Path
    """The folder that `write_data` filled."""
    folder: Path
    metric: Metric
    k: int
    settings: TrialSettings

    def __call__(
        self, engine: type[PathEngine], stage: Rerank, queries: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The rows of these queries in the order of the stage's function.

        Raises:
            TrialFailed: the function failed, hung, or ended its process.
        """
        limits = Limits(
            trial_seconds=stage.timeout + _GRACE_SECONDS, memory_bytes=self.settings.limits.memory_bytes
        )
        settings = replace(self.settings, limits=limits)
        declared = declaration_of(engine.name)
        job = Job(engine.name, self.metric, self.k, settings, declaration=declared)
        with WorkerProcess(self.data, self.folder, job) as worker:
            found = worker.order(stage.name, queries, rows)
            worker.finish()
        if not isinstance(found, Failed):
            return found
        if found.kind == NO_SPACE:
            raise UsageError(found.message)
        message = self._told(engine, stage, found)
        raise TrialFailed(found.kind, "truth", message, found.log)

    def _told(self, engine: type[PathEngine], stage: Rerank, found: Failed) -> str:
        """What happened, where, and the remedy; an exception says that itself."""
        if found.kind == "exception":
            return found.message
        query = "" if found.number is None else f", query {found.number}"
        where = f"{engine.name}: stage {stage.name} ({stage.by}){query}"
        if found.kind == "time limit":
            said = f"it took longer than {stage.timeout:g} s {_TASK}, and could not be interrupted"
            return f"{where}: {said}. Make it faster, or raise timeout = {stage.timeout:g}"
        return f"{where}: {found.message} {_TASK}. Correct the function"
