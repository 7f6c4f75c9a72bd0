"""run.json: what a run is, what was planned, and what came of it so far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric, Run
from recallatk.files import write_text
from recallatk.fingerprint import Hash
from recallatk.history.contents import RUN
from recallatk.history.records import (
    Record,
    caution_record,
    failure_record,
    read_caution,
    read_failure,
    read_trial_record,
    trial_record,
)
from recallatk.history.trial_file import FORMAT_VERSION
from recallatk.redaction import public
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from recallatk.core import Measurement


def identity(metric: str, fingerprints: Mapping[str, str]) -> str:
    """What two trials must have in common to stand in one run: data, truth and metric."""
    return Hash("run", str(metric), dict(sorted(fingerprints.items()))).text()


def run_head(run: Run) -> Record:
    """What every trial file says of its run, so that it can be told without run.json."""
    return {
        "identity": identity(run.metric, run.fingerprints),
        "dataset": public(run.dataset),
        "metric": str(run.metric),
        "fingerprints": dict(run.fingerprints),
        "environment": public(dict(run.environment)),
        "timed": public(run.timed),
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


def write_run_file(folder: Path, run: Run, planned: list[str] | None, trials: Iterable[str]) -> None:
    """Write run.json with the lines of what is planned and of what is finished.

    It is written after each trial, so nothing that was turned into text before is turned again.
    """
    head = {name: line(value) for name, value in run_head(run).items() if name != "identity"}
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
    text = ",\n".join(f'  "{name}": {value}' for name, value in parts.items())
    write_text(folder / RUN, f"{{\n{text}\n}}\n")


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
        timed=header["timed"],
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
