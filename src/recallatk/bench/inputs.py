"""The data and the truth of a benchmark, opened from what a bench file, a run or the user names.

What a bench file names is opened as it says. A run folder may come from anybody: no URL in it is opened and
nothing in it is expanded; local files are opened where they are still the same; the user may name others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.bench.settings import open_data, read_settings, settings_from
from recallatk.bench.settings.secrets import filled
from recallatk.bench.truth_file import TruthFile
from recallatk.errors import MismatchError, RecallError, UsageError
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.goals import Outcome
from recallatk.goals.runs import run_verdict
from recallatk.history.run_store import require_same_data
from recallatk.redaction import is_url, without_secrets
from recallatk.truth.store import Identity, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from recallatk.bench.settings import Settings
    from recallatk.core import Corpus, Dataset, Run, Truth
    from recallatk.goals import Verdict

SETTINGS_FILE = "bench.toml"
_TRUTH_BESIDE = "truth.parquet"
_DATA_OPTIONS = "--corpus CORPUS --queries QUERIES"


@dataclass(frozen=True)
class Named:
    """Files that the user names for a run, with what has to be said about their columns."""

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


@dataclass(frozen=True, eq=False)
class Inputs:
    """What could be opened, and why the rest could not."""

    settings: Settings | None
    """The bench file in the folder of the run."""
    dataset: Dataset | None
    truth: Truth | None
    no_dataset: str = ""
    no_truth: str = ""


def truth_of(
    settings: Settings, dataset: Dataset, progress: Callable[[int, int], None] | None = None
) -> Truth:
    """The truth that a bench file names, or the one in the store, or a new one."""
    from recallatk.truth import obtain_truth

    asked = settings.truth
    if asked.file is not None:
        return TruthFile(filled(asked.file, "truth.file")).read(dataset.corpus, dataset.metric)
    found = obtain_truth(
        dataset,
        depth=settings.depth(dataset.corpus.rows),
        store=asked.store,
        memory=asked.memory,
        progress=progress,
    )
    return found.truth


def find_truth(settings: Settings, dataset: Dataset, depths: Iterable[int] = ()) -> Truth | None:
    """The truth that a bench file names, or the one in the store; None where it would have to be computed.

    A truth file that cannot be used is an error, as it is for a run.

    Args:
        settings: of the bench file.
        dataset: its data.
        depths: the depths to look for first.
    """
    if settings.truth.file is not None:
        return truth_of(settings, dataset)
    wanted = [*depths, settings.depth(dataset.corpus.rows)]
    return next(_stored(Store(settings.truth.store), dataset, wanted), None)


def truth_if_there(settings: Settings, dataset: Dataset, depths: Iterable[int] = ()) -> Truth | None:
    """The same after a run, when a truth file may be gone."""
    try:
        return find_truth(settings, dataset, depths)
    except (RecallError, OSError):
        return None


def run_inputs(
    run: Run, folder: Path | None = None, named: Named | None = None, *, same: bool = True
) -> Inputs:
    """The data and the truth of a run: what the user names, else what the run names.

    Args:
        run: whose inputs are wanted.
        folder: where the run is; its bench file is looked at, and a truth in it is used.
        named: files that the user names.
        same: refuse data and truth that are not those of the run. A linter looks at others too.
    """
    named = named or Named()
    beside = None if folder is None else settings_beside(folder)
    stated = [each for each in (beside, _recorded(run)) if each is not None]
    dataset, no_dataset = _dataset(run, stated, named, same=same)
    truth, no_truth = _truth(run, folder, stated, dataset, named, same=same)
    if no_truth and no_dataset:
        no_truth = f"{no_truth} ({no_dataset})"
    return Inputs(beside, dataset, truth, no_dataset, no_truth)


def verdict_of(run: Run, folder: Path | None = None) -> Verdict:
    """The verdict on the goals of a run; inputs are opened only for goals that it did not measure itself."""
    found = run_verdict(run)
    if not any(each.outcome is Outcome.NOT_MEASURED and not each.note for each in found.goals):
        return found
    inputs = run_inputs(run, folder)
    return run_verdict(run, inputs.truth, inputs.dataset)


def settings_beside(folder: Path) -> Settings | None:
    """The bench file in the folder of a run; None where there is none that can be read."""
    try:
        # The data may have moved since; the rest of the file holds all the same.
        return read_settings(folder / SETTINGS_FILE, look=False)
    except (RecallError, OSError):
        return None


def _recorded(run: Run) -> Settings | None:
    """What run.json says of the data and the truth."""
    tables = {name: run.settings.get(name) for name in ("data", "truth")}
    stated = {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
        if isinstance(table, dict)
    }
    if "data" not in stated:
        return None
    try:
        # Settings need an engine; the data do not depend on which.
        return settings_from({"name": run.dataset, **stated, "engine": [{"name": "exact"}]})
    except RecallError:
        return None


def _dataset(run: Run, stated: list[Settings], named: Named, *, same: bool) -> tuple[Dataset | None, str]:
    if named.corpus is not None:
        return _opened(run, _named_settings(run, stated, named), same=same), ""
    why = f"the run does not say which files it was measured on. Name them: {_DATA_OPTIONS}"
    reasons = []
    for settings in stated:
        try:
            _require_local("corpus", settings.data.corpus)
            _require_local("queries", settings.data.queries)
            return _opened(run, settings, same=same), ""
        except (RecallError, OSError) as problem:
            reasons.append(str(problem))
    return None, reasons[0] if reasons else why


def _named_settings(run: Run, stated: list[Settings], named: Named) -> Settings:
    """The files that the user names, filtered, split and sampled as the run says."""
    data: dict[str, Any] = stated[0].data.model_dump(exclude_none=True) if stated else {}
    if Path(str(named.corpus)).suffix != Path(data.pop("corpus", "")).suffix:
        data.pop("format", None)
    recorded = data.pop("queries", None)
    if named.queries is None and recorded is not None:
        _require_local("queries", recorded)
    chosen = {
        "corpus": named.corpus,
        "queries": named.queries or recorded,
        "where": named.where or data.get("where"),
        "id_column": named.id_column or data.get("id_column"),
        "vector_column": named.vector_column or data.get("vector_column"),
        "metric": str(run.metric),
    }
    values = {name: value for name, value in {**data, **chosen}.items() if value is not None}
    return settings_from({"name": run.dataset, "data": values, "engine": [{"name": "exact"}]})


def _opened(run: Run, settings: Settings, *, same: bool) -> Dataset:
    dataset = open_data(settings)
    if same:
        require_same_data(run, dataset)
    return dataset


def _require_local(key: str, text: str | None) -> None:
    """Refuse a URL from a run folder: whoever wrote it would choose which server is asked for what."""
    if text is not None and is_url(text):
        raise UsageError(
            f"URLs that a run folder names are not opened: {without_secrets(text)}. Name it: --{key} URL"
        )


def _truth(
    run: Run,
    folder: Path | None,
    stated: list[Settings],
    dataset: Dataset | None,
    named: Named,
    *,
    same: bool,
) -> tuple[Truth | None, str]:
    corpus = None if dataset is None else dataset.corpus
    wanted = run.fingerprints.get("truth")
    if named.truth is not None:
        truth = TruthFile(filled(named.truth, "--truth")).read(corpus, run.metric)
        if same and wanted not in (None, fingerprint_truth(truth)):
            raise MismatchError(f"{named.truth}: the run was scored against another truth")
        return truth, ""
    reasons: list[str] = []
    in_files = list(_in_files(run, folder, stated, corpus, reasons))
    for truth in (*in_files, *_in_stores(run, stated, dataset)):
        if wanted in (None, fingerprint_truth(truth)):
            return truth, ""
    if in_files and not same:
        # What a store has of the data, at another depth perhaps, says nothing about the run; a file does.
        return in_files[0], ""
    why = reasons[0] if reasons else "the truth that the run was scored against was not found"
    return None, f"{why}. Name it: --truth TRUTH" if "--truth" not in why else why


def _in_files(
    run: Run, folder: Path | None, stated: list[Settings], corpus: Corpus | None, reasons: list[str]
) -> Iterator[Truth]:
    """The truths in files that may be that of the run; why one cannot be opened is added to the reasons."""
    files = [each.truth.file for each in stated if each.truth.file is not None]
    if folder is not None and (folder / _TRUTH_BESIDE).is_file():
        files.append(str(folder / _TRUTH_BESIDE))
    for file in dict.fromkeys(files):
        try:
            _require_local("truth", file)
            yield TruthFile(file).read(corpus, run.metric)
        except (RecallError, OSError) as problem:
            reasons.append(str(problem))


def _in_stores(run: Run, stated: list[Settings], dataset: Dataset | None) -> Iterator[Truth]:
    """The truths of the data that stores have."""
    if dataset is None:
        return
    rows = dataset.corpus.rows
    asked = sorted({each.k for each in run.measurements})
    depths = [*(each.depth(rows) for each in stated), min(100, rows), *asked]
    for store in dict.fromkeys([*(each.truth.store for each in stated), None]):
        yield from _stored(Store(store), dataset, depths)


def _stored(store: Store, dataset: Dataset, depths: Iterable[int]) -> Iterator[Truth]:
    """The truths of these depths that a store has of the data."""
    for depth in dict.fromkeys(depths):
        found = store.find(
            Identity(fingerprints(dataset), dataset.metric, depth, dataset.corpus.sampled_from)
        )
        if found is not None:
            yield found
