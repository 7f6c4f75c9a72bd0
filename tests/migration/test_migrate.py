"""Migrations: what another embedding of the same rows changes, checked against brute force."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk as command
from recallatk import make_corpus, make_queries, migrate
from recallatk.core.migrated import SpaceChange
from recallatk.errors import MismatchError, RecallError, UsageError

ROWS, QUERIES, DIMENSION = 700, 60, 40
IDS = [f"row {each}" for each in range(ROWS)]
QUERY_IDS = [f"query {each}" for each in range(QUERIES)]


def rotation(seed=7):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(DIMENSION, DIMENSION)))[0]


def made(count, seed):
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)) * np.linspace(2, 0.3, DIMENSION)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("f4")


OLD, ASKED = made(ROWS, 0), made(QUERIES, 1)


def noisy(vectors, seed=3):
    random = np.random.default_rng(seed)
    return (vectors @ rotation() + random.normal(size=vectors.shape) * 0.05).astype("f4")


CHANGES = {
    SpaceChange.SAME: lambda vectors: vectors,
    SpaceChange.STORED: lambda vectors: vectors.astype("f2"),
    SpaceChange.SCALED: lambda vectors: vectors * np.float32(3),
    SpaceChange.CUT: lambda vectors: vectors[:, :36],
    SpaceChange.ROTATED: lambda vectors: (vectors @ rotation()).astype("f4"),
    SpaceChange.OTHER: noisy,
}


def corpora(change, **options):
    order = np.random.default_rng(5).permutation(ROWS)
    new = np.ascontiguousarray(change(OLD)[order])
    return make_corpus(OLD, ids=IDS), make_corpus(new, ids=[IDS[each] for each in order], **options)


def queries(change=None):
    return make_queries(ASKED if change is None else np.ascontiguousarray(change(ASKED)), ids=QUERY_IDS)


def exact(vectors, asked, k):
    units = [
        each.astype("f8") / np.linalg.norm(each.astype("f8"), axis=1, keepdims=True)
        for each in (vectors, asked)
    ]
    return np.argsort(-units[1] @ units[0].T, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("kind", CHANGES)
def test_the_kind_of_change_is_told_and_neighbors_are_those_of_brute_force(kind):
    change = CHANGES[kind]
    found = migrate(
        *corpora(change), old_queries=queries(), new_queries=queries(change), metric="cosine", at=[1, 10]
    )
    assert found.change is kind and found.mixed.share == 0 and not found.rows_as_queries
    one, two = exact(OLD, ASKED, 10), exact(np.asarray(change(OLD)), np.asarray(change(ASKED)), 10)
    expected = np.mean([len({*a} & {*b}) / 10 for a, b in zip(one, two, strict=True)])
    assert found.overlaps[1].mean.value == pytest.approx(expected)
    assert found.overlaps[0].mean.value == pytest.approx((one[:, 0] == two[:, 0]).mean())


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_rows_of_the_old_model_among_the_new_are_found_and_named(share):
    planted = np.random.default_rng(8).random(ROWS) < share

    def change(vectors):
        return np.where(planted[:, None], vectors, noisy(vectors))

    found = migrate(*corpora(change), metric="cosine", sample=50)
    assert found.mixed.low <= planted.mean() <= found.mixed.high
    assert {*found.mixed.ids} <= {IDS[each] for each in np.flatnonzero(planted)}
    assert found.advice[0].startswith("Do not switch yet") and found.rows_as_queries


def test_few_rows_tell_nothing_of_mixed_spaces():
    small = [make_corpus(each[:100], ids=IDS[:100]) for each in (OLD, noisy(OLD))]
    found = migrate(*small, metric="cosine", sample=20)
    assert found.mixed.share is None and "too few" in found.mixed.why


@pytest.mark.parametrize("k", [ROWS, ROWS + 1])
def test_k_of_all_rows_is_refused_because_any_embedding_has_them(k):
    old, new = corpora(noisy)
    with pytest.raises(UsageError, match=rf"k = {k} of 700 rows.* Accepted: fewer than the rows"):
        migrate(old, new, metric="cosine", at=[1, k])


def test_unrelated_embeddings_are_never_told_to_agree_because_k_is_deep():
    old, new = make_corpus(OLD, ids=IDS), make_corpus(made(ROWS, 9), ids=IDS)
    found = migrate(old, new, metric="cosine", at=[10, ROWS - 5], sample=50)
    assert found.overlaps[1].mean.value > 0.98
    [said] = [each for each in found.advice if each.startswith("Results")]
    assert said.startswith("Results change") and "top 10 stay" in said
    assert any(each.startswith("top 695 of 700 rows give no advice") for each in found.notes)


@pytest.mark.parametrize("kind", sorted({*CHANGES} - {SpaceChange.CUT}))
def test_queries_that_were_not_embedded_anew_are_told_where_the_space_is_another(kind):
    change = CHANGES[kind]
    given = {"metric": "cosine", "at": [1]}
    kept = migrate(*corpora(change), old_queries=queries(), new_queries=queries(), **given)
    anew = migrate(*corpora(change), old_queries=queries(), new_queries=queries(noisy), **given)
    other = kind in (SpaceChange.ROTATED, SpaceChange.OTHER)
    assert kept.advice[0].startswith("Embed the queries anew") is other
    assert not any(each.startswith("Embed the queries anew") for each in anew.advice)


def test_judgments_say_which_embedding_is_better():
    nearest = exact(OLD, ASKED, 1)[:, 0]
    qrels = {name: {IDS[row]: 1} for name, row in zip(QUERY_IDS, nearest, strict=True)}
    worse = {"old_queries": queries(), "new_queries": queries(lambda asked: asked[:, :6])}
    old, new = corpora(lambda vectors: vectors[:, :6])
    found = migrate(old, new, **worse, metric="cosine", qrels=qrels)
    [first, *_] = found.relevance
    assert first.measure == "nDCG@10" and first.old.value == 1.0 and first.high < 0
    assert any(each.startswith("Keep the old embedding") for each in found.advice)
    swapped = {"old_queries": worse["new_queries"], "new_queries": worse["old_queries"]}
    found = migrate(new, old, **swapped, metric="cosine", qrels=qrels)
    assert found.relevance[0].low > 0
    assert any(each.startswith("The new embedding is better") for each in found.advice)


def test_both_embeddings_are_tuned_to_the_same_target():
    def cut(vectors):
        return vectors[:, :20]

    found = migrate(
        *corpora(cut), old_queries=queries(), new_queries=queries(cut), metric="cosine",
        target=["recall@10 >= 0.2"], engines=["faiss-ivf-flat"],
    )  # fmt: skip
    assert found.outcome in ("PASS", "UNDECIDED") and set(found.tuned) == {"old", "new"}
    [vectors, *others] = found.costs
    assert vectors.name == "vectors" and vectors.ratio == 0.5 and others


def test_what_does_not_belong_together_is_refused_by_name():
    old, _ = corpora(lambda vectors: vectors)
    with pytest.raises(MismatchError, match=r"1 of the 700 rows of .* \(such as row 699\)"):
        migrate(old, make_corpus(OLD[:-1], ids=IDS[:-1]), metric="cosine")
    with pytest.raises(MismatchError, match="has ids and corpus has none"):
        migrate(old, make_corpus(OLD), metric="cosine")
    with pytest.raises(MismatchError, match="ids of rows"):
        migrate(old, make_corpus(OLD, ids=list(range(ROWS))), metric="cosine")
    with pytest.raises(UsageError, match="queries for one embedding only"):
        migrate(old, old, old_queries=queries(), metric="cosine")
    with pytest.raises(UsageError, match="no metric"):
        migrate(old, old)
    with pytest.raises(UsageError, match="needs real queries"):
        migrate(old, old, metric="cosine", target=["recall@10 >= 0.9"])
    with pytest.raises(UsageError, match="a budget needs a target"):
        migrate(old, old, metric="cosine", budgets=["p95 <= 5ms"])
    unused = {"engines": ["faiss-flat"], "new_engines": ["faiss-flat"], "seconds": 9.0}
    for name, given in unused.items():
        with pytest.raises(UsageError, match=r"an? (new engine|engine|time limit) needs a target to tune to"):
            migrate(old, old, metric="cosine", **{name: given})
    with pytest.raises(RecallError, match="Accepted: 1 or more"):
        migrate(old, old, metric="cosine", at=[0])
    with pytest.raises(MismatchError, match="other ids: 60 of the 60 queries"):
        others = make_queries(ASKED, ids=[f"other {each}" for each in range(QUERIES)])
        migrate(old, old, old_queries=queries(), new_queries=others, metric="cosine")


def test_the_command_prints_the_recommendation_and_writes_pages(tmp_path):
    for name, vectors in {"old": OLD, "new": OLD[:, :36]}.items():
        flat = np.ascontiguousarray(vectors)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
        pq.write_table(pa.table({"id": IDS, "vector": lists}), tmp_path / f"{name}.parquet")
    words = ["migrate", "old.parquet", "new.parquet", "--metric", "cosine", "--sample", "50"]
    found = command(*words, "--html", "m.html", "--markdown", "m.md", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "Matryoshka" in found.stdout and "Results change" in found.stdout
    assert "<table" in (tmp_path / "m.html").read_text() and "Matryoshka" in (tmp_path / "m.md").read_text()
    told = json.loads(command(*words, "--json", cwd=tmp_path).stdout)
    assert told["new"]["dimension"] == 36 and told["costs"][0]["ratio"] == pytest.approx(0.9)
    assert told["verdict"] is None
    refused = command("migrate", "old.parquet", "new.parquet", cwd=tmp_path)
    assert refused.returncode == 2 and "no metric" in refused.stderr
