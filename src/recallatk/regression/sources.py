"""What a user may compare: run folders, tunings, saved probes, and answers with a truth."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.analysis.latency import PERCENTILES, Percentile
from recallatk.analysis.query_groupings import KnownQueries
from recallatk.analysis.score import usual_cutoffs
from recallatk.analysis.sides import (
    ComparedSide,
    SideBuild,
    SideKind,
    SideSetting,
    different_parts,
    with_queries_of,
)
from recallatk.api import load_truth, score
from recallatk.core import Mean, Metric, Run, Truth
from recallatk.datasets import read_answers
from recallatk.errors import FormatError, UsageError
from recallatk.fingerprint import fingerprint_truth
from recallatk.redaction import without_secrets
from recallatk.regression.baseline_file import is_baseline_file, read_baseline
from recallatk.regression.run_side import described_queries, described_run, run_side
from recallatk.reporting.tuned_file import TUNED, read_tuned
from recallatk.storage import load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Answers
    from recallatk.core.tuned import Tuned

_NUMBERED = re.compile(r"(?P<path>.+)#(?P<number>[0-9]{1,9})", re.DOTALL)
_ACCEPTED = (
    "a run folder, RUN#NUMBER for one of its trials, the folder of a tuning, the output of recallatk probe "
    "--json, a baseline that recallatk gate --accept wrote, or answers with --truth"
)


@dataclass(frozen=True, eq=False)
class ComparedSource:
    """One side as it was named, opened."""

    side: ComparedSide
    run: Run | None = None
    folder: Path | None = None
    answers: Answers | None = None
    """Answers that are not scored yet."""

    def described(self) -> ComparedSide:
        """The side with ids, texts and groups of its queries, which opens its data."""
        if self.run is None:
            return self.side
        return described_run(self.side, self.run, self.folder)


def open_sources(
    results: Sequence[Any], names: Sequence[str | None], truth: Truth | None, at: Sequence[int] | None = None
) -> list[ComparedSource]:
    """Open all sides of a comparison; answers are scored at the same values of k.

    Args:
        results: what is compared.
        names: their names; None for their paths.
        truth: what answers are scored against.
        at: the values of k of answers; by default those of 1, 10 and 100 that any of them reaches.
    """
    opened = [open_source(each, name, truth) for each, name in zip(results, names, strict=True)]
    answers = [each.answers for each in opened if each.answers is not None]
    if truth is None or not answers:
        return opened
    cutoffs = sorted({k for each in answers for k in usual_cutoffs(truth, each)[0]}) if at is None else at
    return [each if each.answers is None else _scored(each, truth, cutoffs) for each in opened]


def described_sides(sources: Sequence[ComparedSource]) -> list[ComparedSide]:
    """The sides; the first knows the queries, from itself or from the first that has their data."""
    first, *others = (each.side for each in sources)
    for source in sources:
        found = source.described()
        if found.groupings or found.columns is not None or found.query_ids is not None:
            # Those of other queries are of no use here.
            same = found is first or not different_parts(first, found)
            return [with_queries_of(first, found) if same else first, *others]
    return [first, *others]


def open_source(what: Any, name: str | None = None, truth: Truth | None = None) -> ComparedSource:
    """Open a side of a comparison.

    Args:
        what: a run or its folder, the folder of a tuning, the file of a probe; with a truth, answers in any
            form that `score` takes.
        name: its name; by default the path.
        truth: what answers are scored against.
    """
    if isinstance(what, Run):
        return ComparedSource(run_side(what, name or what.dataset), what)
    if not isinstance(what, str | os.PathLike):
        return _answers(what, name or "answers", truth)
    text = os.fspath(what)
    shown = name or without_secrets(text)
    path, number = Path(text), None
    numbered = _NUMBERED.fullmatch(text)
    if numbered is not None and not path.exists():
        path, number = Path(numbered["path"]), int(numbered["number"])
    if path.suffix == ".toml" and path.is_file():
        raise UsageError(
            f"{shown}: a bench file is no result, and stands alone: recallatk gate {shlex.quote(shown)} "
            "--baseline FILE. Its results are the folder that recallatk run writes"
        )
    folder = path.parent if path.name in ("run.json", TUNED) and path.is_file() else path
    if (folder / "run.json").is_file():
        run = load_run(folder)
        return ComparedSource(run_side(run, shown, folder=folder, number=number), run, folder)
    if number is not None:
        raise UsageError(f"{text}: {path} is no run folder, and only runs have trials by number")
    if (folder / TUNED).is_file():
        return ComparedSource(_tuning_side(read_tuned(folder / TUNED)[0], shown))
    if path.is_file() and path.suffix == ".json" and is_baseline_file(path):
        return ComparedSource(read_baseline(path, shown))
    if path.is_dir() and truth is None:
        raise UsageError(f"{text}: this folder holds neither a run nor a tuning. Accepted: {_ACCEPTED}")
    if not path.exists() and truth is None:
        accept = f" Write a baseline: recallatk gate {text} RUN --accept" if path.suffix == ".json" else ""
        raise UsageError(f"{text}: no such file or folder. Accepted: {_ACCEPTED}.{accept}")
    if truth is None and path.suffix == ".json":
        return ComparedSource(_probe_side(path, shown))
    return _answers(text, shown, truth)


def open_truth(truth: Any) -> Truth | None:
    """The truth that answers are scored against."""
    return truth if truth is None or isinstance(truth, Truth) else load_truth(truth)


def _answers(answers: Any, name: str, truth: Truth | None) -> ComparedSource:
    if truth is None:
        raise UsageError(f"{name}: answers need a truth: --truth TRUTH. Accepted without one: {_ACCEPTED}")
    return ComparedSource(ComparedSide(name, SideKind.ANSWERS, ()), answers=read_answers(answers))


def _scored(source: ComparedSource, truth: Truth, cutoffs: Sequence[int]) -> ComparedSource:
    name = source.side.name
    scored = score(truth=truth, answers=source.answers, at=cutoffs)
    found = described_queries(truth, KnownQueries(truth, truth.query_columns))
    notes = [f"{name}: {len(scored.missing):,} queries without answers count as 0."] if scored.missing else []
    build = SideBuild(dict(scored.measures), dict(scored.per_query))
    side = ComparedSide(
        name,
        SideKind.ANSWERS,
        (SideSetting("answers", (), (), "", (build,)),),
        truth.metric,
        {**truth.fingerprints, "truth": fingerprint_truth(truth)},
        len(truth),
        found.ids,
        found.texts,
        truth.query_columns,
        groupings=found.groupings,
        notes=tuple(notes),
    )
    return ComparedSource(side)


def _tuning_side(tuned: Tuned, name: str) -> ComparedSide:
    """The choice of a tuning, with the means of its validation."""
    choice = tuned.choice or tuned.nearest
    if choice is None:
        raise UsageError(f"{name}: the tuning measured no setting")
    means = dict(tuned.validated) if tuned.choice is not None else dict(choice.measures)
    latencies = {key: Percentile(value, None, None) for key, value in choice.latency_ms.items()}
    costs = {
        "qps": choice.qps,
        "memory": choice.memory_bytes,
        "size": choice.size_bytes,
        "build": choice.build_seconds,
    }
    build = SideBuild(means, {}, latencies, costs)
    setting = SideSetting(
        choice.engine, tuple(choice.build), tuple(choice.search), "", (build,), choice.version
    )
    which = "held-out" if tuned.choice is not None else "tuning"
    note = f"{name}: the setting of a tuning, with means over its {which} queries."
    return ComparedSide(name, SideKind.TUNING, (setting,), notes=(note,))


# Beyond any recall or latency, and a float.
_LARGEST = 1e300


def _probe_side(path: Path, name: str) -> ComparedSide:
    """The recall of a probe, as `recallatk probe --json` printed it."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        recall, k = stored["recall"], stored["k"]
        ends = [recall[key] for key in ("value", "low", "high")]
        counts = [k, stored["queries"]]
        latencies = dict(stored["latency_ms"])
        engine, metric = str(stored["engine"]), Metric(stored["metric"])
        search = tuple(sorted((str(key), str(value)) for key, value in stored["settings"].items()))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        raise FormatError(name, "no probe in this file", _ACCEPTED) from problem
    numbers = [*ends, *latencies.values()]
    if not all(isinstance(each, int) for each in counts) or not all(
        each is None or (isinstance(each, int | float) and abs(each) < _LARGEST) for each in numbers
    ):
        raise FormatError(name, "a probe whose numbers are damaged", _ACCEPTED)
    mean = Mean(ends[0], None, counts[1], ends[1], ends[2])
    timed = {key: Percentile(latencies[key], None, None) for key in PERCENTILES if key in latencies}
    setting = SideSetting(engine, (), search, "", (SideBuild({f"recall@{k}": mean}, {}, timed),))
    side = ComparedSide(name, SideKind.PROBE, (setting,), metric)
    sampled = stored.get("sampled_rows_as_queries")
    note = f"{name}: optimistic, rows of the collection served as queries."
    return replace(side, notes=(note,)) if sampled else side
