"""Saved index files as targets: searched as their library does it, and refused where they do not fit."""

import re

import faiss
import hnswlib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded_collections import (
    DIMENSION,
    FILTERS,
    IDS,
    QUERIES,
    ROW_OF,
    ROWS,
    VECTORS,
    K,
    files,
    nearest,
    recall,
    table,
)
from usearch.index import Index as Usearch

from recallatk import open_corpus
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import FormatError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter
from recallatk.probing import probe, tune_effort


def save_faiss(path, recipe="HNSW8", vectors=VECTORS, labels=None, metric=faiss.METRIC_L2):
    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(vectors.shape[1], recipe, metric)
    index.train(vectors)
    index.add(vectors) if labels is None else index.add_with_ids(vectors, np.array(labels))
    faiss.write_index(index, str(path))


def save_usearch(path, vectors=VECTORS, labels=None, metric="cos"):
    index = Usearch(ndim=vectors.shape[1], metric=metric, connectivity=8, expansion_add=16, dtype="f32")
    index.add(np.arange(len(vectors)) if labels is None else np.array(labels), vectors, threads=1)
    index.save(str(path))


def save_hnswlib(path, vectors=VECTORS, labels=None, space="cosine"):
    index = hnswlib.Index(space, vectors.shape[1])
    index.init_index(len(vectors), M=6, ef_construction=16, random_seed=1)
    index.add_items(vectors, labels, num_threads=1)
    index.save_index(str(path))


# By name: the file, how it is saved, the rest of the target, the metric, and an effort with its values.
KINDS = {
    "faiss graph": ("graph.faiss", save_faiss, "", "l2", "efSearch", 1, 400),
    "faiss lists": (
        "lists.faiss", lambda path: save_faiss(path, "IVF64,Flat", labels=IDS), "", "l2", "nprobe", 1, 64
    ),
    "faiss wrapped": (
        "wrapped.faiss", lambda path: save_faiss(path, "PCA24,IVF32,SQ8,RFlat"), "", "l2", "k_factor", 1, 40
    ),
    "usearch": ("graph.usearch", save_usearch, "", "cosine", "expansion_search", 10, 600),
    "hnswlib": (
        "graph.bin", lambda path: save_hnswlib(path, labels=IDS), "&metric=cosine", "cosine", "ef", 10, 600
    ),
}  # fmt: skip
FILTERING = [name for name in KINDS if name != "usearch"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("index files # 1")
    pq.write_table(table(), place / "corpus.parquet")
    for file, save, *_ in KINDS.values():
        save(place / file)
    return place


def target_of(folder, name):
    file, _, more, *_ = KINDS[name]
    return f"{name.split()[0]}://{folder}/{file}?corpus={folder}/corpus.parquet{more}"


@pytest.fixture
def opened(folder, name):
    with open_collection(target_of(folder, name)) as collection:
        collection.bind(open_corpus(folder / "corpus.parquet", vector_column="embedding"))
        yield collection


@pytest.mark.parametrize("name", KINDS)
def test_a_file_tells_what_it_is(opened, name):
    found, (*_, metric, effort, _, _) = opened.discovery(), KINDS[name]
    assert (found.engine, found.rows, found.dimension) == (name.split()[0], ROWS, DIMENSION)
    assert found.metric is Metric(metric)
    assert re.search(r"(nlist|M|connectivity) \d+.*2,000 rows", found.index)
    assert effort in found.settings and effort in {each.name for each in opened.knobs() if each.effort}
    ids = "the ids in column 'id'" if name in ("faiss lists", "hnswlib") else "row numbers of the corpus"
    assert found.notes == (f"labels of the index are read as {ids}",)


@pytest.mark.parametrize("name", KINDS)
def test_effort_raises_recall_and_is_that_of_the_snippet(folder, opened, name):
    file, *_, metric, effort, low, high = KINDS[name]
    rest = {"nprobe": 32} if name == "faiss wrapped" else {}
    opened.configure({effort: low, **rest})
    worst = recall(opened, metric)
    opened.configure({effort: high, **rest})
    assert worst < 0.9 < recall(opened, metric)
    assert str(opened.discovery().settings[effort]) in (str(high), f"{high}.0")
    # A program that loads the file and pastes the snippet gets the same answers.
    search = {effort: (low + high) // 2, **rest}
    opened.configure(search)
    kind = name.split()[0]
    if kind == "faiss":
        index = faiss.read_index(str(folder / file))
    elif kind == "usearch":
        index = Usearch.restore(str(folder / file))
    else:
        index = hnswlib.Index("cosine", DIMENSION)
        index.load_index(str(folder / file))
    exec(opened.snippet(search), {"faiss": faiss, "index": index})
    ids = IDS if opened.discovery().notes[0].endswith("of the corpus") else range(10**6)
    for query in QUERIES:
        if kind == "faiss":
            labels = index.search(query[None], K)[1][0]
        elif kind == "usearch":
            labels = index.search(query, K).keys
        else:
            labels = index.knn_query(query, K)[0][0]
        assert opened.answer(query, K, None).ids == [ids[int(each)] for each in labels]


@pytest.mark.parametrize("name", FILTERING)
@pytest.mark.parametrize("text", FILTERS)
def test_filters_run_natively_on_columns_of_the_corpus(opened, name, text):
    condition, mask = parse_filter(text), np.array(FILTERS[text])
    assert opened.refusal(condition) is None
    *_, metric, effort, _, high = KINDS[name]
    opened.configure({effort: high, **({"nprobe": 32} if name == "faiss wrapped" else {})})
    for query in QUERIES[:5]:
        ids = opened.answer(query, K, condition).ids
        assert all(mask[ROW_OF[each]] for each in ids)
        assert len(set(ids) & set(nearest(query, metric, mask))) >= 8


def test_one_effort_is_tuned_and_the_others_are_kept(folder):
    """Reranking alone cannot find what the lists do not hold, so it is fixed and the lists are tuned."""
    target = target_of(folder, "faiss wrapped")
    queries = np.random.default_rng(2).normal(size=(90, DIMENSION)).astype("float32")
    goals = ["recall@10 >= 0.9"]
    alone = tune_effort(target, queries, goals, max_rate=None)
    assert not alone.met and {name for each in alone.looks for name in each.search} == {"k_factor"}
    found = tune_effort(target, queries, goals, search={"k_factor": 20}, max_rate=None)
    assert found.met and found.search["k_factor"] == 20 and 4 < found.search["nprobe"] <= 32
    assert found.snippet.splitlines()[0].endswith('(index, "k_factor_rf", 20)')
    with pytest.raises(UsageError, match="--search fixes every effort; there is no effort to tune"):
        tune_effort(target, queries, goals, search={"k_factor": 20, "nprobe": 3}, max_rate=None)


def test_usearch_refuses_filters(folder):
    with pytest.raises(RecallError, match=r"refuses the filters of 20: usearch.Index cannot filter"):
        probe(target_of(folder, "usearch"), QUERIES, where="city = 'c1'", max_rate=None)
    with pytest.raises(RecallError, match=r"0 queries can be asked of 20, because usearch"):
        tune_effort(target_of(folder, "usearch"), QUERIES, ["recall@10 >= 0.9"], where="city = 'c1'")


@pytest.mark.parametrize("name", KINDS)
def test_a_probe_changes_no_file_and_agrees_with_numpy(folder, name):
    *_, metric, effort, low, _ = KINDS[name]
    before = files(folder)
    found = probe(target_of(folder, name), QUERIES, search={effort: low}, max_rate=None)
    with open_collection(target_of(folder, name)) as collection:
        collection.bind(open_corpus(folder / "corpus.parquet"))
        collection.configure({effort: low})
        expected = recall(collection, metric)
        assert len(collection.answer(QUERIES[0], ROWS + 50, None).ids) <= ROWS
    assert found.recall.value == pytest.approx(expected)
    assert (found.recall.n, found.index_used, found.sampled) == (20, 1.0, False)
    assert files(folder) == before


def test_an_inner_product_index_of_unit_vectors_is_searched_by_cosine(tmp_path):
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    pq.write_table(table(), tmp_path / "corpus.parquet")
    save_faiss(tmp_path / "ip.faiss", "Flat", unit, metric=faiss.METRIC_INNER_PRODUCT)
    target = f"faiss://{tmp_path}/ip.faiss?corpus={tmp_path}/corpus.parquet&metric=cosine"
    found = probe(target, QUERIES, max_rate=None)
    assert found.recall.value == 1
    assert found.index is None and found.index_used == 0
    assert "every search scans all rows: IndexFlat" in found.notes[1]


def test_lists_on_disk_are_only_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = faiss.index_factory(DIMENSION, "IVF16,Flat")
    index.train(VECTORS)
    index.add(VECTORS)
    lists = faiss.OnDiskInvertedLists(16, index.code_size, "lists.ivfdata")
    lists.merge_from_1(index.invlists)
    index.replace_invlists(lists)
    faiss.write_index(index, "disk.faiss")
    pq.write_table(table(), "corpus.parquet")
    del index, lists
    before = files(tmp_path)
    found = probe("faiss://disk.faiss?corpus=corpus.parquet", QUERIES, search={"nprobe": 16}, max_rate=None)
    assert found.recall.value == 1
    assert files(tmp_path) == before


def test_a_file_that_is_rebuilt_or_deleted_meanwhile_is_mentioned(folder, tmp_path):
    save_usearch(tmp_path / "graph.usearch")
    target = f"usearch://{tmp_path}/graph.usearch?corpus={folder}/corpus.parquet"
    with open_collection(target) as collection:
        assert probe(collection, QUERIES, max_rate=None).notes == collection.discovery().notes
        ids = collection.answer(QUERIES[0], K, None).ids
        save_usearch(tmp_path / "graph.usearch", VECTORS[::-1])
        assert (
            "was changed or deleted after it was read" in probe(collection, QUERIES, max_rate=None).notes[1]
        )
        (tmp_path / "graph.usearch").unlink()
        assert "was changed or deleted after it was read" in collection.discovery().notes[1]
        assert collection.answer(QUERIES[0], K, None).ids == ids


@pytest.mark.parametrize("name", ["faiss graph", "faiss lists", "usearch", "hnswlib"])
@pytest.mark.parametrize("kept", [0, 3, 60, 100, 3_000, -1])
def test_a_cut_file_is_damaged(folder, tmp_path, name, kept):
    file, _, more, *_ = KINDS[name]
    whole = (folder / file).read_bytes()
    (tmp_path / file).write_bytes(whole[:kept])
    target = f"{name.split()[0]}://{tmp_path}/{file}?corpus={folder}/corpus.parquet{more}"
    with pytest.raises(FormatError, match=rf"{file}: damaged, or no index of {name.split()[0]} \(.*Accepted"):
        probe(target, QUERIES)


@pytest.mark.parametrize("scheme", ["faiss", "usearch", "hnswlib"])
def test_a_file_of_another_kind_is_refused(folder, scheme):
    others = [file for name, (file, *_) in KINDS.items() if not name.startswith(scheme)]
    for file in (*others, "corpus.parquet"):
        target = f"{scheme}://{folder}/{file}?corpus={folder}/corpus.parquet&metric=cosine"
        with pytest.raises(FormatError, match=f"damaged, or no index of {scheme}"):
            probe(target, QUERIES)


def saved(tmp_path, scheme, vectors=VECTORS, rows=None, labels=None, more="", **options):
    """A target of a new file, with a corpus of its own."""
    {"faiss": save_faiss, "usearch": save_usearch, "hnswlib": save_hnswlib}[scheme](
        tmp_path / "index", vectors=vectors, labels=labels, **options
    )
    pq.write_table(table() if rows is None else rows, tmp_path / "corpus.parquet")
    return f"{scheme}://{tmp_path}/index?corpus={tmp_path}/corpus.parquet{more}"


@pytest.mark.parametrize(
    ("scheme", "options", "said"),
    [
        ("faiss", {"vectors": VECTORS[:, :24]}, "dimension mismatch.*24 dimensions, the corpus 32"),
        ("usearch", {"vectors": VECTORS[:, :24]}, "dimension mismatch.*24 dimensions, the corpus 32"),
        ("hnswlib", {"vectors": VECTORS[:, :24], "more": "&metric=l2"}, "dimension mismatch.*24.*corpus 32"),
        ("faiss", {"vectors": VECTORS[:1_500]}, "row count mismatch.*holds 1,500 rows, the corpus 2,000"),
        ("hnswlib", {"vectors": VECTORS[:9], "more": "&metric=cosine"}, "row count mismatch.*holds 9 rows"),
        ("faiss", {"vectors": VECTORS[:0], "recipe": "Flat"}, "is empty. Add the corpus to it first"),
        ("usearch", {"labels": np.arange(ROWS) + 10**6}, "2,000 labels that are not corpus ids"),
        ("faiss", {"recipe": "IDMap,Flat", "labels": [7] * ROWS}, "1,999 duplicate labels"),
        ("faiss", {"more": "&metric=cosine"}, "metric mismatch.*uses l2"),
        ("usearch", {"more": "&metric=l2"}, "metric mismatch.*uses cosine"),
        ("hnswlib", {}, "do not state their metric. Add that of the index: metric=cosine, ip or l2"),
        ("hnswlib", {"more": "&metric=l2"}, "holds normalized vectors.*space is cosine. Say metric=cosine"),
        ("hnswlib", {"more": "&metric=cosine", "space": "l2"}, "not normalized, so its space is l2 or ip"),
        ("hnswlib", {"more": "&metric=cosin"}, "no metric 'cosin'.*cosine"),
        ("usearch", {"vectors": VECTORS[::-1]}, "row order mismatch"),
        ("faiss", {"rows": table(id=[IDS[1], *IDS[1:]])}, "duplicate id 8: row 0 has it too"),
        ("faiss", {"rows": table(id=[None, *IDS[1:]])}, "null"),
        ("faiss", {"rows": table().drop_columns("embedding")}, "no column holds lists of numbers"),
        ("faiss", {"more": "&tabel=x"}, "no option 'tabel'. Type it as faiss://index.faiss"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_says_why(tmp_path, scheme, options, said):
    with pytest.raises(RecallError, match=said):
        probe(saved(tmp_path, scheme, **options), QUERIES, max_rate=None)


def test_null_vectors_of_the_corpus_are_named(tmp_path):
    holes = pa.array([None, *VECTORS[1:]], pa.list_(pa.float32(), DIMENSION))
    with pytest.raises(RecallError, match="null"):
        probe(saved(tmp_path, "faiss", rows=table().set_column(1, "embedding", holes)), QUERIES)


def test_what_is_missing_is_asked_for(folder):
    with pytest.raises(
        UsageError, match=r"no corpus. .*faiss://index.faiss.corpus=corpus.parquet, or with --corpus"
    ):
        probe(f"faiss://{folder}/graph.faiss", QUERIES)
    stated = {"corpus": folder / "corpus.parquet", "search": {"efSearch": 1}, "goals": ["recall@10 >= 0.999"]}
    found = probe(f"faiss://{folder}/graph.faiss", QUERIES, max_rate=None, **stated)
    assert found.verdict.outcome == "FAIL"
    assert f"--corpus '{folder}/corpus.parquet'" in found.next_steps[0].command
    for target, said in {
        "faiss://none.faiss?corpus=c.parquet": "the file none.faiss does not exist",
        f"usearch://{folder}?corpus=c.parquet": "is a folder",
        f"faiss://{folder}/graph.faiss?corpus=none.parquet": "none.parquet",
        "hnswlib://[a]/b": "Write . and . in a path as %5B and %5D",
    }.items():
        with pytest.raises(RecallError, match=said):
            probe(target, QUERIES)
    graph = target_of(folder, "faiss graph")
    for more, said in (
        ({"truth": "stream"}, "its truth is that of its corpus. Leave out --truth"),
        ({"truth": "exact"}, "no exact search"),
        ({"settings": {"a": "b"}}, "takes no --set"),
        ({"search": {"nprobes": 3}}, "no parameter 'nprobes'"),
        ({"where": "town = 'x'"}, "no column 'town'"),
    ):
        with pytest.raises(RecallError, match=said):
            probe(graph, QUERIES, **more)
    with pytest.raises(MismatchError, match=r"32 dimensions, the queries 5"):
        probe(graph, QUERIES[:, :5])
