"""The probe: queries to an existing collection, compared with exact neighbors until goals are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.probe_limits import RateLimit
from recallatk.adapters.target_schemes import collection_in_use
from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.distribution import interval_of, plain_mean
from recallatk.core import Mean
from recallatk.core.probed import Probed
from recallatk.errors import UsageError
from recallatk.goals.grammar import parse_goal
from recallatk.probing.decision import RecallDecision, latency_percentiles
from recallatk.probing.next_steps import next_steps
from recallatk.probing.probe_queries import probe_queries
from recallatk.probing.proxied import Proxied, metric_of
from recallatk.probing.query_groups import filter_counts, require_groups, segments_by
from recallatk.probing.references import agreement, made_from, reference_for, write_notes
from recallatk.probing.tally import Tally, without_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from recallatk.adapters.collection import Collection, Discovery
    from recallatk.core import Truth
    from recallatk.filters import Filter
    from recallatk.goals.grammar import Goal
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.references import Reference

DEFAULT_SAMPLE = 500
DEFAULT_RATE = 20.0
DEFAULT_K = 10


def probe(
    target: str | Collection,
    queries: Any = None,
    *,
    goals: Sequence[str | Goal] = (),
    at: int | None = None,
    where: Filter | str | None = None,
    by: Sequence[str] = (),
    search: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    sample: int = DEFAULT_SAMPLE,
    recent: int | None = None,
    truth: str | Truth | None = None,
    corpus: Any = None,
    max_rate: float | None = DEFAULT_RATE,
    timeout: float = 30.0,
    proxy: bool = False,
    all_queries: bool = False,
    seed: int = 0,
    on_discovery: Callable[[Discovery], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Probed:
    """Recall of an existing collection, read-only; it stops as soon as the goals are decided.

    Args:
        target: a URL such as `postgresql://host/db?table=items`, or a collection that is open.
        queries: real queries in any form; by default, rows of the collection ask for their neighbors.
        goals: such as `recall@10 >= 0.95` and `p95 <= 20ms`.
        at: the cutoff k; by default that of the first target, else 10.
        where: a filter for all queries, in addition to their own.
        by: query columns to group recall by; filtered queries are always apart, and by selectivity.
        search: search parameters, such as ef_search; by default what is in force.
        settings: settings of the engine by their own names, for this probe alone.
        sample: number of rows that serve as queries if there are none.
        recent: number of latest queries to ask; None for all.
        truth: `exact` for the engine's exact search, `stream` for certified truth of its vectors, or a Truth.
        corpus: the corpus that the collection was made from; its certified truth is used.
        max_rate: queries per second; None for no limit.
        timeout: time limit of each statement or call, in seconds.
        proxy: exact neighbors of every tenth query; answers at the highest effort judge the others.
        all_queries: ask all queries, although the goals are decided.
        seed: random seed for the order of the queries and for the sample.
        on_discovery: called with what the collection reports, before any query.
        progress: called with the numbers of queries done and of all.
    """
    parsed = [parse_goal(each) if isinstance(each, str) else each for each in goals]
    decision = RecallDecision(parsed, cutoff(at, parsed), sampled=queries is None, all_queries=all_queries)
    return decided_probe(
        decision, target, queries, where=where, by=by, search=search, settings=settings, sample=sample,
        recent=recent, truth=truth, corpus=corpus, max_rate=max_rate, timeout=timeout, proxy=proxy, seed=seed,
        on_discovery=on_discovery, progress=progress,
    )  # fmt: skip


def decided_probe(
    decision: RecallDecision,
    target: str | Collection,
    queries: Any = None,
    *,
    where: Filter | str | None = None,
    by: Sequence[str] = (),
    search: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    sample: int = DEFAULT_SAMPLE,
    recent: int | None = None,
    truth: str | Truth | None = None,
    corpus: Any = None,
    max_rate: float | None = DEFAULT_RATE,
    timeout: float = 30.0,
    proxy: bool = False,
    seed: int = 0,
    on_discovery: Callable[[Discovery], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Probed:
    """A probe that stops as soon as a decision says so; its other arguments are those of `probe`."""
    k, pace, chosen, as_is = decision.k, RateLimit(max_rate), search or {}, not (search or settings)
    with collection_in_use(target, timeout) as opened:
        corpus = made_from(opened, corpus, truth)
        opened.configure(chosen, settings)
        if on_discovery is not None:
            on_discovery(opened.discovery())
        asked = probe_queries(opened, queries, where, sample, seed, recent=recent, one_setting=as_is)
        require_groups(asked, by, proxy=proxy)
        reference = reference_for(opened, asked, k + asked.sampled, truth, corpus)
        stated = (by, chosen, settings)
        found = _measured(opened, asked, reference, decision, pace, *stated, progress, proxy=proxy)
        missed = decision.missed(found.verdict)
        return next_steps(found, opened, missed, queries, where, settings or {}, corpus)


def cutoff(at: int | None, goals: Sequence[Goal]) -> int:
    """The stated k, else that of the first target, else 10."""
    if at is not None:
        if at < 1:
            raise UsageError(f"k = {at}. Accepted: 1 or more")
        return at
    found = [goal.measure.k for goal in goals if hasattr(goal, "measure")]
    return found[0] if found else DEFAULT_K


def _measured(
    opened: Collection,
    asked: ProbeQueries,
    reference: Reference,
    decision: RecallDecision,
    pace: RateLimit,
    by: Sequence[str],
    search: Mapping[str, Any],
    settings: Mapping[str, str] | None,
    progress: Callable[[int, int], None] | None,
    *,
    proxy: bool,
) -> Probed:
    if proxy:
        judge = Proxied(opened, asked, reference, decision, decision.k, search, settings)
        return judge.probed(pace, progress)
    tally = _asked(opened, asked, reference, decision, decision.k, pace, progress)
    return _probed(opened, asked, reference, decision, tally, pace, by, {**search, **(settings or {})})


def _asked(
    collection: Collection,
    queries: ProbeQueries,
    reference: Reference,
    decision: RecallDecision,
    k: int,
    pace: RateLimit,
    progress: Callable[[int, int], None] | None,
) -> Tally:
    """Ask until the goals are decided or the queries run out."""
    tally = Tally(k)
    for done, place in enumerate(queries.order.tolist()):
        condition = queries.filters[place]
        reason = None if condition is None else collection.refusal(condition)
        if reason is not None:
            tally.refuse(reason)
            continue
        pace.wait()
        with without_verdict(tally, place, len(queries)):
            pair = reference.pair(collection, queries, place, k + queries.sampled)
        value = tally.take(place, pair, None if queries.own_ids is None else queries.own_ids[place])
        if value is not None:
            decision.take(value, place)
        if progress is not None:
            progress(done + 1, len(queries))
        if decision.decided:
            break
    if not tally.recall:
        raise UsageError(_nothing_scored(tally))
    return tally


def _nothing_scored(tally: Tally) -> str:
    counts = tally.counts
    if counts["refused"]:
        reason = next(iter(tally.refusals))
        return (
            f"no query could be scored: the collection refuses the filters of {counts['refused']:,}: {reason}"
        )
    if counts["discarded"]:
        return (
            f"no query could be scored: rows were written during each of {counts['discarded']:,} pairs. "
            "Probe when fewer rows are written, or use --truth stream"
        )
    return f"no query could be scored: no row passes the filters of {counts['no_eligible']:,} queries"


def _probed(
    collection: Collection,
    queries: ProbeQueries,
    reference: Reference,
    decision: RecallDecision,
    tally: Tally,
    pace: RateLimit,
    by: Sequence[str],
    stated: Mapping[str, Any],
) -> Probed:
    found, values = collection.discovery(), tally.values
    facts = filter_counts(collection, queries, reference, np.array(tally.places), pace)
    milliseconds = np.array(tally.milliseconds)
    stopped = decision.any_time
    if stopped:
        # These hold at any time; an interval for a fixed number of queries would not.
        ends: Any = [bound(values, 0.975, in_order=True) for bound in (lower_bound, upper_bound)]
    else:
        ends = interval_of(values, is_share=False) or (None, None)
    columns = queries.columns.take(tally.places) if queries.columns.num_columns else None
    return Probed(
        target=found.target,
        engine=found.engine,
        rows=found.rows,
        dimension=found.dimension,
        metric=metric_of(found),
        index=found.index,
        settings=found.settings or stated,
        k=tally.k,
        recall=Mean(plain_mean(values), plain_mean(np.array(tally.strict)), len(values), *ends),
        bound=lower_bound(values, in_order=True),
        verdict=decision.verdict(values, milliseconds, columns, facts),
        counts=tally.totals(),
        truth_source=reference.description,
        latency_ms=latency_percentiles(milliseconds),
        sampled=queries.sampled,
        any_time=stopped,
        agreement=agreement(collection, queries, reference, tally, pace),
        more_queries=decision.more_queries(values),
        notes=(*found.notes, *write_notes(collection, reference)),
        refusals=tuple(tally.refusals),
        per_query={"recall": values, "strict": np.array(tally.strict), "latency_ms": milliseconds},
        query_ids=tuple(queries.queries.ids.take(tally.places).to_pylist()),
        columns=columns,
        by=segments_by(values, columns, facts, by),
    )
