"""A run as one JSON object, the same that `recallatk show --json` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.files import write_text
from recallatk.report.as_dict import run_to_dict
from recallatk.report.exports.exported import Exported

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.files import PathLike


def write(run: Run, out: PathLike) -> Exported:
    """Write the object, indented."""
    write_text(out, json.dumps(run_to_dict(run), indent=2, allow_nan=False) + "\n")
    return Exported((Path(out),))
