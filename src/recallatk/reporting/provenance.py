"""Provenance of a run: data, machine, what was timed, and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from recallatk.errors import RecallError
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.core import Run

_LONGEST = 400


def environment(run: Run) -> Table:
    """The machine and the software, one line each."""
    from recallatk.redaction import public

    rows = [[_words(name), _shown(public(value, name), name)] for name, value in run.environment.items()]
    return Table("Environment", ["", ""], rows, 2)


def identity(run: Run) -> Table:
    """What was measured and when, with fingerprints."""
    rows = [
        ["Data", cut(printable(run.dataset), _LONGEST)],
        ["Metric", str(run.metric)],
        ["Started", printable(run.begun or "-")],
        ["Timed", cut(printable(run.timed or "-"), _LONGEST)],
    ]
    rows += [
        [f"Embedding model of the {part}", cut(printable(", ".join(models)), _LONGEST)]
        for part, models in run.models.items()
    ]
    rows += [
        [f"Fingerprint of {_words(name).lower()}", printable(text)] for name, text in run.fingerprints.items()
    ]
    return Table("Identity", ["", ""], rows, 2)


def _words(name: str) -> str:
    said = printable(name).replace("_bytes", "").replace("_", " ")
    return said[:1].upper() + said[1:]


def _shown(value: Any, name: str) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / 1e9:,.1f} GB"
    if value is None:
        return "-"
    if isinstance(value, dict):
        return cut(printable(", ".join(f"{key} {each}" for key, each in value.items())), _LONGEST)
    if isinstance(value, list):
        listed = (f"{each:.2f}" if isinstance(each, float) else str(each) for each in value)
        return cut(printable(", ".join(listed)), _LONGEST)
    return cut(printable(str(value)), _LONGEST)


def bench_file(run: Run) -> str | None:
    """A bench file that repeats the run; None if its settings do not suffice."""
    from recallatk.bench.settings import settings_from
    from recallatk.redaction import public

    stated = public(dict(run.settings))
    tables = {name: _told(stated.get(name)) for name in ("data", "truth", "measure")}
    try:
        loads = [_load(each) for each in stated.get("load", [])]
        wanted = {"name": run.dataset, **{name: each for name, each in tables.items() if each}}
        made = settings_from({**wanted, "load": loads, "engine": stated.get("engine", [])})
        return made.to_toml()
    except (RecallError, TypeError, AttributeError, ValueError):
        return None


def _told(table: Any) -> Any:
    if not isinstance(table, dict):
        return {}
    return {
        name: _told(each) if isinstance(each, dict) else each
        for name, each in table.items()
        if each is not None and each != []
    }


def _load(load: dict[str, Any]) -> dict[str, Any]:
    """A load as a bench file spells it, without defaults."""
    usual = {"clients": None if load.get("mode") == "rate" else 1, "batch": 1, "via": "threads"}
    kept = {name: each for name, each in load.items() if each is not None and usual.get(name) != each}
    if "p99_ms" in kept:
        kept["p99"] = f"{kept.pop('p99_ms')}ms"
    return kept


def command(run: Run) -> str:
    """The command that repeats the run."""
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in run.dataset)[:60] or "run"
    return f"recallatk run bench.toml --out {shlex.quote(f'runs/{name}-again')}"


def settings_text(run: Run) -> str:
    """The settings as JSON, for a reader."""
    from recallatk.redaction import public
    from recallatk.reporting.as_dict import plain

    return json.dumps(public(plain(dict(run.settings))), indent=2, ensure_ascii=True)
