"""Stages read from the tables of a path, with every problem and its place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from recallatk.errors import did_you_mean, unknown
from recallatk.pipeline.path import (
    AFTER,
    BINARY,
    EXACT,
    LEXICAL,
    NATIVE,
    RRF,
    SPARSE,
    WEIGHTED,
    Fuse,
    PostFilter,
    Rerank,
    Retrieve,
    Stage,
)

Place: TypeAlias = tuple[str | int, ...]
Complaints: TypeAlias = list[tuple[Place, str]]


def read_stages(name: Any, tables: Any, k: Any) -> tuple[tuple[Stage, ...], Complaints]:
    """The stages of tables, and everything wrong with them, with its place."""
    problems: Complaints = []
    if not isinstance(name, str) or not name.strip():
        problems.append((("name",), f"{name!r}. Accepted: a non-empty string"))
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        problems.append((("k",), f"{k!r}. Accepted: whole numbers from 1"))
    found: list[Stage] = []
    if isinstance(tables, str | Mapping) or not isinstance(tables, Sequence):
        problems.append((("stages",), f"{tables!r:.60}. Accepted: a list of tables, one per stage"))
        tables = ()
    for number, table in enumerate(tables):
        made = _stage(table, ("stages", number), problems)
        if made is not None:
            found.append(made)
    if not problems:
        _check_order(found, problems)
    if not problems:
        _check_names(found, problems)
    return tuple(found), problems


_KEYS: dict[str, tuple[str, ...]] = {
    "retrieve": (
        "name",
        "depth",
        "oversample",
        "build",
        "search",
        "dimensions",
        "codes",
        "column",
        "queries",
    ),
    "fuse": ("name", "constant", "weight", "depth"),
    "filter": ("name",),
    "rerank": ("name", "depth", "column", "timeout"),
}


def _stage(table: Any, place: Place, problems: Complaints) -> Stage | None:
    """The stage of a table; None if it is none."""
    accepted = "a table with one of retrieve, fuse, filter or rerank"
    if not isinstance(table, Mapping):
        problems.append((place, f"{table!r:.60}. Accepted: {accepted}"))
        return None
    kinds = [kind for kind in _KEYS if kind in table]
    if len(kinds) != 1:
        said = "it has " + " and ".join(kinds) if kinds else "the kind of the stage is missing"
        hint = "" if kinds else _meant(table)
        problems.append((place, f"{said}.{hint} Accepted: {accepted}"))
        return None
    [kind] = kinds
    for key in table:
        if key != kind and key not in _KEYS[kind]:
            known = [kind, *_KEYS[kind]]
            problems.append(((*place, str(key)), unknown(f"key of a {kind} stage", key, known, placed=True)))
    return _MAKERS[kind](dict(table), place, problems)


def _meant(table: Mapping[str, Any]) -> str:
    return next((hint for each in table if (hint := did_you_mean(each, _KEYS))), "")


def _retrieve(table: dict[str, Any], place: Place, problems: Complaints) -> Stage | None:
    engine = table["retrieve"]
    if not isinstance(engine, str) or not engine:
        accepted = f"the name of an engine, {LEXICAL} or {SPARSE}"
        problems.append(((*place, "retrieve"), f"{engine!r:.60}. Accepted: {accepted}"))
        return None
    if table.get("depth") is not None and table.get("oversample") is not None:
        problems.append((place, "depth and oversample both state the number of candidates. State one"))
    codes = table.get("codes")
    if codes not in (None, BINARY):
        problems.append(((*place, "codes"), f"{codes!r:.60}. Accepted: {BINARY}"))
    build, search = (_parameters(table, part, place, problems) for part in ("build", "search"))
    leg = Retrieve(
        engine,
        _name(table, engine, place, problems),
        table.get("depth"),
        table.get("oversample"),
        build,
        search,
        table.get("dimensions"),
        codes,
        table.get("queries"),
    )
    several = table.get("column", build.get("column"))
    if isinstance(several, list | tuple | Mapping):
        problems.append(((*place, "column"), f"{several!r:.60}. Accepted: one name"))
    if not isinstance(table.get("queries", ""), str):
        problems.append(((*place, "queries"), f"{table['queries']!r:.60}. Accepted: one name"))
    if engine == SPARSE and not any(each in (table | build) for each in ("column", "file")):
        said = "sparse vectors need a column or a file: column = ... or build = { file = ... }"
        problems.append((place, said))
    if "column" in table:
        leg.build.setdefault("column", table["column"])  # type: ignore[attr-defined]
    for key in ("dimensions", "codes"):
        if not leg.dense and table.get(key) is not None:
            problems.append(((*place, key), f"{engine} does not search vectors. Remove {key}"))
    for key in ("column", "queries"):
        if leg.dense and key in table:
            problems.append(((*place, key), f"only {LEXICAL} and {SPARSE} read a column. Remove {key}"))
    return leg


def _parameters(table: dict[str, Any], part: str, place: Place, problems: Complaints) -> dict[str, Any]:
    given = table.get(part, {})
    if not isinstance(given, Mapping):
        problems.append(((*place, part), f"{given!r:.60}. Accepted: a table of parameters"))
        return {}
    return dict(given)


def _fuse(table: dict[str, Any], place: Place, problems: Complaints) -> Stage | None:
    method = table["fuse"]
    if method not in (RRF, WEIGHTED):
        problems.append(((*place, "fuse"), f"{method!r:.60}. Accepted: {RRF} or {WEIGHTED}"))
        return None
    other = "weight" if method == RRF else "constant"
    if other in table:
        problems.append(((*place, other), f"{method} takes no {other}. Remove it"))
    name = _name(table, "fuse", place, problems)
    return Fuse(method, name, table.get("constant"), table.get("weight"), table.get("depth"))


def _filter(table: dict[str, Any], place: Place, problems: Complaints) -> Stage | None:
    if table["filter"] != AFTER:
        said = f'{table["filter"]!r:.60}. Accepted: "{AFTER}"; without a filter stage, the legs filter'
        problems.append(((*place, "filter"), said))
        return None
    return PostFilter(_name(table, "filter", place, problems))


def _rerank(table: dict[str, Any], place: Place, problems: Complaints) -> Stage | None:
    by = table["rerank"]
    function = callable(by) or (isinstance(by, str) and ":" in by)
    if not function and by not in (EXACT, NATIVE):
        accepted = f"{EXACT}, {NATIVE}, or module:function"
        problems.append(((*place, "rerank"), f"{by!r:.60}. Accepted: {accepted}"))
        return None
    for key in ("column", "timeout"):
        if not function and key in table:
            problems.append(((*place, key), f"only functions take a {key}. Remove it"))
    timeout = table.get("timeout", Rerank.timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        said = f"{timeout!r:.60}. Accepted: seconds above 0, up to {_LONGEST:,}"
        problems.append(((*place, "timeout"), said))
        timeout = Rerank.timeout
    if by == NATIVE and "depth" in table:
        said = "the engine has a parameter of its own for the candidates that it reranks: state it in search"
        problems.append(((*place, "depth"), said))
    if not isinstance(table.get("column", ""), str):
        problems.append(((*place, "column"), f"{table['column']!r:.60}. Accepted: one name"))
    name = _name(table, "rerank", place, problems)
    return Rerank(by, name, table.get("depth"), table.get("column"), float(timeout))


_MAKERS: dict[str, Callable[[dict[str, Any], Place, Complaints], Stage | None]] = {
    "retrieve": _retrieve,
    "fuse": _fuse,
    "filter": _filter,
    "rerank": _rerank,
}


def _name(table: dict[str, Any], usual: str, place: Place, problems: Complaints) -> str:
    name = table.get("name", usual)
    if not isinstance(name, str) or not name.strip() or "." in name:
        problems.append(((*place, "name"), f"{name!r:.60}. Accepted: text without a dot"))
        return usual
    return name


_LONGEST = 86_400
_ORDER = "retrieve, then fuse if there are several, then filter, then rerank"


def _check_order(stages: list[Stage], problems: Complaints) -> None:
    """Refuse stages in an impossible order, with the reason and the order that works."""
    legs = sum(isinstance(each, Retrieve) for each in stages)
    fusions = sum(isinstance(each, Fuse) for each in stages)
    if not stages or not legs:
        problems.append((("stages",), f"no stage retrieves. Accepted: {_ORDER}"))
        return
    ranks = {Retrieve: 0, Fuse: 1, PostFilter: 2, Rerank: 3}
    for number, (before, each) in enumerate(itertools.pairwise(stages), 1):
        if ranks[type(each)] < ranks[type(before)]:
            said = f"{_kind(each)} cannot come after {_kind(before)}. Accepted: {_ORDER}"
            problems.append((("stages", number), said))
    if legs > 1 and fusions != 1:
        said = f"{legs} stages retrieve and {fusions} fuse. Accepted: one fuse stage after them"
        problems.append((("stages",), said))
    if legs == 1 and fusions:
        problems.append((("stages",), "one stage retrieves, so there is nothing to fuse. Remove fuse"))
    if legs > 1 and any(isinstance(each, PostFilter) for each in stages):
        said = "a filter after a fusion has no exact counterpart. Remove the stage: then every leg filters"
        problems.append((("stages",), said))
    if sum(isinstance(each, PostFilter) for each in stages) > 1:
        problems.append((("stages",), "two stages filter. Keep one"))
    for number, each in enumerate(stages):
        if isinstance(each, Fuse) and each.method == WEIGHTED and legs != 2:
            said = f"weighted fusion joins two legs, and there are {legs}. Accepted: fuse = {RRF!r}"
            problems.append((("stages", number), said))
        if isinstance(each, Rerank) and each.by == NATIVE:
            _check_native(stages, number, problems)


def _check_native(stages: list[Stage], number: int, problems: Complaints) -> None:
    leg = stages[0]
    single = len(stages) > 1 and isinstance(leg, Retrieve) and leg.dense and number == 1
    if not single or sum(isinstance(each, Retrieve) for each in stages) > 1:
        said = "the engine itself reranks, so this stage follows its only retrieve stage"
        problems.append((("stages", number, "rerank"), said))


def _kind(stage: Stage) -> str:
    return {Retrieve: "retrieve", Fuse: "fuse", PostFilter: "filter", Rerank: "rerank"}[type(stage)]


def _check_names(stages: list[Stage], problems: Complaints) -> None:
    seen: dict[str, int] = {}
    for number, each in enumerate(stages):
        if each.name in seen:
            said = f"two stages are called {each.name}. Give one of them a name of its own: name = ..."
            problems.append((("stages", number), said))
        seen[each.name] = number


def placed(place: Place) -> str:
    """A place in words: `stages[1].rerank: `."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".")
    return f"{text}: " if text else ""
