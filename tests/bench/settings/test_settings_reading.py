"""Bench files that are sound: what they mean, and that they are written so that they read back the same."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.bench.plan import make_plan
from recallatk.bench.settings import SettingsError, open_data, read_settings, settings_from
from recallatk.bench.settings.settings import toml_key, toml_value
from recallatk.core.data import ArrayVectors
from recallatk.core.trials import Load

FULL = """
name = "my benchmark"
[data]
corpus = "my corpus.parquet"
queries = "queries.parquet"
metric = "cosine"
format = "parquet"; id_column = "id"; vector_column = "vector"
where = "category = 'x'"
sample_queries = 10
sample_corpus = 5_0
split = "tune"
seed = 7
[truth]
depth = 100
store = "kept"
memory = "1GiB"
[measure]
at = [1, 10, 100]
measures = ["robust(0.9)@10"]
by = ["category"]
rounds = 4
builds = 2
threads = { build = 2, search = 1 }
affinity = [0, 1]
seed = 3
[[load]]
mode = "latency"
[[load]]
mode = "throughput"
clients = [1, 4]
batch = [1, 64]
via = "threads"
seconds = 5
[[load]]
mode = "rate"
rate = [100, 500]
[[load]]
mode = "rate"
p99 = "10ms"
[limits]
trial = "10min"
build = "1h"
memory = "8GiB"
[output]
folder = "out"
[quality]
function = "my_judge:judge"
k = 5
sample = 20
rate = "100/min"
clients = 4
retries = 0
timeout = "1min"
version = "prompt 2"
cache = "judged"
[[engine]]
name = "faiss-hnsw"
[engine.build]
M = [16, 32]
ef_construction = 200
[engine.search]
ef = { from = 10, to = 320, steps = 6, scale = "log" }
""".replace("; ", "\n")


@pytest.fixture
def folder(tmp_path):
    """A folder with a space in its name, and small data in it."""
    place = tmp_path / "my data"
    place.mkdir()
    random = np.random.default_rng(3)
    for name, rows in (("my corpus", 200), ("queries", 40)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=rows * 4), pa.float32()), 4)
        table = {"id": range(rows), "vector": vectors, "category": ["x", "y"] * (rows // 2)}
        pq.write_table(pa.table(table), place / f"{name}.parquet")
    return place


def file_of(folder, text):
    (folder / "bench.toml").write_text(text)
    return folder / "bench.toml"


def small(folder, engine="faiss-hnsw", **data):
    data = {"corpus": "my corpus.parquet", "queries": "queries.parquet", "metric": "l2", **data}
    return settings_from({"data": data, "engine": [{"name": engine}]}, folder=folder)


def test_every_key_is_read(folder):
    settings = read_settings(file_of(folder, FULL))
    assert settings.name == "my benchmark"
    assert settings.data.corpus == str(folder / "my corpus.parquet")
    assert (settings.data.metric, settings.data.sample_corpus, settings.data.split) == ("cosine", 50, "tune")
    assert settings.truth.store == str(folder / "kept") and settings.truth.memory == 1 << 30
    assert settings.measure.at == (1, 10, 100) and settings.measure.measures == ("robust(0.9)@10",)
    assert (settings.measure.threads.build, settings.measure.affinity) == (2, (0, 1))
    assert (settings.limits.trial, settings.limits.build, settings.limits.memory) == (600, 3600, 8 << 30)
    assert settings.output.folder == str(folder / "out")
    assert settings.quality.cache == str(folder / "judged")
    assert (settings.quality.rate, settings.quality.timeout, settings.quality.retries) == ("100/min", 60, 0)
    assert settings.loads == (
        Load(),
        *(Load("throughput", clients, batch, seconds=5) for clients in (1, 4) for batch in (1, 64)),
        Load("rate", rate=100),
        Load("rate", rate=500),
        Load("rate", p99_ms=10),
    )


def test_a_file_may_say_little(folder):
    text = '[data]\ncorpus = "queries.parquet"\n[[engine]]\nname = "exact"\n'
    settings = read_settings(file_of(folder, text))
    assert settings.name == "queries"
    assert settings.output.folder == str(folder / "runs" / "queries")
    assert settings.loads == (Load(),)
    assert (settings.measure.at, settings.measure.rounds, settings.measure.builds) == ((1, 10, 100), 5, 1)


def test_one_value_is_a_list_of_one_and_repeats_count_once(folder):
    given = {"data": {"corpus": "c"}, "engine": [{"name": "exact"}], "measure": {"at": 10, "by": ["a", "a"]}}
    measure = settings_from(given).measure
    assert (measure.at, measure.by) == ((10,), ("a",))


def test_a_mark_at_the_beginning_of_the_file_is_passed_over(folder):
    file = folder / "bench.toml"
    file.write_bytes(b"\xef\xbb\xbf" + FULL.encode())
    assert read_settings(file).name == "my benchmark"


def test_the_depth_is_the_largest_k_and_a_hundred_where_the_corpus_has_as_many():
    given = {"data": {"corpus": "c"}, "engine": [{"name": "exact"}]}
    assert settings_from({**given, "measure": {"at": [10]}}).depth(1000) == 100
    assert settings_from({**given, "measure": {"at": [10]}}).depth(50) == 50
    assert settings_from({**given, "measure": {"at": [200]}}).depth(1000) == 200
    deeper = settings_from({**given, "measure": {"at": 5, "measures": "recall150@160"}})
    assert (deeper.depth(1000), deeper.measure.largest_k) == (150, 160)
    assert settings_from({**given, "truth": {"depth": 120}}).depth(1000) == 120


def test_a_full_file_reads_back_the_same(folder):
    settings = read_settings(file_of(folder, FULL))
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    assert read_settings(file_of(folder, settings.to_toml())) == settings


def test_plain_values_are_json_without_places_limits_and_output(folder):
    plain = read_settings(file_of(folder, FULL)).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain.keys() == {"name", "data", "truth", "measure", "load", "engine"}
    assert plain["truth"] == {"depth": 100, "file": None}
    assert plain["engine"][0]["search"] == {"ef": [10, 20, 40, 80, 160, 320]}
    assert plain["engine"][0]["build"] == {"M": [16, 32], "ef_construction": [200]}


def test_the_identity_of_settings_does_not_depend_on_where_things_are(folder, tmp_path):
    given = {"data": {"corpus": "c"}, "engine": [{"name": "faiss-hnsw"}]}
    here, there = (settings_from(given, folder=each) for each in (folder, tmp_path))
    assert here != there and here.identity() == there.identity()
    spelled_out = {**given, "engine": [{"name": "faiss-hnsw", "search": {"ef": 64}}], "name": "other"}
    assert settings_from(spelled_out).identity() == here.identity()
    judged = {**given, "quality": {"function": "my_judge:judge"}}
    assert settings_from(judged).identity() == here.identity()
    other = {**given, "engine": [{"name": "faiss-hnsw", "search": {"ef": 65}}]}
    assert settings_from(other).identity() != here.identity()


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
).filter(lambda text: text.strip())
PLAIN = st.recursive(
    st.one_of(TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@given(TEXTS, PLAIN)
def test_every_value_is_written_so_that_toml_reads_it_back(key, value):
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}


SETTINGS = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {"corpus": TEXTS.map(lambda text: "./" + text)},
            optional={
                "metric": st.sampled_from(["cosine", "ip", "l2"]),
                "id_column": TEXTS,
                "sample_queries": st.integers(1, 10**6),
                "split": st.sampled_from(["tune", "validate"]),
                "seed": st.integers(0, 2**63 - 1),
            },
        ),
        "engine": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("faiss-hnsw")},
                optional={
                    "build": st.fixed_dictionaries({"M": st.lists(st.integers(2, 256), min_size=1)}),
                    "search": st.one_of(
                        st.fixed_dictionaries({"ef": st.integers(1, 10_000)}),
                        st.fixed_dictionaries(
                            {"ef": st.fixed_dictionaries({"from": st.integers(1, 9), "to": st.just(90)})}
                        ),
                    ),
                },
            ),
            min_size=1,
            max_size=3,
        ),
    },
    optional={
        "name": TEXTS,
        "truth": st.fixed_dictionaries({}, optional={"memory": st.integers(1 << 28, 1 << 40)}),
        "measure": st.fixed_dictionaries(
            {},
            optional={
                "at": st.lists(st.integers(1, 1000), min_size=1, max_size=4),
                "by": st.lists(TEXTS, max_size=2),
                "affinity": st.lists(st.integers(0, 9), min_size=1, max_size=3),
                "threads": st.fixed_dictionaries({}, optional={"build": st.integers(1, 8)}),
            },
        ),
        "load": st.lists(
            st.one_of(
                st.just({"mode": "latency"}),
                st.fixed_dictionaries(
                    {"mode": st.just("rate"), "rate": st.lists(st.floats(0.001, 1e6), min_size=1)}
                ),
                st.fixed_dictionaries(
                    {"mode": st.just("rate"), "p99": st.floats(0.001, 1e4).map(lambda ms: f"{ms!r}ms")}
                ),
                st.fixed_dictionaries(
                    {"mode": st.just("throughput"), "clients": st.integers(1, 64)},
                    optional={"seconds": st.floats(0.1, 60), "via": st.just("processes")},
                ),
            ),
            max_size=3,
        ),
        "limits": st.fixed_dictionaries(
            {}, optional={"trial": st.integers(1, 10**6).map(lambda count: f"{count}ms")}
        ),
    },
)


@given(SETTINGS)
def test_settings_are_written_so_that_they_read_back_the_same(values):
    settings = settings_from(values)
    again = settings_from(tomllib.loads(settings.to_toml()))
    assert again == settings
    assert again.to_dict() == settings.to_dict() == json.loads(json.dumps(settings.to_dict()))
    assert again.loads == settings.loads


def test_attached_engines_take_parameters_of_any_name(folder):
    entries = [
        {"name": "callable", "build": {"function": "m:f"}, "search": {"nprobe": [1, 8], "fast": True}},
        {"name": "http", "search": {"ef": {"from": 1, "to": 3, "steps": 3}}},
    ]
    settings = settings_from({"data": {"corpus": "c"}, "engine": entries})
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    first, second = settings.to_dict()["engine"]
    assert first["search"] == {"nprobe": [1, 8], "fast": [True]}
    assert second["search"] == {"parameters": ["{}"], "ef": [1, 2, 3]}
    plan = make_plan(settings, rows=100, dimension=4)
    assert [str(each) for each in plan.trials[:2]] == [
        "callable(function=m:f)[nprobe=1, fast=True]",
        "callable(function=m:f)[nprobe=8, fast=True]",
    ]
    with pytest.warns(DeprecationWarning, match="'parameters' of callable"):
        settings_from(
            {"data": {"corpus": "c"}, "engine": [{"name": "callable", "search": {"parameters": {"a": 1}}}]}
        )


def test_filters_need_a_target_that_takes_them(folder):
    body = {"vector": "$vector", "filter": "$filter"}
    data = {"corpus": "c", "where": "a = 1"}
    settings_from({"data": data, "engine": [{"name": "http", "build": {"body": body}}]})
    settings_from({"data": data, "engine": [{"name": "command", "build": {"filters": "yes"}}]})
    for name in ("http", "command"):
        with pytest.raises(SettingsError, match=f"{name} cannot filter during search"):
            settings_from({"data": data, "engine": [{"name": name}]})


def test_parameters_of_attached_engines_are_tables_or_json(folder):
    build = {"url": "http://here/search", "body": {"query": {"v": "$vector"}, "n": "$k"}, "timeout": 5}
    entries = [
        {"name": "http", "build": build, "search": {"parameters": {"ef": {"from": 1, "to": 3, "steps": 3}}}},
        {"name": "http", "search": {"parameters": [{"ef": [1, 2]}, '{"ef": 4}']}},
        {"name": "command", "build": {"command": "./search --fast"}, "search": {"parameters": {"a": "b"}}},
    ]
    settings = settings_from({"data": {"corpus": "c"}, "engine": entries})
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    first, second, third = settings.to_dict()["engine"]
    assert first["build"]["body"] == ['{"query": {"v": "$vector"}, "n": "$k"}']
    assert first["build"]["timeout"] == [5.0]
    assert first["search"]["parameters"] == ['{"ef": 1}', '{"ef": 2}', '{"ef": 3}']
    assert second["search"]["parameters"] == ['{"ef": [1, 2]}', '{"ef": 4}']
    assert third["search"]["parameters"] == ['{"a": "b"}']


def test_data_are_opened_from_a_path_with_spaces(folder):
    dataset = open_data(small(folder))
    assert (dataset.corpus.rows, dataset.queries.rows, dataset.metric) == (200, 40, "l2")
    assert dataset.name == "my corpus"


def test_small_data_are_read_once_and_large_ones_stay_on_disk(folder):
    large = np.lib.format.open_memmap(folder / "large.npy", "w+", np.float32, (70_000, 1024))
    np.save(folder / "asked.npy", large[:3] + 1)
    dataset = open_data(small(folder, corpus="large.npy", queries="asked.npy"))
    assert isinstance(open_data(small(folder)).corpus.vectors, ArrayVectors)
    assert isinstance(dataset.queries.vectors, ArrayVectors)
    assert not isinstance(dataset.corpus.vectors, ArrayVectors)


def test_the_sides_of_a_split_are_disjoint_and_samples_are_of_a_side(folder):
    sides = [open_data(small(folder, split=side)).queries for side in ("tune", "validate")]
    tune, validate = (set(each.ids.to_pylist()) for each in sides)
    assert not tune & validate and len(tune | validate) == 40
    few = open_data(small(folder, split="tune", sample_queries=5, sample_corpus=50))
    assert set(few.queries.ids.to_pylist()) <= tune and few.queries.rows == 5
    assert (few.corpus.rows, few.corpus.sampled_from) == (50, 200)


def test_one_filter_is_that_of_every_query(folder):
    dataset = open_data(small(folder, where="category = 'x'"))
    assert len(set(dataset.queries.filters)) == 1


def test_what_the_data_do_not_have_is_refused_at_once(folder):
    data = {
        "corpus": "my corpus.parquet",
        "queries": "queries.parquet",
        "metric": "l2",
        "where": "colour = 'red'",
        "sample_queries": 41,
        "sample_corpus": 201,
    }
    given = {"data": data, "measure": {"by": ["categry"]}, "engine": [{"name": "exact"}]}
    with pytest.raises(SettingsError) as caught:
        open_data(settings_from(given, folder=folder))
    by, *others = caught.value.problems
    assert by.startswith(
        "measure.by[0]: no query column 'categry'. Did you mean category? Accepted: category."
    )
    assert others == [
        "data.sample_corpus: 201. Accepted: up to 200; there are no more",
        "data.sample_queries: 41. Accepted: up to 40; there are no more",
        "data.where: no corpus column 'colour'. Accepted: category",
    ]


def test_queries_with_filters_are_refused_for_engines_that_cannot_filter(folder):
    queries = pq.read_table(folder / "queries.parquet")
    filters = pa.array(["category = 'x'"] * len(queries))
    pq.write_table(queries.append_column("filter", filters), folder / "queries.parquet")
    assert open_data(small(folder, "exact")).queries.filters is not None
    with pytest.raises(SettingsError, match=r"engine\[0\]: usearch cannot filter .* queries have filters"):
        open_data(small(folder, "usearch"))


def test_a_url_takes_its_secrets_from_the_environment(folder, monkeypatch):
    from recallatk.bench.settings.values import filled
    from recallatk.errors import UsageError

    monkeypatch.setenv("OUR_KEY", "mine")
    settings = settings_from(
        {"data": {"corpus": "s3://me:${OUR_KEY}@bucket/c.parquet"}, "engine": [{"name": "exact"}]}
    )
    assert filled(settings.data.corpus, "data.corpus") == "s3://me:mine@bucket/c.parquet"
    assert "mine" not in settings.to_toml() and "mine" not in json.dumps(settings.to_dict())
    monkeypatch.delenv("OUR_KEY")
    with pytest.raises(UsageError, match="the environment variable OUR_KEY is not set"):
        open_data(settings)


def test_k_is_the_old_name_of_at():
    given = {"data": {"corpus": "c.npy"}, "engine": [{"name": "exact"}]}
    with pytest.warns(DeprecationWarning, match=r"\[measure\] k is deprecated .* use \[measure\] at"):
        old = settings_from({**given, "measure": {"k": [5]}})
    assert old == settings_from({**given, "measure": {"at": [5]}})
    assert "at = [5]" in old.to_toml()


def test_a_file_of_an_old_run_folder_is_read_without_a_note(tmp_path):
    text = '[data]\ncorpus = "c.npy"\n[measure]\nk = 5\nmeasures = ["ndcg@5"]\n[[engine]]\nname = "exact"\n'
    (tmp_path / "bench.toml").write_text(text)
    measure = read_settings(tmp_path / "bench.toml", look=False).measure
    assert (measure.at, measure.measures) == ((5,), ("ndcg_truth@5",))
