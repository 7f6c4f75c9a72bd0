"""From a bench file, or plain values, to Settings: all problems at once, each with its path."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from recallatk.bench.settings import models
from recallatk.bench.settings.checking import check_engine
from recallatk.bench.settings.problems import Problems, SettingsError, described, unknown
from recallatk.bench.settings.settings import Settings
from recallatk.errors import UsageError
from recallatk.files import require_ordinary
from recallatk.redaction import is_url, without_secrets

if TYPE_CHECKING:
    from recallatk.files import PathLike

_TABLES: dict[str, type[BaseModel]] = {
    "data": models.DataSettings,
    "truth": models.TruthSettings,
    "measure": models.MeasureSettings,
    "limits": models.LimitSettings,
    "output": models.OutputSettings,
    "tune": models.TuneSettings,
}
_LISTS: dict[str, type[BaseModel]] = {
    "load": models.LoadSettings,
    "engine": models.EngineSettings,
    "waive": models.WaiverSettings,
}
_PLACES = (
    ("data", "corpus"),
    ("data", "queries"),
    ("truth", "file"),
    ("truth", "store"),
    ("output", "folder"),
)
_READ = _PLACES[:3]
_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def read_settings(path: PathLike, *, look: bool = True) -> Settings:
    """Read a bench file; its paths are relative to its folder.

    Args:
        path: the file.
        look: refuse local files that do not exist.
    """
    file = Path(path)
    return _settings(_parsed(file), file.absolute().parent, os.fspath(path), look=look)


def settings_from(values: Mapping[str, Any], *, folder: Path | None = None) -> Settings:
    """The same from plain values; paths are relative to the folder, by default the current one."""
    return _settings(values, (folder or Path()).absolute(), "settings", look=False)


def _parsed(file: Path) -> dict[str, Any]:
    if file.is_dir():
        raise UsageError(f"{file}: is a folder. Accepted: a bench file, which `recallatk init` writes")
    if not file.exists():
        raise UsageError(f"{file}: no such file. Write one: recallatk init CORPUS QUERIES --out {file}")
    require_ordinary(file)
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise SettingsError(f"{file}", [f"byte {problem.start} is no UTF-8"]) from None
    except RecursionError:
        raise SettingsError(f"{file}", ["not TOML that can be read: nested too deeply"]) from None
    except ValueError as problem:
        found = _AT.fullmatch(str(problem))
        said = found[1] if found else str(problem)
        place = f"line {found[2]}, column {found[3]}" if found and found[2] else "at the end"
        raise SettingsError(f"{file}", [f"{place}: not TOML: {said[:1].lower()}{said[1:]}"]) from None


def _settings(values: Mapping[str, Any], folder: Path, where: str, *, look: bool) -> Settings:
    problems = Problems()
    parts: dict[str, Any] = {}
    name = _name(values, problems)
    for given in values:
        if given not in Settings.model_fields:
            problems.add((str(given),), unknown("key", str(given), Settings.model_fields))
    for key, model in _TABLES.items():
        found = _table(model, values.get(key, {}), (key,), problems)
        if found is not None:
            parts[key] = found
    if "measure" in parts and "tune" in parts:
        parts["measure"] = parts["measure"].including(parts["tune"].measures)
    if "data" not in parts:
        parts["data"] = _what_is_sound(values.get("data"))
    for key, model in _LISTS.items():
        parts[key] = _list(model, values.get(key), key, problems)
    _resolve(parts, folder)
    if look:
        _look(values, folder, problems)
    _check_together(parts, problems)
    problems.require_none(where)
    parts["load"] = tuple(parts["load"].values()) or (models.LoadSettings(),)
    parts["engine"] = tuple(parts["engine"].values())
    parts["waive"] = tuple(parts["waive"].values())
    name = name or name_of(parts["data"].corpus)
    if parts["output"].folder is None:
        parts["output"] = models.OutputSettings(folder=str(folder / "runs" / _folder_name(name)))
    return Settings(name=name, **parts)


def _name(values: Mapping[str, Any], problems: Problems) -> str | None:
    name = values.get("name")
    if name is None or (isinstance(name, str) and name.strip()):
        return name
    problems.add(("name",), f"{described(name)}. Accepted: a text that is not empty")
    return None


def _table(model: type[BaseModel], given: Any, place: tuple[str | int, ...], problems: Problems) -> Any:
    if not isinstance(given, Mapping):
        problems.add(place, f"{described(given)}. Accepted: a table, written [{place[0]}]")
        return None
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems.add_all(error, model, place)
        return None


def _list(model: type[BaseModel], given: Any, key: str, problems: Problems) -> dict[int, Any]:
    """The entries that are sound, by their number."""
    if given is None or given == []:
        if key == "engine":
            problems.add((key,), "is required: at least one [[engine]] with its name")
        return {}
    if not isinstance(given, list | tuple) or not all(isinstance(each, Mapping) for each in given):
        problems.add((key,), f"{described(given)}. Accepted: tables, each written [[{key}]]")
        return {}
    read = {number: _table(model, each, (key, number), problems) for number, each in enumerate(given)}
    return {number: found for number, found in read.items() if found is not None}


def _resolve(parts: dict[str, Any], folder: Path) -> None:
    """Local paths become absolute, so that they mean the same from everywhere."""
    for section, key in _PLACES:
        text = getattr(parts.get(section), key, None)
        if text is not None and not is_url(text):
            whole = str(_whole(folder, text))
            parts[section] = parts[section].model_copy(update={key: whole})


def _whole(folder: Path, text: str) -> Path:
    return folder / (Path(text).expanduser() if text.startswith("~/") else text)


def _what_is_sound(given: Any) -> models.DataSettings:
    """The metric and the filter of data that has other problems, since engines are checked against them."""
    sound: dict[str, Any] = {"corpus": "unknown"}
    for key in ("metric", "where"):
        try:
            value = given.get(key) if isinstance(given, Mapping) else None
            sound[key] = getattr(models.DataSettings.model_validate({**sound, key: value}), key)
        except ValidationError:
            continue
    return models.DataSettings.model_validate(sound)


def _look(values: Mapping[str, Any], folder: Path, problems: Problems) -> None:
    """See that local files are there, whatever else is wrong."""
    for section, key in _READ:
        table = values.get(section)
        text = table.get(key) if isinstance(table, Mapping) else None
        if not isinstance(text, str) or not text or is_url(text) or any(sign in text for sign in "*?[\0"):
            continue
        path = _whole(folder, text)
        if not path.exists():
            problems.add((section, key), f"{path}: no such file or folder")


def _check_together(parts: dict[str, Any], problems: Problems) -> None:
    """What concerns more than one table, as far as these are sound."""
    data, truth, measure = parts["data"], parts.get("truth"), parts.get("measure")
    if truth is not None and measure is not None and truth.depth is not None:
        key = "k" if max(measure.k) > truth.depth else "measures"
        if measure.deepest > truth.depth:
            said = f"{measure.deepest} is deeper than the truth. Accepted: up to {truth.depth}, truth.depth"
            problems.add(("measure", key), said)
    for number, entry in parts["engine"].items():
        check_engine(
            entry,
            ("engine", number),
            problems,
            metric=data.metric,
            filtered=None if data.where is None else "data.where is a filter",
            k=None if measure is None else min(measure.largest_k, data.sample_corpus or measure.largest_k),
        )


def name_of(corpus: str) -> str:
    """What a benchmark is called by its corpus."""
    shown = without_secrets(corpus)
    return PurePosixPath(shown).stem.strip("*?[]. ") or PurePosixPath(shown).parent.name or "benchmark"


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "benchmark"
