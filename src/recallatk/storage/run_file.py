"""run.json: what a run is, what was planned, and what came of it so far."""

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
    """What two trials must have in common to stand in one run: data, truth and metric."""
    return Hash("run", str(metric), dict(sorted(fingerprints.items()))).text()


def run_head(run: Run, timed: str | None) -> Record:
    """The description of a run in run.json and in every trial file, which must be readable alone.

    Args:
        run: the run, whose measurements need not be loaded.
        timed: what the latencies beside this head cover; not read back, because builds say it too.
    """
    return {
        "identity": identity(run.metric, run.fingerprints),
        "dataset": public(run.dataset),
        "metric": str(run.metric),
        "fingerprints": dict(run.fingerprints),
        "environment": public(dict(run.environment)),
        "timed": public(timed),
        "sampled_from": run.sampled_from,
        "settings": public(dict(run.settings)),
        "begun": run.begun,
    }


def line(record: Any) -> str:
    """A record as it stands in run.json, where each trial is one line."""
    return json.dumps(record, ensure_ascii=False)


def planned_lines(run: Run) -> list[str] | None:
    """The lines of all planned trials, which do not change while a run is measured."""
    return None if run.planned is None else [line(trial_record(each)) for each in run.planned]


def write_run_file(
    folder: Path, run: Run, timed: str | None, planned: list[str] | None, trials: Iterable[str]
) -> None:
    """Write run.json with the lines of what is planned and of what is finished.

    It is written after each trial, so nothing that was turned into text before is turned again.
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
    """What run.json says; None where there is none, and a damaged one is refused."""
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
    """The text that a checksum in run.json is of."""
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
    """The run of which run.json, or the head in a trial file, tells."""
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
        # A trial that was tried again and killed before run.json could say so is finished all the same.
        failures=tuple(each for each in failures if each.trial not in finished),
        cautions=tuple(read_caution(each) for each in header.get("cautions", ())),
        planned=None if planned is None else tuple(read_trial_record(each) for each in planned),
        settings=dict(header["settings"]),
        seconds=header.get("seconds", {}),
        begun=header["begun"],
    )
