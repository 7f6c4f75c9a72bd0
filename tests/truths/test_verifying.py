"""Verification: a right truth is found right, and every fault in a wrong one is found where it is."""

import dataclasses
import struct

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact_order, exact_score

from recallatk import (
    load_truth,
    make_corpus,
    make_queries,
    open_dataset,
    save_truth,
)
from recallatk.core import Origin, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.filters import Equals
from recallatk.truths import ground_truth, verify_truth
from recallatk.truths.faults import Fault

METRICS = ("cosine", "ip", "l2")
DEPTH = 8


def vectors(rows, seed, dimension=6, dtype="float32"):
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(dtype)


def mixed(metric="l2", filters=True, own=False):
    """Ids that are text or numbers, rows that stand there twice, and a filter that lets nothing pass."""
    corpus = vectors(200, 1)
    corpus[150:] = corpus[:50]
    colours = (["red", "blue"] * 100)[:195] + ["rare"] * 5
    conditions = [None, Equals("colour", "red"), Equals("colour", "rare"), Equals("colour", "none")] * 3
    queries = make_queries(
        corpus[:12] + 0.01, [f"q{i}" for i in range(12)], filters=conditions if filters else None
    )
    if own:
        queries = dataclasses.replace(queries, corpus_rows=np.arange(12))
    return open_dataset(make_corpus(corpus, range(1000, 1200), {"colour": colours}), queries, metric=metric)


def proven(*options, **others):
    dataset = mixed(*options, **others)
    return dataset, ground_truth(dataset, depth=DEPTH)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("depth", [1, 8, 250])
@pytest.mark.parametrize("own", [False, True])
def test_our_own_truth_is_right(tmp_path, metric, depth, own):
    dataset = mixed(metric, own=own)
    truth = ground_truth(dataset, depth=depth)
    save_truth(truth, tmp_path / "truth.parquet")
    for each in (truth, load_truth(tmp_path / "truth.parquet")):
        found = verify_truth(each, dataset)
        assert (found.right, found.wrong, found.other_data) == (True, (), ())
        assert (found.queries, found.checked, found.depth) == (12, 12, depth)


def test_a_sample_looks_at_so_many_queries_and_finds_what_is_among_them():
    dataset, truth = proven()
    wrong = replaced(truth, "rows", 4, 2, 149)
    found = [verify_truth(wrong, dataset, sample=5, seed=seed) for seed in range(12)]
    assert {each.checked for each in found} == {5}
    assert {each.queries for each in found} == {12}
    named = [each.wrong[0].query for each in found if not each.right]
    assert set(named) == {"q4"}
    assert 2 <= len(named) <= 10
    assert verify_truth(wrong, dataset, sample=5).wrong == found[0].wrong
    assert not verify_truth(wrong, dataset, sample=12).right
    assert verify_truth(truth, dataset, sample=1).right


def replaced(truth, name, query, rank, value):
    """The truth with one number changed; its ids would not know a row that it did not name before."""
    part = getattr(truth, name).copy()
    part[query, rank] = value
    return dataclasses.replace(truth, **{name: part}, row_ids=None)


def foreign(rows):
    return Truth(np.asarray(rows), None, None, None, Origin.IMPORTED)


def only(found):
    assert not found.right
    (wrong,) = found.wrong
    return wrong


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rank", range(DEPTH))
def test_a_row_that_does_not_belong_is_named_with_its_rank_and_its_gap(metric, rank):
    dataset, truth = proven(metric, filters=False)
    corpus, query = dataset.corpus.vectors.read(0, 200), dataset.queries.vectors.read(0, 12)[3]
    worst = exact_order(metric, query, corpus, range(200))[-1][1]
    for origin in Origin:
        bad = dataclasses.replace(replaced(truth, "rows", 3, rank, worst), origin=origin)
        wrong = only(verify_truth(bad, dataset))
        assert (wrong.query, wrong.rank) == ("q3", rank + 1)
        assert (wrong.neighbor, wrong.fault) == (1000 + worst, Fault.NOT_AMONG_BEST)
        score, last = (exact_score(metric, query, corpus[row]) for row in (worst, truth.rows[3, -1]))
        assert wrong.score == pytest.approx(score, rel=1e-12)
        assert wrong.gap == pytest.approx(abs(score - last), rel=1e-12)
        assert wrong.gap > 0


def faults(truth, dataset):
    return [(each.query, each.rank, each.fault) for each in verify_truth(truth, dataset).wrong]


def test_neighbors_in_the_wrong_order_are_found():
    dataset, truth = proven(filters=False)
    rank = int(np.flatnonzero(~truth.tied[5, 1:])[0])
    rows = truth.rows.copy()
    rows[5, [rank, rank + 1]] = rows[5, [rank + 1, rank]]
    bad = dataclasses.replace(truth, rows=rows)
    assert ("q5", rank + 2, Fault.OUT_OF_ORDER) in faults(bad, dataset)
    assert {(query, fault) for query, _, fault in faults(bad, dataset)} == {("q5", Fault.OUT_OF_ORDER)}
    wrong = only(verify_truth(foreign(rows), dataset))
    assert (wrong.query, wrong.rank, wrong.fault, wrong.gap) == ("q5", rank + 2, Fault.OUT_OF_ORDER, 0)


def test_ties_may_stand_in_any_order_except_in_a_truth_of_ours():
    dataset, truth = proven(filters=False)
    assert truth.tied[0, 1]
    rows = truth.rows.copy()
    rows[0, [0, 1]] = rows[0, [1, 0]]
    assert verify_truth(foreign(rows), dataset).right
    assert {fault for *_, fault in faults(dataclasses.replace(truth, rows=rows), dataset)} == {
        Fault.OUT_OF_ORDER
    }


@pytest.mark.parametrize("origin", Origin)
def test_a_repeated_neighbor_is_found(origin):
    dataset = mixed()
    truth = dataclasses.replace(ground_truth(dataset, depth=DEPTH), origin=origin)
    bad = replaced(truth, "rows", 0, 6, truth.rows[0, 2])
    wrong = only(verify_truth(bad, dataset))
    assert (wrong.rank, wrong.fault, wrong.neighbor) == (7, Fault.REPEATED, 1000 + truth.rows[0, 2])


@pytest.mark.parametrize("row", [200, 2**40])
@pytest.mark.parametrize("ids", [False, True])
def test_a_row_that_does_not_exist_is_found(row, ids):
    dataset, truth = proven()
    bad = replaced(truth, "rows", 4, 0, row)
    bad = dataclasses.replace(bad, row_ids=truth.row_ids if ids else None)
    wrong = only(verify_truth(bad, dataset))
    assert (wrong.rank, wrong.fault, wrong.neighbor, wrong.gap) == (1, Fault.UNKNOWN, None, None)


def test_an_id_that_the_corpus_does_not_have_is_found():
    dataset, truth = proven()
    names = truth.row_ids.ids.to_pylist()
    names[names.index(1000 + truth.rows[0, 3])] = 77
    other = dataclasses.replace(truth.row_ids, ids=pa.array(names))
    found = faults(dataclasses.replace(truth, row_ids=other), dataset)
    assert ("q0", 4, Fault.UNKNOWN) in found
    assert {fault for *_, fault in found} == {Fault.UNKNOWN}


def test_rows_that_a_query_may_not_return_are_found():
    dataset, truth = proven(own=True)
    blue = replaced(truth, "rows", 1, 0, 3)
    assert faults(blue, dataset) == [("q1", 1, Fault.INELIGIBLE)]
    itself = replaced(truth, "rows", 0, 5, 0)
    assert faults(itself, dataset) == [("q0", 6, Fault.INELIGIBLE)]


def test_missing_neighbors_are_found_and_padding_is_none():
    dataset, truth = proven()
    assert truth.eligible.tolist()[:4] == [200, 98, 5, 0]
    assert (truth.rows[2, 5:] == -1).all()
    assert faults(replaced(truth, "rows", 2, 4, -1), dataset) == [("q2", 5, Fault.MISSING)]
    assert faults(replaced(truth, "rows", 1, 7, -1), dataset) == [("q1", 8, Fault.MISSING)]
    assert faults(replaced(truth, "rows", 2, 5, 1), dataset) == [("q2", 6, Fault.INELIGIBLE)]
    assert faults(replaced(truth, "rows", 3, 0, 1), dataset) == [("q3", 1, Fault.INELIGIBLE)]


def test_a_score_that_is_off_by_its_last_bit_is_found():
    dataset, truth = proven()
    for value in (np.nextafter(truth.scores[0, 4], 9), np.nan, 0.0):
        assert faults(replaced(truth, "scores", 0, 4, value), dataset) == [("q0", 5, Fault.SCORE)]


def test_other_ties_are_found():
    dataset, truth = proven()
    for rank in (1, 2, 7):
        bad = replaced(truth, "tied", 0, rank, not truth.tied[0, rank])
        assert faults(bad, dataset) == [("q0", rank + 1, Fault.TIES)]


def with_ties(truth, rows, count):
    offsets = np.minimum(truth.overflow[0], len(rows))
    return dataclasses.replace(truth, overflow=(offsets, rows), tie_counts=np.array([count, 0]))


TIES = {
    "fewer": lambda truth: with_ties(truth, truth.overflow[1][:2], 2),
    "none": lambda truth: with_ties(truth, truth.overflow[1][:0], 0),
    "another": lambda truth: with_ties(truth, np.append(truth.overflow[1][:-1], 40), 22),
    "more": lambda truth: with_ties(truth, truth.overflow[1], 23),
}


@pytest.mark.parametrize("damage", TIES)
def test_other_ties_beyond_the_depth_are_found(damage):
    corpus = np.concatenate([np.ones((30, 2)), np.arange(40, 80).reshape(20, 2)])
    dataset = open_dataset(make_corpus(corpus), make_queries([[1.0, 1.0], [60.0, 60.0]]), metric="l2")
    truth = ground_truth(dataset, depth=DEPTH)
    assert truth.tie_counts.tolist() == [22, 0]
    found = verify_truth(TIES[damage](truth), dataset)
    assert {each.fault for each in found.wrong} == {Fault.TIES}


def test_another_count_of_eligible_rows_is_found():
    truth = ground_truth(mixed(), depth=DEPTH)
    assert not verify_truth(dataclasses.replace(truth, eligible=truth.eligible + 1), mixed()).right


@pytest.mark.parametrize(("part", "scale", "last"), [("vectors", 2, 1199), ("ids", 1, 5)])
def test_data_that_is_not_the_truths_is_named(part, scale, last):
    corpus, queries = vectors(200, 1), make_queries(vectors(4, 2))
    dataset = open_dataset(make_corpus(corpus, range(1000, 1200)), queries, metric="l2")
    other = open_dataset(make_corpus(corpus * scale, [*range(1000, 1199), last]), queries, metric="l2")
    found = verify_truth(ground_truth(dataset, depth=DEPTH), other)
    assert found.other_data == (part,)
    assert not found.right


def test_what_cannot_be_compared_is_refused():
    dataset, truth = proven()
    with pytest.raises(MismatchError, match="metric mismatch: the truth uses l2, the data ip"):
        verify_truth(truth, mixed("ip"))
    for sample in (0, -1, 13):
        with pytest.raises(UsageError, match=f"sample of {sample} queries.*1 to 12"):
            verify_truth(truth, dataset, sample=sample)
    with pytest.raises(MismatchError, match="7 queries without ids, queries has 12"):
        verify_truth(foreign(truth.rows[:7]), dataset)
    other = dataclasses.replace(truth, query_ids=pa.array([f"x{i}" for i in range(12)]))
    with pytest.raises(MismatchError, match="the truth has query x0, queries does not"):
        verify_truth(other, dataset)


def write_ann_benchmarks(folder, dataset, rows, distances):
    with h5py.File(folder / "a.hdf5", "w") as file:
        file.attrs["distance"] = "euclidean"
        for name, part in (("train", dataset.corpus), ("test", dataset.queries)):
            file[name] = part.vectors.read(0, part.rows)
        file["neighbors"], file["distances"] = rows.astype("int32"), distances.astype("float32")
    return open_dataset(folder / "a.hdf5"), load_truth(folder / "a.hdf5")


def write_big_ann(folder, dataset, rows, distances):
    header = struct.pack("<II", *rows.shape)
    squares = np.square(distances).astype("<f4")
    (folder / "gt.ibin").write_bytes(header + rows.astype("<i4").tobytes() + squares.tobytes())
    return dataset, load_truth(folder / "gt.ibin", metric="l2", corpus=dataset.corpus)


def write_vectordbbench(folder, dataset, rows, distances):
    for name, part in (("train", dataset.corpus), ("test", dataset.queries)):
        columns = {"id": range(part.rows), "emb": list(part.vectors.read(0, part.rows))}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    pq.write_table(
        pa.table({"id": range(len(rows)), "neighbors_id": list(rows)}), folder / "neighbors.parquet"
    )
    return open_dataset(folder, metric="l2"), load_truth(folder, metric="l2")


@pytest.mark.parametrize("write", [write_ann_benchmarks, write_big_ann, write_vectordbbench])
def test_somebody_elses_truth_is_right_or_its_wrong_neighbor_is_named(tmp_path, write):
    corpus, queries = vectors(300, 3), vectors(9, 4)
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="l2")
    distances = np.linalg.norm(queries.astype(float)[:, None] - corpus.astype(float), axis=2)
    order = np.argsort(distances, axis=1)
    opened, truth = write(tmp_path, dataset, order[:, :10], np.sort(distances)[:, :10])
    assert truth.origin is Origin.IMPORTED
    assert verify_truth(truth, opened).right

    rows = order[:, :10].copy()
    rows[2, 9], rows[7, 0] = order[2, 10], order[7, 250]
    (tmp_path / "wrong").mkdir()
    opened, truth = write(tmp_path / "wrong", dataset, rows, np.sort(distances)[:, :10])
    one, other = verify_truth(truth, opened).wrong
    assert (one.query, one.rank, one.neighbor) == (2, 10, order[2, 10])
    assert (other.query, other.rank, other.neighbor) == (7, 1, order[7, 250])
    for each in (one, other):
        assert each.fault is Fault.NOT_AMONG_BEST
        gap = distances[each.query, each.neighbor] - np.sort(distances)[each.query, 9]
        assert each.gap == pytest.approx(gap, rel=1e-9)


def test_the_lists_of_another_tool_go_by_its_query_ids_where_they_are_ours():
    dataset, truth = proven(filters=False)
    backwards = np.arange(len(truth))[::-1]
    theirs = dataclasses.replace(
        foreign(truth.rows[backwards]), query_ids=truth.query_ids.take(pa.array(backwards))
    )
    assert verify_truth(theirs, dataset).right
    rows = theirs.rows.copy()
    rows[2, 5] = 149
    assert only(verify_truth(dataclasses.replace(theirs, rows=rows), dataset)).query == "q9"
    unknown = dataclasses.replace(foreign(truth.rows), query_ids=pa.array([f"x{i}" for i in range(12)]))
    assert verify_truth(unknown, dataset).right


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize(("part", "column"), [("next_scores", "next_score"), ("next_rows", "next_row")])
def test_the_row_after_the_last_is_compared_whoever_the_truth_is_from(origin, part, column):
    dataset, truth = proven()
    found = getattr(truth.certificate, part).copy()
    found[4] += 1
    certificate = dataclasses.replace(truth.certificate, **{part: found})
    wrong = only(verify_truth(dataclasses.replace(truth, certificate=certificate, origin=origin), dataset))
    assert (wrong.query, wrong.rank, wrong.claim.column) == ("q4", None, column)
    assert wrong.claim.stated == wrong.claim.actual + 1


@pytest.mark.parametrize("part", ["ids", "number of rows"])
def test_what_a_truth_says_of_its_corpus_is_compared(part):
    dataset, truth = proven()
    ids = truth.corpus_ids.to_pylist()
    forged = {
        "ids": {"corpus_ids": pa.array([ids[1], ids[0], *ids[2:]])},
        "number of rows": {"corpus_rows": 201},
    }
    found = verify_truth(dataclasses.replace(truth, **forged[part]), dataset)
    assert (found.other_data, found.wrong) == ((part,), ())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores_of_another_tool_may_be_off_by_float32_arithmetic(metric, dtype):
    corpus, queries = vectors(2000, 1, 64) + 3, vectors(30, 2, 64) + 3
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)
    truth = ground_truth(dataset, depth=DEPTH)
    products = queries @ corpus.T
    lengths = [np.linalg.norm(each, axis=1) for each in (queries, corpus)]
    if metric == "cosine":
        products /= lengths[0][:, None] * lengths[1]
    if metric == "l2":
        squares = lengths[0][:, None] ** 2 + lengths[1] ** 2 - 2 * products
        products = np.sqrt(np.maximum(squares, 0))
    scores = np.take_along_axis(products, truth.rows, 1).astype(dtype).astype(float)
    theirs = Truth(truth.rows, scores, None, dataset.metric, Origin.IMPORTED)
    found = verify_truth(theirs, dataset)
    assert found.right == (dtype == "float32")
    assert {each.fault for each in found.wrong} <= {Fault.SCORE}


@pytest.mark.parametrize(("offset", "least"), [(100, 1), (300, 50), (1000, 200)])
def test_neighbors_that_float32_got_wrong_by_expanding_the_square_are_named(offset, least):
    random = np.random.default_rng(0)
    corpus, queries = (random.normal(offset, 1, (rows, 32)).astype("float32") for rows in (2000, 60))
    squares = np.square(queries).sum(1)[:, None] + np.square(corpus).sum(1) - 2 * queries @ corpus.T
    rows = np.argsort(squares, axis=1, kind="stable")[:, :10]
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="l2")
    found = verify_truth(foreign(rows), dataset)

    # Differences of these numbers, and so these distances, lose nothing that matters in float64.
    real = np.linalg.norm(queries.astype(float)[:, None] - corpus.astype(float), axis=2)
    last = np.sort(real)[:, 9]
    places = np.argwhere(np.take_along_axis(real, rows, 1) > last[:, None])
    wrong = {(query, rank + 1) for query, rank in places.tolist()}
    misplaced = [each for each in found.wrong if each.fault is Fault.NOT_AMONG_BEST]
    assert {(each.query, each.rank) for each in misplaced} == wrong
    assert len(wrong) >= least
    for each in misplaced:
        assert each.gap == pytest.approx(real[each.query, each.neighbor] - last[each.query], rel=1e-6)
    assert {each.fault for each in found.wrong} <= {Fault.NOT_AMONG_BEST, Fault.OUT_OF_ORDER}


def test_any_of_more_ties_than_are_listed_will_do():
    corpus = np.concatenate([np.zeros((1, 2)), np.ones((1500, 2)), np.full((5, 2), 3)]).astype("float32")
    dataset = open_dataset(make_corpus(corpus), make_queries(np.zeros((1, 2), "float32")), metric="l2")
    assert verify_truth(foreign([[0, 1500, 7]]), dataset).right
    assert only(verify_truth(foreign([[0, 9, 1503]]), dataset)).rank == 3


def test_ties_at_the_boundary_do_not_take_the_place_of_a_better_row():
    corpus = np.array([[1, 2], [1, 1], [1, 1]], "int8")
    dataset = open_dataset(corpus, corpus[:1], metric="cosine")
    assert verify_truth(foreign([[0, 2]]), dataset).right
    wrong = only(verify_truth(foreign([[1, 2]]), dataset))
    assert (wrong.rank, wrong.fault) == (2, Fault.NOT_AMONG_BEST)


@given(st.data())
def test_a_foreign_truth_is_right_just_if_each_neighbor_is_as_good_as_the_one_that_belongs_there(data):
    numbers = st.lists(st.lists(st.integers(1, 3), min_size=2, max_size=2), min_size=3, max_size=12)
    corpus = np.array(data.draw(numbers), "int8")
    metric = data.draw(st.sampled_from(METRICS))
    rows = data.draw(st.permutations(range(len(corpus))))[: data.draw(st.integers(1, 4))]
    dataset = open_dataset(make_corpus(corpus), make_queries(corpus[:1]), metric=metric)
    order = exact_order(metric, corpus[0], corpus, range(len(corpus)))
    if data.draw(st.booleans()):
        rows = [row for _, row in order[: len(rows)]]
    keys = {row: key for key, row in order}
    expected = [keys[row] for row in rows] == [key for key, _ in order[: len(rows)]]
    assert verify_truth(foreign([rows]), dataset).right == expected
