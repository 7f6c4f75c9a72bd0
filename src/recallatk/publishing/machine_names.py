"""Machines as letters, so that tables stay narrow, and what each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.redaction import public
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.publishing.published_run import Machine, PublishedRun

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SOFTWARE = ("system", "python", "recallatk")
_LONGEST = 200


class MachineNames:
    """A letter for every machine, by the number of its runs."""

    def __init__(self, runs: Sequence[PublishedRun]) -> None:
        self._runs: dict[Machine, list[PublishedRun]] = {}
        for each in runs:
            self._runs.setdefault(each.machine, []).append(each)
        ordered = sorted(self._runs, key=lambda machine: (-len(self._runs[machine]), machine))
        self._names = {machine: _letters(place) for place, machine in enumerate(ordered)}

    def __getitem__(self, machine: Machine) -> str:
        return self._names[machine]

    def table(self) -> Table:
        """What every machine reports, with the software that its runs used."""
        rows = [
            [
                name,
                cut(printable(str(machine)), _LONGEST),
                *self._software(machine),
                f"{len(self._runs[machine]):,}",
            ]
            for machine, name in self._names.items()
        ]
        return Table("Machines", ["machine", "reports", *_SOFTWARE, "runs"], rows, 2 + len(_SOFTWARE))

    def _software(self, machine: Machine) -> list[str]:
        """The values that its runs recorded, most of the time one of each."""
        cells = []
        for name in _SOFTWARE:
            found: dict[str, Any] = {}
            for each in self._runs[machine]:
                found.setdefault(str(public(each.environment.get(name) or "-", name)))
            cells.append(cut(printable(", ".join(sorted(found))), _LONGEST))
        return cells


def _letters(place: int) -> str:
    """A to Z, then AA, AB and so on."""
    first, last = divmod(place, len(_LETTERS))
    return (_letters(first - 1) if first else "") + _LETTERS[last]
