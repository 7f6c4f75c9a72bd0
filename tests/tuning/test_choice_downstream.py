"""`recallatk tune --qrels`: the choice beside exact search, against ir-measures on recorded answers."""

import json

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ir_measures import RR, Success, nDCG

from commands import recallatk
from recallatk import open_dataset
from recallatk.datasets import split_queries

ROWS, QUERIES, K = 1200, 240, 10
COMMAND = (
    *("tune", "c.parquet", "q.parquet", "--metric", "l2", "--engine", "faiss-ivf-flat"),
    *("--target", f"recall@{K} >= 0.5", "--out", "tuned"),
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A tuning with judgments: its folder, and what it printed as JSON."""
    folder, random = tmp_path_factory.mktemp("tune"), np.random.default_rng(5)
    for name, prefix, count in (("c", "c", ROWS), ("q", "q", QUERIES)):
        vectors = random.normal(size=count * 12).astype("float32")
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors), 12)
        ids = [f"{prefix}{row}" for row in range(count)]
        pq.write_table(pa.table({"id": ids, "vector": lists}), folder / f"{name}.parquet")
    best = exact(folder)
    lines = ["query-id\tcorpus-id\tscore"]
    for query in range(QUERIES - 40):
        # What is judged is near, so that recall and relevance go together.
        lines += [f"q{query}\tc{row}\t{grade}" for grade, row in ((2, best[query, 3]), (1, best[query, 8]))]
    lines += ["q0\tgone\t1", "another\tc1\t1"]
    (folder / "q.tsv").write_text("\n".join(lines) + "\n")
    ran = recallatk(*COMMAND, "--qrels", "q.tsv", "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder, json.loads(ran.stdout)


def exact(folder):
    asked, vectors = (
        np.array(pq.read_table(folder / f"{name}.parquet")["vector"].to_pylist(), np.float64) for name in "qc"
    )
    distances = (asked**2).sum(axis=1)[:, None] - 2 * asked @ vectors.T + (vectors**2).sum(axis=1)
    return np.argsort(distances, axis=1, kind="stable")[:, :K]


def test_every_measure_is_that_of_ir_measures_on_judged_held_out_queries(tuned):
    folder, plain = tuned
    dataset = open_dataset(folder / "c.parquet", folder / "q.parquet", metric="l2")
    held_out = [str(each) for each in split_queries(dataset.queries, seed=0)[1].ids.to_pylist()]
    judged = [name for name in held_out if int(name[1:]) < QUERIES - 40]
    qrels = [ir_measures.Qrel(q, c, int(g)) for q, c, g in rows_of(folder / "q.tsv") if q in judged]
    journal = next((folder / "tuned").glob("journal-*.jsonl")).read_text().splitlines()
    [answers] = [
        found for line in journal if '"answers"' in line.replace("\\", "") and (found := rows_in(line))
    ]
    best = exact(folder)
    of_choice = run_of(judged, answers)
    of_exact = run_of(judged, [best[int(name[1:])].tolist() for name in judged])
    downstream = plain["downstream"]
    assert [each["measure"] for each in downstream["measures"]] == ["nDCG@10", "RR@10", "Success@10"]
    for each, measure in zip(downstream["measures"], (nDCG @ K, RR @ K, Success @ K), strict=True):
        values, right = (
            {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
            for run in (of_choice, of_exact)
        )
        assert each["choice"]["n"] == len(judged)
        assert each["choice"]["value"] == pytest.approx(np.mean([values[name] for name in judged]))
        assert each["exact"]["value"] == pytest.approx(np.mean([right[name] for name in judged]))
        lost = np.mean([right[name] - values[name] for name in judged])
        assert each["lost"]["value"] == pytest.approx(lost)
        assert each["lost"]["low"] <= lost <= each["lost"]["high"]
    assert downstream["measures"][0]["lost"]["low"] > 0, "half of the neighbors are missing"
    notes = " ".join(downstream["notes"])
    assert f"{len(held_out) - len(judged)} queries" in notes and "gone" in notes
    assert "the qrels judge 1 query that is not measured here" in notes


def rows_of(path):
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


def rows_in(line):
    return json.loads(line).get("rows") or json.loads(line).get("found", {}).get("rows")


def run_of(names, lists):
    return [
        ir_measures.ScoredDoc(name, f"c{row}", -rank)
        for name, line in zip(names, lists, strict=True)
        for rank, row in enumerate(line[:K])
        if row >= 0
    ]


def test_screen_reports_and_the_file_say_the_same(tuned):
    folder, plain = tuned
    ran = recallatk(*COMMAND, "--qrels", "q.tsv", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    value = plain["downstream"]["measures"][0]["choice"]["value"]
    line = next(line for line in ran.stdout.splitlines() if line.startswith("downstream: "))
    assert f"nDCG@10 {value:.3f} against" in line and "is lost" in " ".join(ran.stdout.split())
    saved = json.loads((folder / "tuned" / "tuned.json").read_text())
    assert saved["downstream"] == plain["downstream"], "a resumed tuning asks nothing again"
    for name in ("report.html", "report.md"):
        text = (folder / "tuned" / name).read_text()
        assert "Downstream quality" in text and "Success@10" in text and "exact search" in text
    again = recallatk("report", "tuned", "--out", "again.html", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "Downstream quality" in (folder / "again.html").read_text()


def test_a_tuning_without_judgments_has_no_section_and_takes_them_later(tuned):
    folder, plain = tuned
    without = recallatk(*COMMAND, "--json", cwd=folder)
    assert "downstream" not in json.loads(without.stdout)
    assert "Downstream" not in (folder / "tuned" / "report.md").read_text()
    later = recallatk(*COMMAND, "--qrels", "q.tsv", "--json", cwd=folder)
    assert json.loads(later.stdout)["downstream"] == plain["downstream"]


def test_judgments_of_other_data_are_refused_before_anything_is_built(tuned, tmp_path):
    folder, _ = tuned
    (tmp_path / "other.tsv").write_text("query-id\tcorpus-id\tscore\nx\ty\t1\n")
    ran = recallatk(*COMMAND[:-1], str(tmp_path / "out"), "--qrels", tmp_path / "other.tsv", cwd=folder)
    assert ran.returncode == 2
    assert f"none of the {QUERIES} queries has a judgment in the qrels" in ran.stderr
    assert "Traceback" not in ran.stderr
