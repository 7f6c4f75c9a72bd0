"""`recallatk run` with `[[path]]`: failing stages, missing data, resumed, grown and changed paths."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run
from recallatk.bench import read_settings

ROWS, QUERIES, DIMENSION = 300, 110, 8
WORDS = ("amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar")

FUNCTIONS = """
import time

def raising(query, candidates):
    raise LookupError("no model today")

def hanging(query, candidates):
    time.sleep(60)

def unsure(query, candidates):
    return [float("nan")] * len(candidates)

def short(query, candidates):
    return [1.0]

def inventive(query, candidates):
    return ["nobody"]

def sound(query, candidates):
    return [-each.rank for each in candidates]

def picky(query, candidates):
    # One list of an index of 100 lists has a few of 300 rows, and exact search as many as it is asked for.
    if len(candidates) == 30:
        raise LookupError("that many")
    return [-each.rank for each in candidates]
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for name, rows in (("corpus", ROWS), ("queries", QUERIES)):
        vectors = random.normal(size=(rows, DIMENSION)).astype("float32")
        columns = {
            "id": [f"{name[0]}{row}" for row in range(rows)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
            "text": [" ".join(random.choice(WORDS, 5)) for _ in range(rows)],
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    table = pq.read_table(folder / "corpus.parquet")
    pq.write_table(table.drop_columns(["text"]), folder / "plain.parquet")
    (folder / "stages.py").write_text(FUNCTIONS)
    return folder


@pytest.fixture
def bench(files, tmp_path):
    """A function that runs a bench file with these paths and tables."""

    def write(*tables, corpus="corpus", truth="", name="bench"):
        lines = [
            'name = "paths"',
            "[data]",
            f'corpus = "{files / corpus}.parquet"',
            f'queries = "{files / "queries"}.parquet"',
            'metric = "l2"',
            f'[truth]\nstore = "{tmp_path / "store"}"\n{truth}',
            "[measure]\nat = 10\nrounds = 2",
            *tables,
        ]
        path = tmp_path / f"{name}.toml"
        path.write_text("\n".join(lines))
        return path

    def run(*tables, options=(), **given):
        path = write(*tables, **given)
        return recallatk("run", path, "--json", *options, cwd=tmp_path, env={"PYTHONPATH": path_with(files)})

    run.write = write
    return run


def path_with(files):
    return os.pathsep.join(filter(None, [str(files), os.environ.get("PYTHONPATH", "")]))


def path(*stages, name="mine", k=10):
    return f'[[path]]\nname = "{name}"\nk = {k}\nstages = [{", ".join(stages)}]'


LEG = '{ retrieve = "exact", dimensions = 4, oversample = 3 }'
EXACT = '{ rerank = "exact" }'
BESIDE = '[[engine]]\nname = "exact"'


def read(ran):
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_functions_that_fail_cost_their_trial_and_are_named(bench):
    hows = {
        "raising": "it raised LookupError: no model today",
        "hanging": "it took longer than 0.3 s. Make it faster, or raise timeout = 0.3",
        "unsure": "is NaN. Return numbers",
        "short": "it returned 1 score for 30 candidates. Return one score per candidate",
        "inventive": "it returned the id 'nobody', which is not a candidate",
        "missing": "missing",
    }
    tables = [
        path(LEG, f'{{ rerank = "stages:{how}", timeout = 0.3 }}', name=how) for how in (*hows, "sound")
    ]
    found = read(bench(*tables, BESIDE))
    trials = {each["engine"]: each for each in found["trials"]}
    assert trials["exact"]["status"] == trials["sound"]["status"] == "done"
    assert trials["exact"]["measures"]["recall@10"]["value"] == 1.0
    for how, said in hows.items():
        failure = trials[how]["failure"]
        assert failure["kind"] == "exception", how
        assert said in failure["message"], how
        if how != "missing":
            assert f"{how}: stage rerank (stages:{how}), query " in failure["message"]


def test_a_function_that_fails_on_exact_lists_alone_costs_its_trial(bench):
    leg = '{ retrieve = "faiss-ivf-flat", depth = 30, build = { nlist = 100 }, search = { nprobe = 1 } }'
    found = read(bench(path(leg, '{ rerank = "stages:picky" }', name="picky"), BESIDE))
    first, second = found["trials"]
    assert second["engine"] == "picky" and first["status"] == "done"
    assert second["status"] == "failed" and "that many" in second["failure"]["message"]


def test_a_leg_or_function_without_its_column_is_refused_before_anything_is_built(bench):
    hybrid = path('{ retrieve = "exact" }', '{ retrieve = "bm25" }', '{ fuse = "rrf" }')
    refused = bench(hybrid, BESIDE, corpus="plain")
    assert refused.returncode == 2
    assert "path[0]: mine reads a corpus column. no corpus column 'text'" in refused.stderr
    other = bench(path(LEG, '{ rerank = "stages:sound", column = "body" }'))
    assert other.returncode == 2 and "no corpus column 'body'" in other.stderr


def test_a_truth_too_shallow_for_a_path_is_refused_before_anything_is_built(bench, tmp_path):
    hybrid = path('{ retrieve = "exact", depth = 50 }', '{ retrieve = "bm25" }', '{ fuse = "rrf" }')
    refused = bench(hybrid, truth="depth = 40")
    assert refused.returncode == 2
    assert "the truth lists 40 neighbors, and the path mine needs 200" in refused.stderr
    assert "depth = 200" in refused.stderr
    assert not list((tmp_path / "runs").rglob("trial-*.parquet"))


def timings(folder):
    return {str(each.trial): each.calls.latency_ns.tolist() for each in load_run(folder).measurements}


def test_a_path_grows_by_values_and_paths_and_its_folder_repeats_it(bench, tmp_path):
    folder = tmp_path / "runs" / "paths"
    few = path('{ retrieve = "exact", dimensions = 4, oversample = [2, 4] }', EXACT)
    first = read(bench(few))
    assert [each["search"]["oversample"] for each in first["trials"]] == [2, 4]
    before = timings(folder)
    more = path('{ retrieve = "exact", dimensions = [4, 6], oversample = [3, 4] }', EXACT)
    other = path('{ retrieve = "exact", codes = "binary" }', EXACT, name="codes")
    grown = read(bench(more, other, BESIDE))
    assert grown["complete"] and grown["planned"] == 6 and len(grown["kept"]) == 1
    assert before.items() <= timings(folder).items()
    # The folder's own bench file states the kept value too, so that it repeats everything.
    again = read(recallatk("run", folder / "bench.toml", "--json", cwd=tmp_path))
    whole = {(each["engine"], str(each["build"]), str(each["search"])) for each in again["trials"]}
    assert whole >= {(each["engine"], str(each["build"]), str(each["search"])) for each in grown["trials"]}
    assert before.items() <= timings(folder).items()
    stated = read_settings(folder / "bench.toml")
    assert [each.name for each in stated.path] == ["mine", "codes"]


def test_another_path_of_the_same_name_is_refused(bench):
    read(bench(path(LEG, EXACT)))
    refused = bench(path(LEG, '{ rerank = "stages:sound" }'))
    assert refused.returncode == 2
    assert (
        'the setting path mine: stages[1].rerank (stored "exact", requested "stages:sound")' in refused.stderr
    )
    assert "--fresh" in refused.stderr
    fewer = bench(path(LEG))
    assert fewer.returncode == 2 and "path mine: stages[1].rerank" in fewer.stderr
    gone = bench(BESIDE)
    assert gone.returncode == 2
    assert "the setting path mine (stored present, requested absent)" in gone.stderr
    # Another number of results is another measurement.
    assert "path mine: k" in bench(path(LEG, EXACT, k=20)).stderr
    assert read(bench(path(LEG, EXACT)))["planned"] == 1


def test_a_run_of_paths_that_was_killed_goes_on(bench, files, tmp_path):
    table = path('{ retrieve = "exact", dimensions = [3, 4, 5], oversample = [2, 3] }', EXACT)
    file, folder = bench.write(table), tmp_path / "runs" / "paths"
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    process = subprocess.Popen(
        [sys.executable, "-m", "recallatk", "run", str(file)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while len(list(folder.glob("trial-*.parquet"))) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    halfway = timings(folder)
    found = read(bench(table))
    assert found["complete"] and len(found["trials"]) == 6
    assert halfway.items() <= timings(folder).items()


def test_hybrid_search_is_measured_against_the_fusion_of_exact_lists(bench):
    legs = '{ retrieve = "exact", depth = [20, 150] }', '{ retrieve = "bm25", depth = 150 }'
    found = read(bench(path(*legs, '{ fuse = "rrf" }'), path(*legs, '{ fuse = "weighted" }', name="sum")))
    recalls = {
        (each["engine"], each["search"]["exact.depth"]): each["measures"]["recall@10"]["value"]
        for each in found["trials"]
    }
    # Half of the corpus from each leg is not yet all that a fusion of 300 rows can promote.
    assert 0.9 < recalls["mine", 150] <= 1.0
    assert recalls["mine", 20] <= recalls["mine", 150] and recalls["sum", 20] < 1.0


def test_stages_in_an_impossible_order_are_refused_with_the_order_that_works(bench):
    orders = {
        (EXACT, LEG): "path[0].stages[1]: retrieve cannot come after rerank. Accepted: retrieve, then fuse",
        (LEG, '{ fuse = "rrf" }'): "one stage retrieves, so there is nothing to fuse. Remove fuse",
        (LEG, '{ retrieve = "bm25" }'): "2 stages retrieve and 0 fuse. Accepted: one fuse stage after them",
        (EXACT,): "no stage retrieves. Accepted: retrieve, then fuse",
    }
    for stages, said in orders.items():
        refused = bench(path(*stages), BESIDE)
        assert refused.returncode == 2 and said in refused.stderr, stages
        assert "Traceback" not in refused.stderr


def test_columns_of_another_kind_are_refused_before_anything_is_built(bench):
    terms = '{ retrieve = "sparse", column = "text", queries = "gone.csr" }'
    refused = bench(path(terms), BESIDE)
    assert refused.returncode == 2
    assert "mine reads 'text' as a sparse column, but it holds string" in refused.stderr
    assert "from 'gone.csr', which is neither a column" in refused.stderr
    words = bench(
        path('{ retrieve = "exact" }', '{ retrieve = "bm25", column = "vector" }', '{ fuse = "rrf" }')
    )
    assert words.returncode == 2 and "no corpus column 'vector'" in words.stderr


def test_a_stage_with_fewer_rows_than_k_is_named_with_its_queries_and_remedy(bench, tmp_path):
    shallow = '{ retrieve = "exact", depth = [4, 12] }'
    fused = (
        '{ retrieve = "exact", depth = 30 }',
        '{ retrieve = "bm25", depth = 30 }',
        '{ fuse = "rrf", depth = 3 }',
    )
    narrow = '{ retrieve = "exact", depth = 2 }', '{ retrieve = "bm25", depth = 2 }', '{ fuse = "weighted" }'
    tables = path(shallow, name="shallow"), path(*fused, name="fused"), path(*narrow, name="narrow")
    found = read(bench(*tables, path(LEG, EXACT, name="deep")))
    said = {
        each["message"].split(":")[0]: each["message"]
        for each in found["cautions"]
        if each["kind"] == "short"
    }
    assert set(said) == {"path shallow", "path fused", "path narrow"}
    counted = f"leaves fewer than k = 10 rows for {QUERIES} of {QUERIES} queries"
    assert f"stage exact {counted} (query 0: 4 rows)" in said["path shallow"]
    assert (
        "Raise oversample or depth of stage exact" in said["path shallow"]
        and "depth=4" in said["path shallow"]
    )
    assert f"stage fuse {counted} (query 0: 3 rows)" in said["path fused"]
    assert "Raise depth of stage fuse" in said["path fused"]
    assert f"stages exact and bm25 together {counted.replace('leaves', 'leave')}" in said["path narrow"]
    recalls = {
        (each["engine"], each["search"].get("depth")): each["measures"]["recall@10"]["value"]
        for each in found["trials"]
    }
    # What is missing counts as missed: four right rows of ten are a recall of 0.4.
    assert recalls["shallow", 4] == pytest.approx(0.4) and recalls["shallow", 12] == 1.0


def test_a_filter_after_the_search_that_leaves_too_few_says_how_many_to_retrieve(bench, files, tmp_path):
    table = path('{ retrieve = "exact", oversample = 2 }', '{ filter = "after" }', name="after")
    file = bench.write(table)
    file.write_text(file.read_text().replace("[truth]", "where = \"text < 'b'\"\n[truth]", 1))
    found = read(recallatk("run", file, "--json", cwd=tmp_path))
    [said] = [each["message"] for each in found["cautions"] if each["kind"] == "short"]
    assert "path after: stage filter leaves fewer than k = 10 rows for " in said
    assert "Raise oversample or depth of stage exact, or let it filter: remove stage filter" in said


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_a_trial_whose_stage_files_are_gone_is_measured_again_by_the_same_command(bench, tmp_path, harm):
    table = path(
        '{ retrieve = "exact", depth = [20, 40] }', '{ retrieve = "bm25", depth = 40 }', '{ fuse = "rrf" }'
    )
    folder = tmp_path / "runs" / "paths"
    first = read(bench(table))
    before = timings(folder)
    for file in ("stages-1.parquet", "spans-2.parquet"):
        if harm == "lost":
            (folder / file).unlink()
        else:
            (folder / file).write_bytes((folder / file).read_bytes()[:-50])
    again = read(bench(table))
    assert again["complete"]
    for one, other in zip(first["trials"], again["trials"], strict=True):
        assert one["measures"] == other["measures"] and other["path"] is not None
    after = timings(folder)
    assert all(after[trial] != before[trial] for trial in before), "each trial lost one of its files"
    shown = recallatk("show", folder, "--verbose", cwd=tmp_path)
    assert shown.returncode == 0 and "is not known" not in shown.stdout


def test_unknown_ids_and_unjudged_queries_in_qrels_are_counted_and_change_no_recall(bench, files, tmp_path):
    table = path(LEG, EXACT)
    plain = read(bench(table, options=["--out", str(tmp_path / "plain")]))
    lines = [f"q{query}\tc{query}\t1" for query in range(QUERIES - 30)] + ["q1\tgone\t1", "nobody\tc1\t1"]
    (tmp_path / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    file = bench.write(table, name="judged")
    file.write_text(file.read_text().replace("[truth]", f'qrels = "{tmp_path / "qrels.tsv"}"\n[truth]', 1))
    found = read(recallatk("run", file, "--json", "--out", tmp_path / "judged", cwd=tmp_path))
    measure = found["downstream"][0]
    assert (measure["queries"], measure["judged"]) == (QUERIES, QUERIES - 30)
    notes = " ".join(measure["notes"])
    assert "30 queries" in notes and "gone" in notes and "the qrels judge 1 query" in notes
    recalls = [each["trials"][0]["measures"]["recall@10"]["value"] for each in (plain, found)]
    assert recalls[0] == recalls[1]
