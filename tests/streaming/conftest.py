"""What the tests of changing corpora share: data, and an engine with moods."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk.adapters.registry import registered


@pytest.fixture
def moody(tmp_path, monkeypatch):
    """The engine with moods, known to this process and to those that it starts."""
    place = tmp_path / "plugin"
    place.mkdir()
    shutil.copy(Path(__file__).parent / "moody_engine.py", place)
    described = place / "moody_engine-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: moody-engine\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[recallatk.engines]\nmoody = moody_engine:Moody\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.syspath_prepend(place)
    registered.cache_clear()
    yield
    registered.cache_clear()
    sys.modules.pop("moody_engine", None)


@pytest.fixture
def arrays():
    """A corpus and queries in memory."""
    random = np.random.default_rng(0)
    return random.normal(size=(400, 8)).astype("float32"), random.normal(size=(30, 8)).astype("float32")


@pytest.fixture
def data(tmp_path, arrays):
    """The same as files with text ids and tenants, in a folder with a space in its name."""
    folder = tmp_path / "my data"
    folder.mkdir()
    for name, vectors in zip(("corpus", "queries"), arrays, strict=True):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        ids = pa.array([f"{name[0]}{row}" for row in range(len(vectors))])
        tenants = pa.array([f"t{row % 5}" for row in range(len(vectors))])
        table = pa.table({"id": ids, "vector": column, "tenant": tenants})
        pq.write_table(table, folder / f"{name}.parquet")
    return folder
