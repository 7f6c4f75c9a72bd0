"""recallatk: how much of the true top-K a vector index returns, and what that costs.

The public names; each is imported when it is first used, so that `import recallatk` costs nothing.
`__init__.pyi` says the same to type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

from recallatk.deprecation import deprecated
from recallatk.display import register
from recallatk.version import __version__ as __version__

_ROOMS = {
    "adapters": ("Engine",),
    "analysis": ("Assessment", "SequentialTest", "StagedAssessment", "parse_measure", "queries_to_tell"),
    "api": (
        "assess",
        "assess_stages",
        "compare",
        "ground_truth",
        "load_truth",
        "plan_truth",
        "score",
        "verify_truth",
    ),
    "analysis.trend": ("Trend",),
    "bench": ("Limits", "explain", "measure", "read_settings", "run"),
    "capture": ("tap",),
    "core": (
        "Answers",
        "Corpus",
        "Dataset",
        "Knob",
        "Load",
        "Mean",
        "Metric",
        "QuerySet",
        "Run",
        "Score",
        "Trial",
        "Truth",
    ),
    "core.drifted": ("Drifted",),
    "core.judgments": ("Finding", "Verdict"),
    "core.migrated": ("Migrated",),
    "core.probed": ("Probed", "TunedEffort"),
    "core.churned": ("Churned",),
    "core.tuned": ("Tuned",),
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
        "sample_corpus",
        "sample_queries",
        "split_queries",
        "workload",
    ),
    "errors": ("RecallError",),
    "filters": ("Filter", "filter_from_json", "parse_filter"),
    "linter": ("audit_run", "audit_settings"),
    "migration": ("migrate",),
    "pipeline": ("Path",),
    "probing": ("drift", "probe", "tune_effort", "watch"),
    "publishing": ("publish",),
    "quality": ("Quality", "QualityJudge"),
    "regression": ("accept_baseline", "accept_measured", "compare_results", "gate", "gate_results"),
    "reporting": (
        "assessment_to_dict",
        "assessment_to_text",
        "export",
        "run_to_dict",
        "stages_to_dict",
        "stages_to_text",
        "to_html",
        "to_markdown",
        "to_text",
    ),
    "streaming": ("churn",),
    "storage": ("history", "list_runs", "load_run", "remember", "save_run"),
    "testing": ("EngineContract",),
    "truths": ("save_truth",),
    "tuning": ("tune",),
}
# Names of version 0.1: where each is, and what to write instead.
_DEPRECATED = {
    "Build": ("core", "recallatk.core.Build"),
    "Measurement": ("core", "recallatk.core.Measurement"),
    "Vectors": ("core", "recallatk.core.Vectors"),
    "is_at_least": ("analysis", "recallatk.analysis.is_at_least"),
    "lower_bound": ("analysis", "recallatk.analysis.lower_bound"),
    "obtain_truth": ("truths", "recallatk.ground_truth"),
    "read_truth": ("datasets", "recallatk.load_truth"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

register(lambda: importlib.import_module("recallatk.reporting.notebook"))

__all__ = sorted(["__version__", *_ROOM_OF])  # noqa: PLE0605 - the names stand above, once


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        room, instead = _DEPRECATED[name]
        deprecated(f"recallatk.{name}", instead)
    elif name in _ROOM_OF:
        room = _ROOM_OF[name]
    else:
        raise AttributeError(f"module 'recallatk' has no attribute {name!r}")
    return getattr(importlib.import_module(f"recallatk.{room}"), name)


def __dir__() -> list[str]:
    return __all__
