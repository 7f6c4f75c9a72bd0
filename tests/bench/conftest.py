"""What the tests of the bench share: data, bench files, and engines that fail on purpose."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk.adapters.registry import registered


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """The engine that fails as it is told, known to this process and to those that it starts."""
    place = tmp_path / "plugin"
    place.mkdir()
    shutil.copy(Path(__file__).parent / "faulty_engine.py", place)
    described = place / "faulty_engine-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-engine\nVersion: 1\n")
    engines = "faulty = faulty_engine:Faulty\npicky = faulty_engine:Picky\n"
    (described / "entry_points.txt").write_text(f"[recallatk.engines]\n{engines}")
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.syspath_prepend(place)
    registered.cache_clear()
    yield
    registered.cache_clear()
    sys.modules.pop("faulty_engine", None)


@pytest.fixture
def data(tmp_path):
    """A corpus and queries as files, in a folder with a space in its name."""
    folder = tmp_path / "my data"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 400), ("queries", 60)):
        vectors = random.normal(size=(rows, 8)).astype("float32")
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
        ids = pa.array([f"{name[0]}{row}" for row in range(rows)])
        pq.write_table(pa.table({"id": ids, "vector": column}), folder / f"{name}.parquet")
    return folder


@pytest.fixture
def bench_file(data, tmp_path):
    """A function that writes a bench file for these data, with what else it is told."""

    def write(*tables, name="bench"):
        path = tmp_path / f"{name}.toml"
        head = f"""
            name = "{name}"
            [data]
            corpus = "{data / "corpus.parquet"}"
            queries = "{data / "queries.parquet"}"
            metric = "l2"
            [truth]
            depth = 10
            store = "{tmp_path / "store"}"
            [output]
            folder = "{tmp_path / "runs" / name}"
        """
        path.write_text("\n".join(line.strip() for line in "\n".join([head, *tables]).splitlines()))
        return path

    return write
