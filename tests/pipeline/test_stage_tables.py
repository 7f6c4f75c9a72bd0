"""Stages with mistakes: each ends in a sentence with its place, the reason and what is accepted."""

import pytest

from recallatk import Path
from recallatk.bench.settings import SettingsError, settings_from
from recallatk.errors import UsageError
from recallatk.pipeline.knobs import PathKnobs
from recallatk.pipeline.path_engine import path_engine

DENSE, LEXICAL = {"retrieve": "faiss-ivf-pq"}, {"retrieve": "bm25"}
RRF, WEIGHTED, EXACT = {"fuse": "rrf"}, {"fuse": "weighted"}, {"rerank": "exact"}
ORDER = "Accepted: retrieve, then fuse if there are several, then filter, then rerank"


def refused(*stages, name="mine", k=10):
    """What Python says, without the name of the path."""
    with pytest.raises(UsageError) as caught:
        Path(name, stages, k)
    before, said = str(caught.value).split(": ", 1)
    assert before == f"path {name}"
    return said


MISTAKES = {
    "no stages": ([], f"stages: no stage retrieves. {ORDER}"),
    "nothing retrieves": ([EXACT], f"stages: no stage retrieves. {ORDER}"),
    "rerank first": ([EXACT, DENSE], f"stages[1]: retrieve cannot come after rerank. {ORDER}"),
    "filter after rerank": (
        [DENSE, EXACT, {"filter": "after"}],
        f"stages[2]: filter cannot come after rerank. {ORDER}",
    ),
    "fuse between legs": (
        [DENSE, RRF, LEXICAL],
        f"stages[2]: retrieve cannot come after fuse. {ORDER}",
    ),
    "no fuse": (
        [DENSE, LEXICAL],
        "stages: 2 stages retrieve and 0 fuse. Accepted: one fuse stage after them",
    ),
    "two fuses": (
        [DENSE, LEXICAL, RRF, {"fuse": "rrf", "name": "again"}],
        "stages: 2 stages retrieve and 2 fuse. Accepted: one fuse stage after them",
    ),
    "fuse of one": ([DENSE, RRF], "stages: one stage retrieves, so there is nothing to fuse. Remove fuse"),
    "two filters": (
        [DENSE, {"filter": "after"}, {"filter": "after", "name": "again"}],
        "stages: two stages filter. Keep one",
    ),
    "weighted of three": (
        [DENSE, LEXICAL, {"retrieve": "exact"}, WEIGHTED],
        "stages[3]: weighted fusion joins two legs, and there are 3. Accepted: fuse = 'rrf'",
    ),
    "unknown key": (
        [{**DENSE, "dept": 100}],
        "stages[0].dept: no such key of a retrieve stage. Did you mean depth? Accepted: retrieve, name, "
        "depth, oversample, build, search, dimensions, codes, column or queries",
    ),
    "unknown kind": (
        [{"retreive": "exact"}],
        "stages[0]: the kind of the stage is missing. Did you mean retrieve? "
        "Accepted: a table with one of retrieve, fuse, filter or rerank",
    ),
    "two kinds": (
        [DENSE, {"fuse": "rrf", "rerank": "exact"}],
        "stages[1]: it has fuse and rerank. Accepted: a table with one of retrieve, fuse, filter or rerank",
    ),
    "no table": (
        [DENSE, "exact"],
        "stages[1]: 'exact'. Accepted: a table with one of retrieve, fuse, filter or rerank",
    ),
    "depth and oversample": (
        [{**DENSE, "depth": 100, "oversample": 2}],
        "stages[0]: depth and oversample both state the number of candidates. State one",
    ),
    "engine of another type": (
        [{"retrieve": 5}],
        "stages[0].retrieve: 5. Accepted: the name of an engine, bm25 or sparse",
    ),
    "unknown fusion": ([DENSE, LEXICAL, {"fuse": "sum"}], "stages[2].fuse: 'sum'. Accepted: rrf or weighted"),
    "weight of rrf": (
        [DENSE, LEXICAL, {**RRF, "weight": 0.5}],
        "stages[2].weight: rrf takes no weight. Remove it",
    ),
    "constant of weighted": (
        [DENSE, LEXICAL, {**WEIGHTED, "constant": 60}],
        "stages[2].constant: weighted takes no constant. Remove it",
    ),
    "filter before": (
        [DENSE, {"filter": "before"}],
        "stages[1].filter: 'before'. Accepted: \"after\"; without a filter stage, the legs filter",
    ),
    "unknown reranker": (
        [DENSE, {"rerank": "cross"}],
        "stages[1].rerank: 'cross'. Accepted: exact, native, or module:function",
    ),
    "timeout of exact": (
        [DENSE, {**EXACT, "timeout": 3}],
        "stages[1].timeout: only functions take a timeout. Remove it",
    ),
    "column of exact": (
        [DENSE, {**EXACT, "column": "text"}],
        "stages[1].column: only functions take a column. Remove it",
    ),
    "no time": (
        [DENSE, {"rerank": "a:b", "timeout": 0}],
        "stages[1].timeout: 0. Accepted: seconds above 0, up to 86,400",
    ),
    "column of an engine": (
        [{**DENSE, "column": "text"}],
        "stages[0].column: only bm25 and sparse read a column. Remove column",
    ),
    "dimensions of texts": (
        [{**LEXICAL, "dimensions": 64}],
        "stages[0].dimensions: bm25 does not search vectors. Remove dimensions",
    ),
    "codes of texts": (
        [{**LEXICAL, "codes": "binary"}],
        "stages[0].codes: bm25 does not search vectors. Remove codes",
    ),
    "unknown codes": ([{**DENSE, "codes": "pq"}], "stages[0].codes: 'pq'. Accepted: binary"),
    "parameters that are none": (
        [{**DENSE, "search": 8}],
        "stages[0].search: 8. Accepted: a table of parameters",
    ),
    "names twice": (
        [DENSE, EXACT, EXACT],
        "stages[2]: two stages are called rerank. Give one of them a name of its own: name = ...",
    ),
    "legs named alike": (
        [DENSE, DENSE, RRF],
        "stages[1]: two stages are called faiss-ivf-pq. Give one of them a name of its own: name = ...",
    ),
    "dot in a name": ([{**DENSE, "name": "a.b"}], "stages[0].name: 'a.b'. Accepted: text without a dot"),
    "native after a function": (
        [DENSE, {"rerank": "a:b"}, {"rerank": "native", "name": "own"}],
        "stages[2].rerank: the engine itself reranks, so this stage follows its only retrieve stage",
    ),
    "native of two legs": (
        [DENSE, LEXICAL, RRF, {"rerank": "native"}],
        "stages[3].rerank: the engine itself reranks, so this stage follows its only retrieve stage",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_python_is_said_with_its_place_and_a_fix(mistake):
    stages, said = MISTAKES[mistake]
    assert refused(*stages) == said


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each != "no table"])
def test_a_mistake_in_a_bench_file_is_said_with_its_place_and_a_fix(mistake):
    stages, said = MISTAKES[mistake]
    assert problems({"name": "mine", "stages": stages}) == [f"path[0].{said}"]


@pytest.mark.parametrize(
    ("name", "k", "said"),
    [
        (" ", 10, "name: ' '. Accepted: a non-empty string"),
        (7, 10, "name: 7. Accepted: a non-empty string"),
        ("mine", 0, "k: 0. Accepted: whole numbers from 1"),
        ("mine", 2.5, "k: 2.5. Accepted: whole numbers from 1"),
        ("mine", True, "k: True. Accepted: whole numbers from 1"),
    ],
)
def test_names_and_numbers_of_results_that_are_none_are_refused(name, k, said):
    assert refused(DENSE, name=name, k=k) == said


def test_stages_that_are_no_list_are_refused():
    with pytest.raises(UsageError, match=r"stages: 'exact'\. Accepted: a list of tables, one per stage"):
        Path("mine", "exact")


def test_all_mistakes_are_said_at_once_in_python():
    said = refused({**DENSE, "dept": 3}, {"filter": "before"}, {"rerank": "cross"}, k=-1)
    places = ("k: -1", "stages[0].dept:", "stages[1].filter:", "stages[2].rerank:")
    assert [said.index(place) for place in places] == sorted(said.index(place) for place in places)


# In a bench file


def settings(*paths, **tables):
    return settings_from({"data": {"corpus": "corpus.parquet"}, "path": list(paths), **tables})


def problems(*paths, **tables):
    with pytest.raises(SettingsError) as caught:
        settings(*paths, **tables)
    return list(caught.value.problems)


def path(*stages, name="mine", **keys):
    return {"name": name, "stages": list(stages), **keys}


def test_all_mistakes_of_all_paths_are_said_at_once():
    found = problems(
        path(DENSE, {**EXACT, "deph": 3}, {"filter": "before"}),
        path({"retrieve": "faiss-hsnw"}, name="second"),
        path({**DENSE, "oversample": 0, "search": {"nprob": 8}}, {**EXACT, "depth": "all"}, name="third"),
        path(name="fourth"),
        {"name": "fifth"},
        {**path(DENSE, name="sixth"), "kk": 10},
    )
    assert [each.partition(": ")[0] for each in found] == [
        "path[4].stages",
        "path[5].kk",
        "path[0].stages[1].deph",
        "path[0].stages[2].filter",
        "path[1].stages[0].retrieve",
        "path[2].stages[0].search.nprob",
        "path[2].stages[0].oversample",
        "path[2].stages[1].depth",
        "path[3].stages",
    ]
    assert "Did you mean faiss-hnsw?" in found[4]
    assert "Did you mean nprobe?" in found[5]
    assert found[6].endswith("0. Accepted: whole numbers from 1 to 10000, a list of them or a range")


def test_values_of_every_stage_are_checked_at_their_place():
    legs = [{"retrieve": "exact", "depth": [10, "x"]}, {**LEXICAL, "build": {"k1": -1, "methd": "lucene"}}]
    found = problems(
        path(*legs, {**WEIGHTED, "weight": [0.3, 2]}),
        path(*legs[:1], {**LEXICAL, "column": 5}, {**RRF, "constant": 0, "depth": 0}, name="second"),
    )
    assert sorted(each.partition(": ")[0] for each in found) == [
        "path[0].stages[0].depth[1]",
        "path[0].stages[1].build.k1",
        "path[0].stages[1].build.methd",
        "path[0].stages[2].weight[1]",
        "path[1].stages[0].depth[1]",
        "path[1].stages[1].column",
        "path[1].stages[2].constant",
        "path[1].stages[2].depth",
    ]


def test_a_search_parameter_among_build_parameters_is_told_where_it_belongs():
    assert problems(path({**DENSE, "build": {"nprobe": 8}})) == [
        "path[0].stages[0].build.nprobe: belongs in search"
    ]


def test_names_of_engines_and_of_other_paths_are_taken():
    assert problems(path(DENSE, name="exact"), path(DENSE), path(DENSE)) == [
        "path[0].name: exact is the name of an engine. Choose another name",
        "path[2].name: mine is the name of another path. Choose another name",
    ]


def test_an_engine_that_does_not_rerank_is_refused_as_native():
    said = 'exact has no reranking of its own. Accepted: rerank = "exact"'
    assert problems(path({"retrieve": "exact"}, {"rerank": "native"})) == [f"path[0]: {said}"]
    with pytest.raises(UsageError, match=said):
        path_engine(Path("mine", [{"retrieve": "exact"}, {"rerank": "native"}]))


def test_more_rows_scored_than_the_path_returns_are_refused():
    assert problems(path(DENSE, k=5), measure={"at": [1, 10]}) == [
        "path[0].k: returns 5 rows, and 10 are scored. Raise it, or lower at (--at) to 5"
    ]


def test_the_usual_cutoffs_end_at_the_rows_that_a_path_returns():
    assert settings(path(DENSE, k=10)).measure.at == (1, 10)
    assert settings(path(DENSE, k=7)).measure.at == (1, 7)
    assert settings(path(DENSE)).measure.at == (1, 10, 100)


def test_a_constraint_of_a_leg_counts_its_candidates():
    [said] = problems(path({"retrieve": "hnswlib", "oversample": 10, "search": {"ef": 64}}, EXACT, k=10))
    assert said == (
        "path[0]: mine needs ef of at least k, where k is the number of candidates of hnswlib, "
        "but has ef = 64, k = 10, oversample = 10"
    )
    assert settings(path({"retrieve": "hnswlib", "oversample": 6, "search": {"ef": 64}}, EXACT, k=10))


def test_a_leg_that_cannot_filter_is_refused_unless_a_stage_filters():
    where = {"corpus": "corpus.parquet", "where": "a = 1"}
    assert problems(path({"retrieve": "annoy"}), data=where) == [
        "path[0]: mine cannot filter during search, and data.where is a filter"
    ]
    assert settings(path({"retrieve": "annoy"}, {"filter": "after"}), data=where)


def test_a_metric_that_a_leg_does_not_have_is_refused():
    leg = {"retrieve": "sqlite-vec", "depth": 20}
    [said] = problems(path(leg, LEXICAL, RRF), data={"corpus": "corpus.parquet", "metric": "ip"})
    assert said == "path[0]: mine does not support the metric ip. Accepted: cosine or l2"


# Parameters


def test_one_leg_has_the_names_of_its_engine_and_several_have_their_own():
    one = PathKnobs(Path("mine", [{**DENSE, "dimensions": 8}, {**EXACT, "depth": 50}]))
    assert [each.name for each in one.build()] == ["dimensions", "nlist", "M", "nbits", "refine"]
    assert [each.name for each in one.search()] == ["nprobe", "k_factor", "oversample", "rerank.depth"]
    two = PathKnobs(
        Path("mine", [{**DENSE, "name": "a"}, {**DENSE, "name": "b", "oversample": 3}, {**RRF, "depth": 9}])
    )
    assert [each.name for each in two.search()] == [
        *("a.nprobe", "a.k_factor", "a.depth", "b.nprobe", "b.k_factor", "b.oversample"),
        *("constant", "fuse.depth"),
    ]


def test_an_engine_does_not_rerank_by_itself_where_a_stage_reranks():
    def defaults(*stages):
        return {each.name: each.default for each in PathKnobs(Path("mine", stages)).search()}

    assert defaults(DENSE)["k_factor"] == defaults(DENSE, {"rerank": "native"})["k_factor"] == 4
    assert defaults(DENSE, EXACT)["k_factor"] == 0
    assert defaults({"retrieve": "scann"}, EXACT)["reorder"] == 100, "scann always reranks"
    assert defaults(DENSE, EXACT)["oversample"] == 4


def test_other_values_of_the_parameters_are_written_where_the_stages_state_them():
    stages = [
        {"retrieve": "faiss-hnsw", "depth": 100, "search": {"ef": 100}},
        {**LEXICAL, "column": "text"},
        {**RRF, "constant": 60},
        {"rerank": "a:b", "depth": 50},
    ]
    knobs = PathKnobs(Path("mine", stages, 10))
    build = {"faiss-hnsw.M": [8, 16], "bm25.column": "body"}
    search = {"faiss-hnsw.ef": 200, "faiss-hnsw.depth": [100, 200], "bm25.depth": 30, "constant": 10}
    grown = knobs.restated(build, {**search, "rerank.depth": 20})
    assert [*grown.stages] == [
        {"retrieve": "faiss-hnsw", "depth": [100, 200], "build": {"M": [8, 16]}, "search": {"ef": 200}},
        {**LEXICAL, "column": "body", "depth": 30},
        {**RRF, "constant": 10},
        {"rerank": "a:b", "depth": 20},
    ]
    assert PathKnobs(grown).given() == ({**build}, {**search, "rerank.depth": 20})


def test_a_path_reads_back_from_its_plain_form():
    made = Path("mine", [{**DENSE, "oversample": [2, 5]}, EXACT], 10)
    assert Path.from_plain(made.to_plain()) == made
    assert made.stage_names == ("faiss-ivf-pq", "rerank")
    assert made.by_vectors and made.portable
    assert not Path("mine", [DENSE, {"rerank": lambda query, candidates: []}]).portable
