"""A truth brought up to date is, bit for bit, the one that would have been computed."""

import dataclasses
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import load_truth, make_corpus, make_queries, open_dataset, save_truth
from recallatk.core import Dataset
from recallatk.core.truth import Decision
from recallatk.filters import Equals
from recallatk.fingerprint import fingerprints
from recallatk.truths import ground_truth, obtain_truth
from recallatk.truths.compute import Way

METRICS = ("cosine", "ip", "l2")
DTYPES = ("float32", "float64", "int8")
DEPTH = 6


def contents(truth):
    """Everything that a truth says, but not in which precision a scan found it."""
    offsets, beyond = truth.overflow
    named = truth.rows[truth.rows >= 0]
    return {
        "rows": truth.rows.tolist(),
        "scores": truth.scores.tobytes(),
        "tied": truth.tied.tolist(),
        "tie counts": truth.tie_counts.tolist(),
        "overflow": (offsets.tolist(), beyond.tolist()),
        "eligible": truth.eligible.tolist(),
        "ids": truth.ids_of(named).to_pylist() + truth.ids_of(beyond).to_pylist(),
        "query ids": truth.query_ids.to_pylist(),
        "decided": truth.certificate.decided.tolist(),
        "bounds": truth.certificate.bounds.tobytes(),
        "next rows": truth.certificate.next_rows.tolist(),
        "next scores": truth.certificate.next_scores.tobytes(),
        "fingerprints": dict(truth.fingerprints),
        "about": (truth.metric, truth.origin, truth.corpus_rows, truth.sampled_from),
    }


def made(corpus, queries, metric, *, ids=None, own=None):
    asked = make_queries(queries)
    if own is not None:
        asked = dataclasses.replace(asked, corpus_rows=np.asarray(own, np.int64))
    return open_dataset(make_corpus(corpus, ids), asked, metric=metric)


EXPECTED = {}


def expected(dataset, depth):
    """What is computed without a store; the same data come again and again."""
    about = (dataset.metric, dataset.corpus.sampled_from, depth)
    key = (*about, *sorted(fingerprints(dataset).items()))
    if key not in EXPECTED:
        EXPECTED[key] = contents(ground_truth(dataset, depth=depth, threads=1))
    return EXPECTED[key]


def obtained(dataset, store, depth=DEPTH, threads=1):
    """The truth through the store, which must be the one that is computed without it."""
    found = obtain_truth(dataset, depth=depth, store=store, threads=threads)
    assert contents(found.truth) == expected(dataset, depth)
    return found


def updated(dataset, store, depth=DEPTH):
    found = obtained(dataset, store, depth)
    assert found.way is Way.UPDATED
    return found


def numbers(random, rows, dtype, kind="spread", dimension=5):
    """Vectors in general position, with many ties, with ties but for the last bits, or far from zero."""
    if kind == "spread":
        found = random.normal(size=(rows, dimension)) * (40 if dtype == "int8" else 1)
    elif kind == "ties":
        found = random.integers(-2, 3, (rows, 3))
    elif kind == "near":
        found = random.integers(1, 3, (rows, 3)) * (1 + random.integers(0, 4, (rows, 1)) * 2.0**-50)
    else:
        found = random.normal(1000, 1, (rows, dimension))
    found = np.clip(found, -128, 127) if dtype == "int8" else found
    found = found.astype(dtype)
    found[~found.any(axis=1)] = 1
    return found


def problem(metric, dtype, rows=120, queries=8, kind="spread", seed=0):
    random = np.random.default_rng(seed)
    return numbers(random, rows, dtype, kind), numbers(random, queries, dtype, kind), random


def naming(truth, row):
    """How many queries need a row: as a neighbor, as the best one left out, or as a tie beyond the depth."""
    offsets, beyond = truth.overflow
    ties = [row in beyond[first:last] for first, last in itertools.pairwise(offsets)]
    return int(((truth.rows == row).any(axis=1) | (truth.certificate.next_rows == row) | ties).sum())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
class TestEveryMetricAndType:
    def test_appended_rows_are_the_only_ones_scanned(self, tmp_path, metric, dtype):
        corpus, queries, random = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        more = np.concatenate([corpus, numbers(random, 7, dtype), queries[:1]])
        found = updated(made(more, queries, metric), tmp_path)
        assert (found.scanned_rows, found.redone_queries) == (8, 0)

    def test_inserted_rows_are_the_only_ones_scanned(self, tmp_path, metric, dtype):
        corpus, queries, random = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        fresh = np.concatenate([numbers(random, 4, dtype), queries[2:4]])
        found = updated(
            made(np.insert(corpus, [0, 11, 11, 60, 99, 119], fresh, 0), queries, metric), tmp_path
        )
        assert (found.scanned_rows, found.redone_queries) == (6, 0)

    def test_a_deleted_row_costs_the_queries_that_named_it(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        truth = obtained(made(corpus, queries, metric), tmp_path / "0").truth
        nobody = next(row for row in range(50, 120) if not naming(truth, row))
        for number, row in enumerate((nobody, truth.rows[0, 0], truth.rows[3, -1])):
            store = tmp_path / str(number)
            obtained(made(corpus, queries, metric), store)
            found = updated(made(np.delete(corpus, row, 0), queries, metric), store)
            assert (found.scanned_rows, found.redone_queries) == (0, naming(truth, row))

    def test_a_changed_row_is_scanned_and_costs_the_queries_that_named_it(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        truth = obtained(made(corpus, queries, metric), tmp_path).truth
        row = truth.rows[1, 2]
        changed = corpus.copy()
        changed[row] = queries[5]
        found = updated(made(changed, queries, metric), tmp_path)
        assert (found.scanned_rows, found.redone_queries) == (1, naming(truth, row))

    def test_a_row_that_moved_keeps_ties_in_the_order_of_rows(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        corpus[100:] = corpus[:20]
        truth = obtained(made(corpus, queries, metric), tmp_path).truth
        row = int(truth.rows[0, 0])
        moved = np.insert(np.delete(corpus, row, 0), 50, corpus[row], 0)
        found = updated(made(moved, queries, metric), tmp_path)
        assert found.scanned_rows <= 2

    def test_a_best_row_left_out_is_replaced_by_the_next_one(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        truth = obtained(made(corpus, queries, metric), tmp_path).truth
        row = truth.certificate.next_rows[4]
        found = updated(made(np.delete(corpus, row, 0), queries, metric), tmp_path)
        assert 1 <= found.redone_queries == naming(truth, row) < len(queries)
        assert found.truth.certificate.next_rows[4] != row

    @pytest.mark.parametrize("place", [0, 60, 120])
    def test_new_copies_of_the_last_neighbor_tie_with_it(self, tmp_path, metric, dtype, place):
        corpus, queries, _ = problem(metric, dtype)
        truth = obtained(made(corpus, queries, metric), tmp_path).truth
        last = truth.rows[0, -1]
        found = updated(made(np.insert(corpus, [place] * 2, corpus[last], 0), queries, metric), tmp_path)
        assert found.truth.tie_counts[0] == 2
        # Equal rows are matched in order: with copies in front of it, the row itself is the new one.
        assert (found.scanned_rows, found.redone_queries) in ((2, 0), (3, naming(truth, last)))

    def test_copies_at_the_boundary_come_and_go(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        last = ground_truth(made(corpus, queries, metric), depth=DEPTH).rows[0, -1]
        corpus = np.insert(corpus, [3, 77, 120], corpus[last], 0)
        truth = obtained(made(corpus, queries, metric), tmp_path).truth
        assert truth.tie_counts[0] == 3
        for row in (truth.rows[0, -1], truth.overflow[1][0], truth.overflow[1][2]):
            found = updated(made(np.delete(corpus, row, 0), queries, metric), tmp_path)
            assert found.truth.tie_counts[0] == 2
            assert found.scanned_rows <= 3

    def test_several_steps_in_a_row_lose_nothing(self, tmp_path, metric, dtype):
        corpus, queries, random = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        for _ in range(6):
            corpus = np.delete(corpus, random.integers(0, len(corpus), 3), 0)
            corpus = np.insert(corpus, random.integers(0, len(corpus), 3), numbers(random, 3, dtype), 0)
            corpus = np.concatenate([corpus, corpus[random.integers(0, len(corpus), 2)]])
            found = updated(made(corpus, queries, metric), tmp_path)
            assert found.scanned_rows < 12

    def test_a_corpus_smaller_than_the_depth_grows_beyond_it(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype, rows=20)
        for rows in (3, 5, 6, 7, 20):
            found = obtained(made(corpus[:rows], queries, metric), tmp_path)
            assert found.way is (Way.COMPUTED if rows == 3 else Way.UPDATED)
        assert (found.truth.rows >= 0).all()

    def test_queries_that_are_corpus_rows_never_find_themselves(self, tmp_path, metric, dtype):
        corpus, _, random = problem(metric, dtype)
        corpus[110:] = corpus[:10]
        own = [0, 4, 31, 60, 119]
        obtained(made(corpus, corpus[own], metric, own=own), tmp_path)
        more = np.concatenate([corpus, corpus[own], numbers(random, 3, dtype)])
        found = updated(made(more, corpus[own], metric, own=own), tmp_path)
        assert (found.scanned_rows, found.redone_queries) == (8, 0)
        # From row 40 on, a query's own row is another vector now, and its vector another row.
        fewer = np.delete(more, 40, 0)
        found = updated(made(fewer, corpus[own], metric, own=own), tmp_path)
        assert 2 <= found.redone_queries < 5
        assert (found.truth.rows != np.asarray(own)[:, None]).all()

    def test_other_ids_cost_nothing(self, tmp_path, metric, dtype):
        corpus, queries, _ = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        ids = [f"é{row}" for row in range(120)]
        found = updated(made(corpus, queries, metric, ids=ids), tmp_path)
        assert (found.scanned_rows, found.redone_queries) == (0, 0)
        assert found.truth.ids_of(found.truth.rows[0]).to_pylist() == [ids[i] for i in found.truth.rows[0]]

    def test_another_order_of_all_rows_is_right_by_whatever_way(self, tmp_path, metric, dtype):
        corpus, queries, random = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        obtained(made(random.permutation(corpus), queries, metric), tmp_path)
        assert obtained(made(corpus[::-1].copy(), queries, metric), tmp_path).way is Way.COMPUTED

    def test_another_corpus_begins_anew(self, tmp_path, metric, dtype):
        corpus, queries, random = problem(metric, dtype)
        obtained(made(corpus, queries, metric), tmp_path)
        found = obtained(made(numbers(random, 120, dtype), queries, metric), tmp_path)
        assert found.way is Way.COMPUTED
        assert (found.scanned_rows, found.redone_queries) == (120, len(queries))


def test_the_relative_that_was_used_last_need_not_be_the_one_that_fits(tmp_path):
    corpus, queries, random = problem("l2", "float32")
    obtained(made(corpus, queries, "l2"), tmp_path)
    obtained(made(numbers(random, 200, "float32"), queries, "l2"), tmp_path)
    obtained(made(corpus[:100], queries, "l2"), tmp_path, depth=DEPTH + 1)
    found = updated(made(np.concatenate([corpus, queries]), queries, "l2"), tmp_path)
    assert found.scanned_rows == len(queries)


def test_more_contenders_than_an_update_can_hold_send_their_queries_through_the_whole_corpus(tmp_path):
    corpus, queries, _ = problem("l2", "float32", rows=2000)
    obtained(made(corpus, queries, "l2"), tmp_path)
    more = np.concatenate([corpus, np.repeat(queries[:1], 900, 0)])
    found = updated(made(more, queries, "l2"), tmp_path)
    assert 1 <= found.redone_queries < len(queries)
    assert found.truth.tie_counts[0] == 900 - DEPTH


def test_ties_beyond_those_that_are_named_are_counted_anew(tmp_path):
    corpus = np.concatenate([np.ones((1500, 2)), np.arange(1000, 3000).reshape(1000, 2)]).astype("float32")
    queries = np.array([[1, 1], [2000, 2000]], "float32")
    assert obtained(made(corpus, queries, "l2"), tmp_path).truth.tie_counts[0] == 1500 - DEPTH
    # A row goes that ties and that nobody names.
    fewer = updated(made(np.delete(corpus, 1400, 0), queries, "l2"), tmp_path)
    assert (fewer.truth.tie_counts[0], fewer.redone_queries) == (1499 - DEPTH, 1)


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_queries_that_float32_could_not_decide_are_brought_up_to_date(tmp_path, dtype):
    corpus, queries, random = problem("cosine", dtype, rows=700, kind="far")
    truth = obtained(made(corpus, queries, "cosine"), tmp_path).truth
    assert (truth.certificate.decided == Decision.FLOAT64).any()
    corpus = np.concatenate([corpus, numbers(random, 9, dtype, "far"), queries[:2]])
    assert updated(made(corpus, queries, "cosine"), tmp_path).scanned_rows == 11
    found = updated(made(np.delete(corpus, truth.rows[0, 3], 0), queries, "cosine"), tmp_path)
    assert 1 <= found.redone_queries < len(queries)


def test_numbers_beyond_float32_are_no_obstacle(tmp_path):
    corpus, queries, _ = problem("l2", "float64")
    obtained(made(corpus, queries, "l2"), tmp_path)
    updated(made(np.concatenate([corpus, corpus[:3] * 1e100]), queries, "l2"), tmp_path)
    obtained(made(corpus * 1e100, queries * 1e100, "l2"), tmp_path)
    updated(made(np.delete(corpus, 8, 0) * 1e100, queries * 1e100, "l2"), tmp_path)


@pytest.mark.parametrize("metric", METRICS)
def test_filtered_queries_are_computed_and_never_updated(tmp_path, metric):
    corpus, queries, random = problem(metric, "float32")
    colours = random.permutation(["red", "blue", "green"] * 40).tolist()
    filters = [Equals("colour", "red"), None, Equals("colour", "blue"), Equals("colour", "none")]

    def filtered(vectors, colours) -> Dataset:
        corpus = make_corpus(vectors, metadata={"colour": colours})
        return open_dataset(corpus, make_queries(queries[:4], filters=filters), metric=metric)

    assert obtained(filtered(corpus, colours), tmp_path).way is Way.COMPUTED
    more = obtained(filtered(np.concatenate([corpus, queries]), colours + ["red"] * 8), tmp_path)
    assert more.way is Way.COMPUTED
    assert more.truth.eligible.tolist() == [48, 128, 40, 0]
    other = obtained(filtered(corpus, colours[::-1]), tmp_path)
    assert other.way is Way.COMPUTED
    # Nor does anybody begin from the truth of filtered queries.
    assert obtained(made(corpus[:-1], queries[:4], metric), tmp_path).way is Way.COMPUTED


def edited(corpus, random, edit, dtype, kind):
    """The corpus after one small change, at a place that chance decides."""
    place, other = (int(each) for each in random.integers(0, len(corpus), 2))
    if edit == "append":
        return np.concatenate([corpus, numbers(random, 2, dtype, kind)])
    if edit == "insert":
        return np.insert(corpus, place, numbers(random, 1, dtype, kind), 0)
    if edit == "delete":
        return np.delete(corpus, place, 0)
    if edit == "duplicate":
        return np.insert(corpus, place, corpus[other], 0)
    changed = corpus.copy()
    changed[place] = corpus[other] if edit == "swap" else numbers(random, 1, dtype, kind)[0]
    if edit == "swap":
        changed[other] = corpus[place]
    return changed


EDITS = ("append", "insert", "delete", "duplicate", "change", "swap")


@pytest.mark.parametrize("kind", ["spread", "ties", "near", "far"])
def test_any_small_changes_give_the_truth_that_would_have_been_computed(kind):
    ways = []

    @examples(25)
    @given(
        metric=st.sampled_from(METRICS),
        dtype=st.sampled_from(DTYPES[:2] if kind == "far" else DTYPES),
        rows=st.integers(20, 60),
        depth=st.integers(1, 25),
        own=st.booleans(),
        threads=st.sampled_from([1, 2]),
        steps=st.lists(st.lists(st.sampled_from(EDITS), min_size=1, max_size=3), min_size=1, max_size=3),
        seed=st.integers(0, 2**32),
    )
    def check(metric, dtype, rows, depth, own, threads, steps, seed):
        random = np.random.default_rng(seed)
        corpus = numbers(random, rows, dtype, kind)
        mine = random.integers(0, 10, 4) if own else None
        queries = corpus[mine] if own else numbers(random, 4, dtype, kind)
        with TemporaryDirectory() as folder:
            obtained(made(corpus, queries, metric, own=mine), Path(folder), depth, threads)
            for edits in steps:
                for edit in edits:
                    corpus = edited(corpus, random, edit, dtype, kind)
                dataset = made(corpus, queries, metric, own=mine)
                ways.append(obtained(dataset, Path(folder), depth, threads).way)

    check()
    # Among many equal rows, it may look as if more had changed places than have stayed.
    assert ways.count(Way.UPDATED) > len(ways) * 0.8


def test_an_update_takes_over_no_exact_of_an_older_format(tmp_path):
    corpus, queries, _ = problem("l2", "float32", kind="spread")
    obtain_truth(made(corpus[:110], queries, "l2"), depth=DEPTH, store=tmp_path)
    (stored,) = tmp_path.rglob("truth.parquet")
    truth = load_truth(stored)
    decided = np.full(len(truth), Decision.EXACT, np.uint8)
    older = dataclasses.replace(truth.certificate, decided=decided)
    save_truth(dataclasses.replace(truth, certificate=older, older_format=3), stored)
    updated(made(corpus, queries, "l2"), tmp_path)
