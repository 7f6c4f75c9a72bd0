"""Arguments and options that several commands share, and what they name."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recallatk.errors import RecallError, UsageError
from recallatk.redaction import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.recorded_benchmark import RecordedBenchmark
    from recallatk.bench.settings import Settings, SettingsError
    from recallatk.core import Run

# Keys of a bench file that options set.
_OPTIONS = {
    "data.corpus": "CORPUS",
    "data.queries": "QUERIES",
    "data.sample_queries": "--sample",
    "data.sample_corpus": "--corpus-sample",
    "measure.by_row": "--by-row",
    "tune.target": "--target",
    "tune.budget": "--budget",
    "quality.function": "--quality",
    **{
        f"data.{name.replace('-', '_')}": f"--{name}"
        for name in ("metric", "where", "qrels", "id-column", "vector-column")
    },
    **{f"measure.{name}": f"--{name}" for name in ("at", "by", "weight", "rounds")},
}
_KEYS = re.compile(rf"\b({'|'.join(map(re.escape, _OPTIONS))})\b(\[\d+\])?")

CorpusPath = Annotated[str, typer.Argument(help="Corpus: a file, a glob pattern, a folder or a URL.")]
QueriesPath = Annotated[
    str | None, typer.Argument(help="Queries; omit them if the corpus file or folder holds them.")
]
BenchQueries = Annotated[
    str | None, typer.Argument(help="Queries; omit them with a bench file, or if the corpus file holds them.")
]
MetricName = Annotated[
    str | None, typer.Option(help="Metric: cosine, ip or l2; required unless the file states it.")
]
Where = Annotated[
    str | None,
    typer.Option(help="Filter that every neighbor must pass, e.g. \"category = 'noun.animal'\"."),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        help="Query column, expression or segment to group results by, e.g. kind*effort; repeatable."
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(help="Query column to weight means by, such as the number of times each query was asked."),
]
ByRow = Annotated[
    list[str] | None,
    typer.Option("--by-row", help="Corpus column to group true neighbors by: who is not found; repeatable."),
]
Qrels = Annotated[
    str | None,
    typer.Option(help="Relevance judgments (BEIR or TREC qrels), for nDCG and others against exact search."),
]
IdColumn = Annotated[str | None, typer.Option(help="Column with the ids.")]
VectorColumn = Annotated[str | None, typer.Option(help="Column with the vectors.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Embedding model of all vectors; recorded and compared.")
]
QueryModel = Annotated[
    str | None, typer.Option("--query-model", help="Embedding model of the queries, if it is another one.")
]
ModelColumn = Annotated[
    str | None, typer.Option("--model-column", help="Column with the embedding model of each vector.")
]
Sample = Annotated[int | None, typer.Option(help="Use a random sample of this many queries.")]
CorpusSample = Annotated[
    int | None, typer.Option(help="Use a random sample of this many corpus rows; the result is marked.")
]
Targets = Annotated[
    list[str] | None, typer.Option("--target", help='Target to meet, e.g. "recall@10 >= 0.95"; repeatable.')
]
Budgets = Annotated[
    list[str] | None,
    typer.Option("--budget", help='Constraint to stay within, e.g. "p95 <= 5ms"; repeatable.'),
]
PriceOption = Annotated[
    str | None,
    typer.Option("--price", help="Price of the machine, e.g. 0.34/h; adds cost per million queries."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if the linter finds an error.")]
StrictGoals = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with 1 if the linter finds an error or a goal is missed, with 3 if a goal is undecided, "
        "and with 2 if it was not measured.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print the result only: no progress, no notes."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print all notes and every setting.")]


def engine_names() -> list[str]:
    """The names that a shell completes --engine with."""
    from recallatk.adapters import registered

    return list(registered())


EngineNames = Annotated[
    list[str] | None,
    typer.Option("--engine", autocompletion=engine_names, help="Engine to measure; repeatable."),
]

RunPath = Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or its run.json.")]
RunTruth = Annotated[
    str | None, typer.Option("--truth", help="Truth of the run, if it moved or is at a URL.")
]
RunCorpus = Annotated[
    str | None,
    typer.Option("--corpus", help="Corpus of the run, if it moved or is at a URL."),
]
RunQueries = Annotated[
    str | None,
    typer.Option("--queries", help="Queries of the run, if they are not in the corpus file."),
]


@dataclass(frozen=True)
class GivenOptions:
    """What the options of `run` and `tune` state; None and empty mean that an option was not given."""

    queries: str | None = None
    metric: str | None = None
    where: str | None = None
    id_column: str | None = None
    vector_column: str | None = None
    model: str | None = None
    query_model: str | None = None
    model_column: str | None = None
    engines: Sequence[str] | None = None
    search: Sequence[str] | None = None
    build: Sequence[str] | None = None
    settings: Sequence[str] | None = None
    at: str | None = None
    by: Sequence[str] | None = None
    by_row: Sequence[str] | None = None
    weight: str | None = None
    sample: int | None = None
    corpus_sample: int | None = None
    rounds: int | None = None
    explain: bool = False
    target: Sequence[str] | None = None
    budget: Sequence[str] | None = None
    price: str | None = None
    qrels: str | None = None
    quality: str | None = None

    @property
    def described(self) -> dict[str, Any]:
        """Options that say what is measured, which a bench file says itself."""
        given = {
            "QUERIES": self.queries,
            "--metric": self.metric,
            "--where": self.where,
            "--id-column": self.id_column,
            "--vector-column": self.vector_column,
            "--model": self.model,
            "--query-model": self.query_model,
            "--model-column": self.model_column,
            "--engine": self.engines,
            "--search": self.search,
            "--build": self.build,
            "--set": self.settings,
            "--at": self.at,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def changes(self) -> dict[str, dict[str, Any]]:
        """Options that restrict or judge a measurement, as keys of a bench file."""
        from recallatk.analysis.cost import parse_price

        price = None if self.price is None else parse_price(self.price)
        tables: dict[str, dict[str, Any]] = {
            "data": {
                "qrels": None if self.qrels is None else placed(self.qrels),
                "sample_queries": self.sample,
                "sample_corpus": self.corpus_sample,
            },
            "measure": {
                "by": list(self.by or ()),
                "by_row": list(self.by_row or ()),
                "weight": self.weight,
                "rounds": self.rounds,
                "explain": self.explain or None,
            },
            "tune": {"target": list(self.target or ()), "budget": list(self.budget or ())},
            "cost": {} if price is None else {"per_hour": price.per_hour, "currency": price.currency},
            "quality": {"function": self.quality},
        }
        given = {
            table: {key: value for key, value in keys.items() if value not in (None, [])}
            for table, keys in tables.items()
        }
        return {table: keys for table, keys in given.items() if keys}


def placed(path: str) -> str:
    """A path that means the same wherever the bench file is."""
    return path if is_url(path) else str(Path(path).absolute())


def open_benchmark(file: str, asked: GivenOptions, *, at: str = "1", usual: Sequence[str] = ()) -> Benchmark:
    """The benchmark of a bench file, or of a corpus and its queries.

    Options that say what is measured cannot be combined with a bench file; those that restrict or judge the
    measurement replace what the file states.

    Args:
        file: a bench file (.toml), or the corpus.
        asked: the options.
        at: cutoffs of a corpus without the option, such as 1,10,100.
        usual: engines of a corpus without the option. If there are none, a bench file needs none either.
    """
    from recallatk.adapters import get_engine
    from recallatk.bench.benchmark import Benchmark
    from recallatk.bench.settings import SettingsError, read_settings
    from recallatk.bench.starter import implied
    from recallatk.cli.parameters import engine_parameters

    require_goals(asked.target or (), asked.budget or ())
    if file.endswith(".toml"):
        given = asked.described
        if given:
            raise UsageError(f"{', '.join(given)} cannot be combined with a bench file. Edit {file}")
        return Benchmark(read_settings(file, engines=bool(usual), changes=asked.changes))
    engines = list(asked.engines or usual)
    for name in engines:
        get_engine(name)
    changes: dict[str, Any] = dict(asked.changes)
    names = ("where", "id_column", "vector_column", "model", "query_model", "model_column")
    data = {name: getattr(asked, name) for name in names}
    changes["data"] = {key: value for key, value in data.items() if value} | changes.get("data", {})
    parameters = engine_parameters(engines, asked.search or (), asked.build or (), asked.settings or ())
    k = cutoffs(asked.at or at)
    try:
        made = implied(
            file, asked.queries, engines, metric=asked.metric, k=k, parameters=parameters, **changes
        )
    except SettingsError as problem:
        raise in_options(problem) from None
    return Benchmark(made, reworded=in_options)


def in_options(problem: SettingsError) -> UsageError:
    """Problems of settings that come from options, in terms of the options."""
    said = []
    for text in problem.problems:
        named = re.sub(r"^engine\[\d+\]\.(build|search)\.([^:]+): ", r"--\1 \2: ", text)
        named = re.sub(r"^engine\[\d+\](\.name)?: ", "", named)
        said.append(_KEYS.sub(lambda found: _OPTIONS[found[1]], named))
    return UsageError("\n".join(said))


def require_goals(*given: Iterable[str]) -> None:
    """Refuse targets and budgets that cannot be parsed, all at once, before any file is opened."""
    from recallatk.goals import parse_goal

    problems = []
    for text in (each for texts in given for each in texts):
        try:
            parse_goal(text)
        except RecallError as problem:
            problems.append(str(problem))
    if problems:
        raise UsageError("\n".join(problems))


def open_run(path: str) -> tuple[Run, Path]:
    """A run by its folder or its run.json, and its folder."""
    from recallatk.storage import load_run

    folder = Path(path)
    if not folder.exists():
        raise UsageError(f"{path}: no such run folder. List the runs in a folder: recallatk runs FOLDER")
    if folder.name == "run.json" and not folder.is_dir():
        folder = folder.parent
    return load_run(folder), folder


def judged_by(
    run: Run,
    target: Sequence[str] | None,
    budget: Sequence[str] | None,
    price: str | None,
    by_row: Sequence[str] | None = None,
) -> Run:
    """The run with these goals, this price and these groups in place of those that it recorded."""
    require_goals(target or (), budget or ())
    changes = GivenOptions(target=target, budget=budget, price=price, by_row=by_row).changes
    if not changes:
        return run
    settings = dict(run.settings)
    if "tune" in changes:
        settings["tune"] = {"target": list(target or ()), "budget": list(budget or ())}
    if "measure" in changes:
        settings["measure"] = {**(settings.get("measure") or {}), **changes["measure"]}
    return replace(run, settings=settings | {key: changes[key] for key in ("cost",) if key in changes})


def require_columns(data: RecordedBenchmark, by_row: Sequence[str] | None) -> None:
    """Refuse columns of --by-row that the corpus of a run lacks; without its data the report says so."""
    from recallatk.analysis.row_segments import require_corpus_columns

    if by_row and data.dataset is not None:
        require_corpus_columns(data.dataset.corpus, by_row)


def cutoffs(at: str) -> list[int]:
    """The values of k of an option such as 1,10,100."""
    parts = [each.strip() for each in at.split(",")]
    if not all(each.isdecimal() and int(each) for each in parts):
        raise UsageError(f"--at {at}. Accepted: whole numbers from 1 with commas, such as 1,10,100")
    return [int(each) for each in parts]


def import_from_here(settings: Settings) -> None:
    """Find judges and rerankers in the current folder, where workers find the functions of engines."""
    functions = settings.quality.function is not None or any(
        stage.calls for each in settings.path for stage in each.path.reranks
    )
    if functions:
        import_from_folder()


def import_from_folder() -> None:
    """Find modules in the current folder, unless Python was told not to."""
    if not sys.flags.safe_path and str(Path.cwd()) not in sys.path:
        # Last, so that no file in the folder hides an installed module.
        sys.path.append(str(Path.cwd()))
