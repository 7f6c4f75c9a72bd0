"""What the tests of tuning share: a small corpus, and engines with a known curve."""

import shutil
import sys
from pathlib import Path

import pytest
from tuning_data import small_data

from recallatk.engines.registry import registered

NAMES = ("Steady", "Capped", "Dipping", "Breaking", "Slow", "Partial")


@pytest.fixture
def curved(tmp_path, monkeypatch):
    """The engines of curved_engines, known to this process and to those that it starts."""
    place = tmp_path / "plugin"
    place.mkdir()
    shutil.copy(Path(__file__).parent / "curved_engines.py", place)
    described = place / "curved_engines-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: curved-engines\nVersion: 1\n")
    points = "\n".join(f"{name.lower()} = curved_engines:{name}" for name in NAMES)
    (described / "entry_points.txt").write_text(f"[recallatk.engines]\n{points}\n")
    monkeypatch.setenv("PYTHONPATH", str(place))
    # The engines draw by the hash of a query, which has to be the same in every process.
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    registered.cache_clear()
    yield place
    registered.cache_clear()
    sys.modules.pop("curved_engines", None)


@pytest.fixture
def data():
    return small_data()
