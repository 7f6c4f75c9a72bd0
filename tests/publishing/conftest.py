"""Runs to publish are made as those of the reports are."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "reporting"))
