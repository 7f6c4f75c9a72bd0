"""One build through all steps of a runbook, in a worker process, with every search in the journal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.base import Engine
from recallatk.adapters.installation import installed_version
from recallatk.adapters.registry import get_engine
from recallatk.bench.supervisor import TrialFailed
from recallatk.core.churned import DURING_SEARCHES, NO_MAINTENANCE, Operation
from recallatk.streaming.index_rows import IndexRows
from recallatk.streaming.step_scores import StepRecord, StepScorer
from recallatk.streaming.step_truths import writes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.bench.journal import Journal
    from recallatk.bench.plan import PlannedBuild
    from recallatk.bench.supervisor import WorkerProcess
    from recallatk.core.trials import Parameters
    from recallatk.streaming.runbook import ResolvedStep, Runbook
    from recallatk.streaming.step_truths import StepTruths, Write


@dataclass(frozen=True)
class ChurnProgress:
    """How far a replay is."""

    engine: str
    phase: str
    step: int
    steps: int


@dataclass(frozen=True, eq=False)
class ReplaySettings:
    """What all replays share."""

    runbook: Runbook
    truths: StepTruths
    measures: tuple[Measure, ...]
    k: int
    queries: int
    seed: int
    concurrent: bool
    watch: Callable[[ChurnProgress], None]


class Replay:
    """The steps of a runbook on one build.

    Args:
        planned: the build, and the search settings that are asked at every search.
        shared: what all replays share.
        journal: what was measured before is not measured again.
        start: starts a worker process for the engine.
    """

    def __init__(
        self,
        planned: PlannedBuild,
        shared: ReplaySettings,
        journal: Journal,
        start: Callable[[PlannedBuild], WorkerProcess],
    ) -> None:
        self.planned, self.shared, self.journal, self.start = planned, shared, journal, start
        kind = get_engine(planned.engine)
        self.base: list[Any] = [planned.engine, installed_version(kind), dict(planned.parameters)]
        self.maintains = kind.maintain is not Engine.maintain
        self.rows = IndexRows(0, np.empty(0, np.int64))
        self.state = 0
        self.changed = 0
        self.step = 0
        self.waiting: list[Write] = []
        """Writes that run during the next search."""
        self.fresh = True
        """Whether no query has been sent since the build."""

    def run(self) -> None:
        """Measure what is missing; a failure ends this replay only, and is recorded."""
        if self.journal.has(["failure", *self.base]):
            return
        steps = self.shared.runbook.searches
        missing = [each.number for each in steps if not self._measured(each.number)]
        if not missing:
            return
        if len(missing) < len(steps):
            # An index that is built again may be another one: the report says where the curve changes.
            self._record(["resumed", *self.base, missing[0]], {"step": missing[0]})
        try:
            with self.start(self.planned) as worker:
                self._replay(worker, missing[-1])
                worker.finish()
        except TrialFailed as problem:
            step = None if problem.phase in ("build", "start", "preparing") and not self.state else self.step
            failure = {"step": step, "kind": problem.kind, "message": problem.message}
            self._record(["failure", *self.base], failure)

    def search_key(self, step: int, search: Parameters) -> list[Any]:
        """Key of a search in the journal."""
        return ["search", *self.base, step, dict(search)]

    def _measured(self, step: int) -> bool:
        return all(self.journal.has(self.search_key(step, each)) for each in self.planned.searches)

    def _record(self, key: list[Any], found: dict[str, Any]) -> None:
        self.journal.step(key, lambda: found)

    def _replay(self, worker: WorkerProcess, last: int) -> None:
        first, *others = self.shared.runbook.steps
        self._say(first)
        self._build(worker, first.inserted)
        for step in others:
            if step.number > last:
                return
            self._say(step)
            match step.operation:
                case Operation.SEARCH:
                    self._search(worker, step)
                case Operation.REBUILD:
                    self._rebuild(worker, step)
                case _:
                    self._change(worker, step)

    def _say(self, step: ResolvedStep) -> None:
        self.step = step.number
        steps = self.shared.runbook.steps[-1].number
        self.shared.watch(ChurnProgress(self.planned.engine, str(step.operation), step.number, steps))

    def _build(self, worker: WorkerProcess, rows: NDArray[np.int64]) -> float | None:
        built = worker.build(dict(self.planned.parameters), rows)
        if not self.state:
            self._record(["build", *self.base], asdict(built))
        self.rows = IndexRows(self.shared.runbook.rows, rows, self.state)
        self.fresh = True
        return built.seconds

    def _rebuild(self, worker: WorkerProcess, step: ResolvedStep) -> None:
        self._apply(worker)
        seconds = self._build(worker, self.rows.live_rows)
        self._record(["change", *self.base, step.number], {"took": seconds, "note": ""})

    def _change(self, worker: WorkerProcess, step: ResolvedStep) -> None:
        self.waiting += writes_of(step)
        key = ["change", *self.base, step.number]
        if step.operation is Operation.MAINTAIN and not self.maintains:
            self._record(key, {"took": None, "note": NO_MAINTENANCE})
        elif self.shared.concurrent and not self._before_first_search:
            self._record(key, {"took": None, "note": DURING_SEARCHES})
        else:
            self._record(key, {"took": self._apply(worker), "note": ""})

    @property
    def _before_first_search(self) -> bool:
        return self.step < self.shared.runbook.searches[0].number

    def _apply(self, worker: WorkerProcess) -> float:
        """Send the waiting writes, one after the other."""
        return sum(worker.change(change, rows) for change, rows in self._numbered()[0])

    def _numbered(self) -> tuple[list[Write], list[int]]:
        """The waiting writes as the engine gets them, and the states before the first and after each of them.

        Deletes name rows by the numbers of the index, inserts by those of the corpus.
        """
        found: list[Write] = []
        states = [self.state]
        for change, rows in self.waiting:
            self.state += 1
            if not self._before_first_search:
                self.changed += len(rows)
            if change == "delete":
                found.append((change, self.rows.delete(rows, self.state)))
            elif change == "insert":
                self.rows.insert(rows, self.state)
                found.append((change, rows))
            elif self.maintains:
                found.append((change, rows))
            else:
                continue
            states.append(self.state)
        self.waiting = []
        return found, states

    def _search(self, worker: WorkerProcess, step: ResolvedStep) -> None:
        if any(change != "maintain" or self.maintains for change, _ in self.waiting):
            self._search_during_writes(worker, step)
            return
        self._apply(worker)
        searches = [s for s in self.planned.searches if not self.journal.has(self.search_key(step.number, s))]
        if not searches:
            return
        weight = worker.weigh()
        scorer = StepScorer(self.shared.truths, self.shared.measures, self.rows, self.shared.k)
        for place, search in enumerate(searches):
            random = np.random.default_rng([self.shared.seed, step.number, place])
            order = random.permutation(self.shared.queries)
            answered = worker.ask(dict(search), order, warm=self.fresh, proven=False)
            found = scorer.quiet(answered, order, self.state, weight, **self._facts(step))
            self._record(self.search_key(step.number, search), found.to_plain())
        self.fresh = False

    def _search_during_writes(self, worker: WorkerProcess, step: ResolvedStep) -> None:
        """Writes happen once: only one setting can be searched during them."""
        search = self.planned.searches[0]
        writes, states = self._numbered()
        seed = self.shared.seed + step.number
        if self.journal.has(self.search_key(step.number, search)):
            for change, rows in writes:
                worker.change(change, rows)
            return
        calls = worker.overlap(dict(search), writes, seed)
        weight = worker.weigh()
        scorer = StepScorer(self.shared.truths, self.shared.measures, self.rows, self.shared.k)
        found = scorer.during_writes(calls, states, weight, self.shared.queries, **self._facts(step))
        self._record(self.search_key(step.number, search), found.to_plain())

    def _facts(self, step: ResolvedStep) -> dict[str, int]:
        return {"step": step.number, "live": step.live, "changed": self.changed}

    def records(self, search: Parameters) -> list[StepRecord]:
        """What was measured of one setting, by step."""
        keys = [self.search_key(each.number, search) for each in self.shared.runbook.searches]
        return [StepRecord.from_plain(self._recorded(key)) for key in keys if self.journal.has(key)]

    def recorded(self, kind: str, *more: object) -> dict[str, Any] | None:
        """A record of this build; None if there is none."""
        key = [kind, *self.base, *more]
        return self._recorded(key) if self.journal.has(key) else None

    def _recorded(self, key: Sequence[Any]) -> dict[str, Any]:
        def missing() -> dict[str, Any]:
            raise KeyError(key)

        return self.journal.step(list(key), missing)
