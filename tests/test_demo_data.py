"""The data that ships with the package is what its readme and the demo say it is."""

import numpy as np
import pyarrow.compute as pc
import pytest

from recallatk import ground_truth, open_demo, parse_filter, score
from recallatk.adapters import QueryBatch, get_engine
from recallatk.datasets.demo import DEMO_FOLDER


@pytest.fixture(scope="module")
def demo():
    return open_demo()


@pytest.fixture(scope="module")
def truth(demo):
    return ground_truth(demo, depth=10)


def test_it_has_the_size_and_the_columns_that_are_promised(demo):
    assert (demo.corpus.rows, demo.queries.rows) == (20_000, 1_000)
    assert demo.corpus.dimension == demo.queries.dimension == 384
    assert demo.corpus.metadata_names == ["text", "category", "pos", "n_words"]
    assert demo.queries.text_column == "text"
    assert demo.corpus.metadata["text"].null_count == 0
    assert len(pc.unique(demo.corpus.metadata["category"])) > 30
    assert set(pc.unique(demo.corpus.metadata["pos"]).to_pylist()) == {"noun", "verb", "adj", "adv"}
    words = [len(text.split()) for text in demo.corpus.metadata["text"].to_pylist()[:500]]
    assert np.corrcoef(words, demo.corpus.metadata["n_words"].to_numpy()[:500])[0, 1] > 0.95


def test_vectors_have_length_one(demo):
    norms = np.linalg.norm(demo.corpus.vectors.read(0, 20_000), axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=1e-6)


def test_every_judgement_is_of_a_query_and_a_corpus_row(demo):
    assert demo.qrels
    assert set(demo.qrels) <= set(map(str, demo.queries.ids.to_pylist()))
    judged = {row for rows in demo.qrels.values() for row in rows}
    assert judged <= set(map(str, demo.corpus.ids.to_pylist()))


def test_it_holds_identical_vectors(demo):
    vectors = demo.corpus.vectors.read(0, 20_000)
    assert len(np.unique(vectors, axis=0)) < 20_000


def test_it_takes_no_more_than_ten_megabytes():
    assert sum(each.stat().st_size for each in DEMO_FOLDER.iterdir()) <= 10_000_000
    assert (DEMO_FOLDER / "LICENSE-WORDNET").exists()


def test_a_graph_needs_effort_on_it(demo, truth):
    queries = demo.queries.vectors.read(0, 1000)
    engine = get_engine("faiss-hnsw")()
    engine.build(demo.corpus, demo.metric, M=16, ef_construction=100)
    recalls = {}
    for ef in (10, 160):
        engine.configure(ef=ef)
        recalls[ef] = score(
            truth=truth, answers=engine.search(QueryBatch(queries), 10), at=[10], row_numbers=True
        )["recall@10"]
    assert 0.4 < recalls[10] < 0.85
    assert recalls[160] > 0.95


def test_a_filter_on_it_finds_its_rows(demo):
    chosen = parse_filter("category = 'noun.animal' and n_words >= 5").mask(demo.corpus.metadata)
    rows = demo.corpus.metadata.to_pylist()
    expected = [row["category"] == "noun.animal" and row["n_words"] >= 5 for row in rows]
    assert list(chosen) == expected
    assert 50 < chosen.sum() < 5000
