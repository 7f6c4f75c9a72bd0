"""The lexical leg ranks as the formulas say: against exact fractions of each BM25 variant."""

import math
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import make_corpus, make_queries, parse_filter
from recallatk.adapters import registered
from recallatk.adapters.base import resolved
from recallatk.adapters.batch import QueryBatch
from recallatk.core import Metric
from recallatk.errors import EngineError, RecallError, UsageError
from recallatk.pipeline.lexical import Bm25, query_texts

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
DELTA = Fraction(1, 2)


def words(text, stopwords=()):
    return [each for each in re.findall(r"\w\w+", (text or "").lower()) if each not in stopwords]


def inverse_frequency(method, df, count):
    return {
        "lucene": lambda: math.log(1 + (count - df + 0.5) / (df + 0.5)),
        "robertson": lambda: math.log(max(1, (count - df + 0.5) / (df + 0.5))),
        "atire": lambda: math.log(count / df),
        "bm25l": lambda: math.log((count + 1) / (df + 0.5)),
        "bm25+": lambda: math.log((count + 1) / df),
    }[method]()


def saturation(method, tf, k1, norm):
    """How much the occurrences of a word count; `norm` is 1 - b + b · length / mean length."""
    if method in ("lucene", "robertson"):
        return tf / (tf + k1 * norm)
    if method == "atire":
        return (k1 + 1) * tf / (tf + k1 * norm)
    if method == "bm25l":
        return (k1 + 1) * (tf / norm + DELTA) / (k1 + tf / norm + DELTA)
    return DELTA + (k1 + 1) * tf / (tf + k1 * norm)


def exact_scores(texts, query, method="lucene", k1=1.5, b=0.75, stopwords=()):
    """Score of each text that has a word of the query, in fractions of float64 inverse frequencies."""
    documents = [Counter(words(text, stopwords)) for text in texts]
    lengths = [sum(each.values()) for each in documents]
    mean = Fraction(sum(lengths), len(texts))
    known = [word for word in words(query, stopwords) if any(word in each for each in documents)]
    scores = {}
    for row, document in enumerate(documents):
        if not any(word in document for word in known):
            continue
        norm = 1 - Fraction(b) + Fraction(b) * lengths[row] / mean
        scores[row] = sum(
            Fraction(inverse_frequency(method, sum(word in each for each in documents), len(texts)))
            * saturation(method, Fraction(document[word]), Fraction(k1), norm)
            for word in known
        )
    return {row: score for row, score in scores.items() if score > 0}


def corpus_of(texts, **columns):
    return make_corpus(np.ones((len(texts), 2), np.float32), None, pa.table({"text": texts, **columns}))


def built(corpus, **given_parameters):
    leg = Bm25()
    leg.build(corpus, Metric.COSINE, **resolved("bm25", Bm25.build_knobs, given_parameters))
    leg.configure()
    return leg


def asked(*texts, filters=None):
    return QueryBatch(np.ones((len(texts), 2), np.float32), filters, texts=texts)


some_words = st.lists(st.sampled_from(["aa", "bb", "cc", "dd", "ee", "x"]), max_size=6).map(" ".join)


@examples(150)
@given(
    st.lists(some_words, min_size=1, max_size=9).filter(lambda texts: any(words(each) for each in texts)),
    some_words,
    st.sampled_from(METHODS),
    st.sampled_from([(1.5, 0.75), (0.9, 0.4), (1.2, 0.0), (2.0, 1.0)]),
    st.integers(1, 10),
)
def test_the_ranking_is_that_of_the_exact_formula(texts, query, method, constants, k):
    k1, b = constants
    rows, scores = built(corpus_of(texts), method=method, k1=k1, b=b, stopwords="none").scored(
        asked(query), k
    )
    wanted = exact_scores(texts, query, method, k1, b)
    order = sorted(wanted, key=lambda row: (-wanted[row], row))[:k]
    assert rows.dtype == np.int64
    assert rows[0].tolist() == order + [-1] * (k - len(order))
    assert scores[0, : len(order)].tolist() == pytest.approx([float(wanted[row]) for row in order], rel=1e-12)
    assert np.isnan(scores[0, len(order) :]).all()


def test_a_ranking_by_hand():
    """Three texts of 2, 3 and 1 words; "sun" is in two of them, "moon" in one."""
    leg = built(corpus_of(["sun rises", "sun and moon, sun", "rain"]), stopwords="en")
    rows, scores = leg.scored(asked("Sun MOON"), 3)
    sun, moon = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    lengths = {0: 1.5 * (0.25 + 0.75 * 2 / 2), 1: 1.5 * (0.25 + 0.75 * 3 / 2)}
    assert rows.tolist() == [[1, 0, -1]]
    assert scores[0, 0] == pytest.approx(sun * 2 / (2 + lengths[1]) + moon / (1 + lengths[1]), rel=1e-14)
    assert scores[0, 1] == pytest.approx(sun / (1 + lengths[0]), rel=1e-14)


def test_the_scores_of_atire_are_those_of_a_well_known_library():
    """rank_bm25's Okapi is tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / mean)) times its own idf."""
    texts = ["hello there good man", "it is quite windy in london", "how is the weather today"]
    rows, scores = built(corpus_of(texts), method="atire", stopwords="none").scored(asked("windy london"), 3)
    okapi = 2.5 / (1 + 1.5 * (0.25 + 0.75 * 6 / 5))
    assert rows.tolist() == [[1, -1, -1]]
    assert scores[0, 0] == pytest.approx(2 * math.log(3 / 1) * okapi, rel=1e-14)


def test_equal_scores_are_in_row_order_whatever_the_order_of_the_words():
    """A sum of three parts in another order may differ in float64; the texts still tie."""
    counts = [(3, 2, 1), (1, 3, 2), (2, 1, 3), (1, 2, 3)]
    texts = [" ".join(["aa"] * a + ["bb"] * b + ["cc"] * c) for a, b, c in counts] + ["dd"]
    differing = 0
    for k1 in np.arange(0.5, 3, 0.25).tolist():
        leg = built(corpus_of(texts), k1=k1, stopwords="none")
        differing += len(set(leg.index.get_scores(["aa", "bb", "cc"])[:4].tolist())) > 1
        rows, scores = leg.scored(asked("aa bb cc"), 4)
        assert rows.tolist() == [[0, 1, 2, 3]]
        assert len(set(scores[0].tolist())) == 1
    assert differing


def test_no_common_word_no_answer():
    for method in METHODS:
        leg = built(corpus_of(["red apple", "green pear", None, "", "sky", "sea"]), method=method)
        rows, scores = leg.scored(asked("apple pie", "", "  ", "the", "zebra", "x"), 4)
        assert rows.tolist() == [[0, -1, -1, -1]] + [[-1] * 4] * 5
        assert np.isnan(scores[1:]).all()


def test_a_null_query_is_an_empty_one():
    leg = built(corpus_of(["red apple", "pear"]))
    assert leg.nearest(QueryBatch(np.ones((2, 2)), texts=[None, "pear"]), 2).tolist() == [[-1, -1], [1, -1]]


def test_stop_words_are_removed_if_asked():
    texts = ["the apple", "the the the pear", "an orange"]
    assert built(corpus_of(texts)).nearest(asked("the"), 3).tolist() == [[-1, -1, -1]]
    kept = built(corpus_of(texts), stopwords="none")
    assert kept.nearest(asked("the"), 3).tolist() == [[1, 0, -1]]
    german = built(corpus_of(["der Apfel", "die Birne"]), stopwords="de")
    assert german.nearest(asked("der Apfel"), 2).tolist() == [[0, -1]]


def test_a_filter_restricts_the_rows_during_the_search():
    texts = ["aa bb", "aa", "aa aa", "bb", "aa cc"]
    corpus = corpus_of(texts, size=[1, 2, 3, 4, 5])
    for method in METHODS:
        leg = built(corpus, method=method, stopwords="none")
        filters = [parse_filter("size >= 2 and size <= 4"), None, parse_filter("size > 99")]
        rows, _ = leg.scored(asked("aa bb", "aa bb", "aa bb", filters=filters), 5)
        unfiltered = rows[1].tolist()
        passing = [row for row in unfiltered if row in (1, 2, 3)]
        assert rows[0].tolist() == passing + [-1] * (5 - len(passing))
        assert rows[2].tolist() == [-1] * 5
        assert leg.refusal(filters[0]) is None
        assert "colour" in leg.refusal(parse_filter("colour = 'red'"))


def test_batches_answer_as_single_queries_do():
    random = np.random.default_rng(1)
    vocabulary = [f"w{number}" for number in range(30)]
    texts = [" ".join(random.choice(vocabulary, random.integers(1, 12))) for _ in range(400)]
    queries = [" ".join(random.choice(vocabulary, 3)) for _ in range(20)]
    leg = built(corpus_of(texts), stopwords="none")
    together = leg.search(asked(*queries), 10)
    for query, text in enumerate(queries):
        wanted = exact_scores(texts, text)
        assert together[query].tolist() == sorted(wanted, key=lambda row: (-wanted[row], row))[:10]
        assert leg.search(asked(text), 10).tolist() == [together[query].tolist()]
    assert leg.exact_search(asked(*queries), 10).tolist() == together.tolist()


def test_the_evidence_states_the_tokenization():
    leg = built(corpus_of(["One fish", "two fish"]))
    assert leg.exercised() == (
        "BM25 (lucene, k1 = 1.5, b = 0.75) of 2 texts in the column 'text' with 3 words; lowercase words of "
        "two or more letters or digits, stop words removed (en), not stemmed"
    )
    leg.search(asked("fish"), 1)
    assert leg.exercised().endswith("not stemmed; 1 query answered")
    assert "stop words kept" in built(corpus_of(["One fish"]), stopwords="none").exercised()
    assert leg.version().startswith("bm25s ")
    assert leg.size_bytes() > 0
    leg.close()
    with pytest.raises(EngineError, match="no index is built"):
        leg.exercised()
    with pytest.raises(EngineError, match="no index is built"):
        leg.nearest(asked("fish"), 1)


def test_columns_of_any_text_type():
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        corpus = corpus_of(pa.array(["red apple", None, "pear"]).cast(kind))
        assert built(corpus).nearest(asked("pear"), 2).tolist() == [[2, -1]]


def test_a_missing_text_column_names_stage_column_and_those_that_exist():
    corpus = corpus_of(["a fish"], title=["fish"], size=[1])
    with pytest.raises(UsageError) as refused:
        built(corpus, column="body")
    assert str(refused.value) == (
        f"bm25: the corpus {corpus.name} has no column 'body'. Set column to a text column of the corpus: "
        "text or title"
    )
    with pytest.raises(UsageError, match=r"has int64 in 'size'. Set column to a text column"):
        built(corpus, column="size")
    bare = make_corpus(np.ones((2, 2)), None, pa.table({"size": [1, 2]}))
    with pytest.raises(UsageError, match=r"has no text column. Add one, or remove the stage"):
        built(bare)


def test_texts_without_a_word_are_refused():
    with pytest.raises(EngineError, match=r"bm25: no text in the column 'text' .* has a word to rank by"):
        built(corpus_of(["the", "", None, "a b c"]))


def test_queries_without_texts_are_refused():
    leg = built(corpus_of(["red apple"]))
    with pytest.raises(EngineError, match=r"bm25: query 0 has no text. Add a column 'text' to the queries"):
        leg.nearest(QueryBatch(np.ones((1, 2))), 1)


def test_texts_of_queries_come_from_their_text_column():
    queries = make_queries(np.ones((2, 2)), None, pa.table({"text": ["Pear", None], "title": ["apple", "x"]}))
    assert query_texts(queries) == ["Pear", ""]
    assert query_texts(queries, "title") == ["apple", "x"]
    with pytest.raises(UsageError, match=r"bm25: the queries .* have no column 'body'\. .*: text or title"):
        query_texts(queries, "body")
    with pytest.raises(UsageError, match="The queries have no text column"):
        query_texts(make_queries(np.ones((2, 2))))


def test_impossible_parameters_are_refused():
    for parameters in ({"method": "tfidf"}, {"k1": -1}, {"b": 2.0}, {"stopwords": "xx"}):
        with pytest.raises(RecallError, match="Accepted"):
            built(corpus_of(["red apple"]), **parameters)


def test_it_is_a_leg_and_no_engine_to_compare():
    assert "bm25" not in registered()
    assert Bm25.abilities.filters and Bm25.abilities.exact_search
