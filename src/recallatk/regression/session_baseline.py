"""The baseline of a test session: one file, with a baseline for each recall assertion.

Format 1: a JSON object whose `assertions` maps the name of an assertion to what `baseline_file` stores, each
with its own checksum, so that version control can merge those of different assertions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.sides import (
    ComparedSide,
    SideBuild,
    SideKind,
    SideSetting,
    different_parts,
    with_queries_of,
)
from recallatk.errors import FormatError, MismatchError, UsageError
from recallatk.files import write_text
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.goals.grammar import parse_goal_with_baseline
from recallatk.regression.baseline_file import checked_stored, parsed_file, read_stored, stored_side
from recallatk.regression.gating import AcceptedBaseline, judged_sides

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recallatk.core import Dataset, Truth
    from recallatk.core.probed import Probed
    from recallatk.goals.gated import Gated

FORMAT, VERSION = "recall-assertions", 1
_ACCEPTED = "a file that pytest --recall-accept wrote"


class SessionBaseline:
    """The accepted recalls of assertions, by name.

    Args:
        path: the file, which need not exist.
        shown: its name in messages.
    """

    def __init__(self, path: Path, shown: str) -> None:
        self.path, self.shown = path, shown
        self._stored = _stored_assertions(path, shown) if path.exists() else {}

    def side(self, name: str) -> ComparedSide | None:
        """The accepted side of an assertion; None if there is none."""
        if name not in self._stored:
            return None
        return read_stored(self._stored[name], f"{self.shown}: {name}")

    def sealed(self, side: ComparedSide) -> dict[str, Any]:
        """A side as this file stores it, with the first one that was accepted for the same data."""
        return stored_side(side, self._stored.get(side.name))

    def accept(self, sealed: Mapping[str, Any]) -> None:
        """Write sides of assertions into the file; those of other assertions stay.

        Args:
            sealed: what `sealed` returned, by name.
        """
        kept = {name: each for name, each in self._whole().items() if name not in sealed}
        found = {
            "format": FORMAT,
            "format_version": VERSION,
            "assertions": dict(sorted({**kept, **sealed}.items())),
        }
        write_text(self.path, f"{json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False)}\n")

    def _whole(self) -> dict[str, Any]:
        """Everything in the file as it is now, with checksums."""
        if not self.path.exists():
            return {}
        _stored_assertions(self.path, self.shown)
        return dict(parsed_file(self.path, self.shown)["assertions"])


def _stored_assertions(path: Path, shown: str) -> dict[str, Any]:
    """The checked baselines in a file; those of `recallatk gate` are none of assertions."""
    found = parsed_file(path, shown)
    if isinstance(found, dict) and found.get("format") == "recall-baseline":
        raise OtherBaselineError(
            f"{shown}: this is a baseline of recallatk gate. Name another file for the assertions of tests "
            "in the configuration of pytest: recall_baseline = tests/recall-baseline.json"
        )
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FormatError(shown, "no baseline of recall assertions", _ACCEPTED)
    version = found.get("format_version")
    if version != VERSION:
        said = f"format version {version!r} of a baseline of recall assertions"
        raise FormatError(shown, said, f"version {VERSION}", hint="Update: pip install -U recallatk")
    assertions = found.get("assertions")
    if not isinstance(assertions, dict):
        raise FormatError(shown, "a damaged baseline: no assertions", _ACCEPTED)
    checked = {name: checked_stored(each, f"{shown}: {name}") for name, each in assertions.items()}
    for name, each in checked.items():
        if each.get("name") != name:
            raise FormatError(
                shown, f"a damaged or edited baseline: {name} holds that of another assertion", _ACCEPTED
            )
    return checked


class OtherBaselineError(UsageError):
    """The file holds a baseline of another kind."""


def asserted_side(name: str, found: Probed, dataset: Dataset, truth: Truth | None) -> ComparedSide:
    """What an assertion measured as a side of a comparison.

    Args:
        name: the name of the assertion.
        found: the probe that asked all queries.
        dataset: what it was asked with.
        truth: the truth that was given; None if it was computed from the dataset.
    """
    ids = dataset.queries.ids.to_pylist()
    places = {each: place for place, each in enumerate(ids)}
    values = np.full(len(ids), np.nan)
    values[[places[each] for each in found.query_ids]] = found.per_query["recall"]
    measure = f"recall@{found.k}"
    search = tuple(sorted((str(key), str(each)) for key, each in found.settings.items()))
    build = SideBuild({measure: found.recall}, {measure: values})
    known = fingerprints(dataset)
    return ComparedSide(
        name,
        SideKind.ANSWERS,
        (SideSetting(found.engine, (), search, "", (build,)),),
        dataset.metric,
        known if truth is None else {**known, "truth": fingerprint_truth(truth)},
        len(ids),
        query_ids=tuple(map(str, ids)),
    )


def judged_assertion(baseline: ComparedSide, side: ComparedSide, k: int, margin: float) -> Gated:
    """An assertion beside its baseline: recall may be lower by at most the margin, paired by query.

    Args:
        baseline: what was accepted.
        side: what was measured.
        k: the cutoff.
        margin: how much lower mean recall may be.
    """
    again = f"Accept it anew: pytest --recall-accept '{side.name.partition(' #')[0]}'"
    different = different_parts(baseline, side)
    if different:
        raise MismatchError(f"{baseline.name}: accepted for other data: {', '.join(different)}. {again}")
    measure = f"recall@{k}"
    if measure not in baseline.settings[0].measures:
        held = ", ".join(baseline.settings[0].measures)
        raise MismatchError(f"{baseline.name}: has {held} and not {measure}. {again}")
    goal = f"{measure} >= baseline" + (f" - {margin:.12f}".rstrip("0") if margin else "")
    accepted = AcceptedBaseline(with_queries_of(baseline, side))
    return judged_sides([accepted], side, [parse_goal_with_baseline(goal)])


def lost_nothing(baseline: ComparedSide, side: ComparedSide, k: int) -> bool:
    """Whether the recall of no query is lower than what was accepted."""
    before, now = (
        each.settings[0].builds[0].values[f"recall@{k}"] for each in (with_queries_of(baseline, side), side)
    )
    return bool(np.all(now >= before))
