"""What `print` and a prompt show of results: a screen or one line, never arrays."""

import pytest

from recallatk import assess, ground_truth, measure, to_text
from recallatk.testing import tiny_dataset


@pytest.fixture(scope="module")
def dataset():
    return tiny_dataset(300, 20, metric="l2")


@pytest.fixture(scope="module")
def run(dataset):
    def nearest(queries, k):
        return [[f"row-{each}" for each in range(k)] for _ in queries]

    return measure(nearest, dataset, at=[1, 10], rounds=1)


def test_a_run_prints_as_its_screen(run):
    assert str(run) == to_text(run)
    assert "recall@10" in str(run)


def test_an_assessment_prints_as_its_screen(dataset):
    truth = ground_truth(dataset, depth=10)
    assert "recall@10 1.000" in str(assess(truth, truth.rows, at=[10], row_numbers=True))


def test_every_result_is_one_short_line_at_a_prompt(dataset, run):
    truth = ground_truth(dataset, depth=10)
    scored = run.measurements[0]
    for shown in (run, scored, scored.score, truth, dataset, dataset.corpus, dataset.queries):
        line = repr(shown)
        assert line.startswith(f"<{type(shown).__name__} ") and line.endswith(">"), line
        assert "\n" not in line and "array" not in line and len(line) < 250
    assert repr(truth) == "<Truth of 20 queries, computed: depth 10, l2>"
    assert "recall@10" in repr(scored) and "20 queries" in repr(scored.score)
