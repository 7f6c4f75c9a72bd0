"""Entries of a history from what was measured: runs, tunings and probes of collections in use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recallatk.analysis.latency import PERCENTILES, percentile
from recallatk.core import Run
from recallatk.core.history import EntryKind, HistoryEntry
from recallatk.core.probed import Probed, TunedEffort
from recallatk.fingerprint import fingerprint_measurement
from recallatk.goals.gated import Gated
from recallatk.goals.grammar import sort_goals
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.redaction import public
from recallatk.storage.gate_entries import gate_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recallatk.core import Mean, Measurement
    from recallatk.core.judgments import Verdict
    from recallatk.core.tuned import Candidate, Tuned

_CHOSEN = "the setting that a tuning chose"


def history_entries(
    found: Run | Tuned | Probed | TunedEffort | Gated, name: str | None = None
) -> list[HistoryEntry]:
    """One entry per setting and recall@k; none for what has no recall.

    Args:
        found: what was measured.
        name: name of the collection, for a tuning that does not know it.
    """
    now = moment(datetime.now(UTC))
    match found:
        case Run():
            # A run that is resumed or shown again is the same run.
            return list(
                _of_run(found, now if found.begun is None else moment(datetime.fromisoformat(found.begun)))
            )
        case Probed():
            return [_of_probe(found, now)]
        case TunedEffort():
            return list(_of_effort(found, now))
        case Gated():
            return list(gate_entries(found, now))
    return list(_of_tuning(found, name or "unnamed data", now))


def moment(when: datetime) -> str:
    """A time as entries write it, so that text sorts by time."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def _of_run(run: Run, now: str) -> Iterator[HistoryEntry]:
    verdict = run_verdict(run)
    numbers = trial_numbers(run)
    for each in run.candidates:
        judged = verdict if numbers[each.trial] == verdict.trial else None
        for measure, mean in each.score.measures.items():
            if measure.startswith("recall@") and mean.value is not None:
                yield _of_trial(run, each, measure, mean, judged, now)


def _of_trial(
    run: Run, each: Measurement, measure: str, mean: Mean, verdict: Verdict | None, now: str
) -> HistoryEntry:
    value = mean.value
    assert value is not None  # noqa: S101 - the caller looked
    state: dict[str, Any] = {"version": each.build.version, "corpus": run.fingerprints.get("corpus")}
    state |= {"sampled from": run.sampled_from} if run.sampled_from else {}
    return HistoryEntry(
        when=now,
        kind=EntryKind.RUN,
        collection=run.dataset,
        subject=str(each.trial),
        measure=measure,
        value=value,
        low=mean.low,
        high=mean.high,
        queries=mean.n,
        verdict=None if verdict is None else verdict.outcome,
        state=state,
        costs={"p95_ms": percentile(each.latencies_ns, PERCENTILES["p95"]), "build_s": each.build.seconds},
        query_set=run.fingerprints.get("queries"),
        origin=fingerprint_measurement(run, each),
        per_query=each.values(measure),
    )


def _of_probe(probed: Probed, now: str) -> HistoryEntry:
    recall = probed.recall
    value = recall.value
    assert value is not None  # noqa: S101 - a probe without a scored query is an error
    state: dict[str, Any] = {"rows": probed.rows, "index": probed.index}
    state |= {name: str(public(each, name)) for name, each in probed.settings.items()}
    return HistoryEntry(
        when=now,
        kind=EntryKind.PROBE,
        collection=probed.target,
        subject=f"{probed.engine}, rows as queries" if probed.sampled else probed.engine,
        measure=f"recall@{probed.k}",
        value=value,
        low=recall.low,
        high=recall.high,
        queries=recall.n,
        verdict=probed.verdict.outcome,
        state=state,
        costs={"p95_ms": probed.latency_ms.get("p95"), "index_used": probed.index_used},
    )


def _of_effort(found: TunedEffort, now: str) -> Iterator[HistoryEntry]:
    if found.recall is not None and found.recall.value is not None:
        yield _held_out(
            found.target, f"recall@{found.k}", found.recall, found.search.items(), found.met, now,
            {"p95_ms": found.latency_ms.get("p95")},
        )  # fmt: skip


def _of_tuning(found: Tuned, name: str, now: str) -> Iterator[HistoryEntry]:
    chosen = found.choice
    if chosen is None:
        return
    wanted, _ = sort_goals(found.targets)
    measures = {str(each.measure) for each in wanted}
    for measure, mean in found.validated.items():
        if measure in measures and mean.value is not None:
            yield _held_out(
                name, measure, mean, _parameters(chosen), found.met, now,
                {"p95_ms": chosen.latency_ms.get("p95"), "build_s": chosen.build_seconds},
            )  # fmt: skip


def _parameters(chosen: Candidate) -> list[tuple[str, Any]]:
    return [("engine", chosen.engine), ("version", chosen.version), *chosen.build, *chosen.search]


def _held_out(
    collection: str,
    measure: str,
    mean: Mean,
    state: Iterable[tuple[str, Any]],
    met: bool,
    now: str,
    costs: dict[str, float | None],
) -> HistoryEntry:
    return HistoryEntry(
        when=now,
        kind=EntryKind.TUNING,
        collection=collection,
        subject=_CHOSEN,
        measure=measure,
        value=float(mean.value or 0.0),
        low=mean.low,
        high=mean.high,
        queries=mean.n,
        verdict="PASS" if met else "FAIL",
        state={name: public(value, name) for name, value in state},
        costs=costs,
    )
