"""A search service that answers from a file: the same ids for the same query, every time."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent


def recorded():
    """The ids that were answered, by the bytes of the query's vector."""
    vectors = pq.read_table(FOLDER / "queries.parquet")["vector"].to_pylist()
    answers = pq.read_table(FOLDER / "answers.parquet")["neighbors"].to_pylist()
    return {np.float32(vector).tobytes(): ids for vector, ids in zip(vectors, answers, strict=True)}


ANSWERS = recorded()


def search(queries, k, lost=0):
    """The recorded ids of each query without the first ones; none for queries of a warm-up."""
    return [ANSWERS.get(np.float32(query).tobytes(), [])[lost : lost + k] for query in queries]


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        found = search([asked["query"]], asked["k"], **asked["parameters"])
        sys.stdout.write(json.dumps({"ids": found[0]}) + "\n")
        sys.stdout.flush()
