"""recallatk: how much of the true top-K a vector index returns, and what that costs.

The public names; each is imported when it is first used, so that `import recallatk` costs nothing.
`__init__.pyi` says the same to type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

from recallatk.display import register
from recallatk.version import __version__

_ROOMS = {
    "analysis": (
        "SequentialTest",
        "assess",
        "compare",
        "is_at_least",
        "lower_bound",
        "parse_measure",
        "queries_to_tell",
        "score",
    ),
    "bench": ("Limits", "measure", "read_settings", "run"),
    "core": (
        "Answers",
        "Build",
        "Corpus",
        "Dataset",
        "Knob",
        "Load",
        "Measurement",
        "Metric",
        "QuerySet",
        "Run",
        "Score",
        "Trial",
        "Truth",
        "Vectors",
    ),
    "datasets": (
        "convert",
        "inspect",
        "make_corpus",
        "make_queries",
        "open_corpus",
        "open_dataset",
        "open_demo",
        "open_queries",
        "queries_from_corpus",
        "read_answers",
        "read_qrels",
        "read_truth",
        "sample_corpus",
        "sample_queries",
        "split_queries",
    ),
    "errors": ("RecallError",),
    "filters": ("Filter", "filter_from_json", "parse_filter"),
    "storage": ("list_runs", "load_run", "save_run"),
    "linter": ("audit_run", "audit_settings"),
    "reporting": (
        "assessment_to_dict",
        "assessment_to_text",
        "export",
        "run_to_dict",
        "to_html",
        "to_markdown",
        "to_text",
    ),
    "tuning": ("tune",),
    "truths": ("ground_truth", "load_truth", "obtain_truth", "save_truth", "verify_truth"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

register(lambda: importlib.import_module("recallatk.reporting.notebook"))

__all__ = ["__version__", *sorted(_ROOM_OF)]  # noqa: PLE0604 - the names stand above, once


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'recallatk' has no attribute {name!r}")
    return getattr(importlib.import_module(f"recallatk.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
