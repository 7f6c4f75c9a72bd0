"""Saving and loading a run as a folder: run.json and one Parquet file per trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from recallatk.errors import FormatError, MismatchError, UsageError
from recallatk.files import PathLike, locate, reading, require_version
from recallatk.fingerprint import fingerprints
from recallatk.redaction import is_url, without_secrets
from recallatk.storage.checksums import CHECKED_VERSION
from recallatk.storage.folder_scan import FolderLock, forget, survey, sweep, trial_name, trial_numbers
from recallatk.storage.format_v1 import read_format_one
from recallatk.storage.judged_file import JUDGED, with_judged, write_judged
from recallatk.storage.loss_file import LOSSES, with_loss, write_loss
from recallatk.storage.run_file import (
    RUN,
    identity,
    line,
    planned_lines,
    read_run,
    read_run_header,
    run_head,
    write_run_file,
)
from recallatk.storage.stage_file import with_stages, write_stages
from recallatk.storage.trial_file import (
    FORMAT_VERSION,
    TrialFile,
    file_summary,
    read_header,
    read_trial,
    write_trial,
)

if TYPE_CHECKING:
    from recallatk.core import Dataset, Measurement, Run, Trial
    from recallatk.storage.records import Record


def save_run(run: Run, dataset: Dataset, folder: PathLike) -> Path:
    """Write a complete run: the trials, then run.json.

    Args:
        run: the run.
        dataset: the data that it was measured on; its ids are written with the answers.
        folder: the folder to write to; an existing run in it is replaced.
    """
    target = local_folder(folder)
    require_same_data(run, dataset)
    target.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(target)
    try:
        sweep(target)
        numbers = _numbers(run)
        found = survey(target)
        found.require_room(numbers)
        forget(found)
        timed = run.timed
        lines, head = [], run_head(run, timed)
        for number, measurement in sorted(
            zip(numbers, run.measurements, strict=True), key=lambda each: each[0]
        ):
            path = target / trial_name(number)
            write_trial(path, measurement, dataset, head)
            if measurement.loss is not None:
                write_loss(LOSSES.beside(path), measurement, measurement.loss, head)
            if measurement.judged is not None:
                write_judged(JUDGED.beside(path), measurement, measurement.judged, head)
            if measurement.stages is not None:
                write_stages(path, measurement, measurement.stages, head)
            lines.append(line(file_summary(path, measurement)))
        write_run_file(target, run, timed, planned_lines(run), lines)
    finally:
        lock.release()
    return target


def local_folder(folder: PathLike) -> Path:
    """The folder as a path; refuses URLs."""
    if is_url(str(folder)):
        raise UsageError(f"{without_secrets(str(folder))}: runs can be written only to local folders")
    return Path(folder)


def require_same_data(run: Run, dataset: Dataset) -> None:
    """Refuse to write a run with the ids of different data."""
    other = [part for part, text in fingerprints(dataset).items() if run.fingerprints.get(part) != text]
    if other:
        raise MismatchError(f"the run was measured on different data: {', '.join(other)} differ")


def _numbers(run: Run) -> list[int]:
    """The number of each measurement in the plan; unplanned ones come last."""
    free: dict[Trial, list[int]] = {}
    for number, trial in enumerate(run.planned or (), 1):
        free.setdefault(trial, []).append(number)
    beyond = iter(range(len(run.planned or ()) + 1, 1 + len(run.planned or ()) + len(run.measurements)))
    return [free[each.trial].pop(0) if free.get(each.trial) else next(beyond) for each in run.measurements]


def load_run(folder: PathLike) -> Run:
    """Load a run with all finished trials.

    Damaged files are refused. Runs of formats 1 and 2 have no checksums and no per-query values.
    """
    location = locate(Path(folder))
    where, path = f"{location.text}/{RUN}", Path(folder)
    header = read_run_header(path)
    if header is None:
        return _without_run_file(path, where)
    with reading(where, "run"):
        version = int(header["format_version"])
        require_version(where, "run", version, FORMAT_VERSION)
        if version == 1:
            return read_format_one(header, path)
        listed = [str(each["file"]) for each in header["trials"]]
        own = identity(header["metric"], header["fingerprints"])
        planned = None if header["planned"] is None else len(header["planned"])
        return _run(header, _trials(path, own, listed, planned), version)


def _trials(folder: Path, own: str, listed: list[str], planned: int | None) -> list[TrialFile]:
    """Every finished trial of a run, whether or not run.json lists it."""
    numbers = trial_numbers(folder)
    missing = set(listed).difference(map(trial_name, numbers))
    for name in listed:
        if name in missing:
            raise FormatError(
                str(folder / name), "the file is missing, but run.json lists it", "a complete run"
            )
    files, known = [], frozenset(listed)
    for number in numbers:
        path = folder / trial_name(number)
        if path.name in known or _is_ours(path, number, planned):
            files.append(read_trial(path))
            if files[-1].identity != own:
                raise FormatError(str(path), "the file belongs to another run", "trials of one run")
    return files


def _is_ours(path: Path, number: int, planned: int | None) -> bool:
    """Whether a file that run.json does not list is a trial; a damaged one counts only if it is planned."""
    try:
        if read_header(path) is not None:
            return True
        # A run starts only if no foreign file has the name of one of its trials.
        if planned is not None and number <= planned:
            raise FormatError(str(path), "its metadata has no trial record", "a trial file")
        return False
    except FormatError:
        if planned is None or number <= planned:
            raise
        return False


def _without_run_file(folder: Path, where: str) -> Run:
    headers: list[Record] = []
    for number in trial_numbers(folder) if folder.is_dir() else ():
        header = read_header(folder / trial_name(number))
        if header is not None and "run" in header:
            headers.append(header)
    if not headers:
        tuned = (folder / "tuned.json").exists()
        hint = f". It holds a tuning: recallatk report {folder}" if tuned else ""
        raise UsageError(f"{where}: no such file, so this folder holds no run{hint}")
    head = headers[0]["run"]
    with reading(where, "run"):
        return _run(head, _trials(folder, head["identity"], [], None), FORMAT_VERSION)


def _run(header: Record, files: list[TrialFile], version: int) -> Run:
    checked = version >= CHECKED_VERSION and all(each.checked for each in files)
    return replace(read_run(header, tuple(map(_with_sidecars, files))), checked=checked)


def _with_sidecars(file: TrialFile) -> Measurement:
    """The trial with what is known beside it."""
    explained = with_loss(LOSSES.beside(file.path), file.measurement, file.identity)
    judged = with_judged(JUDGED.beside(file.path), explained, file.identity)
    return with_stages(file.path, judged, file.identity)
