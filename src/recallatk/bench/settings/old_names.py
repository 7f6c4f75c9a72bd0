"""Old names in bench files: read for one version with a note, and in run folders without one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from recallatk.deprecation import deprecated

_NDCG = re.compile(r"ndcg@(?=[0-9])")


def renewed(values: Mapping[str, Any], *, recorded: bool) -> dict[str, Any]:
    """The values of a bench file under current names.

    Args:
        values: the tables of the file.
        recorded: whether a run saved the file; then old names need no note, and `ndcg@10` is unambiguous.
    """
    new = dict(values)
    measure = new.get("measure")
    if not isinstance(measure, Mapping):
        return new
    if "k" in measure and "at" not in measure:
        new["measure"] = {"at" if key == "k" else key: value for key, value in measure.items()}
        if not recorded:
            deprecated("[measure] k", "[measure] at")
    if recorded and isinstance(new["measure"].get("measures"), list):
        texts = [_NDCG.sub("ndcg_truth@", str(each)) for each in new["measure"]["measures"]]
        new["measure"] = {**new["measure"], "measures": texts}
    return new
