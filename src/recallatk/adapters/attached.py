"""The base of engines that attach to an existing index, and the mapping of the user's ids to corpus rows."""

from __future__ import annotations

import json
import re
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Engine
from recallatk.adapters.batch import QueryBatch
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError, UsageError, kind_of
from recallatk.redaction import literal_secret, redact_text
from recallatk.references import expanded
from recallatk.units import counted

if TYPE_CHECKING:
    import collections.abc as abc

    from numpy.typing import NDArray

    from recallatk.filters import Filter

_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
_GAP = -1
_SHOWN = 200


def answered_id(found: object) -> str | int:
    """An id of an answer as plain text or int, such as those of NumPy.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(found, str):
        return found
    if isinstance(found, int | Integral) and not isinstance(found, bool):
        return int(found)
    raise TypeError(f"an id is {kind_of(found)}. Accepted: strings and whole numbers")


class RowsById:
    """The corpus rows by the user's ids.

    An id missing from the corpus maps to the row count, which is not a valid row, and scoring counts it as
    unknown. None and -1 are gaps: trailing gaps are padding, other gaps count as unknown.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.unknown = corpus.rows
        self.rows: dict[Any, int] | None = None
        self.text = False
        if corpus.id_column is not None:
            self.rows = {each: row for row, each in enumerate(corpus.ids.to_pylist())}
            self.text = bool(self.rows) and isinstance(next(iter(self.rows)), str)

    def example(self) -> object:
        """An id of the corpus, for messages."""
        return 0 if self.rows is None else next(iter(self.rows), None)

    def row(self, found: object) -> int:
        """The row of one id; a number and its decimal text are the same id."""
        if found is None:
            return _GAP
        key = answered_id(found)
        if key == _GAP:
            return _GAP
        if isinstance(key, int):
            key = str(key) if self.text else key
        elif not self.text and _NUMBER.fullmatch(key):
            key = int(key)
        if self.rows is not None:
            return self.rows.get(key, self.unknown)
        return key if isinstance(key, int) and 0 <= key < self.unknown else self.unknown

    def matrix(self, lists: abc.Sequence[abc.Sequence[object]], k: int) -> NDArray[np.int64]:
        """The rows of the first k ids of each list; repeats stay, and short lists end in -1."""
        found = np.full((len(lists), k), _GAP, np.int64)
        for line, ids in zip(found, lists, strict=True):
            rows = [self.row(each) for each in ids[:k]]
            while rows and rows[-1] == _GAP:
                rows.pop()
            line[: len(rows)] = [self.unknown if row == _GAP else row for row in rows]
        return found


class Attached(Engine):
    """An existing index, searched as it is; the engine copies only the corpus ids.

    Subclasses write `connect` and `ask`, and `target`, the name of the existing index in messages.
    """

    family = "attached"
    metrics = frozenset(Metric)
    abilities = Abilities(batch=False, attaches=True, clients=True, forks=True)
    free_search = True
    search_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("parameters", default="{}", help="a JSON object with extra parameters for every query"),
    )
    target = ""
    ids: RowsById | None = None
    takes_filters = False
    """Whether the connected target declares support for filters."""
    answered = returned = known = 0
    _stranger: object = None
    _first = QueryBatch(np.empty((0, 0)))

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self.passed: dict[str, Any] = {}

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Attach to the target; nothing is built."""
        self.attach(corpus, metric, **parameters)

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Store the ids and connect; the target's metric is not checked."""
        self.close()
        refuse_literals(self.name, parameters)
        self.parameters = parameters
        self.connect(parameters)
        self.ids = RowsById(corpus)
        self._first = QueryBatch(np.array(corpus.vectors.read(0, min(1, corpus.rows))))

    def connect(self, parameters: dict[str, Any]) -> None:
        """Connect to the target; raise an EngineError if that fails."""
        raise NotImplementedError

    def ask(self, batch: QueryBatch, k: int) -> abc.Sequence[abc.Sequence[object]]:
        """The ids that the target returns for each query, best first."""
        raise NotImplementedError

    def configure(self, **parameters: Any) -> None:
        """Set the parameters sent with every query, and send one untimed query as a check."""
        super().configure(**parameters)
        self.passed = self.read_parameters(parameters)
        self._try_out()

    def _try_out(self) -> None:
        if self._first.count:
            self.nearest(self._first, 1)
        self.answered = self.returned = self.known = 0

    def read_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters sent with every query, by name; `${NAME}` expands to an environment variable."""
        refuse_literals(self.name, parameters)
        named = dict(parameters)
        text = named.pop("parameters", "{}")
        return expanded(json_object(self.name, "parameters", text) | named, "parameters", self.name)

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The rows of the returned ids; ids missing from the corpus become the row count."""
        if self.ids is None:
            raise EngineError(f"{self.name}: it is not attached to an index")
        lists = self.ask(batch, k)
        if len(lists) != batch.count:
            raise self.failed(
                f"it answered {counted(batch.count, 'query', 'queries')} with "
                f"{counted(len(lists), 'list', 'lists')} of ids"
            )
        try:
            found = self.ids.matrix(lists, k)
        except TypeError as problem:
            raise self.failed(str(problem)) from None
        self.answered += len(lists)
        self.returned += int((found != _GAP).sum())
        known = int(((found >= 0) & (found < self.ids.unknown)).sum())
        self.known += known
        if not known and lists and len(lists[0]):
            self._stranger = lists[0][0]
        return found

    def exercised(self) -> str:
        """Evidence from the target; an EngineError if it never returned a corpus id."""
        if self.ids is None or not self.answered:
            raise EngineError(f"{self.name}: no query was sent yet")
        if self.returned and not self.known:
            raise self.failed(
                f"none of its {self.returned:,} returned ids is in the corpus: it returned "
                f"{self._stranger!r}, the corpus has ids such as {self.ids.example()!r}"
            )
        said = self.said()
        return (
            f"{counted(self.answered, 'query', 'queries')} answered by {self.target}{said and ', ' + said}; "
            "its index use is unknown"
        )

    def refuse_filters(self, batch: QueryBatch) -> None:
        """Refuse filters unless the target declares support for them."""
        if batch.filters is not None and not self.takes_filters:
            raise self.unable("filter during search")

    def compiled(self, condition: Filter) -> object:
        """The filter itself: the target gets it with each query, where it says that it can filter."""
        if not self.takes_filters:
            raise self.unable("filter during search")
        return condition

    def in_process(self) -> bool:
        """False: the location of the target's index is unknown."""
        return False

    def client(self) -> Engine:
        """A second connection to the target with the same parameters, checked with one query."""
        if self.ids is None:
            raise EngineError(f"{self.name}: it is not attached to an index")
        other = type(self)()
        other.parameters, other.passed, other.target = self.parameters, self.passed, self.target
        try:
            other.connect(self.parameters)
            other.ids, other._first = self.ids, self._first
            other._try_out()
        except BaseException:
            other.close()
            raise
        return other

    def said(self) -> str:
        """Further evidence from the target, in words."""
        return ""

    def failed(self, what: str) -> EngineError:
        """The error for a failure of the target."""
        return EngineError(f"{self.name}: {self.target}: {what}")

    def close(self) -> None:
        """Release the ids; the target is left unchanged."""
        self.ids = None


def json_object(engine: str, name: str, text: str) -> dict[str, Any]:
    """Parse a knob whose value is a JSON object."""
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise UsageError(f"{engine}: {name} is not JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise UsageError(f"{engine}: {name} = {shortened(text)}. Accepted: a JSON object")
    return found


def refuse_literals(engine: str, parameters: abc.Mapping[str, Any]) -> None:
    """Refuse a literal secret: parameters are saved with the run."""
    found = literal_secret(parameters)
    if found is not None:
        raise UsageError(
            f"{engine}: {found} may contain a secret, and runs save their parameters. Take it from the "
            "environment: ${NAME}"
        )


def shortened(text: str) -> str:
    """The beginning of the target's text, on one line, redacted."""
    # Redact before truncating: part of a secret is no longer recognized.
    line = redact_text(" ".join(text.split()))
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
