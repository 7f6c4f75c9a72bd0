"""Snippets: a setting as code to paste, written by each engine; JSON for engines without one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.errors import RecallError
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Parameters

INPUTS = "# vectors and queries: float32 arrays of (rows, dimension)"
UNIT = "vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)"


@dataclass(frozen=True)
class Setting:
    """An engine with all of its parameters and k."""

    engine: str
    metric: Metric
    build: Mapping[str, Any]
    search: Mapping[str, Any]
    k: int
    dimension: int | None = None

    @property
    def unit(self) -> bool:
        """Whether an inner-product library needs normalized vectors."""
        return self.metric is Metric.COSINE


def snippet(
    engine: str,
    metric: Metric | str,
    build: Mapping[str, object] | Parameters,
    search: Mapping[str, object] | Parameters,
    k: int,
    dimension: int | None = None,
) -> str:
    """Code that builds and searches the index with these parameters, and our defaults for the others.

    Args:
        engine: its name.
        metric: cosine, ip or l2.
        build: the build parameters.
        search: the search parameters.
        k: the number of neighbors to request.
        dimension: dimension of the vectors, for code that has to state it.
    """
    # The engine contract declares snippets, so it imports this module.
    from recallatk.adapters.base import Engine, resolved, resolved_search
    from recallatk.adapters.registry import get_engine

    given = Setting(engine, Metric(metric), dict(build), dict(search), k, dimension)
    try:
        kind = get_engine(engine)
    except RecallError:
        return json_snippet(given)
    if kind.snippet.__func__ is Engine.snippet.__func__:  # type: ignore[attr-defined]
        return kind.snippet(given)  # only the given parameters: defaults would add noise
    whole = replace(
        given,
        build=resolved(engine, kind.build_knobs, given.build),
        search=resolved_search(kind, given.search),
    )
    return kind.snippet(whole)


def lines(*parts: str | None) -> str:
    """Join the lines that are not None."""
    return "\n".join(part for part in parts if part is not None)


def json_snippet(setting: Setting) -> str:
    """The parameters as redacted JSON below an introductory sentence."""
    parameters = {
        "engine": setting.engine,
        "metric": str(setting.metric),
        "k": setting.k,
        "build": public(_parsed(setting.build)),
        "search": public(_parsed(setting.search)),
    }
    said = f"The parameters of {setting.engine}, as measured:"
    return f"{said}\n{json.dumps(parameters, indent=2, ensure_ascii=False)}"


def _parsed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters; those that hold JSON text are parsed."""
    return {name: _value(value) for name, value in given.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
