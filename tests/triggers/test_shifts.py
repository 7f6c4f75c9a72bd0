"""Triggers: none fires on what did not change, and each fires on its own change."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import recallatk
from recallatk import make_corpus, make_queries, open_queries
from recallatk.errors import MismatchError, RecallError, UsageError
from recallatk.triggers import open_snapshot, shifts

ROWS, QUERIES, DIMENSION = 900, 300, 16
SCALES = np.linspace(1.5, 0.5, DIMENSION)


def vectors(count, seed):
    return (np.random.default_rng(seed).normal(size=(count, DIMENSION)) * SCALES + 0.5).astype("f4")


def rotation():
    return np.linalg.qr(np.random.default_rng(7).normal(size=(DIMENSION, DIMENSION)))[0].astype("f4")


def log(seed, *, moved=None, ks=(10,), kinds="abcd", new_filter=0.0, repeated=0):
    """Queries as a log has them, changed in one way."""
    random = np.random.default_rng(seed)
    asked = vectors(QUERIES, seed)
    asked = asked if moved is None else moved(asked)
    asked[:repeated] = asked[0]
    filters = [
        f"kind = '{random.choice(['a', 'b'])}'" if each < 0.4 else None for each in random.random(QUERIES)
    ]
    for place in np.flatnonzero(random.random(QUERIES) < new_filter):
        filters[place] = "kind = 'd' and kind is not null"
    columns = {"k": random.choice(ks, QUERIES), "kind": random.choice(list(kinds), QUERIES)}
    return make_queries(asked, metadata=pa.table(columns), filters=filters)


@pytest.fixture(scope="module")
def corpus():
    kinds = np.random.default_rng(0).choice(list("aabbc" * 8 + "d"), ROWS)
    return make_corpus(vectors(ROWS, 0), metadata=pa.table({"kind": kinds}))


def names(found):
    return {each.name for each in found.fired}


def test_the_same_queries_later_fire_nothing(corpus):
    for seed in range(1, 8):
        found = shifts(log(seed), log(seed + 50), corpus=corpus, metric="l2")
        assert not found.fired
        tested = {each.name for each in found.triggers}
        assert {"norm", "center", "nearest", "LID", "contrast", "classifier", "MMD"} < tested
        assert {"duplicates", "filters", "selectivity", "k", "column kind"} < tested
        for each in found.triggers:
            assert each.low - 1e-9 <= each.number <= each.high + 1e-9 and 0 < each.p <= 1


@pytest.mark.parametrize(
    ("expected", "change"),
    [
        ({"norm"}, {"moved": lambda asked: asked * 1.5}),
        ({"center", "classifier", "MMD"}, {"moved": lambda asked: asked + np.float32(0.4)}),
        ({"center", "classifier", "MMD"}, {"moved": lambda asked: asked @ rotation()}),
        ({"nearest", "norm"}, {"moved": lambda asked: (asked - 0.5) * 1.7 + 0.5}),
        ({"k"}, {"ks": (10, 100)}),
        ({"column kind"}, {"kinds": "abca"}),
        ({"filters", "selectivity"}, {"new_filter": 0.3}),
        ({"duplicates"}, {"repeated": 60}),
    ],
)
def test_each_change_fires_its_triggers(corpus, expected, change):
    assert expected <= names(shifts(log(1), log(60, **change), corpus=corpus, metric="l2"))


def test_under_cosine_norms_are_the_only_thing_that_scaling_changes(corpus):
    found = shifts(log(1), log(60, moved=lambda asked: asked * 2), corpus=corpus, metric="cosine")
    assert names(found) == {"norm"}


def test_p_values_are_those_of_all_tests_together(corpus):
    found = shifts(log(1), log(60), corpus=corpus, metric="l2")
    ordered = sorted(each.p for each in found.triggers)
    assert ordered[0] >= 0.001 * len(ordered) or ordered[0] == 1.0


@pytest.mark.parametrize("number", [0.0, 0.05])
def test_a_number_beyond_its_threshold_fires_only_if_chance_does_not_explain_it(number):
    trigger = recallatk.core.drifted.Trigger("queries", "x", 2.0, 1.0, p=number + 0.01)
    assert trigger.beyond and trigger.fired is (number == 0.0)


def snapshot(places, change=0, copied=0):
    """Rows of one corpus, of which the first were embedded anew, or the last are copies of the first."""
    found = vectors(ROWS, 0)[places]
    found[:change] += 1
    if copied:
        found[-copied:] = found[:copied]
    kinds = np.array(list("abc") * ROWS)[places]
    return make_corpus(found, ids=[f"row {each}" for each in places], metadata=pa.table({"kind": kinds}))


ALL = np.arange(ROWS)


@pytest.mark.parametrize(
    ("expected", "current"),
    [
        (set(), snapshot(np.roll(ALL[:620], 9))),
        ({"growth"}, snapshot(ALL)),
        ({"deletes"}, snapshot(ALL[80:680])),
        ({"changed vectors"}, snapshot(ALL[:600], change=90)),
        ({"duplicates"}, snapshot(np.arange(640), copied=40)),
    ],
    ids=["same", "grown", "deleted", "embedded anew", "copied"],
)  # fmt: skip
def test_corpora_are_compared_by_id(expected, current):
    found = names(shifts(snapshot(ALL[:600]), current, metric="l2", corpora=True))
    assert found == expected if not expected else expected <= found


def test_counts_of_rows_are_exact():
    found = {
        each.name: each
        for each in shifts(snapshot(ALL[:600]), snapshot(ALL[60:660], change=60), metric="l2").triggers
    }
    assert found["deletes"].number == pytest.approx(0.1) and found["deletes"].p is None
    assert found["growth"].number == 1.0 and found["changed vectors"].number == pytest.approx(60 / 540)


def test_another_model_or_dimension_is_the_answer(corpus):
    one, two = log(1), log(60)
    labelled = [dataclasses.replace(each, model=model) for each, model in ((one, "small"), (two, "large"))]
    found = shifts(*labelled, corpus=corpus, metric="l2")
    assert names(found) == {"model"} and "large" in found.fired[0].said
    narrow = make_queries(two.vectors.read(0, QUERIES)[:, :8])
    found = shifts(make_queries(one.vectors.read(0, QUERIES)), narrow, metric="l2")
    assert names(found) == {"dimension"} and found.fired[0].number == 8
    assert not any(each.name in ("norm", "MMD") for each in found.triggers)


def test_snapshots_that_cannot_be_compared_are_refused_by_name(corpus, tmp_path):
    with pytest.raises(MismatchError, match="no id in common, such as row 0 and other 0"):
        shifts(snapshot(ALL), make_corpus(vectors(ROWS, 1), ids=[f"other {each}" for each in ALL]))
    with pytest.raises(MismatchError, match="nothing to compare"):
        shifts(log(1), corpus)
    with pytest.raises(UsageError, match="10 queries are too few"):
        shifts(log(1), make_queries(vectors(10, 2)))
    with pytest.raises(MismatchError, match="dimension mismatch: the corpus"):
        shifts(log(1), log(2), corpus=np.zeros((60, 8), "f4") + 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecallError, match="empty"):
        open_snapshot(tmp_path / "empty")


def test_a_query_log_is_compared_with_its_k_and_filters(tmp_path):
    def search(vector, k=10, *, filter=None):
        return list(range(k))

    for name, k, condition in (("may", 10, None), ("june", 20, "kind = 'a'")):
        tapped = recallatk.tap(search, sample=1.0, to=tmp_path / name)
        for each in vectors(80, len(name)):
            tapped(each, k=k, filter=condition)
        tapped.log.close()
    found = shifts(tmp_path / "may", tmp_path / "june", metric="l2")
    assert names(found) == {"k", "filters"}
    assert found.current.queries == 80 == open_queries(tmp_path / "june").rows
