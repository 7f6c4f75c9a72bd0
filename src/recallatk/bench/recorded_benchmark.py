"""The benchmark that a run records, opened without trust in the run folder.

A run folder may come from anybody: no URL in it is opened and nothing in it is expanded. Local files are
opened if they are still those of the run; the user may name others.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.bench.downstream import Panel, judges_of
from recallatk.bench.settings import open_data, read_settings, settings_from
from recallatk.bench.settings.values import filled
from recallatk.bench.truth_lookup import TruthFile, stored_truths
from recallatk.datasets import read_qrels
from recallatk.errors import MismatchError, RecallError, UsageError
from recallatk.fingerprint import fingerprint_truth
from recallatk.goals import Outcome
from recallatk.goals.runs import run_verdict
from recallatk.redaction import is_url, without_secrets
from recallatk.storage.run_store import require_same_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.bench.settings import Settings
    from recallatk.core import Corpus, Dataset, Run, Truth
    from recallatk.goals import Verdict

BENCH_FILE, _TRUTH_FILE = "bench.toml", "truth.parquet"
_DATA_OPTIONS = "--corpus CORPUS --queries QUERIES"
_NO_FILES = "the run does not record its data files"


@dataclass(frozen=True)
class NamedFiles:
    """Files that the user names for a run, with their columns and filter."""

    corpus: str | None = None
    queries: str | None = None
    truth: str | None = None
    where: str | None = None
    id_column: str | None = None
    vector_column: str | None = None

    def __post_init__(self) -> None:
        alone = [f"--{name}" for name in ("queries", "where") if getattr(self, name) is not None]
        if self.corpus is None and alone:
            raise UsageError(f"{' and '.join(alone)} cannot be used without --corpus")


class RecordedBenchmark:
    """The settings, data and truth of a run, each opened on first use; None for a part that cannot be opened.

    Args:
        run: the run.
        folder: its folder, whose bench file and truth file are used too.
        named: files that the user names; they take precedence, and a failure to open one is an error.
        same: refuse data and truth that differ from those of the run. A linter accepts others.
    """

    def __init__(
        self,
        run: Run,
        folder: Path | None = None,
        named: NamedFiles | None = None,
        *,
        same: bool = True,
    ) -> None:
        self.run, self.folder = run, folder
        self.named, self.same = named or NamedFiles(), same

    @cached_property
    def settings(self) -> Settings | None:
        """The bench file in the run folder."""
        if self.folder is None:
            return None
        try:
            # The data may have moved since; the rest of the file is valid nevertheless.
            return read_settings(self.folder / BENCH_FILE, look=False)
        except (RecallError, OSError):
            return None

    @property
    def dataset(self) -> Dataset | None:
        """The data that the user or the run names."""
        return self._data[0]

    @cached_property
    def judged_dataset(self) -> Dataset | None:
        """The data with the relevance judgments of the run; without, if others have taken their place."""
        dataset, truth = self.dataset, self.truth
        first = next((each for each in self.run.measurements if each.judged is not None), None)
        if dataset is None or truth is None or first is None or first.judged is None:
            return dataset
        for qrels in self._judgments(dataset):
            found = replace(dataset, qrels=qrels)
            cutoffs = [name.partition("@")[2] for name in first.judged.names]
            judges = judges_of(found, [int(each) for each in cutoffs if each.isdecimal()])
            # No other fingerprint identifies the judgments of a run.
            if judges and Panel(judges, truth, first.k).identity == first.judged.identity:
                return found
        return replace(dataset, qrels=None)

    def _judgments(self, dataset: Dataset) -> Iterator[Mapping[str, Mapping[str, int]]]:
        """Candidates: in files that the run names, and beside the data."""
        for settings in self._stated:
            file = settings.data.qrels
            if file is not None and not is_url(file):
                with suppress(RecallError, OSError):
                    yield read_qrels(file)
        if dataset.qrels:
            yield dataset.qrels

    @property
    def no_dataset(self) -> str:
        """Why the data could not be opened; empty if they were."""
        return self._data[1]

    @property
    def truth(self) -> Truth | None:
        """The truth that the run was scored against."""
        return self._found_truth[0]

    @property
    def no_truth(self) -> str:
        """Why the truth could not be opened; empty if it was."""
        why = self._found_truth[1]
        if why and self.folder is None and not self._stated:
            # A run of `measure` that was never in a folder, which only Python can report on.
            return f"{_NO_FILES}. Pass truth=… and dataset=… to to_text, to_markdown or to_html"
        return f"{why} ({self.no_dataset})" if why and self.no_dataset else why

    @cached_property
    def _stated(self) -> list[Settings]:
        """Settings that name data and truth: of the bench file, and of run.json."""
        return [each for each in (self.settings, _in_run_file(self.run)) if each is not None]

    @cached_property
    def _data(self) -> tuple[Dataset | None, str]:
        if self.named.corpus is not None:
            return self._opened(self._named_settings(self.named.corpus)), ""
        reasons = []
        for settings in self._stated:
            try:
                _require_local("corpus", settings.data.corpus)
                _require_local("queries", settings.data.queries)
                return self._opened(settings), ""
            except (RecallError, OSError) as problem:
                reasons.append(str(problem))
        why = f"{_NO_FILES}. Name them: {_DATA_OPTIONS}"
        return None, reasons[0] if reasons else why

    def _opened(self, settings: Settings) -> Dataset:
        # No fingerprint identifies the judgments, and the folder holds the judged values.
        data = settings.data.model_copy(update={"qrels": None})
        dataset = open_data(settings.model_copy(update={"data": data}))
        if self.same:
            require_same_data(self.run, dataset)
        return dataset

    def _named_settings(self, corpus: str) -> Settings:
        """Settings for the files that the user names, filtered, split and sampled like those of the run."""
        named = self.named
        data: dict[str, Any] = self._stated[0].data.model_dump(exclude_none=True) if self._stated else {}
        if Path(corpus).suffix != Path(data.pop("corpus", "")).suffix:
            data.pop("format", None)
        recorded = data.pop("queries", None)
        if named.queries is None and recorded is not None:
            _require_local("queries", recorded)
        chosen = {
            "corpus": corpus,
            "queries": named.queries or recorded,
            "where": named.where or data.get("where"),
            "id_column": named.id_column or data.get("id_column"),
            "vector_column": named.vector_column or data.get("vector_column"),
            "metric": str(self.run.metric),
        }
        values = {name: value for name, value in {**data, **chosen}.items() if value is not None}
        return settings_from({"name": self.run.dataset, "data": values}, engines=False)

    @cached_property
    def _found_truth(self) -> tuple[Truth | None, str]:
        corpus = None if self.dataset is None else self.dataset.corpus
        wanted = self.run.fingerprints.get("truth")
        if self.named.truth is not None:
            truth = TruthFile(filled(self.named.truth, "--truth")).read(corpus, self.run.metric)
            if self.same and wanted not in (None, fingerprint_truth(truth)):
                raise MismatchError(f"{self.named.truth}: the run was scored against a different truth")
            return truth, ""
        reasons: list[str] = []
        in_files = list(self._in_files(corpus, reasons))
        for truth in (*in_files, *self._in_stores()):
            if wanted in (None, fingerprint_truth(truth)):
                return truth, ""
        if in_files and not self.same:
            # A stored truth of another depth does not belong to the run; a file that the run names does.
            return in_files[0], ""
        why = reasons[0] if reasons else "the truth that the run was scored against was not found"
        return None, f"{why}. Name it: --truth TRUTH" if "--truth" not in why else why

    def _in_files(self, corpus: Corpus | None, reasons: list[str]) -> Iterator[Truth]:
        """Candidates in files; `reasons` collects why a file cannot be opened."""
        files = [each.truth.file for each in self._stated if each.truth.file is not None]
        if self.folder is not None and (self.folder / _TRUTH_FILE).is_file():
            files.append(str(self.folder / _TRUTH_FILE))
        for file in dict.fromkeys(files):
            try:
                _require_local("truth", file)
                yield TruthFile(file).read(corpus, self.run.metric)
            except (RecallError, OSError) as problem:
                reasons.append(str(problem))

    def _in_stores(self) -> Iterator[Truth]:
        """Candidates in stores."""
        if self.dataset is None:
            return
        rows = self.dataset.corpus.rows
        asked = sorted({each.k for each in self.run.measurements})
        depths = [*(each.depth(rows) for each in self._stated), min(100, rows), *asked]
        for store in dict.fromkeys([*(each.truth.store for each in self._stated), None]):
            yield from stored_truths(store, self.dataset, depths)


def recorded_verdict(run: Run, folder: Path | None = None) -> Verdict:
    """The verdict on the goals of a run; opens data and truth only for goals that the run did not measure."""
    found = run_verdict(run)
    if not any(each.outcome is Outcome.NOT_MEASURED and not each.note for each in found.goals):
        return found
    recorded = RecordedBenchmark(run, folder)
    return run_verdict(run, recorded.truth, recorded.dataset)


def _in_run_file(run: Run) -> Settings | None:
    """The data and truth that run.json records."""
    tables = {name: run.settings.get(name) for name in ("data", "truth")}
    stated = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
        if isinstance(table, dict)
    }
    if "data" not in stated:
        return None
    try:
        return settings_from({"name": run.dataset, **stated}, engines=False)
    except RecallError:
        return None


def _require_local(key: str, text: str | None) -> None:
    """Refuse a URL from a run folder: its author would choose the server and the request."""
    if text is not None and is_url(text):
        raise UsageError(
            f"URLs from a run folder are not opened: {without_secrets(text)}. Name it: --{key} URL"
        )
