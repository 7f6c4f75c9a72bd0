"""Makes the data that ships inside the package from a folder with the whole wordnet-minilm set.

    python scripts/make_demo_data.py PATH/TO/wordnet-minilm

The choice is deterministic: every query's own definition, a third of the definitions whose vectors are
identical to another's (in whole groups, so that ties stay real), then definitions at random.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CORPUS_ROWS, QUERY_ROWS, SEED = 20_000, 1_000, 20_260_101
TARGET = Path(__file__).parent.parent / "src" / "recallatk" / "datasets" / "demo_data"
COLUMNS = ["text", "category", "pos", "n_words"]


def matrix(table: pa.Table) -> np.ndarray:
    return table["vector"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)


def quantised(vectors: np.ndarray) -> pa.FixedSizeListArray:
    """int8 with a scale for each row, which cosine does not see and the reader does not need."""
    scale = 127 / np.abs(vectors).max(axis=1, keepdims=True)
    codes = np.rint(vectors * scale).astype(np.int8)
    return pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), vectors.shape[1])


def write(table: pa.Table, name: str) -> None:
    columns = {"id": table["id"], "vector": quantised(matrix(table))}
    columns |= {column: table[column] for column in COLUMNS}
    pq.write_table(
        pa.table(columns),
        TARGET / name,
        compression="zstd",
        compression_level=19,
        use_dictionary=["category", "pos", "vector.list.element"],
        write_page_checksum=True,
    )


def main(source: Path) -> None:
    random = np.random.default_rng(SEED)
    corpus = pq.read_table(source / "corpus.parquet")
    queries = pq.read_table(source / "queries.parquet")
    qrels = [line.split("\t") for line in (source / "qrels.tsv").read_text().splitlines()[1:]]

    rows_of = {identifier: row for row, identifier in enumerate(corpus["id"].to_pylist())}
    chosen_queries = np.sort(random.permutation(len(queries))[:QUERY_ROWS])
    query_ids = set(queries["id"].take(pa.array(chosen_queries)).to_pylist())
    kept = [line for line in qrels if line[0] in query_ids]
    relevant = {rows_of[line[1]] for line in kept}

    _, group, sizes = np.unique(matrix(corpus), axis=0, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(sizes > 1)
    groups = random.permutation(shared)[: len(shared) // 3]
    duplicates = np.flatnonzero(np.isin(group, [*groups, sizes.argmax()]))

    first = relevant | set(duplicates.tolist())
    rest = [row for row in random.permutation(len(corpus)).tolist() if row not in first]
    rows = np.sort([*first, *rest[: CORPUS_ROWS - len(first)]])

    TARGET.mkdir(exist_ok=True)
    write(corpus.take(pa.array(rows)), "corpus.parquet")
    write(queries.take(pa.array(chosen_queries)), "queries.parquet")
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(line) for line in kept)]
    (TARGET / "qrels.tsv").write_text("\n".join(lines) + "\n")
    licence = (source / "LICENSE-WORDNET").read_text().partition("\nFiles:")[0]
    (TARGET / "LICENSE-WORDNET").write_text(licence.rstrip() + "\n")
    total = sum(file.stat().st_size for file in TARGET.iterdir())
    print(f"{len(rows)} definitions, {len(chosen_queries)} queries, {total / 1e6:.2f} MB in {TARGET}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
