"""callable: any Python function that searches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.attached import Attached
from recallatk.adapters.base import Abilities, Engine
from recallatk.core import Knob
from recallatk.errors import EngineError, UsageError

if TYPE_CHECKING:
    import collections.abc as abc

    from recallatk.adapters.batch import QueryBatch


class Callable(Attached):
    """A function `search(queries, k, **parameters)` that returns ids, or the tuple (ids, scores).

    Ids are the user's, strings or integers: a list of lists or an array, one line for each query, best
    first. A tuple is always (ids, scores), and the scores are ignored.
    """

    name = "callable"
    # Only its author knows whether several threads may call a function.
    abilities = Abilities(attaches=True)
    build_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("function", default="", help="where the function stands: module:function"),
    )
    function: ClassVar[abc.Callable[..., Any] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._function: abc.Callable[..., Any] = _nothing

    @classmethod
    def of(
        cls,
        function: abc.Callable[..., Any],
        *,
        name: str | None = None,
        knobs: abc.Sequence[Knob] | None = None,
        clients: bool = False,
    ) -> type[Callable]:
        """An engine class for one function.

        Args:
            function: `search(queries, k, **parameters)`.
            name: what messages call it; the name of the function by default.
            knobs: the parameters that it takes; by default any, as one JSON object `parameters`.
            clients: whether several threads may call it at once.
        """
        called = name or getattr(function, "__name__", "callable")
        made = {"name": called, "function": staticmethod(function), "build_knobs": (), "target": called}
        made["abilities"] = replace(cls.abilities, clients=clients)
        if knobs is not None:
            made["search_knobs"] = tuple(knobs)
        return type("Callable", (cls,), made)

    @classmethod
    def reaches(cls, **parameters: Any) -> str:
        """The function."""
        return "the function"

    def connect(self, parameters: dict[str, Any]) -> None:
        """Find the function."""
        if self.function is not None:
            self._function = self.function
        else:
            self.target = parameters["function"]
            self._function = found_function(self.name, self.target)

    def read_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The declared knobs, or any JSON object where none are declared."""
        declared = self.search_knobs is not Attached.search_knobs
        return dict(parameters) if declared else super().read_parameters(parameters)

    def client(self) -> Engine:
        """The engine itself, where the author of the function allows it."""
        return Engine.client(self)

    def call(self) -> str:
        """One call of the function."""
        return "Python function"

    def ask(self, batch: QueryBatch, k: int) -> abc.Sequence[abc.Sequence[object]]:
        """Call the function."""
        try:
            found = self._function(batch.vectors, k, **self.passed)
        except Exception as problem:
            raise self.failed(f"it raised {type(problem).__name__}: {problem}") from problem
        if isinstance(found, tuple):
            if len(found) != 2:
                raise self.failed(f"it returned a tuple of {len(found)}. Accepted: ids, or (ids, scores)")
            found = found[0]
        lists = _plain(found)
        if not isinstance(lists, list | tuple):
            raise self.failed(f"it returned a {type(found).__name__}. Accepted: one list of ids per query")
        plain = [_plain(each) for each in lists]
        for each in plain:
            if not isinstance(each, list | tuple):
                raise self.failed(f"for a query it returned a {type(each).__name__}. Accepted: a list of ids")
        return plain


def _nothing(*_: object) -> list[object]:
    return []


def _plain(found: Any) -> Any:
    """Arrays of any library as lists."""
    return found.tolist() if hasattr(found, "tolist") else found


def found_function(engine: str, text: str) -> abc.Callable[..., Any]:
    """The function that `module:function` names."""
    import importlib

    module, _, path = text.partition(":")
    if not module or not path:
        raise UsageError(f"{engine}: function = {text!r}. Accepted: module:function")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as problem:
        raise EngineError(f"{engine}: {text} cannot be imported: {problem}") from problem
    if not callable(found):
        raise EngineError(f"{engine}: {text} is a {type(found).__name__} and cannot be called")
    function: abc.Callable[..., Any] = found
    return function
