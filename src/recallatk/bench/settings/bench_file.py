"""Bench files: TOML or plain values to Settings, with all problems reported at once, each with its key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from recallatk.adapters import get_engine, registered
from recallatk.adapters.base import require_filters, require_metric
from recallatk.adapters.installation import require_installed
from recallatk.adapters.names_elsewhere import ENGINES
from recallatk.bench.settings import models
from recallatk.bench.settings.grid import combine
from recallatk.bench.settings.old_names import renewed
from recallatk.bench.settings.problems import NO_ENGINE, Problems, SettingsError, described
from recallatk.bench.settings.settings import Settings
from recallatk.errors import RecallError, UsageError, unknown
from recallatk.files import require_ordinary
from recallatk.pipeline.path import Retrieve
from recallatk.redaction import is_url, without_secrets

if TYPE_CHECKING:
    from recallatk.adapters import Engine
    from recallatk.bench.settings.problems import Place
    from recallatk.core import Metric
    from recallatk.files import PathLike

_TABLES: dict[str, type[BaseModel]] = {
    "data": models.DataSettings,
    "truth": models.TruthSettings,
    "measure": models.MeasureSettings,
    "limits": models.LimitSettings,
    "output": models.OutputSettings,
    "tune": models.TuneSettings,
    "cost": models.CostSettings,
    "quality": models.QualitySettings,
}
_LISTS: dict[str, type[BaseModel]] = {
    "load": models.LoadSettings,
    "engine": models.EngineSettings,
    "path": models.PathSettings,
    "waive": models.WaiverSettings,
}
_PLACES = (
    ("data", "corpus"),
    ("data", "queries"),
    ("data", "qrels"),
    ("truth", "file"),
    ("truth", "store"),
    ("quality", "cache"),
    ("output", "folder"),
)
_READ = _PLACES[:4]
_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def read_settings(
    path: PathLike,
    *,
    look: bool = True,
    engines: bool = True,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Read a bench file; its paths are relative to its folder.

    Args:
        path: the file.
        look: refuse missing local files; False for a run folder, whose data may have moved.
        engines: require at least one engine, as a run does.
        changes: keys to replace in tables of the file, such as `{"measure": {"rounds": 1}}`.
    """
    file = Path(path)
    values = _changed(renewed(_parsed(file), recorded=not look), changes or {})
    return _settings(values, file.absolute().parent, os.fspath(path), look=look, engines=engines)


def _changed(values: dict[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    for table, keys in changes.items():
        given = values.get(table, {})
        if isinstance(given, Mapping):
            values[table] = {**given, **keys}
    return values


def settings_from(values: Mapping[str, Any], *, folder: Path | None = None, engines: bool = True) -> Settings:
    """Settings from plain values.

    Args:
        values: the keys and tables of a bench file.
        folder: base of relative paths, by default the current folder.
        engines: require at least one engine, as a run does.
    """
    new = renewed(values, recorded=False)
    return _settings(new, (folder or Path()).absolute(), "settings", look=False, engines=engines)


def _parsed(file: Path) -> dict[str, Any]:
    if file.is_dir():
        raise UsageError(f"{file}: is a folder. Accepted: a bench file, which `recallatk init` writes")
    if not file.exists():
        raise UsageError(f"{file}: no such file. Write one: recallatk init CORPUS QUERIES --out {file}")
    require_ordinary(file)
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise SettingsError(f"{file}", [f"byte {problem.start} is not UTF-8"]) from None
    except RecursionError:
        raise SettingsError(f"{file}", ["not TOML: nested too deeply"]) from None
    except ValueError as problem:
        found = _AT.fullmatch(str(problem))
        said = found[1] if found else str(problem)
        place = f"line {found[2]}, column {found[3]}" if found and found[2] else "at the end"
        raise SettingsError(f"{file}", [f"{place}: not TOML: {said[:1].lower()}{said[1:]}"]) from None


def _settings(values: Mapping[str, Any], folder: Path, where: str, *, look: bool, engines: bool) -> Settings:
    problems = Problems()
    parts: dict[str, Any] = {}
    name = _name(values, problems)
    for given in values:
        if given not in Settings.model_fields:
            problems.add((str(given),), unknown("key", given, Settings.model_fields, placed=True))
    for key, model in _TABLES.items():
        found = _table(model, values.get(key, {}), (key,), problems)
        if found is not None:
            parts[key] = found
    if "measure" in parts and "tune" in parts:
        parts["measure"] = parts["measure"].including(parts["tune"].measures)
    if "data" not in parts:
        parts["data"] = _valid_data(values.get("data"))
    for key, model in _LISTS.items():
        parts[key] = _list(model, values.get(key), key, problems)
    if "measure" in parts and "at" not in parts["measure"].model_fields_set:
        parts["measure"] = _within_paths(parts["measure"], parts["path"].values())
    if engines and values.get("engine") in (None, []) and values.get("path") in (None, []):
        problems.add(("engine",), NO_ENGINE)
    _resolve(parts, folder)
    if look:
        _look(values, folder, problems)
    _check_together(parts, problems)
    problems.require_none(where)
    parts["load"] = tuple(parts["load"].values()) or (models.LoadSettings(),)
    parts["engine"] = tuple(parts["engine"].values())
    parts["path"] = tuple(parts["path"].values())
    parts["waive"] = tuple(parts["waive"].values())
    name = name or name_of(parts["data"].corpus)
    if parts["output"].folder is None:
        parts["output"] = models.OutputSettings(folder=str(folder / "runs" / _folder_name(name)))
    return Settings(name=name, **parts)


def _name(values: Mapping[str, Any], problems: Problems) -> str | None:
    name = values.get("name")
    if name is None or (isinstance(name, str) and name.strip()):
        return name
    problems.add(("name",), f"{described(name)}. Accepted: a non-empty string")
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
    """The valid entries by their index."""
    if given is None or given == []:
        return {}
    if not isinstance(given, list | tuple) or not all(isinstance(each, Mapping) for each in given):
        problems.add((key,), f"{described(given)}. Accepted: tables, each written [[{key}]]")
        return {}
    read = {number: _table(model, each, (key, number), problems) for number, each in enumerate(given)}
    return {number: found for number, found in read.items() if found is not None}


def _resolve(parts: dict[str, Any], folder: Path) -> None:
    """Make local paths absolute, so that they do not depend on the working directory."""
    for section, key in _PLACES:
        text = getattr(parts.get(section), key, None)
        if text is not None and not is_url(text):
            whole = str(_whole(folder, text))
            parts[section] = parts[section].model_copy(update={key: whole})


def _whole(folder: Path, text: str) -> Path:
    return folder / (Path(text).expanduser() if text.startswith("~/") else text)


def _valid_data(given: Any) -> models.DataSettings:
    """Metric and filter of a [data] table that has other problems, so that engines can still be checked."""
    valid: dict[str, Any] = {"corpus": "unknown"}
    for key in ("metric", "where"):
        try:
            value = given.get(key) if isinstance(given, Mapping) else None
            valid[key] = getattr(models.DataSettings.model_validate({**valid, key: value}), key)
        except ValidationError:
            continue
    return models.DataSettings.model_validate(valid)


def _look(values: Mapping[str, Any], folder: Path, problems: Problems) -> None:
    """Check that local files exist."""
    for section, key in _READ:
        table = values.get(section)
        text = table.get(key) if isinstance(table, Mapping) else None
        if not isinstance(text, str) or not text or is_url(text) or any(sign in text for sign in "*?[\0"):
            continue
        path = _whole(folder, text)
        if not path.exists():
            problems.add((section, key), f"{path}: no such file or folder")


def _check_together(parts: dict[str, Any], problems: Problems) -> None:
    """Check conditions that span several tables."""
    data, truth, measure = parts["data"], parts.get("truth"), parts.get("measure")
    if truth is not None and measure is not None and truth.depth is not None:
        key = "at" if max(measure.at) > truth.depth else "measures"
        if measure.deepest > truth.depth:
            said = f"{measure.deepest} is deeper than the truth. Accepted: up to {truth.depth}, truth.depth"
            problems.add(("measure", key), said)
    judged = getattr(parts.get("quality"), "k", None)
    if judged is not None and measure is not None and judged > measure.largest_k:
        said = f"{judged}. Accepted: up to {measure.largest_k}, the largest k of the measures"
        problems.add(("quality", "k"), said)
    filtered = None if data.where is None else "data.where is a filter"
    k = None if measure is None else min(measure.largest_k, data.sample_corpus or measure.largest_k)
    for number, entry in parts["engine"].items():
        place = ("engine", number)
        engine = find_engine(entry.name, place, problems)
        if engine is not None:
            check_ability(engine, place, problems, metric=data.metric, filtered=filtered, build=entry.build)
            _check_parameters(engine, entry, place, problems, k)
    for number, path in parts["path"].items():
        _check_path(path, ("path", number), parts, problems, filtered=filtered, k=k)


def _within_paths(
    measure: models.MeasureSettings, paths: Iterable[models.PathSettings]
) -> models.MeasureSettings:
    """The usual cutoffs, without those beyond the number of results of a path."""
    most = min((each.k for each in paths if each.k is not None), default=None)
    if most is None or most >= max(measure.at):
        return measure
    usual = tuple(each for each in measure.at if each <= most) or (most,)
    return measure.model_copy(update={"at": usual if most in usual else (*usual, most)})


def _check_path(
    entry: models.PathSettings,
    place: Place,
    parts: dict[str, Any],
    problems: Problems,
    *,
    filtered: str | None,
    k: int | None,
) -> None:
    """Check the stages of a path, its engines, its parameters, and that it returns enough rows."""
    problems.include(entry.stage_problems, place)
    others = [each.name for number, each in parts["path"].items() if number < place[1]]
    if entry.name in others or entry.name in registered():
        said = "another path" if entry.name in others else "an engine"
        problems.add((*place, "name"), f"{entry.name} is the name of {said}. Choose another name")
        return
    if entry.stage_problems.found:
        return
    found = [
        find_engine(leg.engine, (*place, "stages", number), problems, key="retrieve")
        for number, leg in enumerate(entry.path.read)
        if isinstance(leg, Retrieve) and leg.dense
    ]
    if None in found:
        return
    try:
        engine = entry.engine
    except RecallError as problem:
        problems.add(place, str(problem))
        return
    metric = parts["data"].metric
    check_ability(engine, place, problems, metric=metric, filtered=filtered, build=entry.build)
    _check_parameters(engine, entry, place, problems, k)
    if k is not None and entry.k is not None and k > entry.k:
        said = f"returns {entry.k} rows, and {k} are scored. Raise it, or lower at (--at) to {entry.k}"
        problems.add((*place, "k"), said)


def find_engine(name: str, place: Place, problems: Problems, *, key: str = "name") -> type[Engine] | None:
    """The engine of this name, which the key states; an unknown or missing one is a problem."""
    if name not in registered():
        problems.add((*place, key), unknown("engine", name, registered(), ENGINES))
        return None
    try:
        engine = get_engine(name)
    except RecallError as problem:
        problems.add((*place, key), str(problem))
        return None
    try:
        require_installed(engine)
    except RecallError as problem:
        # Its parameters can still be checked.
        problems.add((*place, key), str(problem))
    return engine


def check_ability(
    engine: type[Engine],
    place: Place,
    problems: Problems,
    *,
    metric: Metric | None,
    filtered: str | None,
    build: Mapping[str, Any],
) -> None:
    """Check that an engine supports the metric, and filters if anything requires them.

    Args:
        engine: its class.
        place: its entry.
        problems: collects unsupported features.
        metric: the metric, if known.
        filtered: the reason why filters are needed, if they are.
        build: the build parameters of its entry.
    """
    checks = [partial(require_filters, engine, filtered, build)]
    if metric is not None:
        checks.insert(0, partial(require_metric, engine, metric))
    for check in checks:
        try:
            check()
        except RecallError as problem:
            problems.add(place, str(problem))


def _check_parameters(
    engine: type[Engine],
    entry: models.EngineSettings | models.PathSettings,
    place: Place,
    problems: Problems,
    k: int | None,
) -> None:
    """Check values, then the constraints that do not depend on the data."""
    problems.include(entry.problems, place)
    if not entry.problems.found:
        for each in combine(engine, entry.axes, {} if k is None else {"k": k}).refused:
            problems.add(place, each)


def name_of(corpus: str) -> str:
    """Default name of a benchmark: the name of its corpus."""
    shown = without_secrets(corpus)
    return PurePosixPath(shown).stem.strip("*?[]. ") or PurePosixPath(shown).parent.name or "benchmark"


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "benchmark"
