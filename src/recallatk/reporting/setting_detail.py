"""The details of each setting, which the page swaps when a reader chooses another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.diagnosis import Diagnosis, diagnose
from recallatk.analysis.measures import RecallWithin
from recallatk.analysis.segments import FEWEST
from recallatk.core import Score
from recallatk.reporting.document import Table
from recallatk.reporting.labels import by_grouping, cut, interval, number, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.analysis.distribution import Distribution, Estimate
    from recallatk.analysis.segments import Segment
    from recallatk.core import Dataset, Records, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.per_query import Facts, MissedNeighbor, WorstQuery

Part = dict[str, Any]
_NAMES = ("text", "query", "title", "name", "content")
_LONGEST = 280
# Columns up to this many rows are read whole, longer ones row by row.
_WHOLE = 250_000


def setting_details(
    curve: Curve, facts: dict[int, Facts], truth: Truth | None, dataset: Dataset | None
) -> list[Part]:
    """One part per point, in point order."""
    texts = None if truth is None else Texts(truth, dataset)
    return [_part(curve, point["n"], facts.get(point["n"]), texts) for point in curve.points]


def _part(curve: Curve, place: int, facts: Facts | None, texts: Texts | None) -> Part:
    point, line = curve.points[place], curve.lines[place]
    measure = curve.measure or ""
    part: Part = {
        "label": point["label"],
        "load": point["load"],
        "facts": _setting(curve, place),
        "measures": _measures(line.measurement.score),
        "diagnosis": _diagnosed(curve, place, facts),
    }
    if facts is not None and facts.spread is not None:
        part["tails"] = _tails(measure, facts.spread)
        part["spread"] = _spread_said(measure, facts.spread)
    if facts is not None and facts.segments:
        part["segments"] = [
            _segments(name, found, measure, facts.better.get(name, 0))
            for name, found in facts.segments.items()
        ]
        part["segmentsSaid"] = _worst_said(facts, measure)
    if facts is not None and texts is not None:
        part["worst"] = [_poor(each, measure, texts) for each in facts.worst]
    return part


def _setting(curve: Curve, place: int) -> Table:
    point, built = curve.points[place], curve.lines[place].measurement.build
    rows = [
        ["Engine", point["engine"]],
        ["Library", cut(printable(built.version or "-"), 120)],
        ["Build", point["build"]],
        ["Search", point["search"]],
        ["Load", point["loadText"]],
        ["Latency", f"p50 {point['p50Text']}, p95 {point['p95Text']}, p99 {point['p99Text']}"],
        ["Queries per second", point["qpsText"]],
        ["Memory", point["memoryText"]],
        ["Build time", point["buildText"]],
        ["Index use", cut(printable(curve.lines[place].measurement.exercised or "no evidence"), 300)],
    ]
    return Table("The chosen setting", ["", ""], rows, 2)


def _measures(score: Score) -> Table:
    rows = [
        [name, with_margin(mean), _by_ids(mean.ids, mean.value), f"{mean.n:,}"]
        for name, mean in score.measures.items()
    ]
    return Table("Measures with 95 % intervals", ["Measure", "Mean", "Strict ids", "Queries"], rows, 1)


def _by_ids(ids: float | None, value: float | None) -> str:
    return "same" if ids is not None and ids == value else number(ids, ".4f")


def _diagnosed(curve: Curve, place: int, facts: Facts | None) -> str:
    """Diagnosis in words, from single queries where they are available and from means otherwise."""
    score, k = curve.lines[place].measurement.score, curve.k
    if k is None:
        return "No recall was measured."
    if facts is not None and facts.within is not None:
        width, mean = facts.within
        measures = {**score.measures, str(RecallWithin(width, k)): mean}
        score = Score(score.queries, score.scored, measures, {})
    found: Diagnosis | None = diagnose(score, k)
    said = "No recall was measured." if found is None else found.in_words
    return said[:1].upper() + said[1:]


def _tails(measure: str, found: Distribution) -> Table:
    rows = [
        ["Worst query", f"{found.least:.2f}", "-"],
        *([name, *_estimated(each, ".2f")] for name, each in found.quantiles.items()),
        ["Queries at 0", *_estimated(found.zeros, ".1%")],
        ["Queries at 1", *_estimated(found.ones, ".1%")],
    ]
    return Table(f"Quantiles of {measure} over queries", ["", measure, "95 % interval"], rows, 1)


def _estimated(found: Estimate, shape: str) -> list[str]:
    return [f"{found.value:{shape}}", interval(found, shape)]


def _spread_said(measure: str, found: Distribution) -> str:
    if found.ones.value == 1.0:
        return f"Every query has {measure} of 1."
    five, zeros = found.quantiles["p5"].value, found.zeros.value
    nothing = f", {zeros:.1%} have 0" if zeros else ""
    best = f"{found.ones.value:.1%} have 1"
    return f"5 % of the queries have {measure} of at most {five:.2f}{nothing}, and {best}."


def _segments(name: str, found: list[Segment], measure: str, more: int) -> Table:
    rows = []
    weighted = any(each.measures[measure].effective is not None for each in found)
    for each in found:
        mean = each.measures[measure]
        label = cut(printable(each.name), 80)
        unweighted = [number(mean.unweighted, ".3f")] if weighted else []
        rows.append([label, with_margin(mean), *unweighted, f"{mean.n:,}"])
    header = ["Segment", measure, *(["Unweighted"] if weighted else []), "Queries"]
    if more:
        rows.append([f"{more:,} more segments", *[""] * (len(header) - 1)])
    title = by_grouping(cut(printable(name), 60))
    return Table(title[:1].upper() + title[1:], header, rows, 1)


def _worst_said(facts: Facts, measure: str) -> str:
    """The segments whose whole interval lies below the mean of all queries."""
    poor = []
    known = facts.values[~np.isnan(facts.values)]
    if not len(known):
        return "No query was scored."
    mean = float(known.mean()) if facts.mean is None else facts.mean
    for name, members in facts.segments.items():
        for each in members:
            value, high = each.measures[measure].value, each.measures[measure].high
            if each.measures[measure].n >= FEWEST and value is not None and high is not None and high < mean:
                poor.append((value, name, each))
    if not poor:
        return f"No segment of {FEWEST} or more queries is significantly below the mean of all queries."
    poor.sort(key=lambda item: item[0])
    listed = "; ".join(
        f"{cut(printable(name), 40)} = {cut(printable(each.name), 40)} ({value:.3f}, "
        f"{each.measures[measure].n:,} queries)"
        for value, name, each in poor[:3]
    )
    more = f" and {len(poor) - 3:,} more" if len(poor) > 3 else ""
    return f"Significantly below the mean of all queries: {listed}{more}."


def _poor(poor: WorstQuery, measure: str, texts: Texts) -> Part:
    rows = [_missed(each, texts) for each in poor.missed]
    header = ["Id", "Text", "True rank", "Score", "Margin to rank k", "Returned at rank"]
    table = Table("Missed neighbors", header, rows, 2)
    return {
        "title": f"{texts.query_id(poor.query)}: {measure} {poor.recall:.2f}",
        "text": texts.query(poor.query),
        "table": table,
    }


def _missed(missed: MissedNeighbor, texts: Texts) -> list[str]:
    return [
        texts.row_id(missed.row),
        texts.row(missed.row) or "-",
        str(missed.rank),
        number(missed.score, ".4f"),
        number(missed.margin, ".4f"),
        "not returned" if missed.returned_at is None else str(missed.returned_at),
    ]


class Texts:
    """Ids and texts of queries and corpus rows, where truth and data have them."""

    def __init__(self, truth: Truth, dataset: Dataset | None) -> None:
        self.truth, self.dataset = truth, dataset
        self._columns: dict[str, pa.ChunkedArray] = {}

    def query_id(self, number: int) -> str:
        """The user's id of a query."""
        ids = self.truth.query_ids
        return _shown(number if ids is None else ids[number].as_py())

    def query(self, number: int) -> str:
        """The text of a query; empty if unknown."""
        if self.dataset is not None:
            return self._read("queries", self.dataset.queries, number)
        columns = self.truth.query_columns
        name = _text_column([] if columns is None else columns.column_names)
        return "" if columns is None or name is None else _shown(columns[name][number].as_py())

    def row_id(self, row: int) -> str:
        """The user's id of a corpus row."""
        return _shown(self.truth.ids_of(np.array([row]))[0].as_py())

    def row(self, row: int) -> str:
        """The text of a corpus row; empty if unknown."""
        return "" if self.dataset is None else self._read("corpus", self.dataset.corpus, row)

    def _read(self, part: str, records: Records, number: int) -> str:
        name = _text_column(records.metadata_names)
        if name is None:
            return ""
        if records.rows > _WHOLE:
            return _shown(records.columns.read([name], number, number + 1)[name][0].as_py())
        if part not in self._columns:
            self._columns[part] = records.columns.read([name], 0, records.rows)[name]
        return _shown(self._columns[part][number].as_py())


def _text_column(names: list[str]) -> str | None:
    return next((name for name in _NAMES if name in names), None)


def _shown(value: object) -> str:
    return "" if value is None else cut(printable(str(value)), _LONGEST)
