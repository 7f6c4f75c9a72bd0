"""Settings: what a benchmark is to do, every value settled that the file left out."""

# pydantic reads these annotations when the module is imported, so they are not postponed.
from dataclasses import asdict
from typing import Any

from recallatk.bench.settings.checking import entry_axes, every_load
from recallatk.bench.settings.kinds import Table, Text
from recallatk.bench.settings.models import (
    USUAL_DEPTH,
    DataSettings,
    Engines,
    LimitSettings,
    Loads,
    LoadSettings,
    MeasureSettings,
    OutputSettings,
    TruthSettings,
    TuneSettings,
    Waivers,
)
from recallatk.bench.settings.toml import toml_table
from recallatk.core.trials import Load
from recallatk.redaction import without_known, without_secrets


class Settings(Table):
    """What a benchmark is to do; `read_settings` and `settings_from` make them."""

    name: Text
    data: DataSettings
    truth: TruthSettings = TruthSettings()
    measure: MeasureSettings = MeasureSettings()
    load: Loads = (LoadSettings(),)
    limits: LimitSettings = LimitSettings()
    output: OutputSettings = OutputSettings()
    tune: TuneSettings = TuneSettings()
    engine: Engines
    waive: Waivers = ()

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every load of the grids, each once."""
        return every_load(self.load)

    def depth(self, rows: int) -> int:
        """How deep a truth of so many rows is to be computed."""
        return self.truth.depth or max(self.measure.deepest, min(USUAL_DEPTH, rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with ranges and defaults resolved, without what only this machine cares about."""
        apart = {"limits", "output", "tune", "load", "engine", "waive"}
        plain = self.model_dump(mode="json", by_alias=True, exclude=apart)
        data = plain["data"]
        for name in ("corpus", "queries"):
            data[name] = None if data[name] is None else without_secrets(data[name])
        plain["truth"] = {name: plain["truth"][name] for name in ("depth", "file")}
        plain["load"] = [asdict(load) | {"mode": str(load.mode), "via": str(load.via)} for load in self.loads]
        plain["engine"] = [
            {"name": entry.name, "build": _plain(axes.build), "search": _plain(axes.search)}
            for entry, axes in ((entry, entry_axes(entry)) for entry in self.engine)
        ]
        return plain

    def identity(self) -> dict[str, Any]:
        """The same without names and places: two runs of equal identity and equal data can be one."""
        plain = self.to_dict()
        del plain["name"], plain["truth"]["file"]
        del plain["data"]["corpus"], plain["data"]["queries"]
        return plain

    def to_toml(self) -> str:
        """The bench file that reads back to the same settings, with every default spelled out."""
        # Names tell secrets in settings, so that none is left here; a known value may stand anywhere.
        plain = without_known(self.model_dump(by_alias=True, exclude_none=True))
        plain["measure"] = {name: value for name, value in plain["measure"].items() if value != ()}
        tables = [toml_table("", {"name": plain["name"]})]
        for name in ("data", "truth", "measure"):
            tables += [toml_table(f"[{name}]", plain[name])] if plain[name] else []
        tables += [toml_table("[[load]]", each) for each in plain["load"]]
        plain["tune"] = _given(self.tune)
        for name in ("limits", "output", "tune"):
            tables += [toml_table(f"[{name}]", plain[name])] if plain[name] else []
        for entry in plain["engine"]:
            tables.append(toml_table("[[engine]]", {"name": entry["name"]}))
            for part in ("build", "search"):
                tables += [toml_table(f"[engine.{part}]", entry[part])] if entry[part] else []
        tables += [toml_table("[[waive]]", each) for each in plain["waive"]]
        return "\n\n".join(tables) + "\n"


def _given(tune: TuneSettings) -> dict[str, Any]:
    """The table without what it would be anyway: most benchmarks tune nothing."""
    plain = tune.model_dump(by_alias=True, exclude_none=True)
    usual = TuneSettings().model_dump(by_alias=True, exclude_none=True)
    return {name: value for name, value in plain.items() if value != usual.get(name)}


def _plain(axes: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: list(axis.values) for name, axis in axes.items()}
