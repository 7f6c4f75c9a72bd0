"""What is attached, or known only to its own package: the parameters as JSON, without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from recallatk.redaction import public

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def as_json(setting: Setting) -> str:
    """All parameters that the engine was given, under a sentence."""
    parameters = {
        "engine": setting.engine,
        "metric": str(setting.metric),
        "k": setting.k,
        "build": public(_read(setting.build)),
        "search": public(_read(setting.search)),
    }
    said = f"The parameters of {setting.engine}, as it was asked:"
    return f"{said}\n{json.dumps(parameters, indent=2, ensure_ascii=False)}"


def _read(given: object) -> object:
    """The parameters, with those that are themselves JSON read."""
    found = {}
    for name, value in dict(given).items():  # type: ignore[call-overload]
        found[name] = value
        if isinstance(value, str) and value[:1] in ("{", "["):
            try:
                found[name] = json.loads(value)
            except ValueError:
                continue
    return found
