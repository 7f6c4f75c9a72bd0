"""Runbook files: big-ann-benchmarks' streaming YAML and our own TOML, to steps with their lines."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recallatk.bench.settings.problems import Problems, SettingsError
from recallatk.core.churned import Operation
from recallatk.errors import UsageError, choices, unknown
from recallatk.files import require_ordinary
from recallatk.filters import parse_filter
from recallatk.filters.eligibility import eligibility
from recallatk.streaming.runbook import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Corpus

YAML_SUFFIXES = (".yaml", ".yml")
_LARGEST = 64 << 20
_TABLE = re.compile(r"^\s*\[\[\s*[\"']?step[\"']?\s*\]\]", re.MULTILINE)
# Keys of big-ann-benchmarks' files beside the numbered steps; `gt_url` is never contacted.
_BESIDE = ("max_pts", "gt_url")


class _RunbookModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class DataTable(_RunbookModel):
    """The data that a runbook is made for."""

    corpus: str | None = None
    queries: str | None = None
    metric: str | None = None
    fingerprint: str | None = None
    """Of the corpus vectors, as `recallatk inspect` prints it; another corpus is refused."""


class GenerateTable(_RunbookModel):
    """A runbook that is generated."""

    kind: str
    steps: int = Field(20, ge=1, le=100_000)
    share: float | str = 0.01
    start: float | str = 0.8
    seed: int = Field(0, ge=0)
    column: str | None = None


class StepTable(_RunbookModel):
    """One step of our own format."""

    operation: Literal["insert", "delete", "replace", "search", "maintain", "rebuild"]
    start: int | None = None
    end: int | None = None
    rows: tuple[int, ...] | None = None
    ids: tuple[int | str, ...] | None = None
    where: str | None = None
    tags: tuple[int, ...] | None = None
    tags_start: int | None = None
    tags_end: int | None = None
    ids_start: int | None = None
    ids_end: int | None = None


class RunbookTable(_RunbookModel):
    """The file."""

    name: str | None = None
    data: DataTable = DataTable()
    generate: GenerateTable | None = None
    step: tuple[StepTable, ...] = ()


class RunbookFile:
    """A parsed file, whose steps are resolved once the corpus is known.

    Args:
        path: the file.
        part: for YAML of several data sets, the name of one.
    """

    def __init__(self, path: Path, part: str | None = None) -> None:
        self.path = path
        text = _text(path)
        self.table = RunbookTable()
        self.lines: list[int] = []
        if path.suffix.lower() in YAML_SUFFIXES:
            self.name, self._tables = _yaml_steps(path, text, part)
        else:
            if part is not None:
                raise UsageError(f"{path}: --dataset names a part of a YAML file")
            self.lines = [text.count("\n", 0, found.end()) + 1 for found in _TABLE.finditer(text)]
            self.table = _toml_table(path, text, self.lines)
            self.name = self.table.name or path.stem
            self._tables = self._toml_steps()

    def steps(self, corpus: Corpus) -> Iterator[Step]:
        """The steps for a corpus, in order."""
        rows = _Selection(corpus)
        for number, line, table in self._tables:
            try:
                yield _step(number, line, table, rows)
            except UsageError as problem:
                place = f"step {number}" if line is None else f"step {number}, line {line}"
                raise UsageError(f"{self.path}: {place}: {problem}") from None

    def _toml_steps(self) -> list[tuple[int, int | None, StepTable]]:
        tables = self.table.step
        # Steps in one inline array have no header, so that no line is known.
        known = len(self.lines) == len(tables)
        lines: Sequence[int | None] = self.lines if known else [None] * len(tables)
        return [
            (number, line, table) for number, (line, table) in enumerate(zip(lines, tables, strict=True), 1)
        ]


def _text(path: Path) -> str:
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UsageError(f"{path}: {what}. Accepted: a runbook (.toml, .yaml), or a kind such as growth")
    require_ordinary(path)
    if path.stat().st_size > _LARGEST:
        raise UsageError(f"{path}: larger than {_LARGEST >> 20} MiB. Accepted: runbooks up to this size")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path}: byte {problem.start} is not UTF-8") from None


def _toml_table(path: Path, text: str, lines: Sequence[int]) -> RunbookTable:
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: not TOML: {problem}") from None
    problems = Problems()
    try:
        table = RunbookTable.model_validate(values, strict=False)
    except ValidationError as found:
        problems.add_all(found, RunbookTable)
        raise SettingsError(str(path), [_with_line(each, lines) for each in problems.found]) from None
    if table.generate is not None and table.step:
        problems.add((), "[generate] cannot be combined with [[step]]")
    if table.generate is None and not table.step:
        problems.add((), "no steps. Accepted: [[step]] tables, or one [generate] table")
    problems.require_none(str(path))
    return table


def _with_line(problem: str, lines: Sequence[int]) -> str:
    """A problem of a step with its number from 1 and its line."""
    found = re.match(r"step\[(\d+)\]\.?", problem)
    if found is None:
        return problem
    place = int(found[1])
    line = f", line {lines[place]}" if place < len(lines) else ""
    return f"step {place + 1}{line}: {problem[found.end() :]}"


def _yaml_steps(
    path: Path, text: str, part: str | None
) -> tuple[str, list[tuple[int, int | None, StepTable]]]:
    """Steps of one data set of a big-ann-benchmarks file."""
    import yaml

    try:
        # Nodes instead of values: they know their lines, and nothing in the file is constructed.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as problem:
        raise UsageError(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    parts = {key.value: node for key, node in _pairs(root, f"{path}")}
    if part is None and len(parts) != 1:
        raise UsageError(f"{path}: {len(parts)} data sets. Name one: --dataset {next(iter(parts), 'NAME')}")
    name = part or next(iter(parts))
    if name not in parts:
        raise UsageError(f"{path}: {unknown('data set', name, parts)}")
    found: list[tuple[int, int | None, StepTable]] = []
    for key, node in _pairs(parts[name], f"{path}: {name}"):
        if key.value in _BESIDE:
            continue
        line = key.start_mark.line + 1
        if not re.fullmatch(r"[1-9]\d{0,8}", key.value):
            raise UsageError(
                f"{path}: line {line}: {unknown('key', key.value, _BESIDE)}, or the number of a step"
            )
        expected = found[-1][0] + 1 if found else 1
        if int(key.value) != expected:
            raise UsageError(f"{path}: line {line}: step {key.value} stands where step {expected} belongs")
        found.append((expected, line, _yaml_table(path, expected, line, node)))
    if not found:
        raise UsageError(f"{path}: {name} has no steps")
    return name, found


def _pairs(node: Any, where: str) -> list[tuple[Any, Any]]:
    if type(node).__name__ != "MappingNode":
        raise UsageError(f"{where}: not a mapping. Accepted: a runbook of big-ann-benchmarks")
    return list(node.value)


def _yaml_table(path: Path, number: int, line: int, node: Any) -> StepTable:
    where = f"{path}: step {number}, line {line}"
    values: dict[str, Any] = {}
    for key, value in _pairs(node, where):
        if type(value).__name__ != "ScalarNode":
            raise UsageError(f"{where}: {key.value} is no single value")
        whole = re.fullmatch(r"-?\d{1,18}", value.value)
        values[key.value] = int(value.value) if whole and key.value != "operation" else value.value
    problems = Problems()
    try:
        return StepTable.model_validate(values)
    except ValidationError as found:
        problems.add_all(found, StepTable)
    raise SettingsError(where, problems.found)


class _Selection:
    """Rows of a corpus by range, number, id or condition."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._rows_of: dict[int | str, int] | None = None

    def range(self, start: int, end: int) -> NDArray[np.int64]:
        if end <= start:
            raise UsageError(f"end = {end} after start = {start}. Accepted: an end beyond the start")
        # The rows are named in a message if there are no such rows; a huge range must not fill memory.
        return np.arange(max(start, -1), min(end, self.corpus.rows + 1))

    def ids(self, wanted: Sequence[int | str]) -> NDArray[np.int64]:
        if self._rows_of is None:
            self._rows_of = {each: row for row, each in enumerate(self.corpus.ids.to_pylist())}
        missing = [each for each in wanted if each not in self._rows_of]
        if missing:
            raise UsageError(f"the corpus has no id {missing[0]!r}" + _more(len(missing)))
        return np.asarray([self._rows_of[each] for each in wanted], np.int64)

    def where(self, text: str) -> NDArray[np.int64]:
        condition = parse_filter(text)
        corpus = self.corpus
        for name in sorted(condition.columns()):
            if name not in corpus.metadata_names:
                raise UsageError(unknown("corpus column", name, corpus.metadata_names))
        table = corpus.columns.read(sorted(condition.columns()), 0, corpus.rows)
        passing = eligibility([condition], table, None, corpus.rows).sets[0]
        return np.arange(corpus.rows) if passing is None else np.flatnonzero(passing.mask(0, corpus.rows))


def _more(count: int) -> str:
    return "" if count == 1 else f" ({count:,} ids are missing)"


def _step(number: int, line: int | None, table: StepTable, rows: _Selection) -> Step:
    operation = Operation(table.operation)
    given = _given(table)
    if operation in (Operation.SEARCH, Operation.MAINTAIN, Operation.REBUILD):
        if given:
            raise UsageError(f"{operation} takes no rows; it has {choices(sorted(given))}")
        return Step(number, operation, line=line)
    if operation is Operation.REPLACE:
        return Step(number, operation, _new_rows(table, given, rows), _tags(table, given, rows), line=line)
    chosen, only_present = _chosen(table, given, rows, operation)
    return Step(number, operation, chosen, only_present=only_present, line=line)


def _given(table: StepTable) -> set[str]:
    return {name for name, value in table if value is not None and name != "operation"}


def _chosen(
    table: StepTable, given: set[str], rows: _Selection, operation: Operation
) -> tuple[NDArray[np.int64], bool]:
    if given == {"start", "end"} and table.start is not None and table.end is not None:
        return rows.range(table.start, table.end), False
    if given == {"rows"} and table.rows is not None:
        return np.asarray(table.rows, np.int64), False
    if given == {"ids"} and table.ids is not None:
        return rows.ids(table.ids), False
    if given == {"where"} and table.where is not None:
        return rows.where(table.where), True
    raise UsageError(f"{operation} needs start and end, rows, ids, or where; it has {_said(given)}")


def _tags(table: StepTable, given: set[str], rows: _Selection) -> NDArray[np.int64]:
    if table.tags is not None and not given & {"tags_start", "tags_end"}:
        return np.asarray(table.tags, np.int64)
    if table.tags is None and table.tags_start is not None and table.tags_end is not None:
        return rows.range(table.tags_start, table.tags_end)
    raise UsageError(f"replace needs tags, or tags_start and tags_end; it has {_said(given)}")


def _new_rows(table: StepTable, given: set[str], rows: _Selection) -> NDArray[np.int64]:
    if given & {"start", "end", "where", "ids"}:
        raise UsageError(f"replace takes tags and rows; it has {_said(given)}")
    if table.rows is not None and not given & {"ids_start", "ids_end"}:
        return np.asarray(table.rows, np.int64)
    if table.rows is None and table.ids_start is not None and table.ids_end is not None:
        return rows.range(table.ids_start, table.ids_end)
    raise UsageError(f"replace needs rows, or ids_start and ids_end; it has {_said(given)}")


def _said(given: set[str]) -> str:
    return " and ".join(sorted(given)) or "none of them"


def runbook_text(steps: Sequence[Step], name: str, data: Mapping[str, str] | None = None) -> str:
    """Steps in our own format.

    Args:
        steps: as they are to be written.
        name: what the runbook does, in words.
        data: keys of the table `[data]`.
    """
    import json

    lines = [f"name = {json.dumps(name, ensure_ascii=False)}"]
    if data:
        lines += ["", "[data]", *(f"{key} = {json.dumps(value)}" for key, value in data.items())]
    for step in steps:
        lines += ["", "[[step]]", f'operation = "{step.operation}"']
        replaces = step.operation is Operation.REPLACE
        lines += [f"tags = {step.old.tolist()}"] if replaces else []
        lines += _written(step.rows, "ids_" if replaces else "") if len(step.rows) else []
    return "\n".join(lines) + "\n"


def _written(rows: NDArray[np.int64], prefix: str) -> list[str]:
    """Rows as a range where they are one."""
    if len(rows) > 2 and (np.diff(rows) == 1).all():
        return [f"{prefix}start = {rows[0]}", f"{prefix}end = {rows[-1] + 1}"]
    return [f"rows = {rows.tolist()}"]
