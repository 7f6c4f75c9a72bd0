"""command: a program in any language that answers lines of JSON."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from recallatk.adapters.attached import Attached, shortened
from recallatk.adapters.program import Program, SurplusError
from recallatk.core import Knob
from recallatk.errors import EngineError, UsageError
from recallatk.references import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.batch import QueryBatch
    from recallatk.filters import Filter

# Wait for a surplus line this long after the last answer, plus the time of the slowest answer.
_LATE_SECONDS = 0.1


class Command(Attached):
    """A program that reads {"id": 7, "query": [...], "k": 10, "parameters": {...}} and writes {"ids": [...]}.

    The program reads one line per query and answers it before it reads the next, until its input ends. With
    `filters = "yes"`, each line has "filter": the filter of the query as JSON, or null. An answer may repeat
    the id of its query, which is then checked. Logs belong on standard error; messages show its last line.
    The program is started without a shell. When the measurement ends, the program and all of its descendants
    are ended. `${NAME}` in `command` and `parameters` expands to an environment variable.
    """

    name = "command"
    build_knobs = (
        Knob("command", default="", help="program and arguments; ${NAME} is taken from the environment"),
        Knob("timeout", default=30.0, low=0.01, high=3600.0, help="seconds to wait for an answer"),
    )
    stated_build_knobs = (
        Knob(
            "filters", default="no", choices=("no", "yes"), help="yes: each line includes the query's filter"
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._program: Program | None = None
        self._number = 0
        self._tags = False

    @classmethod
    def can_filter(cls, build: Mapping[str, Any]) -> bool:
        """Whether the settings declare that the program can filter."""
        return build.get("filters") == "yes"

    @classmethod
    def reaches(cls, **parameters: Any) -> str:
        """The program."""
        return "the program"

    def connect(self, parameters: dict[str, Any]) -> None:
        """Start the program."""
        try:
            arguments = shlex.split(parameters["command"])
        except ValueError as problem:
            raise UsageError(f"{self.name}: command cannot be parsed: {problem}") from problem
        if not arguments:
            raise UsageError(f"{self.name} needs command, a program and its arguments")
        self.target = arguments[0]
        self._number, self._tags = 0, False
        self.takes_filters = self.can_filter(parameters)
        try:
            # Split before expanding: a value may contain spaces and quotes.
            self._program = Program(expanded(arguments, "command", self.name), float(parameters["timeout"]))
        except OSError as problem:
            raise self.failed(f"it cannot be started: {problem.strerror or problem}") from problem

    def configure(self, **parameters: Any) -> None:
        """Set the parameters of every query; restart a program that failed at an earlier setting."""
        if self._program is None and self.ids is not None:
            self.connect(self.parameters)
        super().configure(**parameters)

    def call(self) -> str:
        """One line in each direction."""
        return "line to a subprocess and back"

    def ask(self, batch: QueryBatch, k: int) -> list[list[object]]:
        """Send one line at a time and read its answer."""
        filters = batch.filters or [None] * batch.count
        asked = zip(batch.vectors.tolist(), filters, strict=True)
        return [self._answer(query, k, condition) for query, condition in asked]

    def exercised(self) -> str:
        """Evidence from the answers; an EngineError if the program wrote surplus lines."""
        if self._program is not None:
            try:
                self._program.require_silence(_LATE_SECONDS + self._program.slowest)
            except SurplusError as problem:
                raise self._surplus(self._program, problem) from None
        return super().exercised()

    def _answer(self, query: list[float], k: int, condition: Filter | None) -> list[object]:
        program = self._program
        if program is None:
            raise self.failed("it was stopped")
        self._number += 1
        asked = {"id": self._number, "query": query, "k": k, "parameters": self.passed}
        if self.takes_filters:
            asked["filter"] = None if condition is None else condition.to_json()
        try:
            line = program.exchange(json.dumps(asked).encode())
        except SurplusError as problem:
            raise self._surplus(program, problem) from None
        if line is None:
            raise self._broken(program, program.ending())
        if not line.strip():
            raise self._broken(program, "it wrote an empty line. Accepted: one line of JSON for each query")
        return self._ids(program, line)

    def _ids(self, program: Program, line: bytes) -> list[object]:
        """The ids of an answer to the last query."""
        shown = shortened(line.decode("utf-8", "replace"))
        try:
            said = json.loads(line)
        except ValueError:
            raise self._broken(program, f"it wrote a line that is not JSON: {shown}") from None
        ids = said.get("ids") if isinstance(said, dict) else None
        if not isinstance(ids, list):
            raise self._broken(program, f'it wrote {shown}. Accepted: {{"ids": [...]}}')
        self._require_tag(program, said)
        return ids

    def _require_tag(self, program: Program, said: dict[str, Any]) -> None:
        """If the program repeats query ids, refuse an answer to a different query."""
        if not self._tags and "id" not in said:
            return
        self._tags = True
        if "id" not in said:
            raise self._broken(program, 'it wrote an answer without "id", but earlier answers had one')
        if said["id"] != self._number:
            raise self._broken(
                program,
                f"it wrote the answer to query {said['id']!r} instead of query {self._number}. "
                "Accepted: one answer for each query, in turn",
            )

    def _surplus(self, program: Program, problem: SurplusError) -> EngineError:
        return self._broken(
            program,
            f"it wrote more than one line for a query: {shortened(str(problem))!r}. Accepted: one line of "
            "JSON for each line that it reads; everything else belongs on standard error",
        )

    def _broken(self, program: Program, what: str) -> EngineError:
        """End the program, whose later answers would be out of step; return an error with its last output."""
        program.close()
        self._program = None
        last = program.last_error()
        return self.failed(f"{what}. Last line of its standard error: {last}" if last else what)

    def close(self) -> None:
        """End the program."""
        super().close()
        if self._program is not None:
            self._program.close()
            self._program = None
