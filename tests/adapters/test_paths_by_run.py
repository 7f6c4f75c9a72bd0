"""Every engine that holds an index as the leg of a path, measured end to end by `recallatk run`."""

import json

import numpy as np
import pytest
from test_measured_by_run import BUILD, FILTERING, ROWS, SEARCH, WHERE, K, data, groups, nearest

from commands import recallatk
from recallatk import load_run
from recallatk.adapters.registry import get_engine, registered

__all__ = ["data"]

HOLDING = [name for name in registered() if not get_engine(name).abilities.attaches]
# Each engine starts a process: those that filter by themselves are reranked in the other test, and numba
# compiles pynndescent for a minute in every process.
UNFILTERED = [name for name in HOLDING if name not in (*FILTERING, "pynndescent")]
# Three candidates for each result: enough for codes of a byte, and fewer than all rows.
FEW = 3
ALL = ROWS // K
COARSE = ("faiss-ivf-pq", "faiss-pq-fastscan")
# What graphs of so few rows find at least; the partitions of LanceDB differ from build to build.
RECALL, LANCE_RECALL = 0.99, 0.9


def leg(name, oversample):
    """An engine as a stage; those that rerank by themselves leave it to the path where they can."""
    search = {key: value for key, value in SEARCH.get(name, {}).items() if key not in ("k_factor", "refine")}
    # These refuse to return more rows than they explore.
    search |= {"ef": ROWS} if name in ("hnswlib", "milvus", "voyager") else {}
    return {"retrieve": name, "oversample": oversample, "build": BUILD.get(name, {}), "search": search}


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def measured(names, data, tmp_path, stages, where=None):
    """What `recallatk run` says of a path over each of these engines, with its measurements."""
    folder = data[0]
    lines = [
        'name = "paths"',
        "[data]",
        f'corpus = "{folder / "corpus.parquet"}"',
        f'queries = "{folder / "queries.parquet"}"',
        'metric = "l2"',
        *([f"where = '{where}'"] if where else []),
        f'[truth]\nstore = "{folder / "store"}"',
        f"[measure]\nat = {K}\nrounds = 1",
    ]
    for name in names:
        listed = ", ".join(toml(each) for each in stages(name))
        lines.append(f'[[path]]\nname = "over {name}"\nk = {K}\nstages = [{listed}]')
    (tmp_path / "bench.toml").write_text("\n".join(lines))
    ran = recallatk("run", "bench.toml", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    found = json.loads(ran.stdout)
    failures = [(each["engine"], each["failure"]) for each in found["trials"]]
    assert failures == [(f"over {name}", None) for name in names]
    run = load_run(tmp_path / "runs" / "paths")
    return list(zip(names, found["trials"], run.measurements, strict=True))


def check(trials, truth):
    for name, trial, measurement in trials:
        pairs = zip(measurement.answers.tolist(), truth.tolist(), strict=True)
        recall = np.mean([len({*answer} & {*true}) / K for answer, true in pairs])
        assert trial["measures"]["recall@10"]["value"] == pytest.approx(recall), name
        assert recall >= (LANCE_RECALL if name == "lancedb" else RECALL), name
        assert trial["evidence"], name
        assert trial["call"].startswith("path of "), name


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", groups(UNFILTERED))
def test_few_candidates_are_reranked_by_whole_vectors(names, data, tmp_path):
    def stages(name):
        return leg(name, ALL if name in COARSE else FEW), {"rerank": "exact"}

    check(measured(names, data, tmp_path, stages), nearest(data, np.full(ROWS, True)))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", groups(HOLDING))
def test_every_engine_is_filtered_by_itself_or_by_a_stage(names, data, tmp_path):
    """An engine that cannot filter retrieves all rows, of which the stage leaves those that pass."""

    def stages(name):
        if name in FILTERING and name not in COARSE:
            return leg(name, FEW), {"rerank": "exact"}
        after = [] if name in FILTERING else [{"filter": "after"}]
        return leg(name, ALL), *after, {"rerank": "exact"}

    eligible = data[3] == 1
    trials = measured(names, data, tmp_path, stages, WHERE)
    check(trials, nearest(data, eligible))
    for name, _, measurement in trials:
        assert eligible[measurement.answers].all(), name
