"""The leaderboard of the docs: every engine of leaderboard.toml, on the bundled data and on wordnet-minilm.

Measures, publishes a site and writes docs/leaderboard.json, from which `make docs` makes docs/leaderboard.md.
An interrupted measurement is resumed. Take it on a quiet machine.

    python benchmarks/leaderboard.py [--data ../shared/data/wordnet-minilm] [--out build/leaderboard] [--all]
"""

import argparse
import json
import tomllib
from importlib.metadata import version
from pathlib import Path

import recallatk
from recallatk.adapters import get_engine
from recallatk.adapters.installation import require_installed
from recallatk.bench.settings import settings_from
from recallatk.errors import UsageError

HERE = Path(__file__).parent
BENCH = HERE / "leaderboard.toml"
WORDNET = HERE.parents[1] / "shared" / "data" / "wordnet-minilm"
RECORD = HERE.parent / "docs" / "leaderboard.json"
# Of six times as many rows: a sample of the queries, and without engines that take minutes to build.
LARGE_QUERIES = 1_000
SMALL_ONLY = ("chroma", "duckdb", "faiss-nsg", "lancedb", "milvus", "pynndescent", "qdrant", "sqlite-vec")
KEPT = (
    "rank",
    "engine",
    "version",
    "build",
    "search",
    "at_least",
    "cost",
    "qps",
    "memory_bytes",
    "build_seconds",
)


def settings(name, corpus, *, rounds=None, queries=None, small=True):
    """The settings of the bench file on other data; engines that are not installed are left out."""
    stated = tomllib.loads(BENCH.read_text())
    stated["name"], stated["data"] = name, {**stated["data"], "corpus": str(corpus)}
    stated["data"] |= {} if queries is None else {"sample_queries": queries}
    stated["measure"] |= {} if rounds is None else {"rounds": rounds}
    wanted = [each for each in stated["engine"] if small or each["name"] not in SMALL_ONLY]
    stated["engine"] = [each for each in wanted if is_installed(each["name"])]
    return settings_from(stated)


def is_installed(name):
    """Whether the library of an engine is there; says so if not."""
    try:
        require_installed(get_engine(name))
    except UsageError as problem:
        print(problem)
        return False
    return True


def measured(chosen, folder):
    """One run; resumed if its folder has a part of it."""
    run = recallatk.run(chosen, out=folder)
    seconds = ", ".join(f"{name} {each:,.0f} s" for name, each in run.seconds.items())
    print(f"{run.dataset}: {len(run.measurements)} trials, {len(run.failures)} failed; {seconds}")
    for each in run.failures:
        print(f"  {each.trial}: {each.message}")
    return folder


def record(site):
    """What the docs show of the leaderboards: recall@10 under the first load, without fingerprints."""
    boards, results = (
        json.loads((site / "data" / name).read_text()) for name in ("leaderboards.json", "results.json")
    )
    loads = {each["run"]: each["environment"].get("load_average") for each in results["runs"]}
    tables = []
    for data in boards["data_sets"]:
        contest = data["contests"][0]
        for board in contest["leaderboards"]:
            standings = [
                {**{name: each[name] for name in KEPT}, "recall": each["recall"]}
                for each in board["standings"]
            ]
            tables.append(
                {
                    "data": data["dataset"],
                    "metric": data["metric"],
                    "queries": data["queries"],
                    "machine": contest["machine"],
                    "date": min(each["begun"] for each in board["standings"])[:10],
                    "load_average": (loads[board["standings"][0]["run"]] or [None])[0],
                    "ranked_by": contest["ranked_by"],
                    "k": contest["k"],
                    "measure": board["measure"],
                    "level": board["level"],
                    "standings": standings,
                }
            )
    return {"recallatk": version("recallatk"), "tables": tables}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=WORDNET)
    parser.add_argument("--out", type=Path, default=Path("build/leaderboard"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--queries", type=int, help="number of queries, to see whether it works")
    parser.add_argument("--all", action="store_true", help="also engines that take minutes to build")
    chosen = parser.parse_args()
    bundled = HERE.parent / "src" / "recallatk" / "datasets" / "demo_data"
    sizes = {"rounds": chosen.rounds, "queries": chosen.queries}
    folders = [measured(settings("wordnet-20k", bundled, **sizes), chosen.out / "runs" / "wordnet-20k")]
    if chosen.data.is_dir():
        large = {**sizes, "queries": chosen.queries or LARGE_QUERIES, "small": chosen.all}
        whole = settings("wordnet-minilm", chosen.data.resolve(), **large)
        folders.append(measured(whole, chosen.out / "runs" / "wordnet-minilm"))
    site = recallatk.publish(folders, chosen.out / "site", title="recallatk leaderboard")
    RECORD.write_text(json.dumps(record(site.folder), indent=1) + "\n", encoding="utf-8")
    print(f"{site.folder / 'index.html'}, {RECORD}")


if __name__ == "__main__":
    main()
