"""Foreign rows: planted in a new embedding, and absent where there are none."""

import numpy as np
import pytest

from recallatk.analysis.foreign_rows import foreign_rows

ROWS, DIMENSION = 1200, 64


def rotation(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(DIMENSION, DIMENSION)))[0]


@pytest.fixture(scope="module")
def old():
    random = np.random.default_rng(0)
    return random.normal(size=(ROWS, DIMENSION)) * np.linspace(2, 0.5, DIMENSION)


MODELS = {
    "rotated": lambda old: old @ rotation(1),
    "cut": lambda old: old[:, :40].copy(),
    "noisy": lambda old: old @ rotation(1) + np.random.default_rng(2).normal(size=old.shape) * 0.5,
    "bent": lambda old: np.tanh(old @ rotation(3)),
}


# With 40 % foreign rows, a linear map is too far from a bent space to begin with.
SHARES = (0.01, 0.05, 0.2, 0.4)
CASES = [(model, share) for model in MODELS for share in SHARES if (model, share) != ("bent", 0.4)]


@pytest.mark.parametrize(("model", "share"), CASES)
def test_planted_rows_are_found(old, model, share):
    new = MODELS[model](old)
    planted = np.random.default_rng(4).random(ROWS) < share
    new[planted] = (old @ rotation(9))[planted, : new.shape[1]]
    found = foreign_rows(old, new)
    assert found.told
    assert (found.foreign & planted).sum() >= 0.9 * planted.sum()
    assert (found.foreign & ~planted).sum() <= 0.01 * ROWS


@pytest.mark.parametrize("model", MODELS)
def test_one_model_has_no_foreign_rows(old, model):
    found = foreign_rows(old, MODELS[model](old))
    assert found.told and found.foreign.sum() <= 2


def test_an_unrelated_space_tells_nothing(old):
    assert not foreign_rows(old, np.random.default_rng(5).normal(size=old.shape)).told
