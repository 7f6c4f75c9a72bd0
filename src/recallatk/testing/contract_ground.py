"""What the tests of the contract stand on: the engine, data that it can search, and what it has built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from recallatk.core import Dataset, Metric
from recallatk.engines.base import Engine, require_installed, resolved
from recallatk.engines.registry import get_engine
from recallatk.testing import asking
from recallatk.testing.asking import fits, rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.testing.gaps import Gap


class ContractGround:
    """What a subclass says of its engine, and what the tests make of it."""

    engine: ClassVar[str | type[Engine]]
    build: ClassVar[Mapping[str, Any]] = {}
    """Build parameters for indexes of some hundred rows."""
    full_effort: ClassVar[Mapping[str, Any]] = {}
    """Search parameters at which it finds (nearly) all; beside these, effort knobs are at their top."""
    gaps: ClassVar[Mapping[str, Gap]] = {}
    """By the name of a test why it is known to fail."""

    @pytest.fixture(autouse=True)
    def _expect_gaps(self, request: Any) -> None:
        gap = self.gaps.get(request.node.originalname or request.node.name)
        if gap is not None:
            request.node.add_marker(pytest.mark.xfail(strict=True, reason=str(gap)))

    @pytest.fixture
    def making(self) -> Iterator[Any]:
        """Builds engines and closes them all at the end."""
        made: list[Engine] = []

        def make(dataset: Dataset, build: Mapping[str, Any] | None = None, **search: Any) -> Engine:
            engine = self.kind()()
            made.append(engine)
            rebuild(engine, dataset, {**self.build, **(build or {})}, search)
            return engine

        yield make
        for engine in made:
            engine.close()

    def kind(self) -> type[Engine]:
        """The class that is tested."""
        found = get_engine(self.engine) if isinstance(self.engine, str) else self.engine
        require_installed(found)
        return found

    def data(self, **options: Any) -> Dataset:
        """A small dataset under a metric that the engine has."""
        known = self.kind().metrics
        metric = Metric.L2 if Metric.L2 in known else min(known)
        return asking.data(**{"metric": metric, **options})

    def most(self, dataset: Dataset) -> dict[str, Any]:
        """Search parameters of the highest effort that goes with the data."""
        kind = self.kind()
        built = resolved(kind.name, kind.build_knobs, self.build)
        effort = {knob.name: knob.high for knob in kind.search_knobs if knob.effort}
        for name in list(effort):
            while effort[name] > 1 and not fits(kind, dataset, {**built, name: effort[name]}):
                effort[name] = effort[name] // 2 if isinstance(effort[name], int) else effort[name] / 2
        return {**effort, **self.full_effort}
