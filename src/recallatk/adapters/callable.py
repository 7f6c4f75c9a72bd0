"""callable: any Python function that searches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.attached import Attached
from recallatk.adapters.base import Abilities, Engine
from recallatk.adapters.inputs import Inputs
from recallatk.core import Knob
from recallatk.errors import EngineError, UsageError, kind_of, unknown

if TYPE_CHECKING:
    import collections.abc as abc

    from recallatk.adapters.batch import QueryBatch


class Callable(Attached):
    """A function `search(queries, k, **parameters)` that returns ids, or the tuple (ids, scores).

    Ids are the user's, strings or integers: a list of lists or an array, one row per query, best
    first. A tuple is always (ids, scores), and the scores are ignored. Search parameters are keyword
    arguments. A function with a parameter `filters` gets a list with one Filter or None per query.
    """

    name = "callable"
    # Only the author of a function knows whether several threads may call it.
    abilities = Abilities(attaches=True)
    build_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("function", default="", help="function to call, as module:function"),
    )
    search_knobs: ClassVar[tuple[Knob, ...]] = ()
    stated_search_knobs = Attached.search_knobs
    deprecated_search = frozenset({"parameters"})
    inputs = Inputs(functions=True)
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
            name: the name in messages; the function's name by default.
            knobs: its parameters; by default the keyword arguments of its signature.
            clients: whether several threads may call it at once.
        """
        called = name or getattr(function, "__name__", "callable")
        made = {"name": called, "function": staticmethod(function), "build_knobs": (), "target": called}
        made["abilities"] = replace(cls.abilities, clients=clients, filters=takes_filters(function))
        if knobs is not None:
            made |= {"search_knobs": tuple(knobs), "free_search": False, "stated_search_knobs": ()}
        return type("Callable", (cls,), made)

    @classmethod
    def can_filter(cls, build: abc.Mapping[str, Any]) -> bool:
        """Whether the function takes filters; `connect` inspects a function that the build names."""
        return cls.abilities.filters or cls.function is None

    @classmethod
    def unaccepted(cls, name: str) -> str | None:
        """Reason to refuse a keyword argument that the function does not accept."""
        return None if cls.function is None else unaccepted_keyword(cls.function, cls.name, name)

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
        self.takes_filters = takes_filters(self._function)

    def read_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function; the deprecated `parameters` is a JSON object of them."""
        found = super().read_parameters(parameters) if self.free_search else dict(parameters)
        for name in found:
            refused = unaccepted_keyword(self._function, self.target, name)
            if refused is not None:
                raise UsageError(f"{self.name}: {name}: {refused}")
        return found

    def failed(self, what: str) -> EngineError:
        """The error for what the function did, which is often the name of the engine too."""
        return EngineError(f"{self.name}: {what}") if self.target == self.name else super().failed(what)

    def client(self) -> Engine:
        """The engine itself, if the author of the function allows concurrent calls."""
        return Engine.client(self)

    def call(self) -> str:
        """One call of the function."""
        return "Python function"

    def ask(self, batch: QueryBatch, k: int) -> abc.Sequence[abc.Sequence[object]]:
        """Call the function."""
        try:
            if self.takes_filters:
                filters = list(batch.filters or [None] * batch.count)
                found = self._function(batch.vectors, k, filters=filters, **self.passed)
            else:
                found = self._function(batch.vectors, k, **self.passed)
        except Exception as problem:
            said = f"it raised {type(problem).__name__}: {problem}{raised_at(problem)}"
            raise self.failed(said) from problem
        if isinstance(found, tuple):
            if len(found) != 2:
                raise self.failed(f"it returned a tuple of {len(found)}. Accepted: ids, or (ids, scores)")
            found = found[0]
            if getattr(getattr(found, "dtype", None), "kind", "") == "f":
                raise self.failed(
                    "it returned (scores, ids). Accepted: ids, or (ids, scores); faiss has scores first"
                )
        lists = _plain(found)
        if not isinstance(lists, list | tuple):
            raise self.failed(f"it returned {kind_of(found)}. Accepted: one list of ids per query")
        plain = [_plain(each) for each in lists]
        for each in plain:
            if not isinstance(each, list | tuple):
                raise self.failed(f"for a query it returned {kind_of(each)}. Accepted: a list of ids")
        return plain


def raised_at(problem: BaseException) -> str:
    """The line of the user's file that raised; empty where Python could not even call the function."""
    import traceback

    # The first frame is the call here, the second the function.
    frames = traceback.extract_tb(problem.__traceback__)[1:]
    own = [each for each in frames if each.filename == frames[0].filename]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def _nothing(*_: object) -> list[object]:
    return []


def _plain(found: Any) -> Any:
    """Convert arrays of any library to lists."""
    return found.tolist() if hasattr(found, "tolist") else found


def takes_filters(function: abc.Callable[..., Any]) -> bool:
    """Whether a function has a parameter `filters`."""
    return "filters" in _keywords(function)[0]


def unaccepted_keyword(function: abc.Callable[..., Any], called: str, name: str) -> str | None:
    """Reason to refuse a keyword argument that a function does not accept; None if it does."""
    known, any_name = _keywords(function)
    if name != "filters" and (any_name or name in known):
        return None
    return unknown(f"parameter of {called}", name, [each for each in known if each != "filters"])


def _keywords(function: abc.Callable[..., Any]) -> tuple[list[str], bool]:
    """Parameters of a function besides queries and k, and whether it may take others."""
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], True
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    positional = sum(each.kind is each.POSITIONAL_ONLY for each in parameters)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return named[max(0, 2 - positional) :], takes_any


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
    except Exception as problem:
        # The module is the user's, and may raise anything.
        said = f"{type(problem).__name__}: {problem}"
        raise EngineError(f"{engine}: {text} cannot be imported: {module} raised {said}") from problem
    if not callable(found):
        raise EngineError(f"{engine}: {text} is {kind_of(found)} and cannot be called")
    function: abc.Callable[..., Any] = found
    return function
