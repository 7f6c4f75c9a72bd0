"""Resuming a run: finished trials are reused if the settings match; differences are named."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from recallatk.core import Measurement, Trial
from recallatk.core.data import different_models
from recallatk.errors import FormatError, MismatchError
from recallatk.files import reading, require_version
from recallatk.storage.checksums import CHECKED_VERSION
from recallatk.storage.folder_scan import (
    SIDECARS,
    FolderScan,
    remove_trial,
    require_reachable,
    trial_name,
    trial_numbers,
)
from recallatk.storage.judged_file import JUDGED, with_judged
from recallatk.storage.loss_file import LOSSES, with_loss
from recallatk.storage.records import read_trial_record, written
from recallatk.storage.run_file import RUN, read_run, run_head
from recallatk.storage.stage_file import STAGES, with_stages
from recallatk.storage.trial_file import FORMAT_VERSION, read_trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from recallatk.core import Failure, Run
    from recallatk.storage.records import Record
    from recallatk.storage.trial_file import TrialFile

_MISSING = object()
# Goals, prices, segments and explanations change no measurement. Engines and repeated builds only change
# the plan.
_IGNORED = ("tune.", "cost.", "measure.by", "measure.explain", "measure.builds")
_NEW_NAMES = {"measure.k": "measure.at"}
_MOST_SHOWN = 60
# Ignored: names and paths, because fingerprints identify the content; models are compared as such.
_PLACES = frozenset({"name", "data.corpus", "data.queries", "data.qrels", "truth.file"})
_MODELS = frozenset({"data.model", "data.query_model", "data.model_column"})


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Every difference in data, truth, metric and settings between a stored run and the requested one."""
    one, other = there["fingerprints"], here["fingerprints"]
    parts = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    said = []
    data = [name for name in parts if name != "truth"]
    if data:
        said.append(f"the data ({', '.join(data)})")
    if "truth" in parts:
        said.append("the truth")
    if there["metric"] != here["metric"]:
        said.append(f"the metric (stored {there['metric']}, requested {here['metric']})")
    said += different_models(there.get("models", {}), here.get("models", {}))
    settings = _changed(there["settings"], here["settings"])
    return said + [f"the setting {name} (stored {one}, requested {other})" for name, one, other in settings]


def _changed(there: Any, here: Any) -> Iterator[tuple[str, str, str]]:
    one, other = (
        {_NEW_NAMES.get(name, name): each for name, each in _leaves({**of, "engine": None, "path": None})}
        for of in (there, here)
    )
    yield from _changed_paths(there.get("path", ()), here.get("path", ()))
    for name in {**one, **other}:
        before, after = one.get(name, _MISSING), other.get(name, _MISSING)
        if before != after and name not in _PLACES | _MODELS and not name.startswith(_IGNORED):
            yield name, _shown(before), _shown(after)


def _changed_paths(there: Any, here: Any) -> Iterator[tuple[str, str, str]]:
    """What differs between stored paths and those of the same names; new paths only change the plan."""
    requested = {each["name"]: each for each in here}
    for path in there:
        name = f"path {path['name']}"
        other = requested.get(path["name"])
        if other is None:
            # Its trials could not be told from those of another path that gets its name later.
            yield name, "present", "absent"
        else:
            one, two = (dict(_leaves(each)) for each in (path, other))
            for key in {**one, **two}:
                if one.get(key, _MISSING) != two.get(key, _MISSING):
                    yield f"{name}: {key}", _shown(one.get(key, _MISSING)), _shown(two.get(key, _MISSING))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its path; an empty table or list counts as a value."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{name}[{number}]")
    elif name:
        yield name, value


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


WAY_OUT = "Choose another folder (--out), or start over in this one (--fresh)"


def _reweighting(folder: Path, said: Sequence[str], here: Record) -> str:
    """How to weight the stored run, if only its weights differ; empty otherwise."""
    column = (here["settings"].get("measure") or {}).get("weight")
    if column is None or len(said) > 1 or not said[0].startswith("the setting measure.weight "):
        return ""
    named = shlex.join(["recallatk", "report", str(folder), "--weight", str(column)])
    return f"To weight the means of the finished trials: {named}. "


class FinishedTrials(Mapping[Trial, Measurement]):
    """Measurements on disk, each read on access."""

    def __init__(self) -> None:
        self.paths: dict[Trial, Path] = {}
        self.explained: set[Trial] = set()
        """Trials with evidence on what they missed."""
        self.judged: dict[Trial, str] = {}
        """What the answers of trials were judged by."""
        self.staged: set[Trial] = set()
        """Trials of paths, whose stages are stored."""

    def add(self, trial: Trial, path: Path) -> None:
        """Register the file of a trial."""
        self.paths[trial] = path

    def __getitem__(self, trial: Trial) -> Measurement:
        # The file is redacted, but the requested trial may have secrets.
        found = read_trial(self.paths[trial])
        measurement = found.measurement
        if trial in self.explained:
            measurement = with_loss(LOSSES.beside(found.path), measurement, found.identity)
        if trial in self.judged:
            measurement = with_judged(JUDGED.beside(found.path), measurement, found.identity)
        if trial in self.staged:
            measurement = with_stages(found.path, measurement, found.identity)
        return replace(measurement, trial=trial)

    def __contains__(self, trial: object) -> bool:
        return trial in self.paths

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def stored_run(found: FolderScan, run: Run) -> Run | None:
    """The run in a folder, without measurements; None if there is none. A different run is refused."""
    heads = {trial_name(number): header for number, header in found.trials.items()}
    if found.header is not None:
        heads = {RUN: found.header, **heads}
    here = run_head(run, None)
    for name, header in heads.items():
        where = found.folder / name
        with reading(str(where), "run"):
            _require_going_on(where, int(header["format_version"]))
            there = header if name == RUN else header["run"]
            said = differences(there, here)
        if said:
            raise MismatchError(
                f"{where} belongs to a different run. Different: {'; '.join(said)}. "
                f"{_reweighting(found.folder, said, here)}{WAY_OUT}"
            )
    for name, header in heads.items():
        # The first is the most complete: run.json, if there is one.
        with reading(str(found.folder / name), "run"):
            return read_run(header if name == RUN else header["run"], ())
    return None


def _require_going_on(where: Path, version: int) -> None:
    require_version(str(where), "run", version, FORMAT_VERSION)
    if version < CHECKED_VERSION:
        raise MismatchError(f"{where}: run format {version} can be read but not resumed. {WAY_OUT}")


def adopt(found: FolderScan, planned: tuple[Trial, ...] | None) -> tuple[FinishedTrials, dict[Trial, Record]]:
    """Reuse every intact trial file, with its entry for run.json; damaged ones are measured again.

    So are planned trials of paths whose stages are lost. Trials that the plan does not name are kept
    behind it.

    Args:
        found: the folder, which holds the same run.
        planned: the trials to measure; None to accept whatever is there.
    """
    summaries, damaged, unstaged = _read_all(found)
    files = {number: read_trial_record(each) for number, each in summaries.items()}
    owners = _owners(files, planned)
    _require_once(found.folder, files, owners)
    for number in () if planned is None else owners.keys() & set(unstaged):
        # Only a new measurement can tell again what the trial of a path was compared with.
        damaged.append(number)
        del files[number], owners[number]
    kept = {number: trial for number, trial in files.items() if number not in owners}
    for number in damaged:
        remove_trial(found.folder, number)
    places = _places(found, planned, owners, kept)
    _move(found.folder, places)
    finished, by_trial = FinishedTrials(), {}
    for number, trial in (owners | kept).items():
        name = trial_name(places[number])
        finished.add(trial, found.folder / name)
        known = _with_sidecars(found.folder / name)
        if known is not None and known.loss is not None:
            finished.explained.add(trial)
        if known is not None and known.judged is not None:
            finished.judged[trial] = known.judged.identity
        if known is not None and known.stages is not None:
            finished.staged.add(trial)
        by_trial[trial] = {**summaries[number], "file": name}
    return finished, by_trial


def _with_sidecars(path: Path) -> Measurement | None:
    """A trial with what is known beside it; damaged files are removed, to be made again.

    None if there is nothing beside it.
    """
    if not any(each.beside(path).exists() for each in SIDECARS):
        return None
    file = read_trial(path)
    measurement = file.measurement
    readers = (
        (LOSSES.beside(path), with_loss),
        (JUDGED.beside(path), with_judged),
        (STAGES.beside(path), lambda _, *known: with_stages(path, *known)),
    )
    for beside, read in readers:
        try:
            measurement = read(beside, measurement, file.identity)
        except FormatError as problem:
            require_reachable(problem)
            beside.unlink()
    return measurement


def _require_once(folder: Path, files: dict[int, Trial], owners: dict[int, Trial]) -> None:
    """Refuse a folder with two files of one trial: nothing says which of them counts."""
    first = {files[number]: number for number in owners}
    for number, trial in files.items():
        if number not in owners and first.setdefault(trial, number) != number:
            names = " and ".join(trial_name(each) for each in sorted((first[trial], number)))
            raise MismatchError(f"{folder}: {names} both hold the trial {trial}. Remove one of the two files")


def _places(
    found: FolderScan, planned: tuple[Trial, ...] | None, owners: dict[int, Trial], kept: dict[int, Trial]
) -> dict[int, int]:
    """The number that each file is to have: its position in the plan, or a free one behind it."""
    if planned is None:
        return {number: number for number in owners}
    positions = {trial: number for number, trial in enumerate(planned, 1)}
    # Files that no run wrote are never overwritten.
    strange = {*found.foreign, *found.unreadable}.difference(found.damaged)
    behind = (number for number in count(len(planned) + 1) if number not in strange)
    places = {number: positions[trial] for number, trial in owners.items()}
    return places | dict(zip(sorted(kept), behind, strict=False))


def _read_all(found: FolderScan) -> tuple[dict[int, Record], list[int], list[int]]:
    """Entries for run.json by trial number, the numbers of damaged files, and of trials without stages."""
    summaries, damaged, unstaged = {}, list(found.damaged), list[int]()
    for number in found.trials:
        try:
            file = read_trial(found.folder / trial_name(number), every_column=True)
            summaries[number] = file.summary
            if file.staged and _lost_stages(file):
                unstaged.append(number)
        except FormatError as problem:
            require_reachable(problem)
            damaged.append(number)
    return summaries, damaged, unstaged


def _lost_stages(file: TrialFile) -> bool:
    """Whether the stages that were written beside a trial are missing or damaged."""
    try:
        return with_stages(file.path, file.measurement, file.identity).stages is None
    except FormatError as problem:
        require_reachable(problem)
        return True


def _owners(files: dict[int, Trial], planned: tuple[Trial, ...] | None) -> dict[int, Trial]:
    """The planned trial of each file; a file in its planned position takes precedence."""
    if planned is None:
        return {number: trial for trial, number in {trial: number for number, trial in files.items()}.items()}
    # Files are redacted, so trials that differ only in secrets look the same there.
    alike: dict[Trial, list[Trial]] = {}
    for trial in planned:
        alike.setdefault(written(trial), []).append(trial)
    owners = {
        number: planned[number - 1]
        for number, trial in files.items()
        if number <= len(planned) and planned[number - 1] in alike.get(trial, ())
    }
    taken = set(owners.values())
    for number, trial in files.items():
        free = [each for each in alike.get(trial, ()) if each not in taken]
        if number not in owners and free:
            owners[number] = free[0]
            taken.add(free[0])
    return owners


def _move(folder: Path, places: dict[int, int]) -> None:
    """Rename files to their positions in the plan. Each describes itself, so an interruption loses none."""
    moved = {number: place for number, place in places.items() if number != place}
    beyond = max([*trial_numbers(folder), *places.values()], default=0)
    parked = {}
    for away, (number, place) in enumerate(moved.items(), beyond + 1):
        _rename(folder, number, away)
        parked[away] = place
    for away, place in parked.items():
        _rename(folder, away, place)


def _rename(folder: Path, number: int, place: int) -> None:
    # A sidecar names its trial, so that it is refused rather than mistaken if this is interrupted. Without a
    # place for it, it is made again: a foreign file is not overwritten.
    for each in SIDECARS:
        source, target = folder / each.name(number), folder / each.name(place)
        if source.exists() and not target.exists():
            source.rename(target)
    (folder / trial_name(number)).rename(folder / trial_name(place))


def adopt_failures(
    failures: Iterable[Failure], planned: tuple[Trial, ...] | None, finished: FinishedTrials
) -> dict[Trial, Failure]:
    """Reuse the failures of planned trials that are not finished."""
    names = None if planned is None else {written(trial): trial for trial in planned}
    adopted = {}
    for failure in failures:
        trial = failure.trial if names is None else names.get(failure.trial)
        if trial is not None and trial not in finished:
            adopted[trial] = replace(failure, trial=trial)
    return adopted
