"""The import layers of ARCHITECTURE.md hold."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_imports_go_down_only():
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 kept, 0 broken" in ran.stdout


def test_registries_are_in_order():
    from recallatk.adapters.registry import get_engine, registered
    from recallatk.datasets.registry import FORMATS, get_format

    assert list(FORMATS) == sorted(FORMATS)
    assert list(registered()) == sorted(registered())
    assert all(get_format(name).name == name for name in FORMATS)
    assert all(get_engine(name).name == name for name in registered())
