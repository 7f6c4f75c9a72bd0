"""Evidence on missed neighbors: collected after the trials, stored beside them, added to a run later."""

import json
import shutil
import time
from dataclasses import replace

import hnswlib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk import Limits, explain, load_run, measure, run, save_run, to_html, to_markdown, to_text
from recallatk.analysis import percentile
from recallatk.analysis.loss import CAUSES, attribute
from recallatk.core.losses import COLUMNS, NOT_ASKED, Cause
from recallatk.datasets.opening import open_dataset
from recallatk.errors import FormatError, UsageError
from recallatk.storage.checksums import CHECKSUM, column_checksums, sealed

LISTS = """
    [measure]
    at = [1, 10]
    rounds = 3
    [[engine]]
    name = "faiss-ivf-flat"
    build = { nlist = 16 }
    search = { nprobe = [1, 4] }
    [limits]
    explain = "10min"
"""


# Enough on any machine, so that no test depends on the time that its trials took.
PATIENT = Limits(explain_seconds=600)


def losses(found):
    return [each.loss for each in found.measurements]


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A bench file whose run is explained, and the run; tests change copies."""
    folder = tmp_path_factory.mktemp("measured")
    random = np.random.default_rng(0)
    np.save(folder / "corpus.npy", random.normal(size=(400, 8)).astype("f4"))
    np.save(folder / "queries.npy", random.normal(size=(60, 8)).astype("f4"))
    data = f'[data]\ncorpus = "{folder}/corpus.npy"\nqueries = "{folder}/queries.npy"\nmetric = "l2"\n'
    path = folder / "bench.toml"
    path.write_text(f'{data}[truth]\ndepth = 10\nstore = "{folder}/store"\n{LISTS}')
    return path, run(path, out=folder / "run", explain=True)


@pytest.fixture
def explained(measured, tmp_path):
    """The bench file, the run, and a copy of its folder."""
    path, found = measured
    return path, found, shutil.copytree(path.parent / "run", tmp_path / "run")


@pytest.fixture
def unexplained(explained):
    """The same without evidence."""
    path, found, folder = explained
    for each in folder.glob("loss-*"):
        each.unlink()
    return path, found, folder


def test_evidence_is_stored_beside_the_trials(explained):
    _, found, folder = explained
    assert sorted(each.name for each in folder.glob("loss-*")) == ["loss-1.parquet", "loss-2.parquet"]
    again = load_run(folder)
    for one, other in zip(losses(found), losses(again), strict=True):
        assert same(one, other)
        assert (one.k, one.full_search) == (other.k, other.full_search) == (10, {"nprobe": 16})
        assert one.effort_knobs == other.effort_knobs == ("nprobe",)
    for each in found.measurements:
        lost = np.bincount(each.loss.query, each.loss.share, 60)
        np.testing.assert_allclose(lost, 1 - each.values("recall@10"), atol=1e-12)


def test_a_run_that_is_not_explained_has_no_evidence_and_no_files(bench_file, tmp_path):
    found = run(bench_file(LISTS, name="plain"))
    assert losses(found) == [None, None]
    folder = tmp_path / "runs" / "plain"
    assert not list(folder.glob("loss-*"))
    assert "explaining" not in found.seconds
    assert "explain = true" not in (folder / "bench.toml").read_text()


def test_the_bench_file_can_ask_for_it(bench_file):
    found = run(bench_file(LISTS.replace("rounds = 3", "rounds = 3\nexplain = true")))
    assert None not in losses(found)


def test_evidence_is_added_to_a_finished_run_by_rebuilding(unexplained):
    path, before, folder = unexplained
    after = run(path, out=folder, explain=True)
    for one, other in zip(before.measurements, after.measurements, strict=True):
        assert np.array_equal(one.calls.latency_ns, other.calls.latency_ns)
        assert np.array_equal(one.loss.row, other.loss.row)
        assert not other.loss.notes
    assert {CAUSES[each] for each in attribute(after.measurements[0].loss)} <= {
        Cause.EFFORT,
        Cause.UNATTRIBUTED,
    }


def test_an_explained_run_is_not_built_again(explained):
    path, found, folder = explained
    seen = []
    again = run(path, out=folder, explain=True, watch=seen.append)
    assert not seen
    assert losses(again)[0].seconds == losses(found)[0].seconds


def test_a_rebuilt_index_that_answers_differently_decides_nothing(unexplained):
    path, found, folder = unexplained
    data = found.settings["data"]
    dataset = open_dataset(data["corpus"], data["queries"], metric="l2")
    changed = load_run(folder)
    for each in changed.measurements:
        each.answers[:, 0] = np.random.default_rng(0).integers(0, 400, 60)
    save_run(changed, dataset, folder)
    after = run(path, out=folder, explain=True)
    assert "differently" in after.measurements[1].loss.notes[-1]
    assert (after.measurements[1].loss.deeper == NOT_ASKED).all()


def test_damaged_evidence_is_refused_and_collected_again(explained):
    path, found, folder = explained
    damaged = folder / "loss-1.parquet"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 3] ^= 0xFF
    damaged.write_bytes(bytes(content))
    with pytest.raises(FormatError, match="loss-1"):
        load_run(folder)
    again = run(path, out=folder, explain=True)
    assert np.array_equal(losses(again)[0].row, losses(found)[0].row)


def test_evidence_on_another_trial_is_refused(explained):
    folder = explained[2]
    shutil.copy(folder / "loss-1.parquet", folder / "loss-2.parquet")
    with pytest.raises(FormatError, match=r"loss-2.*another trial"):
        load_run(folder)


def test_evidence_that_names_impossible_queries_is_refused(explained):
    path = explained[2] / "loss-1.parquet"
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"recallatk.loss"])
    del header[CHECKSUM]
    table = table.set_column(0, "query", pa.array(np.full(len(table), 60)))
    header["columns"] = column_checksums(table)
    pq.write_table(table.replace_schema_metadata({b"recallatk.loss": sealed(header)}), path)
    with pytest.raises(FormatError, match="queries beyond the 60"):
        load_run(path.parent)


def test_a_foreign_file_is_neither_read_nor_overwritten(unexplained):
    path, _, folder = unexplained
    pq.write_table(pa.table({"mine": [1]}), folder / "loss-1.parquet")
    assert losses(load_run(folder)) == [None, None]
    with pytest.raises(UsageError, match=r"loss-1.parquet: not a file of a run"):
        run(path, out=folder, explain=True)
    assert pq.read_table(folder / "loss-1.parquet").column_names == ["mine"]


def test_a_fresh_run_removes_the_evidence_of_the_old_one(explained):
    path, _, folder = explained
    assert losses(run(path, out=folder, fresh=True)) == [None, None]
    assert not list(folder.glob("loss-*"))


def test_an_engine_that_fails_when_asked_more_costs_only_the_evidence(faulty, bench_file):
    table = '[measure]\nat = [10]\nrounds = 1\nexplain = true\n[[engine]]\nname = "faulty"\n'
    found = run(bench_file(table + 'search = { how = "forgetful" }'))
    assert not found.failures
    assert found.measurements[0].loss is not None


def test_an_index_in_memory_is_explained_too():
    random = np.random.default_rng(0)
    corpus, queries = random.normal(size=(300, 8)).astype("f4"), random.normal(size=(40, 8)).astype("f4")

    def search(asked, k):
        near = np.argsort(((asked[:, None] - corpus[None]) ** 2).sum(axis=2), axis=1)
        return near[:, 1 : k + 1]

    found = measure(search, corpus, queries, metric="l2", at=[5], rounds=1, explain=True).measurements[0]
    assert len(found.loss) == 40
    assert found.loss.full_search is None
    np.testing.assert_allclose(found.loss.share, 0.2)


def test_effort_that_grows_with_the_list_is_not_blamed_on_the_filter():
    random = np.random.default_rng(1)
    vectors, queries = random.normal(size=(600, 16)).astype("f4"), random.normal(size=(30, 16)).astype("f4")
    index = hnswlib.Index("l2", 16)
    index.init_index(600, M=4, ef_construction=100)
    index.add_items(vectors, num_threads=1)
    # The graph keeps as many candidates as rows requested, and the filter lets every row pass.
    found = measure(
        index, pa.table({"vector": list(vectors), "number": np.arange(600)}), queries, metric="l2",
        where="number >= 0", at=[10], rounds=1, explain=True, search={"ef": 10}, limits=PATIENT,
    )  # fmt: skip
    evidence, causes = found.measurements[0].loss, explain(found)[0].causes
    longer = (evidence.unfiltered >= 0) & (evidence.unfiltered < 10)
    assert longer.any()
    assert not evidence.lacking.any()
    assert causes[Cause.FILTER].value == 0
    assert causes[Cause.EFFORT].value > 0


def test_evidence_stops_at_its_limit_and_says_how_to_allow_more():
    random = np.random.default_rng(0)
    corpus, queries = random.normal(size=(300, 8)).astype("f4"), random.normal(size=(10, 8)).astype("f4")

    def search(asked, k):
        return np.argsort(((asked[:, None] - corpus[None]) ** 2).sum(axis=2), axis=1)[:, 1 : k + 1]

    limits = Limits(explain_seconds=1e-9)
    found = measure(search, corpus, queries, metric="l2", at=[5], rounds=5, explain=True, limits=limits)
    evidence, loss = found.measurements[0].loss, explain(found)[0]
    assert evidence.stopped
    assert evidence.budget_seconds == 1e-9
    assert loss.causes[Cause.UNATTRIBUTED].value == pytest.approx(0.2)
    assert "evidence covers 0 of 10 queries" in loss.notes[0]
    assert "[limits] explain" in loss.notes[0]


def slow_search(corpus, seconds_per_row):
    """A scan that misses the nearest row and takes its time for every row requested."""

    def search(asked, k):
        time.sleep(seconds_per_row * k)
        return np.argsort(((asked[:, None] - corpus[None]) ** 2).sum(axis=2), axis=1)[:, 1 : k + 1]

    return search


@pytest.mark.parametrize("limit", [0.1, None])
def test_a_call_that_would_exceed_the_time_is_not_made(limit):
    """A list of 100 rows takes 20 times as long as a call of the trial, and the trial makes few calls."""
    random = np.random.default_rng(0)
    corpus, queries = random.normal(size=(300, 8)).astype("f4"), random.normal(size=(20, 8)).astype("f4")
    found = measure(
        slow_search(corpus, 0.002), corpus, queries, metric="l2", at=[5], rounds=1, explain=True,
        limits=Limits(explain_seconds=limit),
    ).measurements[0].loss  # fmt: skip
    # A busy machine may stretch the last call.
    assert found.seconds <= 1.1 * found.budget_seconds
    assert found.stopped


def test_a_short_list_shows_that_a_long_one_fits():
    """The time of this search does not grow with its list, so that the filter is told from the effort."""
    random = np.random.default_rng(0)
    vectors, queries = random.normal(size=(3_000, 8)).astype("f4"), random.normal(size=(10, 8)).astype("f4")

    def search(asked, k, filters):
        time.sleep(0.01 * len(asked))
        near = np.argsort(((asked[:, None] - vectors[None]) ** 2).sum(axis=2), axis=1)[:, : max(k, 100)]
        lines = zip(near, filters or [None] * len(asked), strict=True)
        return [[row for row in line if each is None or row % 100 == 0][:k] for line, each in lines]

    table = pa.table({"vector": list(vectors), "rest": np.arange(3_000) % 100})
    found = measure(
        search, table, queries, metric="l2", where="rest = 0", at=[5], rounds=2, explain=True,
        limits=Limits(explain_seconds=1),
    ).measurements[0].loss  # fmt: skip
    # In proportion to its 1,000 rows, the first list would take twice as long as there is time.
    assert (found.unfiltered != NOT_ASKED).any()
    # A busy machine may stretch the last call.
    assert found.seconds <= 1.1 * found.budget_seconds


@pytest.mark.parametrize("others", [0, 20])
def test_rows_that_longer_vectors_outrank_are_not_called_missing(others):
    """By inner product, a row need not be among the best answers to its own vector."""
    random = np.random.default_rng(0)
    corpus = (0.05 * random.normal(size=(500, 4))).astype("f4")
    corpus[:300, :2] += (2, 3)
    corpus[300:340, 0] += 1
    queries = (np.array([1, -1, 0, 0]) + 0.05 * random.normal(size=(20 + others, 4))).astype("f4")
    if others:
        # These are answered in full, so that some rows are seen in answers to other queries.
        queries[20:] = queries[:20] * 2

    def search(asked, k):
        ranked = [np.argsort(-(corpus @ each), kind="stable") for each in asked]
        short = [np.isclose(queries[:20], each).all(axis=1).any() for each in asked]
        return [np.delete(rows, 3)[:k] if cut else rows[:k] for rows, cut in zip(ranked, short, strict=True)]

    found = measure(search, corpus, queries, metric="ip", at=[10], rounds=1, explain=True, limits=PATIENT)
    evidence = found.measurements[0].loss
    assert len(evidence) == 20
    assert explain(found)[0].causes[Cause.MISSING].value == 0
    if others:
        assert (evidence.held == 1).all()


def test_lists_of_a_shuffled_build_are_in_corpus_rows():
    random = np.random.default_rng(1)
    corpus, queries = random.normal(size=(400, 8)).astype("f4"), random.normal(size=(50, 8)).astype("f4")
    found = measure(
        "faiss-ivf-flat", corpus, queries, metric="l2", at=[10], rounds=1, builds=2, explain=True,
        build={"nlist": 16}, search={"nprobe": 1}, limits=PATIENT,
    ).measurements  # fmt: skip
    for each in found:
        asked = each.loss.full >= 0
        assert asked.any()
        assert (each.loss.full[asked] < 10).all()
        assert (each.loss.held == 1).all()


def test_a_remedy_that_another_trial_measured_has_its_price(explained):
    _, found, folder = explained
    first, second = explain(folder)
    before, after = (each.score["recall@10"] for each in found.measurements)
    assert (first.number, first.measure) == (1, "recall@10")
    assert first.remedy.measured
    assert first.remedy.action == "raise nprobe from 1 to 4"
    assert first.remedy.gain == pytest.approx(after - before)
    expected = tuple(percentile(each.latencies_ns, 0.95) for each in found.measurements)
    assert first.remedy.p95_ms == expected
    assert not second.remedy.measured
    assert str(second.remedy).startswith("raise nprobe from 4 to 16: up to +")


def test_reports_have_a_section_only_with_evidence(explained):
    _, found, _ = explained
    for text in (to_text(found, verbose=True), to_markdown(found), to_html(found)):
        assert "Where recall was lost" in text
    assert "lost: nprobe=1: " in to_text(found)
    bare = replace(found, measurements=tuple(replace(each, loss=None) for each in found.measurements))
    assert "lost: " not in to_text(bare)
    assert "Where recall was lost" not in to_markdown(bare)


def test_a_run_without_evidence_and_an_unknown_trial_are_refused(unexplained):
    _, found, folder = unexplained
    with pytest.raises(UsageError, match=r"no evidence on what the run missed. Collect it: .*--explain"):
        explain(folder)
    with pytest.raises(UsageError, match=r"no measured trial 9. Measured trials: 1, 2"):
        explain(found, trial=9)
