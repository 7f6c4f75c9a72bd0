"""Rotated spaces: their bounds hold for all vectors, and no truth shows that it came from one."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import is_within
from spaces import METRICS, cases, kernel_metric, kernel_value, prepared
from test_truth_oracle import KINDS, assert_exact, problems

from examples import examples
from recallatk import make_corpus, make_queries, open_dataset, parse_filter
from recallatk.core import Metric
from recallatk.core.truth import Decision
from recallatk.filters.eligibility import Eligibility
from recallatk.truths import ground_truth, scanner_blas, space
from recallatk.truths.scanner import Asked
from recallatk.truths.scanner_blas import PrefixScanner
from recallatk.truths.search import ExactSearch
from recallatk.truths.space import FLOAT32, RotatedSpace, Rotation, Space, find_rotation, is_worth_looking
from recallatk.truths.sweep import Sweep


@cache
def axes(dimension, seed=0):
    random = np.random.default_rng(seed)
    return np.linalg.qr(random.standard_normal((dimension, dimension)))[0].astype(np.float32)


@pytest.fixture
def always(monkeypatch):
    """Every sweep in a corpus that is in memory is turned; says how often."""
    turned = []

    def turn(self, space, group, k):
        if not self.reader.is_whole:
            return None
        turned.append(len(group))
        return Rotation(axes(space.dimension), (space.dimension + 1) // 2)

    monkeypatch.setattr(ExactSearch, "_rotation", turn)
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", 32)
    return turned


@pytest.mark.parametrize("metric", METRICS)
@examples(60)
@given(st.data())
def test_neither_a_turned_score_nor_its_bound_is_further_off_than_it_may_be(metric, data):
    space, queries, row = data.draw(cases(metric, "float32"))
    lead = data.draw(st.integers(0, space.dimension))
    found = axes(space.dimension, data.draw(st.integers(0, 1)))
    # Also axes that are not at right angles: what that costs is among the errors.
    found = found * data.draw(st.sampled_from([np.float32(1), np.float32(1.001)]))
    turned = RotatedSpace(space, Rotation(found, lead))
    asked, placed, errors = prepared(turned, queries, row)
    for query, vector, error in zip(queries, asked, errors, strict=True):
        value = kernel_value(space, query, row[0])
        whole = np.matmul(vector[:-1], placed[0, :-1])
        assert is_within(kernel_metric(space), value, float(whole), float(error))
        bound = np.matmul(vector[lead:], placed[0, lead:])
        completed = bound - vector[-1] * placed[0, -1] + np.matmul(vector[:lead], placed[0, :lead])
        assert is_within(kernel_metric(space), value, float(completed), float(error))
        # A bound may be too high by any amount, but too low only by the error.
        assert float(bound) >= float(whole) - float(error)


@examples(30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["all", "some"]))
def test_the_scanner_names_every_pair_that_reaches_its_threshold(seed, known):
    random = np.random.default_rng(seed)
    rows, queries = (random.integers(-2, 3, (count, 6)).astype("float32") for count in (700, 5))
    space = RotatedSpace(Space(Metric.IP, FLOAT32, 6), Rotation(np.eye(6, dtype="float32"), 3))
    placed = np.ones((700, space.width + 1), "float32")
    space.rows(rows, placed[:, :-1])
    asked = np.ones((5, space.width + 1), "float32")
    asked[:, :-1] = space.queries(queries)[0]
    real = queries @ rows.T
    limits = np.sort(real, axis=1)[:, -10]
    fresh = (np.arange(5) % 2 == 1) if known == "some" else np.zeros(5, bool)
    scanner = PrefixScanner(space, 5)
    before = asked[:, -2].copy()
    floors = np.where(fresh, -np.inf, limits)
    hits = scanner.hits(Asked(asked, np.full(5, 1e-3), floors, 10, 0, None), placed)
    wanted = real >= (hits.floors - 1e-3)[:, None]
    pairs = set(zip(hits.queries.tolist(), hits.columns.tolist(), strict=True))
    assert pairs == set(zip(*np.nonzero(wanted), strict=True))
    assert np.abs(hits.scores - real[hits.queries, hits.columns]).max(initial=0) < 1e-4
    assert (asked[:, -2] == before).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("metric", METRICS)
def test_turned_truth_is_what_rational_arithmetic_says(always, metric, kind):
    @examples(12)
    @given(st.data())
    def check(data):
        assert_exact(data.draw(problems(metric, kind)), threads=data.draw(st.sampled_from([1, 2])))

    check()
    assert always


def bits(truth):
    certificate = truth.certificate
    parts = (truth.rows, truth.scores, truth.tied, certificate.decided, certificate.bounds)
    return [part.tobytes() for part in (*parts, certificate.next_rows, certificate.next_scores)]


def spread(random, rows, dimension):
    """Vectors of which the first components tell most."""
    sizes = np.exp(-np.arange(dimension) / (dimension / 6))
    return (random.standard_normal((rows, dimension)) * sizes).astype("float32")


@pytest.mark.parametrize("case", ["plain", "filters", "own rows"])
@pytest.mark.parametrize("metric", METRICS)
def test_turned_and_plain_truth_are_the_same_bits(always, metric, case):
    random = np.random.default_rng(3)
    vectors = spread(random, 3000, 40)
    vectors[1500:1600] = vectors[100:200]
    corpus = make_corpus(vectors, metadata={"n": np.arange(3000)})
    filters = [parse_filter("n < 2900"), None] * 100 if case == "filters" else None
    asked = vectors[:200] if case == "own rows" else spread(random, 200, 40)
    queries = make_queries(asked, filters=filters)
    if case == "own rows":
        queries = dataclasses.replace(queries, corpus_rows=np.arange(200))
    dataset = open_dataset(corpus, queries, metric=metric)
    turned = ground_truth(dataset, depth=30)
    assert always
    plain = ground_truth(dataset, depth=30, block_bytes=1 << 14)
    assert bits(turned) == bits(plain)


def test_queries_with_too_many_candidates_are_tried_unturned_first(always, monkeypatch):
    # Rows closer to each other than turned scores are to the real ones, but not than plain ones.
    stages = []
    original = ExactSearch._conclude

    def conclude(self, stage, group, candidates):
        stages.append((stage, int(candidates.missed.sum()), int(candidates.abandoned.sum())))
        original(self, stage, group, candidates)

    monkeypatch.setattr(ExactSearch, "_conclude", conclude)
    random = np.random.default_rng(0)
    corpus = np.ones((3000, 64), "float32")
    corpus[:, 0] += random.permutation(3000).astype("float32") * np.float32(2**-19)
    query = np.zeros((1, 64), "float32")
    query[0, 0] = 1
    dataset = open_dataset(make_corpus(corpus), make_queries(query), metric="ip")
    truth = ground_truth(dataset, depth=5)
    assert stages == [(0, 1, 0), (1, 0, 0)]
    # Any order of 64 sums in float32 may be off by more than the rows lie apart.
    assert truth.certificate.decided.tolist() == [Decision.FLOAT64]
    assert truth.rows[0].tolist() == np.argsort(-corpus[:, 0])[:5].tolist()


def test_scores_from_a_turned_space_keep_their_errors_in_a_plain_one():
    random = np.random.default_rng(0)
    corpus, queries = spread(random, 500, 16), spread(random, 4, 16)
    plain = Space(Metric.IP, FLOAT32, 16)
    turned = RotatedSpace(plain, Rotation(axes(16), 8))
    every = Eligibility((None,), np.zeros(4, np.int64), None, 500)
    one = Sweep(turned, queries, every, 5, PrefixScanner)
    one.take(0, corpus)
    other = Sweep(plain, queries, every, 5, scanner_blas.BlasScanner)
    other.restore(one.state())
    assert (other.errors == one.errors).all()
    assert (one.errors > 0).all()
    assert set(other.candidates().rows) >= set(one.candidates().rows)


def sample(random, rows, dimension, size):
    return (random.standard_normal((rows, dimension)) * size).astype("float32")


def test_a_rotation_is_found_where_few_components_tell_most_and_only_there():
    random = np.random.default_rng(0)
    dimension = 256
    space = Space(Metric.COSINE, FLOAT32, dimension)
    for sizes, wanted in ((np.exp(-np.arange(dimension) / 20), True), (np.ones(dimension), False)):
        rows, queries = (sample(random, 2048, dimension, sizes) for _ in range(2))
        # Turned away from the axes that the components are given along.
        rows, queries = (each @ axes(dimension) for each in (rows, queries))
        found = find_rotation(space, rows, queries, 101, (10_000, 1_000_000))
        assert (found is not None) == wanted
        if found is not None:
            assert dimension // 2 <= found.lead < dimension
            assert found.error < 1e-3


@pytest.mark.parametrize("fill", [0.0, 1e30])
def test_data_that_has_no_axes_is_not_turned(fill):
    data = np.full((64, 32), fill, "float32")
    assert find_rotation(Space(Metric.IP, FLOAT32, 32), data, data, 10, (10_000, 10_000)) is None


def test_small_scans_are_not_worth_looking():
    assert is_worth_looking(384, 6000, 117_659)
    assert not is_worth_looking(384, 100, 117_659)
    assert not is_worth_looking(384, 6000, 5000)
    assert not is_worth_looking(4096, 9000, 20_000)


def test_a_real_search_turns_by_itself(monkeypatch):
    monkeypatch.setattr(space, "_LOOKING_COST", 0)
    monkeypatch.setattr(space, "_MOST_LOOKING", 10.0)
    monkeypatch.setattr(space, "_AXES_COST", 0)
    spaces = []
    original = ExactSearch._sweep

    def sweep(self, stage, group):
        made = original(self, stage, group)
        spaces.append(type(made.space))
        return made

    monkeypatch.setattr(ExactSearch, "_sweep", sweep)
    random = np.random.default_rng(0)
    sizes = np.exp(-np.arange(256) / 12)
    corpus, queries = sample(random, 20_000, 256, sizes), sample(random, 3000, 256, sizes)
    dataset = open_dataset(make_corpus(corpus), make_queries(queries), metric="l2")
    turned = ground_truth(dataset, depth=10)
    assert spaces == [RotatedSpace]
    assert bits(turned) == bits(ground_truth(dataset, depth=10, backend="faiss"))
