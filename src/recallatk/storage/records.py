"""JSON records of trials and measurements, and the upgrade of format 2 records."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from recallatk.core import Build, Caution, Failure, Load, Mean, Score, TimedCall, Trial, WarmUp
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Measurement, Parameters

Record = dict[str, Any]
_MOST_REASONS = 20


def trial_record(trial: Trial) -> Record:
    """Redacted record of a trial."""
    record: Record = public(
        {
            "engine": trial.engine,
            "build": dict(trial.build),
            "search": dict(trial.search),
            "load": asdict(trial.load),
            "repeat": trial.repeat,
        }
    )
    return record


def read_trial_record(record: Mapping[str, Any]) -> Trial:
    """The trial of a record."""
    return Trial(
        engine=record["engine"],
        build=parameters(record["build"]),
        search=parameters(record["search"]),
        load=Load(**record["load"]),
        repeat=record["repeat"],
    )


def written(trial: Trial) -> Trial:
    """The trial as read back from a file, without secrets."""
    return read_trial_record(trial_record(trial))


def parameters(record: Mapping[str, Any]) -> Parameters:
    """Hashable parameters."""
    return tuple((name, _frozen(value)) for name, value in record.items())


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return parameters(value) if isinstance(value, dict) else value


def measurement_record(measurement: Measurement) -> Record:
    """Everything about a measurement except its answers and calls."""
    calls, sentinel, warm_up = measurement.calls, measurement.sentinel_ns, measurement.warm_up
    refused, facts = measurement.refused, measurement.filters
    return {
        "trial": trial_record(measurement.trial),
        "build": public({**asdict(measurement.build), "parameters": dict(measurement.build.parameters)}),
        "k": measurement.k,
        "exercised": public(measurement.exercised),
        "score": _score_record(measurement.score),
        "warm_up": None if warm_up is None else public(asdict(warm_up)),
        "sentinel_ns": None if sentinel is None else sentinel.tolist(),
        "round_ns": calls.round_ns.tolist(),
        "batch": calls.batch,
        "clients": calls.clients,
        "highest_rate": public(measurement.highest_rate),
        "refused": None if refused is None else public(refused.to_dict()),
        "filters": None if facts is None else {"corpus_rows": facts.corpus_rows, "depth": facts.depth},
    }


def _score_record(score: Score) -> Record:
    return {
        "queries": score.queries,
        "scored": score.scored,
        "measures": {name: public(_mean_record(mean)) for name, mean in score.measures.items()},
        "anomalies": public(dict(score.anomalies)),
        "sampled_from": score.sampled_from,
        # Ids are the user's and are not redacted, as in the answers.
        "missing": [each if isinstance(each, str) else int(each) for each in score.missing],
        **({} if score.weights is None else {"weight": score.weights.column}),
    }


def _mean_record(mean: Mean) -> Record:
    """A mean; versions without weights read those without."""
    record = asdict(mean)
    if mean.effective is None:
        del record["unweighted"], record["effective"]
    return record


def read_build(record: Mapping[str, Any]) -> Build:
    """The build of a record."""
    return Build(**{**record, "parameters": parameters(record["parameters"])})


def read_score(record: Mapping[str, Any]) -> Score:
    """The score of a record, without per-query values."""
    measures = {name: read_mean(mean) for name, mean in record["measures"].items()}
    return Score(
        queries=record["queries"],
        scored=record["scored"],
        measures=measures,
        anomalies=record["anomalies"],
        sampled_from=record.get("sampled_from"),
        missing=tuple(record.get("missing", ())),
    )


def read_mean(record: Mapping[str, Any]) -> Mean:
    """The mean of a record; its numbers may be infinite or NaN."""
    numbers: dict[str, Any] = {
        name: float(each) if isinstance(each, str) else each for name, each in record.items()
    }
    return Mean(**numbers)


def read_warm_up(record: Mapping[str, Any] | None) -> WarmUp | None:
    """The warm-up of a record, if any."""
    return None if record is None else WarmUp(**record)


def summary(record: Mapping[str, Any], file: str, calls: int, differing: int) -> Record:
    """The entry of a finished trial in run.json: the record, flattened."""
    build = {
        name: value
        for name, value in record["build"].items()
        if name not in ("engine", "parameters", "repeat")
    }
    renamed = {"threads": "build_threads", "seconds": "build_seconds"}
    scored = {
        name: value for name, value in record["score"].items() if name not in ("missing", "sampled_from")
    }
    apart = ("trial", "build", "score")
    refused = record.get("refused")
    if refused is not None:
        # run.json is written after every trial, and there may be thousands of filters.
        refused = {**refused, "reasons": refused["reasons"][:_MOST_REASONS]}
    return {
        "file": file,
        **record["trial"],
        **{renamed.get(name, name): value for name, value in build.items()},
        **{name: value for name, value in record.items() if name not in apart},
        **scored,
        "refused": refused,
        "calls": calls,
        "differing_answers": differing,
    }


def timed_call(summary: Mapping[str, Any]) -> TimedCall:
    """What the latencies of a finished trial cover, from its entry in run.json."""
    return TimedCall(*(summary[each.name] for each in fields(TimedCall)))


def failure_record(failure: Failure) -> Record:
    """Redacted record of a failure."""
    record: Record = public(
        {each.name: getattr(failure, each.name) for each in fields(failure) if each.name != "trial"}
    )
    return {"trial": trial_record(failure.trial), **record}


def read_failure(record: Mapping[str, Any]) -> Failure:
    """The failure of a record."""
    return Failure(**{**record, "trial": read_trial_record(record["trial"])})


def caution_record(caution: Caution) -> Record:
    """Redacted record of a caution."""
    record: Record = public(asdict(caution))
    return record


def read_caution(record: Mapping[str, Any]) -> Caution:
    """The caution of a record."""
    numbers = {
        name: float(record[name]) if isinstance(record[name], str) else record[name] for name in _NUMBERS
    }
    return Caution(record["kind"], record["message"], **numbers)


_NUMBERS = ("value", "limit")


OLDEST_VERSION = 2
"""The oldest format with self-describing trial files."""


def upgraded(header: Record) -> Record:
    """A header of run.json or a trial file in the current format; newer ones unchanged."""
    if int(header["format_version"]) != OLDEST_VERSION:
        return header
    new: Record = _upgraded(header)
    if "trial" in new:
        new["clients"] = new["trial"]["load"]["clients"]
    return new


def _upgraded(value: Any) -> Any:
    """The value with the number of clients as the user gave it in every load."""
    if isinstance(value, list):
        return [_upgraded(each) for each in value]
    if not isinstance(value, dict):
        return value
    new = {name: _upgraded(each) for name, each in value.items()}
    if "p99_ms" in new and new.get("mode") == "rate" and new.get("clients") == 1:
        # Format 2 wrote 1 for "not given", but used as many clients as the engine supports.
        new["clients"] = None
    return new
