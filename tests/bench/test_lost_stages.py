"""Trials of a fusion whose stages are lost: measured again, and never shown with a wrong truth."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recallatk
from recallatk import load_run, run, run_to_dict
from recallatk.analysis.compared import Compared
from recallatk.analysis.measures import Recall
from recallatk.errors import FormatError
from recallatk.reporting.per_query import recall_per_query

ROWS, QUERIES = 300, 40
WORDS = np.array(["amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet", "hematite"])
BENCH = """
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "l2"

[measure]
at = [5]
rounds = 1

[[path]]
name = "hybrid"
k = 5
stages = [
  { retrieve = "exact", depth = [5, 40] },
  { retrieve = "bm25", depth = 40 },
  { fuse = "rrf" },
]
"""


def damaged(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for name, rows in (("corpus", ROWS), ("queries", QUERIES)):
        vectors = random.normal(size=(rows, 8)).astype("float32")
        texts = [" ".join(words) for words in random.choice(WORDS, (rows, 4))]
        pq.write_table(pa.table({"vector": list(vectors), "text": texts}), tmp_path / f"{name}.parquet")
    (tmp_path / "bench.toml").write_text(BENCH)
    run("bench.toml", out="found")
    return tmp_path / "found"


@pytest.mark.parametrize("name", ["stages", "spans"])
@pytest.mark.parametrize("harm", [damaged, lambda path: path.unlink()])
def test_the_trial_alone_is_measured_again(folder, name, harm):
    before = {each.name: each.stat().st_mtime_ns for each in folder.glob("trial-*.parquet")}
    harm(folder / f"{name}-1.parquet")
    run("bench.toml", out="found")
    after = {each.name: each.stat().st_mtime_ns for each in folder.glob("trial-*.parquet")}
    assert [each for each in sorted(after) if after[each] != before[each]] == ["trial-1.parquet"]
    for each in load_run(folder).measurements:
        assert each.stages is not None and each.stages.truth is not None and not each.truth_lost


def test_a_run_without_the_stages_of_a_trial_shows_the_recall_that_was_measured(folder):
    whole = load_run(folder)
    (folder / "stages-1.parquet").unlink()
    found = load_run(folder)
    lost, kept = found.measurements
    assert lost.truth_lost and not kept.truth_lost
    data = recallatk.open_dataset("corpus.parquet", "queries.parquet", metric="l2")
    truth = recallatk.ground_truth(data, depth=80)
    right = whole.measurements[0].values("recall@5")
    # The neighbors by vectors alone are others, so that the wrong truth would show.
    assert not np.array_equal(Recall(5).per_query(Compared(truth, lost.answers)), right)
    np.testing.assert_array_equal(recall_per_query(lost, truth, 5), right)
    assert recallatk.to_text(found, verbose=True).count("which neighbors it missed is not known") == 1
    page = recallatk.to_html(found, truth=truth, dataset=data)
    assert "which neighbors it missed is not known" in page
    trials = run_to_dict(found)["trials"]
    assert trials[0]["path"] is None and trials[1]["path"]["fused_truth"]


def test_a_damaged_stage_file_is_refused_with_the_way_to_a_new_one(folder):
    damaged(folder / "stages-2.parquet")
    with pytest.raises(FormatError, match=r"stages-2\.parquet.*Run the same command again"):
        load_run(folder)


def test_a_table_of_the_user_beside_a_lost_trial_stays(folder):
    path = folder / "stages-1.parquet"
    pq.write_table(pa.table({"mine": [1]}), path)
    with pytest.raises(recallatk.RecallError, match=r"stages-1\.parquet: not a file of a run"):
        run("bench.toml", out="found")
    assert pq.read_table(path).column_names == ["mine"]
