"""The parameters of a path: of its legs, the number of candidates, of fusion and of reranking."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Constraint
from recallatk.adapters.registry import get_engine
from recallatk.core import Knob
from recallatk.errors import UsageError
from recallatk.pipeline.path import LEXICAL, NATIVE, RRF, SPARSE, Fuse, Path, Retrieve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.adapters import Engine

_MOST_CANDIDATES = 1_000_000
_OVERSAMPLE = Knob(
    "oversample",
    default=4,
    low=1,
    high=10_000,
    effort=True,
    reranks=True,
    help="candidates for each result",
)
_DEPTH = Knob("depth", default=100, low=1, high=_MOST_CANDIDATES, effort=True, help="candidates")
_CONSTANT = Knob("constant", default=60, low=1, high=100_000, help="constant of reciprocal rank fusion")
_WEIGHT = Knob("weight", default=0.5, low=0, high=1, scale="linear", help="share of the first leg")
_DIMENSIONS = Knob("dimensions", default=64, low=1, high=65_536, help="leading dimensions that are kept")


def leg_engine(leg: Retrieve) -> type[Engine]:
    """The class that searches a leg."""
    if leg.engine == LEXICAL:
        from recallatk.pipeline.lexical import Bm25

        return Bm25
    if leg.engine == SPARSE:
        from recallatk.pipeline.sparse import Sparse

        return Sparse
    return get_engine(leg.engine)


class PathKnobs:
    """The knobs of a path by their names: of one leg as the engine has them, of several as `leg.knob`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engines = {leg.name: leg_engine(leg) for leg in path.legs}
        native = any(each.by == NATIVE for each in path.reranks)
        if native and not any(each.reranks for each in self.engines[path.legs[0].name].search_knobs):
            raise UsageError(f'{path.legs[0].engine} has no reranking of its own. Accepted: rerank = "exact"')
        self.native = native

    def prefix(self, leg: Retrieve) -> str:
        """What the names of a leg's parameters begin with."""
        return f"{leg.name}." if len(self.path.legs) > 1 else ""

    def candidates(self, leg: Retrieve) -> Knob | None:
        """The knob for the number of candidates of a leg; None if it retrieves only the results."""
        if leg.oversample is not None:
            return _OVERSAMPLE
        if leg.depth is not None or len(self.path.legs) > 1:
            return _DEPTH
        later = self.path.post_filter is not None or (self.path.reranks and not self.native)
        return _OVERSAMPLE if later else None

    def list_knob(self) -> str | None:
        """The knob for the number of lists of the first leg that has one."""
        found = [(self.prefix(leg), self.engines[leg.name].list_knob) for leg in self.path.legs]
        return next((f"{prefix}{name}" for prefix, name in found if name is not None), None)

    def build(self) -> tuple[Knob, ...]:
        """All build knobs."""
        return tuple(knob for leg in self.path.legs for knob in self._leg_build(leg))

    def _leg_build(self, leg: Retrieve) -> Iterator[Knob]:
        prefix = self.prefix(leg)
        if leg.dimensions is not None:
            yield replace(_DIMENSIONS, name=f"{prefix}{_DIMENSIONS.name}")
        engine = self.engines[leg.name]
        stated = [each for each in engine.stated_build_knobs if each.name in leg.build]
        for knob in (*engine.build_knobs, *stated):
            yield replace(knob, name=f"{prefix}{knob.name}")

    def search(self) -> tuple[Knob, ...]:
        """All search knobs, of the legs first."""
        found = [knob for leg in self.path.legs for knob in self._leg_search(leg)]
        fuse = self.path.fuse
        if fuse is not None:
            found.append(_CONSTANT if fuse.method == RRF else _WEIGHT)
            if fuse.depth is not None:
                found.append(replace(_DEPTH, name=f"{fuse.name}.depth", help="fused rows that go on"))
        for each in self.path.reranks:
            if each.depth is not None:
                name = f"{each.name}.depth"
                found.append(replace(_DEPTH, name=name, reranks=True, help="candidates that are reranked"))
        return tuple(found)

    def _leg_search(self, leg: Retrieve) -> Iterator[Knob]:
        prefix, engine, count = self.prefix(leg), self.engines[leg.name], self.candidates(leg)
        stated = [each for each in engine.stated_search_knobs if each.name in leg.search]
        for knob in (*engine.search_knobs, *stated, *([] if count is None else [count])):
            yield replace(knob, name=f"{prefix}{knob.name}", default=self._default(knob))

    def _default(self, knob: Knob) -> Any:
        """The default of a leg's knob; where a stage reranks, an engine that need not rerank does not."""
        own = knob.reranks and knob.low == 0
        return 0 if own and self.path.reranks and not self.native else knob.default

    def given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Build and search parameters as the stages state them: values, lists and ranges."""
        build: dict[str, Any] = {}
        search: dict[str, Any] = {}
        for leg in self.path.legs:
            prefix = self.prefix(leg)
            build |= {f"{prefix}{name}": value for name, value in leg.build.items()}
            search |= {f"{prefix}{name}": value for name, value in leg.search.items()}
            _state(build, f"{prefix}dimensions", leg.dimensions)
            _state(search, f"{prefix}oversample", leg.oversample)
            _state(search, f"{prefix}depth", leg.depth)
        fuse = self.path.fuse
        if fuse is not None:
            _state(search, "constant", fuse.constant)
            _state(search, "weight", fuse.weight)
            _state(search, f"{fuse.name}.depth", fuse.depth)
        for each in self.path.reranks:
            _state(search, f"{each.name}.depth", each.depth)
        return build, search

    def place(self, part: str, name: str) -> tuple[str | int, ...]:
        """Where the stages state a build or search parameter: `("stages", 0, "search", "ef")`."""
        for number, stage in enumerate(self.path.read):
            table = self.path.stages[number]
            prefix = self.prefix(stage) if isinstance(stage, Retrieve) else f"{stage.name}."
            own = name.removeprefix(prefix)
            if isinstance(stage, Fuse) and name in (_CONSTANT.name, _WEIGHT.name):
                return ("stages", number, name)
            if own in table and name == f"{prefix}{own}":
                return ("stages", number, own)
            if isinstance(stage, Retrieve) and own in table.get(part, {}) and name == f"{prefix}{own}":
                return ("stages", number, part, own)
        return (part, name)

    def restated(self, build: Mapping[str, Any], search: Mapping[str, Any]) -> Path:
        """The same path with other values of its parameters."""
        tables = [{**each} for each in self.path.stages]
        for table, stage in zip(tables, self.path.read, strict=True):
            if isinstance(stage, Retrieve):
                self._restate_leg(table, stage, build, search)
            elif f"{stage.name}.depth" in search:
                table["depth"] = search[f"{stage.name}.depth"]
            if isinstance(stage, Fuse):
                table |= {name: search[name] for name in ("constant", "weight") if name in search}
        return replace(self.path, stages=tables)

    def _restate_leg(
        self, table: dict[str, Any], leg: Retrieve, build: Mapping[str, Any], search: Mapping[str, Any]
    ) -> None:
        prefix = self.prefix(leg)
        for part, given, knobs in (
            ("build", build, self._leg_build(leg)),
            ("search", search, self._leg_search(leg)),
        ):
            stated = {**table.get(part, {})}
            for knob in knobs:
                own = knob.name.removeprefix(prefix)
                if knob.name in given and own in ("dimensions", "oversample", "depth", "column"):
                    table[own] = given[knob.name]
                elif knob.name in given:
                    stated[own] = given[knob.name]
            if stated:
                table[part] = stated

    def depth(self, leg: Retrieve, search: Mapping[str, Any], k: int) -> int:
        """Number of candidates that a leg retrieves for k results."""
        prefix, knob = self.prefix(leg), self.candidates(leg)
        if knob is None:
            return k
        value = int(search.get(f"{prefix}{knob.name}", knob.default))
        return value * k if knob.name == _OVERSAMPLE.name else max(value, 1)

    def constraints(self) -> tuple[Constraint, ...]:
        """Conditions of every leg, with its own number of candidates as k and its own dimension."""
        found = [
            self._of_leg(leg, each) for leg in self.path.legs for each in self.engines[leg.name].constraints
        ]
        for leg in self.path.legs:
            if leg.dimensions is not None:
                name = f"{self.prefix(leg)}{_DIMENSIONS.name}"
                found.append(
                    Constraint(f"{name} up to the dimension", (name, "dimension"), _no_more_than(name))
                )
        return tuple(found)

    def _of_leg(self, leg: Retrieve, constraint: Constraint) -> Constraint:
        prefix, knob = self.prefix(leg), self.candidates(leg)
        known = ("rows", "dimension", "k")
        names = [each if each in known else f"{prefix}{each}" for each in constraint.names]
        if "k" in constraint.names and knob is not None:
            names.append(f"{prefix}{knob.name}")
        dimensions = f"{prefix}{_DIMENSIONS.name}"
        if "dimension" in constraint.names and leg.dimensions is not None:
            names.append(dimensions)

        def holds(**values: Any) -> bool:
            own = {each: values[each if each in known else f"{prefix}{each}"] for each in constraint.names}
            if "k" in own:
                own["k"] = self.depth(leg, values, self.path.k or own["k"])
                if "rows" in values:
                    own["k"] = min(own["k"], values["rows"])
            if "dimension" in own:
                own["dimension"] = values.get(dimensions, own["dimension"])
            return constraint.holds(**own)

        text = constraint.text
        if "k" in constraint.names and knob is not None:
            text = f"{text}, where k is the number of candidates of {leg.name}"
        return Constraint(text, tuple(dict.fromkeys(names)), holds)


def _no_more_than(name: str) -> Any:
    return lambda **values: bool(values[name] <= values["dimension"])


def _state(parameters: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        parameters[name] = value
