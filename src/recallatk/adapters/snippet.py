"""Snippets: a setting as code to paste; each engine writes its own, and JSON stands in for the others."""

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
    """An engine with all of its parameters, and the number of neighbors asked for."""

    engine: str
    metric: Metric
    build: Mapping[str, Any]
    search: Mapping[str, Any]
    k: int
    dimension: int | None = None

    @property
    def unit(self) -> bool:
        """Whether a library that knows only inner products needs vectors of unit length."""
        return self.metric is Metric.COSINE


def snippet(
    engine: str,
    metric: Metric | str,
    build: Mapping[str, object] | Parameters,
    search: Mapping[str, object] | Parameters,
    k: int,
    dimension: int | None = None,
) -> str:
    """The code that builds the index and searches it, with these parameters and the others at our defaults.

    Args:
        engine: its name.
        metric: cosine, ip or l2.
        build: the build parameters.
        search: the search parameters.
        k: the number of neighbors asked for.
        dimension: of the vectors, where the code has to state it.
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
        return kind.snippet(given)  # JSON of what was given: defaults would add noise
    whole = replace(
        given,
        build=resolved(engine, kind.build_knobs, given.build),
        search=resolved_search(kind, given.search),
    )
    return kind.snippet(whole)


def lines(*parts: str | None) -> str:
    """One text of the lines that are not None."""
    return "\n".join(part for part in parts if part is not None)


def json_snippet(setting: Setting) -> str:
    """The parameters as JSON under a sentence, without secrets."""
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
    """The parameters, with those parsed that are themselves JSON."""
    return {name: _value(value) for name, value in given.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
