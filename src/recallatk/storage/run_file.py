"""run.json: the description of a run, its plan, and its results so far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric, Run
from recallatk.files import reading, require_ordinary, write_text
from recallatk.fingerprint import Hash
from recallatk.redaction import public
from recallatk.storage.checksums import CHECKSUM, require_sound, text_checksum
from recallatk.storage.records import (
    Record,
    caution_record,
    failure_record,
    read_caution,
    read_failure,
    read_trial_record,
    trial_record,
    upgraded,
)
from recallatk.storage.trial_file import FORMAT_VERSION
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from recallatk.core import Measurement


RUN = "run.json"


def identity(metric: str, fingerprints: Mapping[str, str]) -> str:
    """What all trials of a run must share: data, truth and metric."""
    return Hash("run", str(metric), dict(sorted(fingerprints.items()))).text()


def run_head(run: Run, timed: str | None) -> Record:
    """The description of a run in run.json and in every trial file, so that each can be read alone.

    Args:
        run: the run; its measurements need not be loaded.
        timed: what the latencies cover; not read back, because builds record it too.
    """
    return {
        "identity": identity(run.metric, run.fingerprints),
        "dataset": public(run.dataset),
        "metric": str(run.metric),
        "fingerprints": dict(run.fingerprints),
        "environment": public(dict(run.environment)),
        "timed": public(timed),
        "sampled_from": run.sampled_from,
        **({"models": {part: list(each) for part, each in run.models.items()}} if run.models else {}),
        "settings": public(dict(run.settings)),
        "begun": run.begun,
    }


def line(record: Any) -> str:
    """A record as one line of run.json."""
    return json.dumps(record, ensure_ascii=False)


def planned_lines(run: Run) -> list[str] | None:
    """Lines of all planned trials, which do not change during a run."""
    return None if run.planned is None else [line(trial_record(each)) for each in run.planned]


def write_run_file(
    folder: Path, run: Run, timed: str | None, planned: list[str] | None, trials: Iterable[str]
) -> None:
    """Write run.json with the lines of planned and finished trials.

    It is written after each trial, so lines are reused instead of being serialized again.
    """
    head = {name: line(value) for name, value in run_head(run, timed).items() if name != "identity"}
    parts = {
        "format_version": line(FORMAT_VERSION),
        "tool_version": line(__version__),
        **head,
        "planned": "null" if planned is None else _listed(planned),
        "trials": _listed(trials),
        "failures": _listed(line(failure_record(each)) for each in run.failures),
        "cautions": _listed(line(caution_record(each)) for each in run.cautions),
        "seconds": line(public(dict(run.seconds))),
    }
    text = _document(parts)
    write_text(folder / RUN, _document({**parts, CHECKSUM: line(text_checksum(text))}))


def _document(parts: Mapping[str, str]) -> str:
    text = ",\n".join(f'  "{name}": {value}' for name, value in parts.items())
    return f"{{\n{text}\n}}\n"


def read_run_header(folder: Path) -> Record | None:
    """The content of run.json; None if it is missing. A damaged file is refused."""
    path = folder / RUN
    with reading(str(path), "run"):
        require_ordinary(path)
        try:
            header = dict(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        if int(header["format_version"]) <= FORMAT_VERSION:
            require_sound(str(path), header, _rewritten(header))
        return upgraded(header)


def _rewritten(header: Mapping[str, Any]) -> str:
    """The text that the checksum in run.json covers."""
    return _document(
        {
            name: _listed(map(line, value)) if isinstance(value, list) else line(value)
            for name, value in header.items()
            if name != CHECKSUM
        }
    )


def _listed(lines: Iterable[str]) -> str:
    text = ",\n".join(f"    {each}" for each in lines)
    return f"[\n{text}\n  ]" if text else "[]"


def read_run(header: Mapping[str, Any], measurements: tuple[Measurement, ...]) -> Run:
    """The run described by run.json or by the head of a trial file."""
    finished = {each.trial for each in measurements}
    planned = header.get("planned")
    failures = (read_failure(each) for each in header.get("failures", ()))
    return Run(
        dataset=header["dataset"],
        metric=Metric[header["metric"].upper()],
        fingerprints=header["fingerprints"],
        environment=header["environment"],
        measurements=measurements,
        sampled_from=header["sampled_from"],
        # A retried trial is finished even if the process was killed before run.json was updated.
        failures=tuple(each for each in failures if each.trial not in finished),
        cautions=tuple(read_caution(each) for each in header.get("cautions", ())),
        planned=None if planned is None else tuple(read_trial_record(each) for each in planned),
        settings=dict(header["settings"]),
        seconds=header.get("seconds", {}),
        begun=header["begun"],
        models={str(part): tuple(map(str, each)) for part, each in header.get("models", {}).items()},
    )
