"""Outcomes of tunings that nobody had to wait for."""

from dataclasses import replace

from recallatk.core import Caution, Mean
from recallatk.core.tuned import Attempt, Candidate, Price, Tuned


def made_candidate(ef, recall, p95, engine="hnswlib", **more):
    given = {"memory_bytes": 40 << 20, "build_seconds": 3.0, "qps": 1000 / p95, "queries": 800, **more}
    return Candidate(
        engine,
        (("M", 16), ("ef_construction", 200)),
        (("ef", ef),),
        measures={"recall@10": Mean(recall, None, 800, recall - 0.01, recall + 0.005)},
        latency_ms={"p50": p95 / 2, "p95": p95, "p99": None},
        **given,
    )


def made_tuned(**changes):
    choice = made_candidate(52, 0.961, 0.2)
    return replace(
        Tuned(
            targets=("recall@10 >= 0.95",),
            budgets=("p95 <= 5ms", "memory <= 2GiB"),
            prefer="p95",
            met=True,
            choice=choice,
            validated={"recall@10": Mean(0.9576, 0.957, 1000, 0.951, 0.9633)},
            looks=1,
            runner_up=made_candidate(40, 0.97, 0.3, "voyager", memory_bytes=20 << 20),
            front=(made_candidate(20, 0.9, 0.1), choice, made_candidate(200, 0.99, 0.8)),
            knee=choice,
            prices=(Price(0.95, 0.98, 2.1),),
            worst_segment=("category=noun.animal", Mean(0.91, None, 44, 0.88, 0.94)),
            attempts=(
                Attempt("hnswlib", (("M", 16),), (("ef", 20),), 20_000, "failed", "recall", seconds=1.5),
                Attempt("hnswlib", (("M", 16),), (("ef", 24),), 20_000, "failed", "recall", seconds=1.0),
                Attempt("hnswlib", (("M", 64),), None, 20_000, "skipped", "memory 3GiB is over budget"),
                Attempt("voyager", (("M", 8),), (("ef", 24),), 2_000, "passed"),
            ),
            trials=57,
            builds=9,
            seconds=42.0,
            grid_seconds_estimate=609.0,
            cautions=(Caution("monotonicity", "hnswlib: a setting failed though one below had passed"),),
            snippet="import hnswlib\nindex.set_ef(52)",
        ),
        **changes,
    )


def missed_tuned():
    return made_tuned(
        met=False,
        choice=None,
        snippet=None,
        validated={},
        looks=0,
        nearest=made_candidate(500, 0.94, 4.0),
        binding="recall@10 >= 0.95 is out of reach: the build is the limit.",
    )
