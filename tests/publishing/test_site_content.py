"""What a site shows of tunings and trends, and which data it opens."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_tuned import made_tuned, missed_tuned
from published_runs import links, results, saved

from recallatk import bench, load_run, publish, remember
from recallatk.bench.settings import settings_from
from recallatk.reporting.tuned_file import tuned_text

SECRET = "a sentence that nobody may read"


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A run whose queries have texts, with its data beside it."""
    folder = tmp_path_factory.mktemp("private")
    vectors = [[float(row % 7), float(row % 11), 1.0] for row in range(60)]
    for name, rows in (("corpus", 60), ("queries", 20)):
        texts = [f"{SECRET} {name} {row}" for row in range(rows)]
        table = pa.table({"id": [f"{row}" for row in range(rows)], "vector": vectors[:rows], "text": texts})
        pq.write_table(table, folder / f"{name}.parquet")
    settings = {
        "data": {
            "corpus": str(folder / "corpus.parquet"),
            "queries": str(folder / "queries.parquet"),
            "metric": "l2",
        },
        "truth": {"store": str(folder / "truths")},
        "measure": {"at": [5], "rounds": 1},
        "engine": [{"name": "faiss-ivf-flat", "build": {"nlist": 8}, "search": {"nprobe": 1}}],
    }
    bench.run(settings_from(settings), out=folder / "run")
    return folder


def test_no_text_of_the_data_is_published_unless_asked(private, tmp_path):
    for details in (False, True):
        site = publish(private / "run", tmp_path / "site", details=details).folder
        texts = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
        assert any(SECRET in text for text in texts) is details
        assert SECRET not in (site / "data" / "results.json").read_text()
    assert any("Worst" in text or "worst" in text for text in texts)


def test_tunings_are_listed_with_their_report(tmp_path):
    for name, tuned in (("met", made_tuned()), ("missed", missed_tuned())):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "tuned.json").write_text(tuned_text(tuned, None))
    (tmp_path / "runs" / "damaged").mkdir()
    (tmp_path / "runs" / "damaged" / "tuned.json").write_text('{"format_version": 1}')
    found = publish(tmp_path / "runs", tmp_path / "site")
    assert (found.runs, found.tunings) == (0, 2)
    assert [each.name for each in found.left_out] == ["damaged"]
    outcomes = {each["tuning"]: each["outcome"] for each in results(found.folder)["tunings"]}
    assert outcomes == {"met": "met", "missed": "missed"}
    assert {"reports/met.html", "reports/missed.html"} <= set(links(found.folder / "index.html"))
    assert "../index.html" in links(found.folder / "reports" / "met.html")


def test_trends_are_shown_where_a_history_is_named(tmp_path):
    for day in (1, 2, 3):
        folder = saved(tmp_path / "runs" / f"day-{day}", begun=f"2026-01-0{day}T00:00:00+00:00")
        remember(load_run(folder), tmp_path / "history.db")
    site = publish(tmp_path / "runs", tmp_path / "site", history=tmp_path / "history.db").folder
    assert "trends.html" in links(site / "index.html")
    assert "3 entries since 2026-01-01" in (site / "trends.html").read_text(encoding="utf-8")
    again = publish(tmp_path / "runs", tmp_path / "site")
    assert again.removed == 1 and "trends.html" not in links(site / "index.html")
