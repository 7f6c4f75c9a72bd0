"""The truths of a runbook: one per scored state, computed in order and kept on disk until it is needed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.trial_result import load_arrays, save_arrays
from recallatk.core import Truth
from recallatk.core.churned import Operation
from recallatk.truths.step_truth import StepTruth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.streaming.runbook import ResolvedStep, Runbook

    Write = tuple[str, NDArray[np.int64]]


def writes_of(step: ResolvedStep) -> Iterator[Write]:
    """The writes of a step, in order: each makes a new state of the corpus."""
    if len(step.deleted):
        yield "delete", step.deleted
    if len(step.inserted):
        yield "insert", step.inserted
    if step.operation is Operation.MAINTAIN:
        yield "maintain", np.empty(0, np.int64)


class StepTruths:
    """The truth at the states of a runbook.

    Args:
        dataset: the corpus and the queries.
        runbook: what happens to the corpus.
        depth: how many rows to keep for each query.
        folder: a folder for the truths.
        every_write: whether the state after each write is scored, as for searches during writes, or only
            those at a search.
    """

    def __init__(
        self, dataset: Dataset, runbook: Runbook, depth: int, folder: Path, *, every_write: bool = False
    ) -> None:
        self.dataset, self.runbook, self.depth = dataset, runbook, depth
        self.folder, self.every_write = folder, every_write
        self.seconds = 0.0
        self.live: dict[int, int] = {}
        """Live rows at each state."""

    def compute(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Compute all of them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        started, state, step_truth = time.perf_counter(), -1, StepTruth(self.dataset, self.depth)
        steps = self.runbook.steps
        for place, step in enumerate(steps, 1):
            for change, rows in writes_of(step):
                # The first insert is the build, which makes state 0.
                state += 1
                if change == "delete":
                    step_truth.delete(rows)
                elif change == "insert":
                    step_truth.insert(rows)
                if self.every_write and step_truth.live.any():
                    self._save(state, step_truth)
            if step.operation is Operation.SEARCH:
                self._save(state, step_truth)
            if progress is not None:
                progress(place, len(steps))
        self.seconds = time.perf_counter() - started

    def _save(self, state: int, step_truth: StepTruth) -> None:
        if state in self.live:
            return
        truth = step_truth.truth()
        self.live[state] = int(step_truth.live.sum())
        offsets, beyond = truth.overflow or (None, None)
        arrays: dict[str, Any] = {
            "rows": truth.rows,
            "scores": truth.scores,
            "tied": truth.tied,
            "tie_counts": truth.tie_counts,
            "eligible": truth.eligible,
            "offsets": offsets,
            "beyond": beyond,
        }
        save_arrays(self._path(state), arrays, {})

    def _path(self, state: int) -> Path:
        return self.folder / f"state-{state}.npz"

    def of(self, state: int) -> Truth:
        """The truth of a state, by row of the whole corpus."""
        found: dict[str, Any] = dict(load_arrays(self._path(state))[0])
        overflow = found.pop("offsets"), found.pop("beyond")
        rows = self.dataset.corpus.rows
        return Truth(**found, overflow=overflow, metric=self.dataset.metric, corpus_rows=rows)
