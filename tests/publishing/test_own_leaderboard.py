"""The leaderboard of the project: its bench file names every engine in process; its record fits the page."""

import json
from pathlib import Path

from recallatk import read_settings
from recallatk.adapters import registered

ROOT = Path(__file__).parents[2]
# Functions, programs and servers of the user, and a name for many indexes.
NOT_IN_PROCESS = {"callable", "command", "http", "pgvector-hnsw", "pgvector-ivfflat", "faiss-factory"}


def test_the_bench_file_measures_every_engine_in_process():
    settings = read_settings(ROOT / "benchmarks" / "leaderboard.toml")
    ours = {name for name, entry in registered().items() if entry.package == "recallatk"}
    assert {each.name for each in settings.engine} == ours - NOT_IN_PROCESS


def test_the_record_says_machine_and_date_and_only_engines_of_the_bench_file():
    record = json.loads((ROOT / "docs" / "leaderboard.json").read_text())
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    known = {each.name for each in read_settings(ROOT / "benchmarks" / "leaderboard.toml").engine}
    for table in record["tables"]:
        assert table["date"] in page and table["machine"] in page
        assert {each["engine"] for each in table["standings"]} <= known
        ranked = [each for each in table["standings"] if each["rank"] is not None]
        assert all(each["at_least"] >= table["level"] for each in ranked)
    assert {table["level"] for table in record["tables"]} == {0.9, 0.95, 0.99}
