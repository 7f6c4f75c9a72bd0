"""Paths in a tuning: parameters stay within what the stages state, and a fusion has its own truth."""

from dataclasses import replace

import numpy as np
import pytest

import recallatk
from recallatk.adapters.registry import get_engine
from recallatk.datasets.opening import make_corpus, make_queries
from recallatk.testing import tiny_dataset
from recallatk.tuning import finalists
from recallatk.tuning.path_space import depth_for_paths, engine_to_tune
from recallatk.tuning.search_space import Shape, ladders, usual_build

CODES = recallatk.Path(
    "tuned-codes",
    [
        {
            "retrieve": "faiss-ivf-flat",
            "oversample": [1, 20],
            "dimensions": [4, 8],
            "build": {"nlist": 4},
            "search": {"nprobe": 4},
        },
        {"rerank": "exact"},
    ],
    k=5,
)
HYBRID = recallatk.Path(
    "tuned-hybrid",
    [
        {"retrieve": "faiss-hnsw", "depth": [10, 40], "search": {"ef": [10, 100]}},
        {"retrieve": "bm25", "depth": 20},
        {"fuse": "weighted", "weight": [0.3, 0.7]},
    ],
    k=5,
)


def test_stated_values_bound_the_search_space():
    engine = engine_to_tune(CODES)
    knobs = {each.name: each for each in (*engine.build_knobs, *engine.search_knobs)}
    assert (knobs["dimensions"].low, knobs["dimensions"].high) == (4, 8)
    assert (knobs["nlist"].low, knobs["nlist"].high) == (4, 4)
    assert not knobs["nprobe"].effort and knobs["oversample"].effort
    build = usual_build(engine, Shape(500, 16, 5))
    [ladder] = list(ladders(engine, build, Shape(500, 16, 5)))
    assert ladder.knob.name == "oversample" and ladder.most == 20
    # Everything else still knows the whole range, such as a search at full effort.
    assert get_engine("tuned-codes").search_knobs[-1].high > 20


def test_weights_of_a_fusion_are_tried_each_and_its_truth_is_deep_enough():
    engine = engine_to_tune(HYBRID)
    found = list(ladders(engine, usual_build(engine, Shape(500, 16, 5)), Shape(500, 16, 5)))
    assert {each.others["weight"] for each in found} == {0.3, 0.7}
    assert depth_for_paths([engine], 5) == 80


def test_a_tuned_path_meets_its_target_on_held_out_queries(tmp_path):
    dataset = tiny_dataset(500, 240, 16)
    tuned = recallatk.tune(dataset, target="recall@5 >= 0.8", engines=[CODES], out=tmp_path / "tuned", seed=1)
    assert tuned.choice is not None and tuned.choice.engine == "tuned-codes"
    search = dict(tuned.choice.search)
    assert 1 <= search["oversample"] <= 20 and search["nprobe"] == 4
    run = recallatk.measure(CODES, dataset, at=[5], rounds=1, build=dict(tuned.choice.build), search=search)
    assert run.measurements[0].score["recall@5"] >= 0.78


def test_a_path_whose_parameters_are_all_stated_is_no_runner_up_to_itself(tmp_path, monkeypatch):
    """Also where the time is over when an alternative is looked for."""
    path = recallatk.Path("stated", [{"retrieve": "exact", "oversample": 2}, {"rerank": "exact"}], k=5)

    def at_the_end(study, *given):
        monkeypatch.setattr(type(study), "over", lambda _: True)
        return finalists.runner_up(study, *given)

    monkeypatch.setattr("recallatk.tuning.outcome.runner_up", at_the_end)
    data = tiny_dataset(500, 240, 16)
    tuned = recallatk.tune(data, target="recall@5 >= 0.8", engines=[path], out=tmp_path / "tuned")
    assert tuned.met and tuned.choice is not None
    assert tuned.runner_up is None
    assert tuned.no_runner_up == "No other build was proven, and the choice already uses full search effort."


@pytest.fixture
def texts():
    random = np.random.default_rng(5)
    words = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"])
    plain = tiny_dataset(300, 150, 12)

    def said(count):
        return [" ".join(random.choice(words, 3)) for _ in range(count)]

    corpus = make_corpus(plain.corpus.vectors.read(0, 300), metadata={"text": said(300)})
    queries = make_queries(plain.queries.vectors.read(0, 150), metadata={"text": said(150)})
    return replace(plain, corpus=corpus, queries=queries)


def test_a_fused_path_is_tuned_against_the_fusion_of_exact_lists(texts, tmp_path):
    tuned = recallatk.tune(texts, target="recall@5 >= 0.7", engines=[HYBRID], out=tmp_path / "tuned")
    assert tuned.choice is not None and tuned.choice.engine == "tuned-hybrid"
    assert dict(tuned.choice.search)["weight"] in (0.3, 0.7)
