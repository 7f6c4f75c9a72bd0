"""Arguments and options that several commands share, and what they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.benchmark import Benchmark
    from recallatk.core import Run

CorpusPath = Annotated[str, typer.Argument(help="What can be found: a file, pattern, folder or URL.")]
QueriesPath = Annotated[
    str | None, typer.Argument(help="What is asked; left out when it stands in the corpus file or folder.")
]
BenchQueries = Annotated[
    str | None, typer.Argument(help="The queries, where a corpus was named and does not have them.")
]
MetricName = Annotated[
    str | None, typer.Option(help="cosine, ip or l2; needed unless the file states its metric.")
]
Where = Annotated[
    str | None,
    typer.Option(help="A filter that every neighbour must pass, such as \"category = 'noun.animal'\"."),
]
IdColumn = Annotated[str | None, typer.Option(help="The column with the ids.")]
VectorColumn = Annotated[str | None, typer.Option(help="The column with the vectors.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 where the linter finds an error.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]

RunPath = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or its run.json.")]
RunTruth = Annotated[
    str | None, typer.Option("--truth", help="Truth of the run, if it has moved or is at a URL.")
]
RunCorpus = Annotated[
    str | None,
    typer.Option("--corpus", help="Corpus of the run, if it has moved or is at a URL."),
]
RunQueries = Annotated[
    str | None,
    typer.Option("--queries", help="Queries of the run, if they are not in the corpus file."),
]


def open_benchmark(
    file: str,
    queries: str | None,
    metric: str | None,
    engines: Sequence[str] = (),
    *,
    at: str = "1",
    usual: Sequence[str] = (),
) -> Benchmark:
    """The benchmark of a bench file, or of a corpus and its queries.

    Args:
        file: a bench file (.toml), or the corpus.
        queries: the queries, if the corpus does not hold them; like all that follows, not for a bench file.
        metric: the metric, if the corpus does not state it.
        engines: the engines of the option.
        at: cutoffs of a corpus, such as 1,10,100.
        usual: the engines of a corpus without the option. If there are none, a bench file needs none either.
    """
    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.settings import read_settings
    from recallatk.bench.starter import implied

    if not file.endswith(".toml"):
        return Benchmark(implied(file, queries, engines or usual, metric=metric, k=cutoffs(at)))
    given = {"QUERIES": queries, "--engine": engines, "--metric": metric}
    beside = [name for name, value in given.items() if value]
    if beside:
        raise UsageError(f"{', '.join(beside)}: stands in the bench file, and cannot be given beside it")
    return Benchmark(read_settings(file, engines=bool(usual)))


def open_run(path: str) -> tuple[Run, Path]:
    """A run by its folder or its run.json, and its folder."""
    from recallatk.storage import load_run

    folder = Path(path)
    if folder.name == "run.json" and not folder.is_dir():
        folder = folder.parent
    return load_run(folder), folder


def cutoffs(at: str) -> list[int]:
    """The values of k of an option such as 1,10,100."""
    try:
        return [int(each) for each in at.split(",")]
    except ValueError:
        raise UsageError(f"--at {at}. Accepted: whole numbers and commas, such as 1,10,100") from None
