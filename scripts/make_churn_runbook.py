"""Writes a small realistic runbook for the bundled data, with the corpus that it needs.

    python scripts/make_churn_runbook.py FOLDER

Definitions arrive by category, as if one category after the other were imported. Edits replace the vectors
of some rows: their texts lose a word and are embedded again by wordllama where that is installed; without
it, the vectors move a little at random. After every import, the oldest rows are deleted. The result is the
same every time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recallatk import open_demo
from recallatk.core.churned import Operation
from recallatk.streaming.runbook import Step
from recallatk.streaming.runbook_file import runbook_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS, QUERIES, CATEGORIES, EDITED, EXPIRED, SEED = 4_000, 200, 6, 40, 150, 20_260_101
NUDGE = 0.15


def embedded(texts: list[str]) -> NDArray[np.float32] | None:
    """Texts as vectors of wordllama; None where it is not installed."""
    try:
        from wordllama import WordLlama
    except ImportError:
        return None
    found: NDArray[np.float32] = np.asarray(WordLlama.load().embed(texts), np.float32)
    return found


def without_a_word(text: str, random: np.random.Generator) -> str:
    """An edited text."""
    words = text.split()
    return (
        " ".join(np.delete(words, random.integers(len(words))).tolist())
        if len(words) > 1
        else f"{text} edited"
    )


def columns(vectors: NDArray[np.float32], ids: list[str], beside: dict[str, list[str]]) -> pa.Table:
    """A table of vectors."""
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({"id": ids, "vector": flat, **beside})


def main(folder: Path) -> None:
    """Write corpus, queries and runbook."""
    folder.mkdir(parents=True, exist_ok=True)
    random, demo = np.random.default_rng(SEED), open_demo()
    rows = np.sort(random.permutation(demo.corpus.rows)[:ROWS])
    asked = np.arange(QUERIES)
    table = demo.corpus.columns.read(["text", "category"], 0, demo.corpus.rows).take(pa.array(rows))
    texts, categories = table["text"].to_pylist(), table["category"].to_pylist()
    known = demo.queries.columns.read(["text"], 0, QUERIES)["text"].to_pylist()
    edited = np.sort(random.permutation(ROWS)[: EDITED * CATEGORIES])
    changed = [without_a_word(texts[row], random) for row in edited]
    everything = embedded([*texts, *changed, *known])
    if everything is None:
        vectors = np.asarray(demo.corpus.vectors.read(0, demo.corpus.rows))[rows]
        moved = vectors[edited] + NUDGE * random.normal(size=(len(edited), vectors.shape[1])) / np.sqrt(
            vectors.shape[1]
        )
        queries = np.asarray(demo.queries.vectors.read(0, QUERIES))
        corpus = np.concatenate([vectors, moved.astype(np.float32)])
    else:
        corpus, queries = everything[: ROWS + len(edited)], everything[ROWS + len(edited) :]
    ids = [*(f"d{row}" for row in rows), *(f"d{rows[row]}-edited" for row in edited)]
    beside = {"category": [*categories, *(categories[row] for row in edited)]}
    pq.write_table(columns(corpus, ids, beside), folder / "corpus.parquet")
    pq.write_table(columns(queries, [f"q{row}" for row in asked], {}), folder / "queries.parquet")
    data = {"corpus": "corpus.parquet", "queries": "queries.parquet", "metric": "cosine"}
    steps = month(np.asarray(categories), edited)
    text = runbook_text(steps, "imports by category, edits, and deletes by age", data)
    (folder / "runbook.toml").write_text(text, encoding="utf-8")
    print(f"{len(steps)} steps in {folder / 'runbook.toml'}")
    print(f"recallatk churn {folder / 'runbook.toml'} --engine hnswlib --engine usearch")


def month(categories: NDArray[np.object_], edited: NDArray[np.int64]) -> list[Step]:
    """The steps: most rows at first, then one category after the other, with edits and deletes by age."""
    names, counts = np.unique(categories, return_counts=True)
    later = names[np.argsort(-counts, kind="stable")][1 : CATEGORIES + 1]
    first = np.flatnonzero(~np.isin(categories, later))
    steps = [Step(1, Operation.INSERT, first), Step(2, Operation.SEARCH)]
    age = first.tolist()
    current = set(age)
    waiting = {int(row): ROWS + place for place, row in enumerate(edited)}
    for name in later:
        arrived = np.flatnonzero(categories == name)
        age += arrived.tolist()
        current |= set(arrived.tolist())
        expired = np.sort([row for row in age if row in current][:EXPIRED])
        current -= set(expired.tolist())
        edits = [row for row in waiting if row in current][:EDITED]
        new = [waiting.pop(row) for row in edits]
        for operation, some, old in (
            (Operation.INSERT, arrived, []),
            (Operation.REPLACE, np.asarray(new, np.int64), edits),
            (Operation.DELETE, expired, []),
        ):
            steps.append(Step(len(steps) + 1, operation, some, np.asarray(old, np.int64)))
        steps.append(Step(len(steps) + 1, Operation.SEARCH))
    return steps


if __name__ == "__main__":
    main(Path(sys.argv[1]))
