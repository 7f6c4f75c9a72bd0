"""What `recallatk gate` was asked for: two recorded results, or something that it measures first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from recallatk.adapters.target_schemes import is_target
from recallatk.cli.exits import nothing_to_resume
from recallatk.cli.options import cutoffs, import_from_here
from recallatk.cli.probe import opened_target, parameters, rate_of, texts
from recallatk.cli.progress import progress
from recallatk.errors import UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.goals.gated import Gated

_RATE, _TIMEOUT = "20/s", "30s"


class GateInput(NamedTuple):
    """The arguments of the command that say what is judged."""

    what: str
    candidate: str | None
    goals: list[str]
    baseline: str | None
    queries: str | None
    truth: str | None
    at: str | None
    search: list[str] | None
    settings: list[str] | None
    corpus: str | None
    sql: str | None
    max_rate: str
    timeout: str
    since_first: bool

    @property
    def live(self) -> bool:
        """Whether a collection is probed."""
        return self.candidate is None and is_target(self.what)

    @property
    def inputs(self) -> list[str | None]:
        """The files that are read, which no output may replace."""
        from recallatk.bench.settings import read_settings
        from recallatk.regression.measured_gate import usual_baseline

        if self.candidate is not None:
            return [self.what, self.candidate, self.truth]
        files = [] if self.live else [self.what, *read_settings(self.what).files]
        return [*files, self.baseline or usual_baseline(self.what), self.queries, self.corpus]

    def require_fit(self) -> None:
        """Refuse options that mean nothing for what is judged."""
        from recallatk.regression.measured_gate import is_measurable

        if self.candidate is None and not is_measurable(self.what):
            raise UsageError(
                f"{self.what}: no candidate. Accepted: recallatk gate BASELINE CANDIDATE for what was "
                "measured already; alone a bench file (.toml), or a collection in use such as "
                "postgresql://host/db?table=items"
            )
        live = {
            "--queries": self.queries, "--search": self.search, "--set": self.settings,
            "--corpus": self.corpus, "--sql": self.sql,
            "--max-rate": self.max_rate != _RATE, "--timeout": self.timeout != _TIMEOUT,
        }  # fmt: skip
        recorded = {"--truth": self.truth, "--at": self.at}
        if self.candidate is not None:
            stated = {"--baseline": self.baseline, **live}
            what = "two results that were measured already"
        else:
            stated = {} if self.live else {**live, **recorded}
            what = "a bench file. Edit the file instead"
        given = [name for name, value in stated.items() if value]
        if given:
            raise UsageError(f"{', '.join(given)} cannot be combined with {what}")

    def judged(self) -> Gated:
        """The verdict."""
        from recallatk.regression import gate, gate_results

        depths = None if self.at is None else cutoffs(self.at)
        if self.candidate is not None:
            with progress("gate"):
                return gate_results(
                    self.what, self.candidate, self.goals, truth=self.truth, at=depths,
                    since_first=self.since_first,
                )  # fmt: skip
        with self._measured() as (what, more):
            return gate(what, self.goals, baseline=self.baseline, since_first=self.since_first, **more)

    def accepted(self) -> str:
        """Write the baseline; what was written, in a sentence."""
        from recallatk.regression import accept_baseline, accept_measured
        from recallatk.regression.measured_gate import usual_baseline

        depths = None if self.at is None else cutoffs(self.at)
        if self.candidate is not None:
            file = self.what
            side = accept_baseline(self.candidate, file, truth=self.truth, at=depths)
        else:
            file = self.baseline or usual_baseline(self.what)
            with self._measured() as (what, more):
                side = accept_measured(what, file, **more)
        settings = counted(len(side.settings), "setting", "settings")
        return f"{file}: {side.name} is the baseline, {settings}. Commit this file."

    @contextmanager
    def _measured(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """What is measured, opened, with the further arguments of `gate`."""
        from recallatk.bench.settings import read_settings
        from recallatk.cli.live import run_view

        if self.live:
            more: dict[str, Any] = {
                "queries": self.queries, "search": parameters(self.search or ()),
                "settings": texts(self.settings or ()), "truth": self.truth, "corpus": self.corpus,
                "max_rate": rate_of(self.max_rate), "at": self._cutoff(),
            }  # fmt: skip
            with (
                nothing_to_resume(),
                opened_target(self.what, self.timeout, self.sql) as opened,
                progress("gate") as line,
            ):
                yield opened, {**more, "progress": line}
            return
        import_from_here(read_settings(self.what))
        with nothing_to_resume(), progress("gate") as line, run_view() as view:
            yield self.what, {"progress": line, "watch": view.show}

    def _cutoff(self) -> int | None:
        """The one k of a collection."""
        found = [] if self.at is None else cutoffs(self.at)
        if len(found) > 1:
            raise UsageError(f"--at {self.at}: a collection is asked for one k. Accepted: such as --at 10")
        return found[0] if found else None

    def command(self) -> str:
        """The command that repeats the verdict, without secrets."""
        from recallatk.redaction import hide_known, without_secrets

        words = ["recallatk", "gate", self.what, *([] if self.candidate is None else [self.candidate])]
        words += [word for goal in self.goals for word in ("--target", goal)]
        stated = {
            "--baseline": self.baseline, "--queries": self.queries, "--truth": self.truth, "--at": self.at,
            "--corpus": self.corpus, "--sql": self.sql,
            "--max-rate": None if self.max_rate == _RATE else self.max_rate,
            "--timeout": None if self.timeout == _TIMEOUT else self.timeout,
        }  # fmt: skip
        words += [word for name, value in stated.items() if value is not None for word in (name, value)]
        words += [word for each in self.search or () for word in ("--search", each)]
        words += [word for each in self.settings or () for word in ("--set", each)]
        words += ["--since-first"] if self.since_first else []
        return shlex.join(hide_known(without_secrets(each)) for each in words)
