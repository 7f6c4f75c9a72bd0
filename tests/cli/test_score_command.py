"""`recallatk score` end to end, on small real files."""

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from commands import recallatk
from recallatk import ground_truth, make_corpus, make_queries, open_dataset, save_truth
from recallatk.cli import app

RANDOM = np.random.default_rng(11)
ROWS, COUNT, DEPTH = 80, 8, 12
CORPUS = RANDOM.normal(size=(ROWS, 6)).astype("float32")
QUERIES = RANDOM.normal(size=(COUNT, 6)).astype("float32")
NAMES = [f"row {number}" for number in range(ROWS)]
ASKED = [f"q{number}" for number in range(COUNT)]
KINDS = ["short", "long"] * (COUNT // 2)
KEYS = {"queries", "scored", "measures", "distribution", "anomalies", "segments"}
ODD = {"short", "duplicate", "padding", "unknown", "ineligible", "no_eligible", "missing"}


def run_here(*arguments):
    """The command without a process of its own, which would take most of the time."""
    ran = CliRunner().invoke(app, ["score", *map(str, arguments)])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


def scored(*arguments):
    ran = run_here(*arguments, "--json")
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout)


def refused(*arguments):
    ran = run_here(*arguments)
    assert (ran.exit_code, ran.stdout) == (2, ""), ran.output
    return ran.stderr


def dataset_of(ids, query_ids):
    metadata = {"kind": KINDS}
    return open_dataset(make_corpus(CORPUS, ids), make_queries(QUERIES, query_ids, metadata), metric="cosine")


@pytest.fixture(scope="module")
def truths():
    """One truth by names and one by numbers, made once."""
    return {
        "names": ground_truth(dataset_of(NAMES, ASKED), depth=DEPTH, threads=1),
        "numbers": ground_truth(dataset_of(None, None), depth=DEPTH, threads=1),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, truths):
    place = tmp_path / "my data"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, truth in truths.items():
        save_truth(truth, place / f"{name}.parquet")
    pq.write_table(pa.table({"id": NAMES, "vector": list(CORPUS)}), "corpus.parquet")
    pq.write_table(pa.table({"id": ASKED, "vector": list(QUERIES), "kind": KINDS}), "queries.parquet")
    return place


def answer_rows(truths, hits=7, width=10):
    """So many true rows of each query, then its worst ones."""
    lists = []
    for true in truths["numbers"].rows.tolist():
        wrong = [row for row in range(ROWS) if row not in true]
        lists.append([*true[:hits], *wrong][:width])
    return lists


def write_answers(path, lists, query_ids=ASKED, **columns):
    pq.write_table(pa.table({"query_id": query_ids, "neighbors": lists, **columns}), path)


def by_name(lists):
    return [[NAMES[row] for row in line] for line in lists]


def test_the_object_has_what_was_promised(folder, truths):
    write_answers("answers.parquet", by_name(answer_rows(truths)), kind=KINDS)
    ran = recallatk("score", "names.parquet", "answers.parquet", "--at", "1,10", "--by", "kind", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    found = json.loads(ran.stdout)
    assert set(found) >= KEYS
    assert (found["queries"], found["scored"]) == (COUNT, COUNT)
    assert set(found["measures"]) >= {"recall@1", "recall@10"}
    for mean in found["measures"].values():
        assert set(mean) == {"value", "low", "high", "n", "ids"}
        assert mean["low"] <= mean["value"] <= mean["high"]
        assert mean["n"] == COUNT
    assert found["measures"]["recall@10"]["value"] == pytest.approx(0.7)
    assert found["measures"]["recall@1"]["value"] == 1.0
    assert set(found["distribution"]) == {"recall@1", "recall@10"}
    spread = found["distribution"]["recall@10"]
    assert set(spread) >= {"min", "p1", "p5", "median", "zeros", "ones", "histogram"}
    assert sum(spread["histogram"]) == COUNT
    assert set(found["anomalies"]) >= ODD
    assert all(found["anomalies"][kind] == 0 for kind in ODD)
    groups = found["segments"]["kind"]
    assert set(groups) == {"short", "long"}
    for group in groups.values():
        assert group["queries"] == COUNT // 2
        assert set(group["recall@10"]) >= {"value", "low", "high", "n"}


def test_the_text_says_the_same(folder, truths):
    write_answers("answers.parquet", by_name(answer_rows(truths)), kind=KINDS)
    ran = recallatk("score", "names.parquet", "answers.parquet", "--at", "1,10", "--by", "kind")
    assert (ran.returncode, ran.stderr) == (0, "")
    text = " ".join(ran.stdout.split())
    for words in ("8 queries", "recall@10", "0.700 ±", "by kind", "at least 0.4", "Diagnosis"):
        assert words in text
    assert "\x1b" not in ran.stdout


def test_measures_may_be_added(folder, truths):
    write_answers("answers.parquet", by_name(answer_rows(truths)))
    options = ("--measure", "robust(0.7)@10", "--measure", "recall5@10", "--measure", "recall@3(ids)")
    found = scored("names.parquet", "answers.parquet", *options)["measures"]
    assert found["robust(0.7)@10"]["value"] == found["recall5@10"]["value"] == 1.0
    assert found["recall@3(ids)"]["value"] == 1.0
    message = refused("names.parquet", "answers.parquet", "--measure", "precision@10")
    assert "no measure 'precision@10'" in message


def listed(lists):
    return pa.table({"query_id": list(range(len(lists))), "neighbors": lists})


def lines(lists, form):
    return "".join(
        form.format(query=query, row=row, place=place)
        for query, line in enumerate(lists)
        for place, row in enumerate(line)
    )


def write_result(path, lists):
    with h5py.File(path, "w") as file:
        file.attrs["algo"] = "x"
        file["neighbors"], file["times"] = np.array(lists, "int32"), np.ones(len(lists))


WRITERS = {
    ".npy": lambda path, lists: np.save(path, np.array(lists)),
    ".ivecs": lambda path, lists: np.array([[len(line), *line] for line in lists], "<i4").tofile(path),
    ".ibin": lambda path, lists: path.write_bytes(
        np.array([len(lists), len(lists[0])], "<u4").tobytes() + np.array(lists, "<i4").tobytes()
    ),
    ".hdf5": write_result,
    ".parquet": lambda path, lists: pq.write_table(listed(lists), path),
    ".arrow": lambda path, lists: pa.feather.write_feather(listed(lists), str(path)),
    ".jsonl": lambda path, lists: path.write_text(
        "".join(json.dumps(row) + "\n" for row in listed(lists).to_pylist())
    ),
    ".csv": lambda path, lists: path.write_text(
        "query_id,neighbor,rank\n" + lines(lists, "{query},{row},{place}\n")
    ),
    ".run": lambda path, lists: path.write_text(lines(lists, "{query} Q0 {row} {place} -{place} me\n")),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_answers_may_be_in_any_format(folder, truths, suffix):
    path = folder / f"of today{suffix}"
    WRITERS[suffix](path, answer_rows(truths, hits=6))
    found = scored("numbers.parquet", path, "--at", "10")
    assert found["measures"]["recall@10"]["value"] == pytest.approx(0.6)
    assert found["anomalies"]["unknown"] == found["anomalies"]["missing"] == 0


def test_odd_answers_are_counted_and_the_truth_alone_tells_unknown_ids(folder, truths):
    lists = by_name(answer_rows(truths, hits=10))
    lists[0] = [*lists[0][:4], "nobody", lists[0][0], None, None]
    lists[1] = []
    write_answers("answers.parquet", lists)
    found = scored("names.parquet", "answers.parquet", "--at", "10")
    assert found["measures"]["recall@10"]["value"] == pytest.approx((0.4 + 0 + 6) / 8)
    told = {
        kind: found["anomalies"][kind] for kind in ("short", "duplicate", "padding", "unknown", "missing")
    }
    assert told == {"short": 2, "duplicate": 1, "padding": 2, "unknown": 1, "missing": 0}


def test_a_filter_tells_ineligible_answers(folder, truths):
    write_answers("answers.parquet", by_name(answer_rows(truths, hits=10)))
    made = recallatk(
        *("truth", "corpus.parquet", "queries.parquet", "--metric", "cosine", "--depth", 10),
        *("--where", "id != 'row 0'", "--out", "filtered.parquet"),
    )
    assert made.returncode == 0, made.stderr
    options = ("--corpus", "corpus.parquet", "--queries", "queries.parquet", "--where", "id != 'row 0'")
    found = scored("filtered.parquet", "answers.parquet", "--at", "10", *options)
    returned = sum(0 in line for line in answer_rows(truths, hits=10))
    assert found["anomalies"]["ineligible"] == returned
    assert found["measures"]["recall@10"]["value"] == pytest.approx(1 - returned / (10 * COUNT))


def test_one_query_is_enough(folder, truths):
    dataset = open_dataset(make_corpus(CORPUS), make_queries(QUERIES[:1]), metric="l2")
    save_truth(ground_truth(dataset, depth=5, threads=1), folder / "one.parquet")
    np.save("answers.npy", np.arange(5)[None])
    found = scored("one.parquet", "answers.npy")
    assert (found["queries"], found["scored"]) == (1, 1)
    assert "1 query." in " ".join(run_here("one.parquet", "answers.npy").stdout.split())


def test_k_beyond_the_depth_is_refused_and_by_default_left_out(folder, truths):
    np.save("answers.npy", np.array(answer_rows(truths)))
    assert "recall@100" in refused("numbers.parquet", "answers.npy", "--at", "10,100")
    found = scored("numbers.parquet", "answers.npy")["measures"]
    assert {"recall@1", "recall@10"} <= set(found)
    assert "recall@100" not in found
    for text in ("0", "ten", "1,,10", "", "-1", "1.5"):
        assert "whole numbers" in refused("numbers.parquet", "answers.npy", "--at", text)


def test_k_beyond_the_answers_is_left_out_and_may_be_asked_for(folder, truths):
    np.save(folder / "nine.npy", np.pad(truths["numbers"].rows[:, :9], ((0, 0), (0, 5)), constant_values=-1))
    found = scored(folder / "numbers.parquet", folder / "nine.npy")
    assert [name for name in found["measures"] if name.startswith("recall@")] == ["recall@1"]
    assert found["unreached"] == [10]
    note = "recall@10 left out: no query has that many answers. To score anyway: --at 10"
    assert note in run_here(folder / "numbers.parquet", folder / "nine.npy").stdout
    asked = scored(folder / "numbers.parquet", folder / "nine.npy", "--at", "10")
    assert asked["measures"]["recall@10"]["value"] == pytest.approx(0.9)
    assert asked["unreached"] == []


def test_a_line_says_how_the_interval_and_the_bound_differ(folder, truths):
    np.save(folder / "all.npy", truths["numbers"].rows)
    shown = run_here(folder / "numbers.parquet", folder / "all.npy").stdout
    assert '±: 95 % interval over queries. "At least" is the bound to decide by' in " ".join(shown.split())


def test_missing_queries_are_named_and_extra_ones_are_refused_by_name(folder, truths):
    lists = by_name(answer_rows(truths, hits=10))
    write_answers("fewer.parquet", lists[2:], ASKED[2:])
    found = scored("names.parquet", "fewer.parquet", "--at", "10")
    assert found["missing"] == ["q0", "q1"]
    assert found["anomalies"]["missing"] == 2
    assert found["measures"]["recall@10"] == {**found["measures"]["recall@10"], "value": 0.75, "n": 8}
    assert "q0, q1" in run_here("names.parquet", "fewer.parquet").stdout
    write_answers("more.parquet", [*lists, lists[0]], [*ASKED, "stranger"])
    assert "stranger" in refused("names.parquet", "more.parquet")
    write_answers("twice.parquet", [*lists[1:], lists[1]], [*ASKED[1:], "q1"])
    assert "q1" in refused("names.parquet", "twice.parquet")


def test_answers_are_compared_with_others(folder, truths):
    write_answers("now.parquet", by_name(answer_rows(truths, hits=9)))
    write_answers("before.parquet", by_name(answer_rows(truths, hits=2)))
    found = scored("names.parquet", "now.parquet", "--against", "before.parquet", "--at", "10")
    (difference,) = found["comparisons"]
    assert difference["difference"] == pytest.approx(-0.7)
    assert difference["significant"] is True
    words = run_here("names.parquet", "now.parquet", "--against", "before.parquet").stdout
    assert "now.parquet is better than before.parquet by 0.7" in words


def test_judgements_give_relevance_beside_recall(folder, truths):
    lists = by_name(answer_rows(truths, hits=10))
    write_answers("answers.parquet", lists)
    grades = "".join(f"{query}\t{line[1]}\t1\n" for query, line in zip(ASKED, lists, strict=True))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + grades)
    found = scored("names.parquet", "answers.parquet", "--qrels", "qrels.tsv")["relevance"]
    assert found["RR@10"]["value"] == 0.5
    assert (found["R@10"]["value"], found["P@10"]["value"]) == (1.0, pytest.approx(0.1))
    ran = run_here("names.parquet", "answers.parquet", "--qrels", "qrels.tsv")
    assert "judged relevance" in ran.stdout


def test_row_numbers_are_said_to_be_some(folder, truths):
    np.save("answers.npy", np.array(answer_rows(truths)))
    ran = recallatk("score", "names.parquet", "answers.npy")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--row-numbers" in ran.stderr
    found = scored("names.parquet", "answers.npy", "--row-numbers", "--at", "10")
    assert found["measures"]["recall@10"]["value"] == pytest.approx(0.7)


def test_row_numbers_are_judged_by_the_ids_that_they_stand_for(folder, truths):
    lists = answer_rows(truths)
    np.save("answers.npy", np.array(lists))
    grades = "".join(f"{query}\t{NAMES[line[0]]}\t1\n" for query, line in zip(ASKED, lists, strict=True))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + grades)
    found = scored("names.parquet", "answers.npy", "--row-numbers", "--qrels", "qrels.tsv")["relevance"]
    assert found["RR@10"]["value"] == 1.0


def test_nothing_in_ids_categories_and_paths_is_obeyed_by_the_terminal(folder, truths):
    hostile = "\x1b[31m\x1b]0;title\x07\r\u202e\x9b"
    lists = by_name(answer_rows(truths))
    names, colours = [f"{name}{hostile}" for name in ASKED], [f"{kind}{hostile}" for kind in KINDS]
    save_truth(ground_truth(dataset_of(NAMES, names), depth=10, threads=1), folder / "hostile.parquet")
    write_answers("evil\x1b[31m.parquet", lists[1:], names[1:], colour=colours[1:])
    shown = recallatk("score", "hostile.parquet", "evil\x1b[31m.parquet", "--by", "colour")
    assert shown.returncode == 0, shown.stderr
    write_answers("more.parquet", [lists[0]], [f"stranger{hostile}"])
    texts = [
        shown.stdout,
        refused("hostile.parquet", "more.parquet"),
        refused("hostile.parquet", "evil\x1b[31m.parquet", "--by", f"no such{hostile}"),
        refused("hostile.parquet", "evil\x1b[31m.parquet", "--measure", hostile),
    ]
    for text in texts:
        assert not any(each in text for each in "\x1b\x07\r\u202e\x9b")
    assert "\\x1b[31m" in shown.stdout
    found = scored("hostile.parquet", "evil\x1b[31m.parquet", "--by", "colour")
    assert found["missing"] == [names[0]]
    assert f"long{hostile}" in found["segments"]["colour"]


def test_a_column_that_makes_no_groups_is_refused_in_one_line(folder, truths):
    write_answers("answers.parquet", by_name(answer_rows(truths)))
    odd = {"tags": [["a"]] * COUNT, "raw": [b"\xff"] * COUNT}
    pq.write_table(pa.table({"id": ASKED, "vector": list(QUERIES), **odd}), "tagged.parquet")
    for column in ("tags", "raw"):
        options = ("--corpus", "corpus.parquet", "--queries", "tagged.parquet", "--by", column)
        assert column in refused("names.parquet", "answers.parquet", *options)


def test_what_is_no_answers_is_refused_in_one_line(folder, truths):
    (folder / "empty.jsonl").write_text("")
    (folder / "text.txt").write_text("these are no answers")
    (folder / "damaged.parquet").write_bytes((folder / "names.parquet").read_bytes()[:200])
    np.save("floats.npy", CORPUS)
    np.save("wide.npy", np.zeros((COUNT + 3, 10), int))
    for name in ("text.txt", "damaged.parquet", "corpus.parquet", "floats.npy", "empty.jsonl", "nothing.npy"):
        assert name in refused("numbers.parquet", name)
    np.save("answers.npy", np.array(answer_rows(truths)))
    for arguments, words in [
        (["numbers.parquet", "."], "folder"),
        (["numbers.parquet", "wide.npy"], "queries 8 to 10"),
        (["nothing.parquet", "answers.npy"], "no such file"),
        (["numbers.parquet", "answers.npy", "--by", "colour"], "no query column 'colour'"),
        (["numbers.parquet", "answers.npy", "--where", "a = 1"], "--corpus"),
        (["numbers.parquet", "answers.npy", "--qrels", "text.txt"], "qrels"),
        (["numbers.parquet", "answers.npy", "--format", "nonsense"], "nonsense"),
        (["numbers.parquet"], "no answers. Give ANSWERS"),
    ]:
        assert words in refused(*arguments), arguments
    ran = recallatk("score", "numbers.parquet", "text.txt")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
