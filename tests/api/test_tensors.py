"""JAX tensors, in a process of their own: its threads make later forks in the same process unsafe."""

import subprocess
import sys

SCRIPT = """
import jax.numpy as jnp
import numpy as np
import pandas as pd
import recallatk

vectors = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
tensor = jnp.asarray(vectors)


def same(given):
    held = recallatk.open_corpus(given).vectors
    assert (held.read(0, 40) == vectors).all()


same(tensor)
same([jnp.asarray(each) for each in vectors])
same(pd.DataFrame({"id": range(40), "vector": [jnp.asarray(each) for each in vectors]}))
first, again = (recallatk.open_corpus(tensor).vectors.vectors.array for _ in range(2))
assert np.shares_memory(first, again)

dataset = recallatk.open_dataset(tensor, tensor[:5], metric="l2")
truth = recallatk.ground_truth(dataset, depth=3, store=False)
assert truth.rows[:, 0].tolist() == [0, 1, 2, 3, 4]
for answers in (jnp.asarray(truth.rows), [jnp.asarray(each) for each in truth.rows]):
    assert recallatk.score(truth, answers, at=[3])["recall@3"] == 1.0


def first_rows(queries, k):
    return truth.rows[: len(queries), :k]


run = recallatk.measure(first_rows, tensor, tensor[:5], metric="l2", at=[1], rounds=1)
assert len(run.measurements) == 1
"""


def test_jax_tensors_are_taken_as_they_are():
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
