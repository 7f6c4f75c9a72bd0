"""What the tests of tuning share: a small corpus, and engines with a known curve."""

import shutil
import sys
from pathlib import Path

import pytest
from tuning_data import small_data

from recallatk.adapters.registry import registered

NAMES = (
    *("Steady", "Capped", "Dipping", "Falling", "Rival", "Partial"),
    *("Careful", "Breaking", "Slow", "Fatal", "Lists", "Codes"),
)


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    """The engines of curved_engines, known to this process and to those that it starts."""
    place = tmp_path_factory.mktemp("plugin")
    shutil.copy(Path(__file__).parent / "curved_engines.py", place)
    described = place / "curved_engines-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: curved-engines\nVersion: 1\n")
    points = "\n".join(f"{name.lower()} = curved_engines:{name}" for name in NAMES)
    (described / "entry_points.txt").write_text(f"[recallatk.engines]\n{points}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place))
        # Threads that wait for work must not take the machine from those that have some.
        patch.setenv("OMP_WAIT_POLICY", "PASSIVE")
        patch.syspath_prepend(place)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        registered.cache_clear()
        yield place
    registered.cache_clear()
    sys.modules.pop("curved_engines", None)


@pytest.fixture(scope="session")
def data():
    return small_data()
