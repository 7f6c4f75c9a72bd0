"""The lexical leg: BM25 over a text column of the corpus, computed by bm25s."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.adapters.installation import importing
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError
from recallatk.filters.columns import is_text
from recallatk.pipeline.leg import AllowedMasks, TermLeg, array_bytes, leg_column
from recallatk.pipeline.ranking import EPSILON, Scores
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.core import QuerySet

_METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_LANGUAGES = ("en", "en_plus", "da", "de", "es", "fr", "it", "ko", "nl", "no", "pt", "ru", "sv", "tr", "zh")
_NONE = "none"


class Bm25(TermLeg):
    """BM25 ranking of texts: the exact best rows by the chosen variant of the formula.

    Texts and queries are cut into lowercase words of two or more letters or digits; stop words are removed,
    and words are not stemmed. A word that a query repeats counts each time.
    """

    name = "bm25"
    family = "lexical"
    distribution = "bm25s"
    build_knobs = (
        Knob("column", default="text", help="Text column of the corpus."),
        Knob("method", default="lucene", choices=_METHODS, help="Variant of the BM25 formula."),
        Knob("k1", default=1.5, low=0.0, high=10.0, scale="linear", help="Saturation of repeated words."),
        Knob("b", default=0.75, low=0.0, high=1.0, scale="linear", help="Influence of the text's length."),
        Knob("stopwords", default="en", choices=(*_LANGUAGES, _NONE), help="Language of the stop words."),
    )
    stopwords = "en"
    column = "text"

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Count the words of every text and compute the score of each word in each text."""
        with importing(type(self)), _alone():
            from bm25s import BM25

        self.close()
        self.column, self.stopwords = parameters["column"], parameters["stopwords"]
        texts = leg_column(corpus, self.column, self.name, "text", holds_text)
        ids, vocabulary = self._tokenized(texts.cast(pa.large_string()).to_pylist())
        if not vocabulary:
            raise EngineError(
                f"{self.name}: no text in the column {self.column!r} of {corpus.name} has a word to rank by. "
                'Name another column, or keep stop words: stopwords = "none"'
            )
        # float64, because float32 would turn the scores of different texts into ties.
        index = BM25(
            k1=parameters["k1"],
            b=parameters["b"],
            method=parameters["method"],
            dtype="float64",
            backend="numpy",
        )
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        self.index, self.rows, self.allowed = index, corpus.rows, AllowedMasks(corpus)

    def _tokenized(self, texts: list[str | None]) -> tuple[list[list[int]], dict[str, int]]:
        """The words of each text by number, and the number of each word; null is a text without words."""
        from bm25s import tokenize

        skipped = None if self.stopwords == _NONE else self.stopwords
        found = tokenize([each or "" for each in texts], stopwords=skipped, show_progress=False)
        return found.ids, found.vocab

    def term_scores(
        self, batch: QueryBatch, query: int, mask: NDArray[np.bool_] | None, *, exact: bool
    ) -> Scores:
        """Scores of the texts that have a word of the query."""
        if batch.texts is None:
            raise EngineError(
                f"{self.name}: query {query} has no text. Add a column 'text' to the queries, or remove the "
                "stage from the path"
            )
        (numbers,), vocabulary = self._tokenized([batch.texts[query]])
        words = list(vocabulary)
        terms = self.index.get_tokens_ids([words[number] for number in numbers])
        if not terms:
            return Scores(np.empty(0, np.int64), np.empty(0), np.empty(0))
        scores = self.index.get_scores_from_ids(terms, weight_mask=mask)
        rows = self._matching(terms, scores)
        found = scores[rows]
        # Each word adds its score and what bm25l and bm25+ give to texts without it. The score of a word is
        # rounded about eight times.
        return Scores(rows, found, found * ((2 * len(terms) + 8) * EPSILON / 2))

    def _matching(self, terms: list[int], scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rows with a score above 0 that have one of the words."""
        if self.index.nonoccurrence_array is None:
            return np.flatnonzero(scores)
        # bm25l and bm25+ also score texts that have none of the words.
        ends, indices = self.index.scores["indptr"], self.index.scores["indices"]
        listed = np.zeros(len(scores), bool)
        for term in terms:
            listed[indices[ends[term] : ends[term + 1]]] = True
        return np.flatnonzero(listed & (scores > 0))

    def scans(self) -> bool:
        """Every text that has a word of the query is scored."""
        return True

    def held(self) -> str:
        """Texts, words, formula and tokenization, in words."""
        index = self.index
        texts = counted(self.rows, "text", "texts")
        words = counted(len(index.vocab_dict), "word", "words")
        skipped = "stop words kept" if self.stopwords == _NONE else f"stop words removed ({self.stopwords})"
        return (
            f"BM25 ({index.method}, k1 = {index.k1:g}, b = {index.b:g}) of {texts} in the column "
            f"{self.column!r} with {words}; lowercase words of two or more letters or digits, {skipped}, "
            "not stemmed"
        )

    def size_bytes(self) -> int:
        """Bytes of the word scores."""
        held = self.index.scores
        return array_bytes(held["data"], held["indices"], held["indptr"])


@contextmanager
def _alone() -> Iterator[None]:
    """Import bm25s without jax and numba, which it tries to use and which take seconds and threads."""
    absent = [name for name in ("jax", "numba") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def query_texts(queries: QuerySet, column: str | None = None) -> list[str]:
    """The text of each query, for a batch; null is an empty text.

    Args:
        queries: the queries.
        column: their text column; by default the one that was found when they were opened, or `text`.
    """
    name = column or queries.text_column or "text"
    texts = leg_column(queries, name, Bm25.name, "text", holds_text)
    return [each or "" for each in texts.cast(pa.large_string()).to_pylist()]


def holds_text(kind: pa.DataType) -> bool:
    """Whether columns of a type hold text."""
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)
