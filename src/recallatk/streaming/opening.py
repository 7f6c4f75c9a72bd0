"""What a user names as a runbook and its data, opened together and checked against each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.core import Dataset, in_memory
from recallatk.datasets import open_dataset
from recallatk.errors import MismatchError, UsageError, choices
from recallatk.fingerprint import fingerprint_vectors
from recallatk.redaction import is_url
from recallatk.streaming.generators import KINDS, Generator
from recallatk.streaming.runbook import Runbook, resolve
from recallatk.streaming.runbook_file import RunbookFile

if TYPE_CHECKING:
    import os

    from recallatk.core import Metric
    from recallatk.streaming.runbook_file import GenerateTable

_MOST_BYTES = 256 << 20


def open_runbook(
    given: Runbook | Generator | str | os.PathLike[str],
    corpus: Any = None,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    part: str | None = None,
) -> tuple[Runbook, Dataset]:
    """The checked runbook and its data.

    Args:
        given: a Runbook, a Generator, a file, or text such as `growth:steps=10`.
        corpus: the corpus or a Dataset; by default what the file names.
        queries: the queries, unless the corpus is a Dataset.
        metric: cosine, ip or l2; a Dataset states its own.
        part: which data set of a YAML file.
    """
    source = source_of(given, part)
    dataset = _dataset(source, corpus, queries, metric)
    return runbook_for(source, dataset), dataset


def source_of(
    given: Runbook | Generator | str | os.PathLike[str], part: str | None = None
) -> Runbook | Generator | RunbookFile:
    """A runbook before its corpus is known."""
    if isinstance(given, Runbook | Generator):
        return given
    text = str(given)
    generator = Generator.parse(text)
    if generator is not None:
        return generator
    path = Path(given)
    if not path.exists() and path.suffix not in (".toml", ".yaml", ".yml"):
        raise UsageError(f"{text}: no such runbook. Accepted: a file (.toml, .yaml), or {choices(KINDS)}")
    return RunbookFile(path, part)


def runbook_for(source: Runbook | Generator | RunbookFile, dataset: Dataset) -> Runbook:
    """The runbook resolved to the rows of a corpus."""
    corpus = dataset.corpus
    if isinstance(source, Runbook):
        return source
    if isinstance(source, RunbookFile):
        stated = source.table.data.fingerprint
        if stated is not None and stated != fingerprint_vectors(corpus.vectors):
            raise MismatchError(
                f"{source.path}: the corpus changed: its vectors are not those of [data] fingerprint"
            )
        if source.table.generate is None:
            return resolve(source.steps(corpus), corpus.rows, source.name, str(source.path))
        source = _generator(source.table.generate)
    made = source.generate(corpus)
    return resolve(made, corpus.rows, source.described(made), source.kind)


def _generator(table: GenerateTable) -> Generator:
    return Generator(table.kind, table.steps, table.share, table.start, table.seed, table.column)


def named_data(source: Runbook | Generator | RunbookFile) -> dict[str, str]:
    """Corpus, queries and metric that a file names; paths are relative to the file."""
    if not isinstance(source, RunbookFile):
        return {}
    data = source.table.data
    paths = {
        name: text if is_url(text) else str(source.path.parent / text)
        for name, text in (("corpus", data.corpus), ("queries", data.queries))
        if text is not None
    }
    return {**paths, **({} if data.metric is None else {"metric": data.metric})}


def _dataset(
    source: Runbook | Generator | RunbookFile, corpus: Any, queries: Any, metric: Metric | str | None
) -> Dataset:
    if isinstance(corpus, Dataset):
        return corpus
    named = named_data(source)
    if corpus is None:
        if "corpus" not in named:
            raise UsageError("no corpus. Name one after the runbook, or in its [data] table")
        corpus = named["corpus"]
        queries = named.get("queries") if queries is None else queries
    found = open_dataset(corpus, queries, metric=metric or named.get("metric"))
    held = replace(found.corpus, vectors=in_memory(found.corpus.vectors, _MOST_BYTES))
    return replace(found, corpus=held)
