"""What the tests of the linter share: sound benchmarks, measured for real and once."""

import pytest
from faults import clustered, embedded

from recallatk import ground_truth, measure, run
from recallatk.bench.settings import settings_from
from recallatk.core import Load
from recallatk.linter import Evidence

EFFORTS = [{"ef": 10}, {"ef": 40}, {"ef": 160}]


def benchmark(dataset, **how):
    """A dataset with its truth and a run, as evidence."""
    truth = ground_truth(dataset, depth=100)
    run = measure(
        "faiss-hnsw", dataset, truth=truth, build={"M": 6}, search=EFFORTS, at=(1, 10), rounds=2, **how
    )
    return Evidence(dataset=dataset, truth=truth, run=run)


@pytest.fixture(scope="session")
def cosine():
    """Vectors of unequal length, compared by direction."""
    return benchmark(embedded("cosine"))


@pytest.fixture(scope="session")
def euclidean():
    """Vectors of unequal length, compared by distance."""
    return benchmark(embedded("l2", seed=1), load=[Load(), Load("rate", rate=400.0, seconds=0.5)])


@pytest.fixture(scope="session")
def unit():
    """Vectors of unit length, compared by inner product."""
    return benchmark(embedded("ip", seed=2))


@pytest.fixture(scope="session")
def clean(cosine, euclidean, unit):
    """Three benchmarks without a fault."""
    return cosine, euclidean, unit


@pytest.fixture(scope="session")
def exact(euclidean):
    """A second engine on the data of `euclidean`."""
    return measure("exact", euclidean.dataset, truth=euclidean.truth, rounds=2)


@pytest.fixture(scope="session")
def crowded(euclidean):
    """Two clients that wait for their answers."""
    load = Load("throughput", clients=2)
    return measure(
        "faiss-hnsw", euclidean.dataset, truth=euclidean.truth, search={"ef": 40}, load=load, threads=2
    )


@pytest.fixture(scope="session")
def compressed(euclidean):
    """Codes so short that no effort helps."""
    return measure(
        "faiss-ivf-pq",
        euclidean.dataset,
        truth=euclidean.truth,
        build={"nlist": 16, "M": 2, "refine": "none"},
        search=[{"nprobe": probes, "k_factor": 0} for probes in (4, 8, 16)],
        at=(1, 10),
        rounds=1,
    )


@pytest.fixture(scope="session")
def easy():
    """A plane, where the least effort finds everything."""
    dataset = clustered(rows=500, queries=120, dimension=2, metric="l2")
    return measure("faiss-hnsw", dataset, search=[{"ef": 16}, {"ef": 64}], at=(1, 10), rounds=1)


@pytest.fixture(scope="session")
def few():
    """Thirty queries, asked once."""
    dataset = clustered(rows=300, queries=30, dimension=16)
    return Evidence(
        dataset=dataset, run=measure("faiss-hnsw", dataset, search={"ef": 10}, at=(10,), rounds=1)
    )


@pytest.fixture(scope="session")
def bench(euclidean, tmp_path_factory):
    """A function that measures engines side by side, by a bench file, on the data of `euclidean`."""

    def side_by_side(*engines, **how):
        folder = tmp_path_factory.mktemp("bench")
        values = {
            "data": {"corpus": "open already", "metric": "l2"},
            "truth": {"store": str(folder / "truth")},
            "engine": list(engines),
            "measure": {"at": [1, 10], "rounds": 1, **how},
        }
        return run(settings_from(values), dataset=euclidean.dataset, out=folder / "run")

    return side_by_side


@pytest.fixture(scope="session")
def comparable(bench):
    """Two engines by the same kind of call, with the same threads, up to the same recall."""
    graph = {"name": "faiss-hnsw", "build": {"M": 6}, "search": {"ef": [10, 40, 160]}}
    return bench({"name": "exact"}, graph)


@pytest.fixture(scope="session")
def incomparable(bench):
    """A database that finds everything, and a library whose codes are too short for that."""
    codes = {"nlist": 16, "M": 2, "refine": "none"}
    short = {"name": "faiss-ivf-pq", "build": codes, "search": {"nprobe": 8, "k_factor": 0}}
    return bench({"name": "sqlite-vec"}, short)
