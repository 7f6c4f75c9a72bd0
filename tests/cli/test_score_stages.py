"""`recallatk score --stage`: stages that exist only as files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_score_command import ASKED, COUNT, KINDS, NAMES, folder, refused, scored, truths  # noqa: F401

from commands import recallatk

ANN, RERANK = "ann=ann.parquet", "rerank=rerank.parquet"


@pytest.fixture
def stages(folder, truths):  # noqa: F811 - the fixtures of the module beside
    """A first stage of 12 that lacks the true rank 3, and a second one that drops rank 2."""
    rows = truths["numbers"].rows.tolist()
    lists = {
        "ann": [[line[11], *line[:2], *line[3:11]] for line in rows],
        "rerank": [[line[0], *line[3:7]] for line in rows],
    }
    for name, lines in lists.items():
        found = [[NAMES[row] for row in line] for line in lines]
        pq.write_table(pa.table({"query_id": ASKED, "neighbors": found}), f"{name}.parquet")
    return folder


def test_each_stage_has_its_loss(stages):
    found = scored("names.parquet", "--stage", ANN, "--stage", RERANK, "--at", "5,10", "--by", "kind")
    assert found["stages"] == ["ann", "rerank"]
    assert (found["queries"], found["scored"], found["k"]) == (COUNT, COUNT, 10)
    ann, rerank = found["at"]["5"]
    assert (ann["stage"], ann["contained"]["measure"]) == ("ann", "recall5@11")
    assert ann["contained"]["value"] == pytest.approx(0.8)
    assert ann["candidates"] == {"median": 11.0, "least": 11, "most": 11}
    assert (ann["recall"]["value"], ann["lost"]["value"]) == (pytest.approx(0.8), pytest.approx(0.2))
    assert ann["dropped"] is ann["gained"] is ann["added"] is None
    assert rerank["recall"]["value"] == rerank["contained"]["value"] == pytest.approx(0.6)
    assert rerank["lost"]["value"] == pytest.approx(0.2)
    assert rerank["dropped"]["value"] == pytest.approx(0.2)
    assert rerank["gained"]["value"] == pytest.approx(-0.2)
    assert rerank["added"] == {"rows": 0, "queries": 0}
    assert set(found["segments"]["kind"]) == set(KINDS)
    assert found["segments"]["kind"]["short"]["lost"]["ann"]["value"] == pytest.approx(0.1)
    assert found["anomalies"]["rerank"]["short"] == COUNT


def test_the_text_says_where_neighbors_were_lost(stages):
    ran = recallatk("score", "names.parquet", "--stage", ANN, "--stage", RERANK, "--at", "5")
    assert (ran.returncode, ran.stderr) == (0, "")
    text = " ".join(ran.stdout.split())
    assert "recall@5 after rerank 0.600" in text
    assert "lost at ann 0.200" in text
    assert "at rerank 0.200" in text


def test_a_sample_takes_the_same_queries_of_every_stage(stages):
    found = scored("names.parquet", "--stage", ANN, "--stage", RERANK, "--at", "5", "--sample", "3")
    assert found["queries"] == 3
    assert found["at"]["5"][0]["lost"]["value"] == pytest.approx(0.2)


def test_judgments_are_applied_to_every_stage(stages):
    lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{NAMES[0]}\t1" for query in ASKED)]
    (stages / "qrels.tsv").write_text("\n".join(lines))
    found = scored("names.parquet", "--stage", ANN, "--stage", RERANK, "--qrels", "qrels.tsv")
    assert list(found["relevance"]) == ["exact search", "ann", "rerank"]
    assert set(found["relevance"]["ann"]) == {"nDCG@10", "RR@10", "P@10", "R@10", "Success@10"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no answers. Give ANSWERS, or the lists of at least two stages"),
        (["ann.parquet", "--stage", ANN, "--stage", RERANK], "ANSWERS (ann.parquet) cannot be combined"),
        (["--stage", ANN], "one stage, ann. Accepted: two or more"),
        (["--stage", ANN, "--stage", "ann=rerank.parquet"], "two stages are named ann"),
        (["--stage", "ann.parquet", "--stage", RERANK], "--stage ann.parquet has no name. Accepted: NAME="),
        (["--stage", "=ann.parquet", "--stage", RERANK], "--stage =ann.parquet has no name"),
        (["--stage", "ann=", "--stage", RERANK], "--stage ann= has no file"),
        (
            ["--stage", ANN, "--stage", RERANK, "--against", "ann.parquet", "--measure", "mrr@10"],
            "--against and --measure cannot be combined with --stage",
        ),
        (["--stage", "ann=nothing.parquet", "--stage", RERANK], "nothing.parquet"),
        (["--stage", ANN, "--stage", "truth=names.parquet"], "names.parquet is a truth file"),
        (["--stage", ANN, "--stage", RERANK, "--at", "30"], "recall@30 needs a deeper truth"),
    ],
)
def test_what_cannot_be_is_refused(stages, arguments, message):
    assert message in refused("names.parquet", *arguments)


def test_a_stage_of_other_queries_is_named(stages):
    pq.write_table(pa.table({"query_id": ["nobody"], "neighbors": [["row 1"]]}), "other.parquet")
    message = refused("names.parquet", "--stage", ANN, "--stage", "late=other.parquet")
    assert "stage late: query mismatch: other.parquet has query nobody, missing from the truth" in message


def test_names_are_written_as_text(stages):
    ran = recallatk("score", "names.parquet", "--stage", ANN, "--stage", "\x1b[31mred=rerank.parquet")
    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout
    found = scored("names.parquet", "--stage", ANN, "--stage", "\x1b[31mred=rerank.parquet")
    assert json.loads(json.dumps(found))["stages"][1] == "\x1b[31mred"
