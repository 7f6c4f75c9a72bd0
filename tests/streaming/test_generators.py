"""Generated runbooks do what their names say, and the same for the same seed."""

import numpy as np
import pyarrow as pa
import pytest

from recallatk import make_corpus
from recallatk.core.churned import Operation
from recallatk.errors import UsageError
from recallatk.streaming.generators import KINDS, Generator
from recallatk.streaming.runbook import resolve

RANDOM = np.random.default_rng(0)
CENTERS = 10 * RANDOM.normal(size=(8, 6))
LABELS = RANDOM.integers(0, 8, 500)
CORPUS = make_corpus(
    (CENTERS[LABELS] + RANDOM.normal(size=(500, 6))).astype("float32"),
    None,
    pa.table({"tenant": [f"t{label}" for label in LABELS]}),
)


def made(text):
    return resolve(Generator.parse(text).generate(CORPUS), CORPUS.rows, text, text)


def sizes(book):
    return [each.live for each in book.searches]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_deterministic_and_searches_after_every_change(kind):
    text = f"{kind}:steps=4,share=5%" + (",column=tenant" if kind == "tenant-leaving" else "")
    book = made(text)
    assert book.identity == made(text).identity
    assert len(book.searches) == 5
    if kind != "sliding-window":
        assert book.identity != made(f"{text},seed=1").identity


def test_random_replacement_keeps_the_number_of_rows():
    assert sizes(made("random-replacement:steps=30,share=10%,start=0.8")) == [400] * 31


def test_a_sliding_window_drops_the_oldest_rows():
    book = made("sliding-window:steps=3,share=10%,start=0.5")
    assert sizes(book) == [250] * 4
    assert [each.deleted.tolist() for each in book.steps if each.operation is Operation.DELETE] == [
        list(range(25)),
        list(range(25, 50)),
        list(range(50, 75)),
    ]


def test_growth_ends_with_the_corpus():
    assert sizes(made("growth:steps=30,share=50%,start=0.4")) == [200, 300, 400, 500]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("growth:steps=4,share=5%", "growth, 4 changes of 5%"),
        ("random-replacement:steps=1,share=0.02", "random-replacement, 1 change of 2%"),
        (
            "growth:steps=30,share=50%,start=0.4",
            "growth, 3 changes of 50% (30 were asked for, no more rows can change)",
        ),
        ("tenant-leaving:steps=2,column=tenant", "tenant-leaving of tenant, 2 changes of one value each"),
        (
            "tenant-leaving:steps=9,column=tenant",
            "tenant-leaving of tenant, 7 changes of one value each "
            "(9 were asked for, no more rows can change)",
        ),
    ],
)
def test_the_name_says_the_changes_that_there_are(text, said):
    generator = Generator.parse(text)
    assert generator.described(generator.generate(CORPUS)) == said


def test_clustered_deletes_take_neighbors():
    book = made("clustered-deletes:steps=5,share=4%,start=1.0")
    for step in book.steps:
        if step.operation is Operation.DELETE:
            counts = np.bincount(LABELS[step.deleted], minlength=8)
            assert counts.max() >= 0.9 * len(step.deleted)


def test_a_tenant_leaves_with_all_of_its_rows():
    book = made("tenant-leaving:steps=3,start=1.0,column=tenant")
    for step in book.steps:
        if step.operation is Operation.DELETE:
            (label,) = np.unique(LABELS[step.deleted])
            assert len(step.deleted) == (label == LABELS).sum()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("growth:step=3", "no parameter 'step'. Did you mean steps?"),
        ("growth:steps=0", "steps = 0. Accepted: whole numbers from 1"),
        ("growth:steps=many", "steps = many. Accepted: whole numbers"),
        ("growth:share=0", "share = 0. Accepted: above 0"),
        ("growth:start=2", "start = 2. Accepted: above 0, up to 1"),
        ("tenant-leaving", "needs the column"),
        ("tenant-leaving:column=owner", "no corpus column 'owner'"),
        ("growth:column=tenant", "only tenant-leaving reads a column"),
    ],
)
def test_bad_parameters_are_refused(text, said):
    with pytest.raises(UsageError) as refused:
        made(text)
    assert said in str(refused.value)
