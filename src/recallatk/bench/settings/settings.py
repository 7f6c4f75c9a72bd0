"""Settings of a benchmark with every default filled in, and their TOML form."""

# pydantic reads these annotations when the module is imported, so they are not postponed.
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from recallatk.bench.settings.models import (
    USUAL_DEPTH,
    CostSettings,
    DataSettings,
    Engines,
    EngineSettings,
    LimitSettings,
    Loads,
    LoadSettings,
    MeasureSettings,
    OutputSettings,
    Paths,
    PathSettings,
    QualitySettings,
    TruthSettings,
    TuneSettings,
    Waivers,
)
from recallatk.bench.settings.problems import key
from recallatk.bench.settings.values import Table, Text
from recallatk.core.trials import Load
from recallatk.files import locate_all
from recallatk.redaction import is_url, without_known, without_secrets


class Settings(Table):
    """Settings of a benchmark, as made by `read_settings` and `settings_from`."""

    name: Text
    data: DataSettings
    truth: TruthSettings = TruthSettings()
    measure: MeasureSettings = MeasureSettings()
    load: Loads = (LoadSettings(),)
    limits: LimitSettings = LimitSettings()
    output: OutputSettings = OutputSettings()
    tune: TuneSettings = TuneSettings()
    cost: CostSettings = CostSettings()
    quality: QualitySettings = QualitySettings()
    engine: Engines = ()
    path: Paths = ()
    waive: Waivers = ()

    @property
    def entries(self) -> tuple[EngineSettings | PathSettings, ...]:
        """Everything to measure: engines, then paths."""
        return (*self.engine, *self.path)

    @property
    def files(self) -> list[str]:
        """The local files and folders of its data and truth, with those that a pattern matches."""
        data = self.data
        named = (data.corpus, data.queries, data.qrels, self.truth.file)
        local = [each for each in named if each is not None and not is_url(each)]
        return [found.path for each in local for found in locate_all(each)]

    @property
    def loads(self) -> tuple[Load, ...]:
        """The distinct loads of all grids."""
        return tuple(dict.fromkeys(load for each in self.load for load in each.loads()))

    def depth(self, rows: int) -> int:
        """Depth of a truth that is computed for a corpus of this many rows."""
        if self.truth.depth is not None:
            return self.truth.depth
        paths = [depth for each in self.path for depth in each.truth_depths(self.measure.largest_k)]
        return max(self.measure.deepest, min(rows, max(USUAL_DEPTH, *paths, 1)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values of what is measured, with ranges and defaults resolved."""
        apart = {"limits", "output", "tune", "cost", "quality", "load", "engine", "path", "waive"}
        plain = self.model_dump(mode="json", by_alias=True, exclude=apart)
        data = plain["data"]
        for name in ("corpus", "queries", "qrels"):
            data[name] = None if data[name] is None else without_secrets(data[name])
        if data["qrels"] is None:
            # Runs of versions without judgments are resumed as they are.
            del data["qrels"]
        if plain["measure"]["weight"] is None:
            # Runs of versions without weights are resumed as they are.
            del plain["measure"]["weight"]
        plain["truth"] = {name: plain["truth"][name] for name in ("depth", "file")}
        _drop_unasked(plain["measure"])
        plain["load"] = [asdict(load) | {"mode": str(load.mode), "via": str(load.via)} for load in self.loads]
        plain["engine"] = [
            {"name": entry.name, "build": _plain(entry.axes.build), "search": _plain(entry.axes.search)}
            for entry in self.engine
        ]
        if self.path:
            # Runs of versions without paths are resumed as they are.
            plain["path"] = [each.path.shape() for each in self.path]
        return plain

    def identity(self) -> dict[str, Any]:
        """The same without names and paths: a run with equal identity and data can be resumed."""
        plain = self.to_dict()
        del plain["name"], plain["truth"]["file"]
        for name in ("corpus", "queries", "qrels"):
            plain["data"].pop(name, None)
        plain["measure"].pop("explain", None)
        return plain

    def to_toml(self) -> str:
        """The bench file that reads back to the same settings, with every default spelled out."""
        # Keys named like secrets were refused on reading, but known secret values may occur anywhere.
        plain = without_known(self.model_dump(by_alias=True, exclude_none=True))
        plain["measure"] = {name: value for name, value in plain["measure"].items() if value != ()}
        _drop_unasked(plain["measure"])
        tables = [toml_table("", {"name": plain["name"]})]
        for name in ("data", "truth", "measure"):
            tables += [toml_table(f"[{name}]", plain[name])] if plain[name] else []
        tables += [toml_table("[[load]]", each) for each in plain["load"]]
        plain["tune"], plain["quality"] = _given(self.tune), _given(self.quality)
        for name in ("limits", "output", "tune", "cost", "quality"):
            tables += [toml_table(f"[{name}]", plain[name])] if plain[name] else []
        for entry in plain["engine"]:
            tables.append(toml_table("[[engine]]", {"name": entry["name"]}))
            for part in ("build", "search"):
                tables += [toml_table(f"[engine.{part}]", entry[part])] if entry[part] else []
        for entry in plain["path"]:
            tables.append(toml_table("[[path]]", entry))
        tables += [toml_table("[[waive]]", each) for each in plain["waive"]]
        return "\n\n".join(tables) + "\n"


def _drop_unasked(measure: dict[str, Any]) -> None:
    """Leave out an explanation that nobody asked for: most benchmarks have none."""
    if not measure["explain"]:
        del measure["explain"]


def _given(table: TuneSettings | QualitySettings) -> dict[str, Any]:
    """The table without defaults, because most benchmarks set none of its keys."""
    plain = without_known(table.model_dump(by_alias=True, exclude_none=True))
    usual = type(table)().model_dump(by_alias=True, exclude_none=True)
    return {name: value for name, value in plain.items() if value != usual.get(name)}


def _plain(axes: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: list(axis.values) for name, axis in axes.items()}


def toml_value(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        listed = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {listed} }}" if listed else "{}"
    return f"[{', '.join(toml_value(each) for each in value)}]"


def toml_text(text: str) -> str:
    """A string in double quotes."""
    # TOML has JSON's escapes, and also requires one for the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(name: str) -> str:
    """A key, quoted if necessary."""
    return key(name).replace("\x7f", "\\u007F")


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """A table under its header; None values are left out."""
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join([header, *lines] if header else lines)
