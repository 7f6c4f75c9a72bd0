"""A computation that was stopped goes on where it was, and ends as if nothing had happened."""

import dataclasses

import numpy as np
import pytest
from test_updating import contents, made, numbers

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.filters import Equals, Range
from recallatk.truths import compute, ground_truth, obtain_truth
from recallatk.truths.checkpoint import Checkpoint
from recallatk.truths.compute import Way
from recallatk.truths.memory_plan import MemoryPlan
from recallatk.truths.search import ExactSearch

DEPTH = 6
PLAN = MemoryPlan(block_rows=40, group_queries=5)


class Stopped(Exception):  # noqa: N818 - it stands for a key that was pressed
    pass


class Meter:
    """Counts the blocks that were scanned, and stops the computation after some of them."""

    def __init__(self, stop=None):
        self.stop, self.steps = stop, []

    def __call__(self, done, total):
        self.steps.append(done)
        if len(self.steps) == self.stop:
            raise Stopped


def searched(dataset, checkpoint=None, stop=None, plan=PLAN, threads=1):
    """A truth by the search alone, and the progress it reported."""
    meter = Meter(stop)
    search = ExactSearch(
        dataset, DEPTH, plan, threads=threads, backend="blas", progress=meter, checkpoint=checkpoint
    )
    return search.run().truth(dataset, {}), meter.steps


def easy(random):
    return made(numbers(random, 300, "float32"), numbers(random, 12, "float32"), "cosine")


def far_from_zero(random):
    """Cosines that float32 cannot tell apart, of more rows than it may leave to the next stage."""
    return made(numbers(random, 600, "float64", "far"), numbers(random, 12, "float64", "far"), "cosine")


def copies(random):
    """More ties than the first two stages put up with, for some of the queries."""
    corpus = np.concatenate([np.ones((500, 3)), random.normal(9, 1, (100, 3))])
    queries = np.concatenate([np.ones((3, 3)), random.normal(9, 1, (6, 3))])
    return made(random.permutation(corpus), random.permutation(queries), "l2")


def own_rows(random):
    corpus, own = numbers(random, 300, "int8", "ties"), random.integers(0, 300, 12)
    return made(corpus, corpus[own], "l2", own=own)


def filtered(random):
    metadata = {"colour": random.choice(["red", "blue"], 300).tolist(), "n": np.arange(300)}
    filters = [Equals("colour", "red"), Range("n", lt=20), None, Equals("colour", "green")] * 3
    corpus = make_corpus(numbers(random, 300, "float32"), metadata=metadata)
    return open_dataset(corpus, make_queries(numbers(random, 12, "float32"), filters=filters), metric="ip")


KINDS = pytest.mark.parametrize("kind", [easy, far_from_zero, copies, own_rows, filtered])


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "checkpoint.npz", {"work": 1}, every_seconds=0)


@KINDS
@pytest.mark.parametrize("seed", range(4))
def test_a_search_stopped_after_any_block_goes_on_with_the_next(checkpoint, kind, seed):
    random = np.random.default_rng(seed)
    dataset = kind(random)
    expected, steps = searched(dataset, Checkpoint(checkpoint.path.with_name("other.npz"), {}, 0))
    assert contents(expected) == contents(searched(dataset)[0])
    assert len(steps) > 15
    stop = int(random.integers(2, len(steps) + 1))
    with pytest.raises(Stopped):
        searched(dataset, checkpoint, stop)
    truth, again = searched(dataset, checkpoint)
    assert contents(truth) == contents(expected)
    # The block at which it was stopped had not been saved yet.
    assert again == steps[stop - 1 :]


@KINDS
def test_a_search_stopped_again_and_again_comes_to_its_end(checkpoint, kind):
    dataset = kind(np.random.default_rng(9))
    expected, steps = searched(dataset, Checkpoint(checkpoint.path.with_name("other.npz"), {}, 0))
    # The block at which it is stopped is not saved: three more are done each time.
    for _ in range((len(steps) - 1) // 3):
        with pytest.raises(Stopped):
            searched(dataset, checkpoint, stop=4)
    truth, _ = searched(dataset, checkpoint, stop=4)
    assert contents(truth) == contents(expected)


@KINDS
@pytest.mark.parametrize(
    "plan", [MemoryPlan(17, 12), MemoryPlan(100, 1), MemoryPlan(600, 5), MemoryPlan(300, 12)], ids=str
)
def test_a_search_goes_on_with_other_blocks_other_groups_and_more_threads(checkpoint, kind, plan):
    dataset = kind(np.random.default_rng(3))
    expected, steps = searched(dataset)
    with pytest.raises(Stopped):
        searched(dataset, checkpoint, stop=12)
    truth, again = searched(dataset, checkpoint, plan=plan, threads=2)
    assert contents(truth) == contents(expected)
    assert again[0] > steps[10]


def test_without_time_gone_by_nothing_is_saved(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint.npz", {}, every_seconds=3600)
    checkpoint.offer(lambda: pytest.fail("nobody needs the state"))
    assert not checkpoint.path.exists()
    assert checkpoint.load() is None


def test_a_state_comes_back_for_the_same_work_only(tmp_path):
    path = tmp_path / "checkpoint.npz"
    state = {"a": np.arange(3), "b": np.asarray(1.5), "c": np.zeros((2, 0), bool)}
    Checkpoint(path, {"work": 1}).save(state)
    found = Checkpoint(path, {"work": 1}).load()
    assert {name: (part.dtype, part.tolist()) for name, part in found.items()} == {
        name: (part.dtype, part.tolist()) for name, part in state.items()
    }
    for other in ({}, {"work": 2}, {"work": 1, "begun_from": None}):
        assert Checkpoint(path, other).load() is None
    Checkpoint(path, {"work": 1}).clear()
    assert list(tmp_path.iterdir()) == []
    Checkpoint(path, {"work": 1}).clear()


def test_a_checkpoint_of_other_work_is_passed_over(checkpoint):
    dataset, other = easy(np.random.default_rng(0)), easy(np.random.default_rng(1))
    with pytest.raises(Stopped):
        searched(other, checkpoint, stop=9)
    truth, steps = searched(dataset, Checkpoint(checkpoint.path, {"work": 2}, 0))
    assert steps == searched(dataset)[1]
    assert contents(truth) == contents(searched(dataset)[0])


def test_a_cut_or_flipped_checkpoint_changes_no_truth(checkpoint):
    dataset = easy(np.random.default_rng(0))
    with pytest.raises(Stopped):
        searched(dataset, checkpoint, stop=14)
    whole = checkpoint.path.read_bytes()
    expected, steps = contents(searched(dataset)[0]), searched(dataset)[1]
    random = np.random.default_rng(0)
    damaged = [whole[: int(length)] for length in random.integers(0, len(whole), 20)]
    for place in random.integers(0, len(whole), 60).tolist():
        damaged.append(whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :])
    begun = 0
    for data in damaged:
        checkpoint.path.write_bytes(data)
        truth, again = searched(dataset, Checkpoint(checkpoint.path, {"work": 1}, 3600))
        assert contents(truth) == expected
        begun += again == steps
    assert begun > 40


def write_matrix(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def write_other_arrays(path):
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(3))


def write_two_headers(path):
    with path.open("wb") as file:
        np.savez(file, header=np.asarray(["a", "b"]))


def write_number_as_header(path):
    with path.open("wb") as file:
        np.savez(file, header=np.asarray(7))


FOREIGN = [write_matrix, write_other_arrays, write_two_headers, write_number_as_header]


@pytest.mark.parametrize("write", FOREIGN)
def test_a_foreign_file_in_its_place_is_passed_over(checkpoint, write):
    dataset = easy(np.random.default_rng(0))
    write(checkpoint.path)
    truth, steps = searched(dataset, checkpoint)
    assert steps == searched(dataset)[1]
    assert contents(truth) == contents(searched(dataset)[0])


@pytest.fixture
def planned(monkeypatch):
    def use(block_rows, group_queries):
        monkeypatch.setattr(compute, "plan", lambda *_: MemoryPlan(block_rows, group_queries))

    use(40, 5)
    return use


def obtained(dataset, store, meter=None, **options):
    return obtain_truth(
        dataset, depth=DEPTH, store=store, progress=meter, checkpoint_seconds=0, **{"threads": 1, **options}
    )


def stopped(dataset, store, stop, **options):
    with pytest.raises(Stopped):
        obtained(dataset, store, Meter(stop), **options)


def test_the_store_goes_on_from_a_checkpoint_and_removes_it(tmp_path, planned):
    dataset = far_from_zero(np.random.default_rng(0))
    stopped(dataset, tmp_path, 20)
    assert [path.name for path in tmp_path.glob("truth/*/*")] == ["checkpoint.npz"]
    meter = Meter()
    found = obtained(dataset, tmp_path, meter)
    assert meter.steps == searched(dataset)[1][19:]
    assert contents(found.truth) == contents(ground_truth(dataset, depth=DEPTH))
    assert sorted(path.name for path in tmp_path.glob("truth/*/*")) == [
        "entry.json",
        "rows.npy",
        "truth.parquet",
    ]


def test_each_work_in_a_store_has_its_own_checkpoint(tmp_path, planned):
    datasets = [kind(np.random.default_rng(0)) for kind in (easy, far_from_zero, copies, own_rows, filtered)]
    datasets.append(dataclasses.replace(datasets[0], metric=datasets[2].metric))
    for dataset in datasets:
        stopped(dataset, tmp_path, 10)
    for dataset in datasets:
        meter = Meter()
        assert contents(obtained(dataset, tmp_path, meter).truth) == contents(
            ground_truth(dataset, depth=DEPTH)
        )
        assert meter.steps == searched(dataset)[1][9:]


def shrunk(dataset, rows):
    """The same queries on a corpus that lost some rows."""
    vectors = np.delete(np.array(dataset.corpus.vectors.read(0, dataset.corpus.rows)), rows, 0)
    return dataclasses.replace(dataset, corpus=make_corpus(vectors))


@pytest.mark.parametrize("kind", [easy, far_from_zero, copies, own_rows])
def test_an_update_that_was_stopped_goes_on(tmp_path, planned, kind):
    dataset = kind(np.random.default_rng(0))
    before = obtained(dataset, tmp_path).truth
    fewer = shrunk(dataset, before.rows[4:9, 0])
    stopped(fewer, tmp_path, 5)
    meter = Meter()
    found = obtained(fewer, tmp_path, meter)
    assert found.way is Way.UPDATED
    assert contents(found.truth) == contents(ground_truth(fewer, depth=DEPTH))
    assert meter.steps[0] > 4 * 40


def test_an_update_whose_beginning_was_lost_begins_anew(tmp_path, planned):
    # Its checkpoint knows of those queries alone that had to be redone.
    dataset = easy(np.random.default_rng(0))
    before = obtained(dataset, tmp_path)
    fewer = shrunk(dataset, before.truth.rows[0, 0])
    stopped(fewer, tmp_path, 5)
    before.path.write_bytes(b"")
    found = obtained(fewer, tmp_path)
    assert contents(found.truth) == contents(ground_truth(fewer, depth=DEPTH))


@pytest.mark.parametrize(("first", "second"), [((4000, 1), (100, 1)), ((100, 1), (4000, 1))])
def test_an_update_goes_on_with_other_blocks_though_other_queries_have_to_be_redone(
    tmp_path, planned, first, second
):
    # Fifteen hundred copies are too many for an update that meets them before the better rows after them.
    corpus = np.random.default_rng(0).normal(size=(2000, 4)).astype("float32")
    queries = np.full((3, 4), [[9], [0], [-9]], "float32")
    before = obtained(made(corpus, queries, "l2"), tmp_path).truth
    fresh = np.concatenate([np.full((1500, 4), 8), np.full((20, 4), 9)]).astype("float32")
    lost = [before.rows[1, 0], before.rows[2, 0]]
    after = made(np.concatenate([np.delete(corpus, lost, 0), fresh]), queries, "l2")
    planned(*first)
    stopped(after, tmp_path, 2)
    planned(*second)
    found = obtained(after, tmp_path)
    assert contents(found.truth) == contents(ground_truth(after, depth=DEPTH))
