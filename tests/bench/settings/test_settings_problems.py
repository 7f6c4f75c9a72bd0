"""Bench files with problems: all of them at once, each with its path, in the words of TOML."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.bench.settings import SettingsError, read_settings, settings_from
from recallatk.errors import UsageError

SOUND = {"data": {"corpus": "corpus.parquet"}, "engine": [{"name": "faiss-hnsw"}]}


def problems_of(values):
    with pytest.raises(SettingsError) as caught:
        settings_from(values)
    return list(caught.value.problems)


def problem(**tables):
    found = problems_of({**SOUND, **tables})
    assert len(found) == 1, found
    return found[0]


def data(**keys):
    return {"corpus": "corpus.parquet", **keys}


def engine(name="faiss-hnsw", **parts):
    return {"engine": [{"name": name, **parts}]}


def written(tmp_path, text):
    file = tmp_path / "bench.toml"
    file.write_text(text)
    return file


def refusal(file):
    with pytest.raises(UsageError) as caught:
        read_settings(file)
    return str(caught.value)


MANY = """
name = ""
[data]
corpus = "nothing.parquet"
metric = "cosin"
qeries = "queries.parquet"
[measure]
at = [1, "ten"]
rounds = 2.5
[[load]]
mode = "rate"
[[engine]]
name = "faiss-hsnw"
[[engine]]
name = "faiss-hnsw"
search = { ef = 0, M = 3, exploration = 1 }
"""


def test_all_problems_are_said_at_once_each_with_its_path(tmp_path):
    file = written(tmp_path, MANY)
    said = refusal(file).splitlines()
    assert said[0] == f"{file}: 11 problems"
    assert [line.partition(": ")[0].strip() for line in said[1:]] == [
        "name",
        "data.metric",
        "data.qeries",
        "measure.at[1]",
        "measure.rounds",
        "load[0]",
        "data.corpus",
        "engine[0].name",
        "engine[1].search.M",
        "engine[1].search.exploration",
        "engine[1].search.ef",
    ]


def test_one_problem_is_one_line(tmp_path):
    file = written(tmp_path, '[data]\ncorpus = "bench.toml"\nmetric = "dot"\n[[engine]]\nname = "exact"\n')
    assert (
        refusal(file) == f"{file}: data.metric: no metric 'dot'. Did you mean ip? Accepted: cosine, ip or l2"
    )


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"data": {}}, "data.corpus: is required"),
        ({"data": 3}, "data: 3. Accepted: a table, written [data]"),
        ({"data": data(corpus="")}, 'data.corpus: the string "". Accepted: a non-empty string'),
        ({"data": data(corpus=["a"])}, "data.corpus: a list. Accepted: a string"),
        ({"data": data(corpus={"a": 1})}, "data.corpus: a table. Accepted: a string"),
        ({"data": data(corpus=True)}, "data.corpus: true. Accepted: a string"),
        ({"data": data(corpus="a\0b")}, "data.corpus: the path has characters that a text file cannot store"),
        ({"data": data(metric=5)}, "data.metric: 5. Accepted: cosine, ip or l2"),
        ({"data": data(split="both")}, 'data.split: the string "both". Accepted: tune or validate'),
        ({"data": data(sample_queries=0)}, "data.sample_queries: 0. Accepted: from 1"),
        ({"data": data(seed=-1)}, "data.seed: -1. Accepted: from 0"),
        ({"data": data(seed=2**63)}, f"data.seed: {2**63}. Accepted: to {2**63 - 1}"),
        ({"data": data(seed="0")}, 'data.seed: the string "0". Accepted: a whole number'),
        ({"measure": {"at": []}}, "measure.at: an empty list. Accepted: at least one value"),
        ({"measure": {"at": [True]}}, "measure.at[0]: true. Accepted: a whole number"),
        ({"measure": {"threads": 2}}, "measure.threads: 2. Accepted: a table"),
        (
            {"measure": {"threads": {"serch": 1}}},
            "measure.threads.serch: no such key. Did you mean search? Accepted: build or search",
        ),
        ({"limits": {"trial": 10}}, "limits.trial: 10. Accepted: a duration such as 500ms, 5s, 10min or 2h"),
        (
            {"limits": {"memory": True}},
            "limits.memory: true. Accepted: a size such as 500MiB or 8GiB, or a number of bytes",
        ),
        (
            {"limits": {"memory": "8 gigs"}},
            "limits.memory: '8 gigs' is not a size. Accepted: a size such as 500MiB or 8GiB, or a number "
            "of bytes",
        ),
        ({"quality": {"rate": "20/s"}}, "quality: function is required, such as my_judge:judge"),
        (
            {"quality": {"function": "judge"}},
            'quality.function: the string "judge". Accepted: module:function',
        ),
        (
            {"quality": {"function": "a:b", "rate": "20"}},
            "quality.rate: '20' is not a rate. Accepted: a rate such as 20/s, 100/min or 500/h",
        ),
        ({"quality": {"function": "a:b", "clients": 0}}, "quality.clients: 0. Accepted: from 1"),
        ({"quality": {"function": "a:b", "retries": 101}}, "quality.retries: 101. Accepted: to 100"),
        (
            {"quality": {"function": "a:b", "k": 11}, "measure": {"at": [1, 10]}},
            "quality.k: 11. Accepted: up to 10, the largest k of the measures",
        ),
        ({"truth": {"memory": "1MiB"}}, "truth.memory: 1,048,576 bytes. Accepted: from 256MiB"),
        (
            {"truth": {"file": "truth.parquet", "depth": 5}},
            "truth: depth is for a computed truth and cannot be combined with file",
        ),
        (
            {"truth": {"depth": 50}},
            "measure.at: 100 is deeper than the truth. Accepted: up to 50, truth.depth",
        ),
        (
            {"truth": {"depth": 10}, "measure": {"at": 10, "measures": "robust(0.9)@20"}},
            "measure.measures: 20 is deeper than the truth. Accepted: up to 10, truth.depth",
        ),
        ({"load": {"mode": "latency"}}, "load: a table. Accepted: tables, each written [[load]]"),
        ({"load": [3]}, "load: a list. Accepted: tables, each written [[load]]"),
        (
            {"load": [{"mode": "rush"}]},
            'load[0].mode: the string "rush". Accepted: latency, throughput or rate',
        ),
        ({"load": [{"mode": "throughput", "clients": [1, 0]}]}, "load[0].clients[1]: 0. Accepted: from 1"),
        (
            {"load": [{"mode": "rate", "rate": float("inf")}]},
            "load[0].rate[0]: Infinity. Accepted: finite numbers",
        ),
        ({"load": [{"mode": "rate", "rate": 0}]}, "load[0].rate[0]: 0. Accepted: above 0"),
        (
            {"load": [{"mode": "throughput", "clients": [8, 1_000_000]}]},
            "load[0]: mode throughput: clients = 1000000. Accepted: from 1 to 10,000",
        ),
        (
            {"load": [{"mode": "rate", "rate": 1e300}]},
            "load[0]: mode rate: rate = 1e+300. Accepted: above 0, up to 1,000,000",
        ),
        (
            {"load": [{"mode": "rate", "rate": 100, "seconds": 1e6}]},
            "load[0]: mode rate: seconds = 1000000. Accepted: above 0, up to 86,400",
        ),
        (
            {"load": [{"mode": "rate", "rate": 1e5, "seconds": 3600}]},
            "load[0]: mode rate: rate times seconds = 360,000,000 arrivals. Accepted: up to 100,000,000",
        ),
        (
            {"measure": {"threads": {"search": 10**9}}},
            "measure.threads.search: 1000000000. Accepted: to 1024",
        ),
        (
            {"load": [{"mode": "rate"}]},
            "load[0]: mode rate: needs either a rate, or a p99 to find the highest rate within it",
        ),
        (
            {"load": [{"clients": [1, 4]}]},
            "load[0]: mode latency: takes one client and one query at a time; use mode = 'throughput' for "
            "more",
        ),
        (
            {"load": [{"p99": "10ms"}]},
            "load[0]: mode latency: takes no rate or p99; use mode = 'rate'",
        ),
        ({"engine": []}, "engine: is required: at least one [[engine]] with its name"),
        ({"engine": {"name": "exact"}}, "engine: a table. Accepted: tables, each written [[engine]]"),
        ({"engine": [{}]}, "engine[0].name: is required"),
        (
            engine(serch={"ef": 1}),
            "engine[0].serch: no such key. Did you mean search? Accepted: name, build or search",
        ),
        (engine(search=[1]), "engine[0].search: a list. Accepted: a table"),
        (
            engine(search={"M": 3}),
            "engine[0].search.M: belongs in [engine.build]",
        ),
        (
            engine(search={"efs": 3}),
            "engine[0].search.efs: no such search parameter of faiss-hnsw. Did you mean ef? Accepted: ef",
        ),
        (
            engine("exact", build={"M": 3}),
            "engine[0].build.M: no such build parameter of exact. Accepted: none",
        ),
        (
            engine(search={"ef": 2.5}),
            "engine[0].search.ef: 2.5. Accepted: whole numbers from 1 to 10000, a list of them or a range",
        ),
        (
            engine(search={"ef": [10, "x"]}),
            'engine[0].search.ef[1]: the string "x". Accepted: whole numbers from 1 to 10000',
        ),
        (engine(search={"ef": []}), "engine[0].search.ef: an empty list. Accepted: at least one value"),
        (
            engine(search={"ef": {"from": 9, "to": 5}}),
            "engine[0].search.ef: from 9 to 5. Accepted: a from no larger than to",
        ),
        (
            engine(search={"ef": {"from": 1, "to": 20_000}}),
            "engine[0].search.ef.to: 20000. Accepted: whole numbers from 1 to 10000",
        ),
        (
            engine(search={"ef": {"from": 1.5, "to": 20}}),
            "engine[0].search.ef.from: 1.5. Accepted: whole numbers from 1 to 10000",
        ),
        (
            engine(search={"ef": {"from": 1, "to": 20, "steps": 1}}),
            "engine[0].search.ef.steps: 1. Accepted: from 2",
        ),
        (
            engine("faiss-pq-fastscan", search={"k_factor": {"from": 0, "to": 9}}),
            "engine[0].search.k_factor: k_factor has a log scale, which starts above 0. "
            'Accepted: scale = "linear" too',
        ),
        (
            engine("faiss-pq-fastscan", search={"k_factor": {"from": 0, "to": 9, "scale": "log"}}),
            'engine[0].search.k_factor: from 0 on a log scale. Accepted: above 0, or scale = "linear"',
        ),
        (
            engine("faiss-sq", build={"type": ["SQ8", "SQ9"]}),
            'engine[0].build.type[1]: the string "SQ9". Accepted: SQ8, SQ6, SQ4, SQfp16, SQbf16',
        ),
        (
            engine("faiss-sq", build={"type": {"from": 1, "to": 2}}),
            "engine[0].build.type: a table. Accepted: SQ8, SQ6, SQ4, SQfp16, SQbf16",
        ),
        (
            engine("faiss-factory", build={"factory": 5}),
            "engine[0].build.factory: 5. Accepted: a string",
        ),
        (
            engine("faiss-ivf-flat", build={"nlist": 10}, search={"nprobe": 20}),
            "engine[0]: faiss-ivf-flat needs nprobe of at most nlist, but has nprobe = 20, nlist = 10",
        ),
        (
            engine("faiss-ivf-flat", build={"nlist": 10}, search={"nprobe": [20, 30]}),
            "engine[0]: no combination is left: faiss-ivf-flat needs nprobe of at most nlist, but has "
            "nprobe = 20, nlist = 10; faiss-ivf-flat needs nprobe of at most nlist, but has "
            "nprobe = 30, nlist = 10",
        ),
        (
            engine("hnswlib", search={"ef": 50}),
            "engine[0]: hnswlib needs ef of at least k, but has ef = 50, k = 100",
        ),
        (
            {"data": data(metric="ip"), **engine("sqlite-vec")},
            "engine[0]: sqlite-vec does not support the metric ip. Accepted: cosine or l2",
        ),
        (
            {"data": data(where="pos = 'noun'"), **engine("usearch")},
            "engine[0]: usearch cannot filter during search, and data.where is a filter",
        ),
        (
            engine("http", search={"parameters": "[1]"}),
            "engine[0].search.parameters: http: parameters = [1]. Accepted: a JSON object",
        ),
        (
            engine("http", search={"parameters": 5}),
            "engine[0].search.parameters: 5. Accepted: a table, or its JSON as a string",
        ),
    ],
)
def test_a_problem_is_said_in_the_words_of_the_file(tables, said):
    assert problems_of({**SOUND, **tables}) == [said]


def test_a_range_has_its_own_keys():
    found = problems_of({**SOUND, **engine(search={"ef": {"from": 1, "too": 5}})})
    assert found == [
        "engine[0].search.ef.to: is required",
        "engine[0].search.ef.too: no such key. Did you mean to? Accepted: from, to, steps or scale",
    ]


def test_a_grid_beyond_measure_is_refused():
    wide = {"from": 2, "to": 200, "steps": 199, "scale": "linear"}
    said = problem(**engine(build={"M": wide, "ef_construction": wide}, search={"ef": wide}))
    assert said == "engine[0]: 7,880,599 combinations of its parameters. Accepted: up to 100,000"


def test_an_unknown_measure_is_refused_with_the_known_ones():
    assert problem(measure={"measures": ["recal@10"]}).startswith(
        "measure.measures: no measure 'recal@10'. Did you mean recall@10? Accepted: recall@10,"
    )


def test_a_filter_that_does_not_parse_is_refused_with_the_place():
    said = problem(data=data(where="pos ="))
    assert said.startswith("data.where: filter 'pos =': expected") and "(character 6)" in said


def test_an_unknown_engine_is_refused_with_the_nearest_and_the_known_ones():
    said = problem(**engine("faiss-hsnw"))
    assert said.startswith(
        "engine[0].name: no engine 'faiss-hsnw'. Did you mean faiss-hnsw? Accepted: annoy, callable,"
    )


def test_an_engine_that_is_not_installed_is_refused_with_the_line_that_installs_it(monkeypatch):
    from recallatk.adapters.hnswlib import Hnswlib

    monkeypatch.setattr(Hnswlib, "distribution", "no-such-package-of-ours")
    assert problem(**engine("hnswlib", search={"ef": 100})) == (
        "engine[0].name: the engine hnswlib is not installed. Install it: pip install 'recallatk[hnswlib]'"
    )


def test_engines_are_checked_against_a_metric_though_the_data_have_other_problems():
    found = problems_of({"data": {"metric": "ip", "where": "pos = 'noun'"}, **engine("sqlite-vec")})
    assert found == [
        "data.corpus: is required",
        "engine[0]: sqlite-vec does not support the metric ip. Accepted: cosine or l2",
    ]


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("s3://me:mine@bucket/corpus.parquet", "the user in the URL"),
        ("https://host/corpus.parquet?X-Amz-Signature=abc", "X-Amz-Signature in the URL"),
        ("s3://bucket/c.parquet?secret_key=abc", "secret_key in the URL"),
    ],
)
def test_secrets_in_the_data_are_refused_and_not_repeated(url, what):
    said = problem(data={"corpus": url})
    assert said == (
        f"data.corpus: {what} may contain a secret, and this file is saved with the run. "
        "Take it from the environment: ${NAME}"
    )


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("http", {"url": "https://me:mine@host/search"}),
        ("http", {"url": "https://host/search", "headers": {"Authorization": "mine"}}),
        ("http", {"url": "https://host/search", "headers": '{"X-Api-Key": "mine"}'}),
        ("pgvector-hnsw", {"dsn": "host=here password=mine"}),
        ("pgvector-hnsw", {"dsn": "postgresql://me:mine@host/db"}),
    ],
)
def test_secrets_of_engines_are_refused_and_not_repeated(name, build):
    said = problem(**engine(name, build=build))
    assert "may contain a secret" in said and "mine" not in said


def test_secrets_from_the_environment_are_accepted():
    build = {"url": "https://host/search?api_key=${KEY}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    assert settings_from({**SOUND, **engine("http", build=build)}).engine[0].build == build


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[data]\ncorpus "x"\n', "line 2, column 8: not TOML: expected '='"),
        ("[data\n", "line 1, column 6: not TOML: "),
        ("k = 1\nk = 2\n", "not TOML: cannot overwrite a value"),
        ('name = "x', "not TOML: "),
        ("k = [", "at the end: not TOML: "),
        (f"k = {'[' * 5000}", "not TOML"),
        (f"k = {'9' * 5000}", "not TOML"),
    ],
)
def test_what_is_no_toml_is_refused_with_line_and_column(tmp_path, text, said):
    assert said in refusal(written(tmp_path, text))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "bench.toml"
    file.write_bytes(b"name = \xff\xfe")
    assert refusal(file) == f"{file}: byte 7 is not UTF-8"


def test_a_file_that_is_not_there_is_refused_with_the_command_that_writes_one(tmp_path):
    assert "no such file. Write one: recallatk init CORPUS QUERIES" in refusal(tmp_path / "bench.toml")


def test_a_folder_is_refused(tmp_path):
    assert "is a folder" in refusal(tmp_path)


def test_a_line_break_in_a_value_makes_no_line_of_its_own():
    found = problems_of({**SOUND, "data": data(**{"a\nb": 1, "metric": "x\ny"})})
    assert len("\n".join(found).splitlines()) == 2


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.dates(),
    st.sampled_from(["10ms", "1GiB", "rate", "recall@10", "a = 1", "{}", "s3://a:b@c/d", "log"]),
)
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["from", "to", "steps", "scale", "a"]), inner, max_size=4),
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "corpus",
        "metric",
        "where",
        "depth",
        "memory",
        "at",
        "measures",
        "threads",
        "mode",
        "rate",
        "p99",
        "trial",
        "function",
        "retries",
        "timeout",
        "folder",
        "name",
        "build",
        "search",
        "other",
    ]
)
TABLE = st.one_of(JUNK, st.dictionaries(KEYS, JUNK, max_size=4))
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["faiss-hnsw", "faiss-ivf-pq", "http", "faiss-sq", "pynndescent", "other"])},
        optional={
            part: st.dictionaries(st.sampled_from([*names, "other"]), JUNK, max_size=3)
            for part, names in (
                ("build", ["M", "nlist", "headers", "timeout", "type"]),
                ("search", ["ef", "nprobe", "parameters", "epsilon"]),
            )
        },
    ),
    max_size=2,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(
                ["data", "truth", "measure", "limits", "output", "quality", "name", "other"], TABLE
            ),
            "load": st.one_of(JUNK, st.lists(TABLE, max_size=2)),
            "engine": st.one_of(JUNK, ENTRIES),
        },
    )
)
def test_whatever_a_file_holds_its_problems_are_lines_in_our_words(values):
    with pytest.raises(SettingsError) as caught:
        settings_from({**values, "data": {**SOUND["data"], "seed": -1}})
    for each in caught.value.problems:
        assert len(each.splitlines()) == 1 and "nput should" not in each
    with contextlib.suppress(SettingsError):
        settings_from(values)


def test_dates_are_no_values():
    import datetime as dt

    day = dt.date(2024, 5, 1)
    assert problem(**engine(search={"ef": day})).startswith(
        "engine[0].search.ef: the date or time 2024-05-01. Accepted: whole numbers"
    )
    assert problem(**engine("http", search={"parameters": {"day": day}})).startswith(
        "engine[0].search.parameters: contains a value that JSON cannot represent"
    )
