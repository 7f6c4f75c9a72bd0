"""Parameter sets of a query log: those that its calls have, and the calls that log/?ef=64 selects."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.capture.log_format import PARAMETERS, RAW_FILTER, K
from recallatk.datasets.layout import column_of
from recallatk.errors import FilterError, FormatError, MismatchError, UsageError
from recallatk.redaction import is_url
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.datasets.batches import BatchSource
    from recallatk.files import PathLike

_SELECTS = "/?"
_FILTERS, _READABLE = "filters", "readable"
_SHOWN = 5


@dataclass(frozen=True)
class ParameterSet:
    """One combination of k and parameters, and how many calls have it."""

    k: int | None
    parameters: dict[str, Any]
    calls: int

    def value(self, name: str) -> Any:
        """The value of a parameter, or of k; None if the calls did not have it."""
        return self.k if name == K else self.parameters.get(name)


def split_calls(path: PathLike) -> tuple[PathLike, str]:
    """A path such as log/?ef=64 as the folder and the selection of calls; other paths as they are."""
    text = os.fspath(path)
    folder, _, calls = text.rpartition(_SELECTS)
    if not calls or calls == text or is_url(text) or not Path(folder or "/").is_dir():
        return path, ""
    return f"{folder}/", calls


def sets_of(source: BatchSource) -> list[ParameterSet]:
    """The parameter sets of a query log, the most frequent first."""
    table = pa.table({K: column_of(source, K), PARAMETERS: column_of(source, PARAMETERS)})
    return sets_in(table, source.text)


def sets_in(table: pa.Table, where: str) -> list[ParameterSet]:
    """The parameter sets of calls, the most frequent first.

    Args:
        table: with the columns of a query log.
        where: its path, for messages.
    """
    groups = table.group_by([K, PARAMETERS]).aggregate([([], "count_all")]).to_pylist()
    found = [ParameterSet(each[K], _parsed(each[PARAMETERS], where), each["count_all"]) for each in groups]
    return sorted(found, key=lambda each: (-each.calls, str(each.k), json.dumps(each.parameters)))


def require_one_set(sets: Sequence[ParameterSet], log: str, instead: str = "") -> None:
    """Refuse calls of several settings, whose answers have no recall in common.

    Args:
        sets: the settings of the calls.
        log: the folder, perhaps with a selection.
        instead: a sentence on what else can be done, with a blank at its end.
    """
    if len(sets) < 2:
        return
    named = selections(sets)
    listed = ", ".join(
        f"{text} ({counted(each.calls, 'call', 'calls')})"
        for text, each in zip(named[:_SHOWN], sets, strict=False)
    )
    more = f" and {len(sets) - _SHOWN:,} more" if len(sets) > _SHOWN else ""
    raise MismatchError(
        f"{log}: the calls have {len(sets):,} different parameter sets: {listed}{more}. Answers of different "
        f"settings have no recall in common. Choose one set for the truth and for the answers, for example: "
        f"'{log.rstrip('/')}{_SELECTS}{named[0]}'. {instead}If an argument is no setting, "
        "leave it out of the log: tap(…, parameters=…)"
    )


def selections(sets: Sequence[ParameterSet]) -> list[str]:
    """For each set, the selection that tells it from the others, to type after /?."""
    names = sorted({name for each in sets for name in each.parameters})
    different = [
        name for name in (K, *names) if len({json.dumps(each.value(name)) for each in sets}) > 1
    ] or [K]
    return [
        "&".join(f"{quote(name)}={quote(_shown(each.value(name)))}" for name in different) for each in sets
    ]


def selected_rows(source: BatchSource, calls: str) -> NDArray[np.int64]:
    """The rows of the calls that a selection names."""
    wanted = _wanted(calls, source.text)
    filters = wanted.pop(_FILTERS, None)
    if filters not in (None, _READABLE):
        raise UsageError(f"{source.text}: filters={filters}. Accepted: filters={_READABLE}")
    chosen = np.ones(source.rows, bool)
    if filters:
        chosen &= column_of(source, RAW_FILTER).is_null().to_numpy()
    if wanted:
        fitting = [each for each in sets_of(source) if _fits(each, wanted)]
        keys = pa.array(_keys((each.k, each.parameters) for each in fitting), pa.string())
        ks, texts = column_of(source, K).to_pylist(), column_of(source, PARAMETERS).to_pylist()
        own = _keys((k, _parsed(text, source.text)) for k, text in zip(ks, texts, strict=True))
        chosen &= pc.is_in(pa.array(own, pa.string()), value_set=keys).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(chosen)
    if not len(rows):
        there = ", ".join(selections(sets_of(source))[:_SHOWN])
        raise UsageError(f"{source.text}: no call has {calls}. Sets that calls have: {there}")
    return rows


def require_readable_filters(source: BatchSource) -> None:
    """Refuse calls with filters of another system: without them, they would be other queries."""
    if RAW_FILTER not in source.schema.names:
        return
    raw = column_of(source, RAW_FILTER).drop_null()
    if len(raw):
        raise FilterError(
            f"{source.text}: {len(raw):,} of {counted(source.rows, 'call', 'calls')} have a filter that "
            f"recallatk cannot read, such as {str(raw[0])[:200]}. Leave these calls out: "
            f"'{source.text.rstrip('/')}{_SELECTS}{_FILTERS}={_READABLE}'. To keep such calls from now on, "
            "have tap write their filters as recallatk's text: tap(…, filter=…)"
        )


class ChosenRows:
    """Some rows of a table, in order, streamed like the table itself."""

    def __init__(self, source: BatchSource, chosen: NDArray[np.int64]) -> None:
        self.source, self.chosen = source, chosen
        self.text, self.head, self.schema = source.text, source.head, source.schema
        self.rows = len(chosen)

    def floor(self, row: int) -> int:
        """The last chosen row at or before `row` from which a stream can begin."""
        return int(np.searchsorted(self.chosen, self.source.floor(int(self.chosen[row]))))

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of chosen rows from `start` (a floor) to the end."""
        if start >= self.rows:
            return
        for first, batch in self.source.batches(names, self.source.floor(int(self.chosen[start]))):
            low, high = (int(i) for i in np.searchsorted(self.chosen, [first, first + batch.num_rows]))
            if low < high:
                yield low, batch.take(pa.array(self.chosen[low:high] - first))


def _wanted(calls: str, where: str) -> dict[str, Any]:
    try:
        return dict(parse_qsl(calls, keep_blank_values=True, strict_parsing=True))
    except ValueError as problem:
        raise UsageError(
            f"{where}: {calls!r} is no selection of calls. Accepted: names and values such as k=10&ef=64"
        ) from problem


def _fits(found: ParameterSet, wanted: dict[str, str]) -> bool:
    return all(_shown(found.value(name)) == text for name, text in wanted.items())


def _shown(value: Any) -> str:
    """A value as a selection writes it: null for a parameter that the call did not have."""
    return value if isinstance(value, str) else json.dumps(value)


def _keys(sets: Any) -> list[str]:
    return [json.dumps([k, parameters], sort_keys=True) for k, parameters in sets]


def _parsed(text: str | None, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FormatError(where, f"the parameters of a call are {text!r:.60}", "a JSON object")
    return found
