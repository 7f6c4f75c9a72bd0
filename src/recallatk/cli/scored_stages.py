"""Stages named on the command line of `recallatk score`: NAME=FILE, first stage first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OPTIONS = {"against": "--against", "measures": "--measure", "by_row": "--by-row"}
_EXAMPLE = "--stage ann=a.parquet --stage rerank=b.parquet"


def stage_files(
    answers: str | None, stages: Sequence[str] | None, others: Mapping[str, object]
) -> dict[str, str]:
    """The file of each stage by its name; empty if the answers of one system are scored.

    Args:
        answers: the argument ANSWERS.
        stages: the values of --stage.
        others: arguments that stages cannot be combined with, and their values.
    """
    if not stages:
        if answers is None:
            raise UsageError(f"no answers. Give ANSWERS, or the lists of at least two stages: {_EXAMPLE}")
        return {}
    if answers is not None:
        raise UsageError(
            f"ANSWERS ({answers}) cannot be combined with --stage. Give every list as a stage: {_EXAMPLE}"
        )
    given = [_OPTIONS[name] for name, value in others.items() if value]
    if given:
        raise UsageError(f"{' and '.join(given)} cannot be combined with --stage")
    return _named(stages)


def _named(stages: Sequence[str]) -> dict[str, str]:
    from recallatk.analysis.stages import require_stages

    pairs = []
    for text in stages:
        name, sign, file = (part.strip() for part in text.partition("="))
        if not sign or not name or not file:
            missing = "name" if not sign or not name else "file"
            raise UsageError(f"--stage {text} has no {missing}. Accepted: NAME=FILE, such as {_EXAMPLE}")
        pairs.append((name, file))
    require_stages([name for name, _ in pairs])
    return dict(pairs)
