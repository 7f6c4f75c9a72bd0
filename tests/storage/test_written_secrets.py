"""Secrets never reach the disk, and hiding them does not mix up what they belonged to."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_making import ROWS, make_build, make_measurement, make_plan

from recallatk import load_run
from recallatk.core import Caution, Failure, Trial
from recallatk.redaction import public
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset

SECRET = "hunter2-Swordfish"
SETTINGS = {
    "corpus": f"s3://key:{SECRET}@bucket/corpus.parquet?token={SECRET}",
    "engines": [
        {"name": "pgvector-hnsw", "build": {"dsn": f"postgresql://me:{SECRET}@host:5432/db"}},
        {"name": "pgvector-hnsw", "build": {"dsn": f"host=db user=me password={SECRET} dbname=x"}},
        {"name": "http", "build": {"headers": json.dumps({"X-Custom": SECRET, "Accept": "text/plain"})}},
        {"name": "http", "build": {"headers": {"Authorization": f"Bearer {SECRET}"}}},
        {"name": "http", "build": {"headers": SECRET}},
        {"api_key": SECRET, "accessToken": [SECRET], "PASSWORD": {"of": {"me": SECRET}}, "pwd": 987654321},
    ],
}


def trial(number, secret=SECRET):
    dsn = f"postgresql://me:{secret}@host/db"
    return Trial("pgvector-hnsw", (("dsn", dsn), ("password", secret)), (("ef", number),))


def test_no_file_of_a_run_holds_a_secret(tmp_path):
    planned = (trial(1), trial(2), trial(3))
    plan = make_plan(
        planned=planned,
        settings=SETTINGS,
        environment={"url": f"https://{SECRET}@host/"},
    )
    measurement = dataclasses.replace(
        make_measurement(1, trial=planned[0]),
        build=make_build(
            parameters=planned[0].build,
            version=f"http://me:{SECRET}@host",
            call=f"call to http://me:{SECRET}@host",
        ),
        exercised=f"asked postgresql://me:{SECRET}@host/db",
    )
    said = f"could not reach postgresql://me:{SECRET}@host/db: password={SECRET}"
    log = f"Authorization: Bearer {SECRET}\n{{'api_key': '{SECRET}'}}\nMILVUS_TOKEN={SECRET}"
    with RunFolder.open(tmp_path, plan, tiny_dataset(ROWS, 3)) as opened:
        opened.add(measurement)
        opened.fail(Failure(planned[1], "exception", "build", said, log))
        opened.update(cautions=(Caution("odd", said),), environment={"token": SECRET})
        assert opened.finished[planned[0]].trial == planned[0]
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path.name
        assert b"987654321" not in path.read_bytes()
    found = load_run(tmp_path)
    assert dict(found.planned[0].build)["dsn"] == "postgresql://host/db"
    assert found.failures[0].message == "could not reach postgresql://host/db: password=…"


def test_a_run_goes_on_though_its_password_has_changed(tmp_path):
    dataset = tiny_dataset(ROWS, 3)
    with RunFolder.open(tmp_path, make_plan(planned=(trial(1), trial(2))), dataset) as opened:
        opened.add(make_measurement(1, trial=trial(1)))
        opened.fail(Failure(trial(2), "crash", "search", "gone"))
    changed = tuple(trial(number, "another") for number in (1, 2, 3))
    with RunFolder.open(tmp_path, make_plan(planned=changed), dataset) as opened:
        assert opened.missing() == (changed[2],)
        assert list(opened.finished) == [changed[0]]
        assert opened.failed[changed[1]].trial == changed[1]


def test_trials_that_differ_in_nothing_but_a_secret_are_told_apart_by_their_place(tmp_path):
    planned, dataset = (trial(1, "one"), trial(1, "two"), trial(1, "three")), tiny_dataset(ROWS, 3)
    with RunFolder.open(tmp_path, make_plan(planned=planned), dataset) as opened:
        opened.add(make_measurement(1, trial=planned[1]))
    with RunFolder.open(tmp_path, make_plan(planned=planned), dataset) as opened:
        assert opened.missing() == (planned[0], planned[2])


@pytest.mark.parametrize(
    "kept",
    [
        {"headers": {"Authorization": "Bearer ${TOKEN}"}, "password": "${PASSWORD}"},
        {"tokenizer": "bert", "n_tokens": 512, "max_token": 3, "author": "me", "primary_key": "id"},
        {"ef": [10, 20], "metric": "cosine", "path": "data/corpus.parquet", "url": "http://host:80/search"},
        {"headers": '{"Accept": "text/plain", "X": "${X}"}'},
        {"password": "", "secret": None, "auth": False},
        {"recall": 0.5, "deep": [{"er": [1, None, True]}]},
    ],
)
def test_what_is_no_secret_is_kept(kept):
    assert public(kept) == kept


def test_values_become_plain():
    found = public({1: np.int64(3), "a": np.array([1.5, np.inf]), "b": (True, float("nan")), "c": {2}})
    assert found == {"1": 3, "a": [1.5, "inf"], "b": [True, "nan"], "c": [2]}
    assert type(found["1"]) is int
    json.dumps(found, allow_nan=False)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["headers", "password", "api_key", "ef", "token", "dsn"]) | st.text(), inner
        )
    ),
    max_leaves=8,
)


@given(plain)
def test_hiding_twice_is_hiding_once(value):
    once = public(value)
    assert public(once) == once
    json.dumps(once, allow_nan=False)


@given(
    before=st.sampled_from(["", "error: ", "x='", '{"']),
    form=st.sampled_from(
        [
            "password={}",
            "PGPASSWORD='{}'",
            'secret: "{}"',
            "postgresql://user:{}@host/db",
            "https://host/path?key={}",
            "Authorization: Bearer {}",
            "my_api_key={}",
        ]
    ),
    after=st.sampled_from(["", " and more", "\nnext line"]),
)
def test_secrets_in_the_middle_of_a_text_are_hidden(before, form, after):
    assert SECRET not in public(before + form.format(SECRET) + after)
