"""The tables of a bench file and their keys."""

# pydantic reads these annotations when the module is imported, so they are not postponed.
import itertools
import re
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from recallatk.adapters import Engine, get_engine
from recallatk.adapters.registry import declare
from recallatk.analysis.measures import Measure, Recall, parse_measure
from recallatk.bench.settings.grid import MOST, Axes, read_axes
from recallatk.bench.settings.problems import Problems, described
from recallatk.bench.settings.values import (
    Bytes,
    Count,
    MetricName,
    Milliseconds,
    PathText,
    Positive,
    Seconds,
    Seed,
    Table,
    Text,
    as_list,
    distinct,
    function_name,
    none_or_many,
    one_or_many,
    rate_text,
    without_literals,
)
from recallatk.core.trials import Load, Mode
from recallatk.datasets.model_labels import ModelLabels
from recallatk.errors import RecallError
from recallatk.filters import parse_filter
from recallatk.goals import parse_goal, sort_goals
from recallatk.pipeline.knobs import PathKnobs
from recallatk.pipeline.path import Path
from recallatk.pipeline.path_engine import PathEngine, path_engine, truth_depth
from recallatk.pipeline.stage_tables import read_stages
from recallatk.truths.memory_plan import SMALLEST

Whole = Annotated[int, Field(ge=0)]
Threads = Annotated[int, Field(ge=1, le=1_024)]
Many = BeforeValidator(one_or_many)
Some = BeforeValidator(none_or_many)
Distinct = AfterValidator(distinct)
DataPath = Annotated[PathText, AfterValidator(without_literals)]
# A shallower truth could not be reused for a larger k.
USUAL_DEPTH = 100


class DataSettings(Table):
    """Corpus, queries and metric."""

    corpus: DataPath
    queries: DataPath | None = None
    qrels: DataPath | None = None
    metric: MetricName | None = None
    format: Text | None = None
    id_column: Text | None = None
    vector_column: Text | None = None
    where: Text | None = None
    model: Text | None = None
    query_model: Text | None = None
    model_column: Text | None = None
    sample_queries: Count | None = None
    sample_corpus: Count | None = None
    split: Literal["tune", "validate"] | None = None
    seed: Seed = 0

    @field_validator("where")
    @classmethod
    def _parses(cls, value: str | None) -> str | None:
        if value is not None:
            _without_traceback(parse_filter, value)
        return value

    @model_validator(mode="after")
    def _one_label(self) -> "DataSettings":
        _without_traceback(lambda _: self.labels, "")
        return self

    @property
    def labels(self) -> ModelLabels:
        """The embedding models that are stated."""
        return ModelLabels(self.model, self.query_model, self.model_column)


class TruthSettings(Table):
    """The ground truth: computed to a depth, or read from a file."""

    depth: Annotated[int, Field(ge=1, le=100_000)] | None = None
    file: DataPath | None = None
    store: PathText | None = None
    memory: Bytes | None = None

    @field_validator("memory")
    @classmethod
    def _enough(cls, value: int | None) -> int | None:
        if value is not None and value < SMALLEST:
            raise ValueError(f"{value:,} bytes. Accepted: from {SMALLEST >> 20}MiB")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> "TruthSettings":
        others = [name for name in ("depth", "store", "memory") if getattr(self, name) is not None]
        if self.file is not None and others:
            raise ValueError(f"{others[0]} is for a computed truth and cannot be combined with file")
        return self


class ThreadSettings(Table):
    """Threads that an engine may use."""

    build: Threads | None = None
    search: Threads = 1


class MeasureSettings(Table):
    """Measures, rounds and repeated builds."""

    at: Annotated[tuple[Count, ...], Many, Distinct] = (1, 10, 100)
    measures: Annotated[tuple[Text, ...], Some, Distinct] = ()
    by: Annotated[tuple[Text, ...], Some, Distinct] = ()
    by_row: Annotated[tuple[Text, ...], Some, Distinct] = ()
    weight: Text | None = None
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 5
    builds: Annotated[int, Field(ge=1, le=1_000)] = 1
    threads: ThreadSettings = ThreadSettings()
    affinity: Annotated[tuple[Whole, ...], Many, Distinct] | None = None
    seed: Seed = 0
    explain: bool = False

    @field_validator("measures")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(_without_traceback(parse_measure, each)) for each in value)

    def including(self, measures: tuple[Measure, ...]) -> "MeasureSettings":
        """A copy that includes these measures."""
        known = {*(Recall(k) for k in self.at), *map(parse_measure, self.measures)}
        added = tuple(str(each) for each in measures if each not in known)
        return self.model_copy(update={"measures": (*self.measures, *added)}) if added else self

    @property
    def largest_k(self) -> int:
        """Number of neighbors that a call requests."""
        return max(*self.at, *(parse_measure(each).k for each in self.measures), 1)

    @property
    def deepest(self) -> int:
        """Required depth of the truth."""
        return max(*self.at, *(parse_measure(each).deepest for each in self.measures), 1)


class LoadSettings(Table):
    """One or more loads; lists form a grid."""

    mode: Literal["latency", "throughput", "rate"] = "latency"
    clients: Annotated[tuple[Count, ...], Many, Distinct] | None = None
    batch: Annotated[tuple[Count, ...], Many, Distinct] | None = None
    via: Annotated[tuple[Literal["threads", "processes"], ...], Many, Distinct] | None = None
    rate: Annotated[tuple[Positive, ...], Many, Distinct] | None = None
    p99: Annotated[tuple[Milliseconds, ...], Many, Distinct] | None = None
    seconds: Positive | None = None

    @model_validator(mode="after")
    def _accepted(self) -> "LoadSettings":
        try:
            self.loads()
        except RecallError as problem:
            said = str(problem).removeprefix(f"load {self.mode}: ").replace("p99_ms", "p99")
            raise ValueError(f"mode {self.mode}: {said}") from None
        return self

    def loads(self) -> tuple[Load, ...]:
        """Every combination; the last key changes fastest."""
        given: dict[str, tuple[Any, ...] | None] = {
            "clients": self.clients,
            "batch": self.batch,
            "via": self.via,
            "rate": self.rate,
            "p99_ms": self.p99,
            "seconds": None if self.seconds is None else (self.seconds,),
        }
        axes = {name: values for name, values in given.items() if values is not None}
        return tuple(
            Load(mode=Mode(self.mode), **dict(zip(axes, values, strict=True)))
            for values in itertools.product(*axes.values())
        )


class LimitSettings(Table):
    """Limits on a build, a trial, and the evidence on what a trial missed."""

    trial: Seconds | None = None
    build: Seconds | None = None
    memory: Bytes | None = None
    explain: Seconds | None = None


class OutputSettings(Table):
    """Where the run is written."""

    folder: PathText | None = None


class TuneSettings(Table):
    """Goals of `recallatk tune`; the report of a run evaluates them too."""

    target: Annotated[tuple[Text, ...], Some, Distinct] = ()
    budget: Annotated[tuple[Text, ...], Some, Distinct] = ()
    prefer: Literal["p95", "qps", "memory", "build", "cost"] = "p95"
    engine: Annotated[tuple[Text, ...], Some, Distinct] = ()
    time: Seconds | None = None
    by: Annotated[tuple[Text, ...], Some, Distinct] = ()

    @field_validator("target", "budget")
    @classmethod
    def _goals(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            _without_traceback(parse_goal, each)
        return value

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that a run needs to evaluate the targets."""
        targets, _ = sort_goals([*self.target, *self.budget])
        return tuple(dict.fromkeys(each.measure for each in targets))


class CostSettings(Table):
    """The price of the machine, for cost per million queries."""

    per_hour: Positive | None = None
    currency: Text | None = None

    @model_validator(mode="after")
    def _priced(self) -> "CostSettings":
        if self.currency is not None and self.per_hour is None:
            raise ValueError("currency needs per_hour too, such as per_hour = 0.34")
        return self


class QualitySettings(Table):
    """A function that judges answers, and how it is called."""

    function: Annotated[Text, AfterValidator(function_name)] | None = None
    k: Count | None = None
    sample: Count | None = None
    rate: Annotated[Text, AfterValidator(rate_text)] | None = None
    clients: Annotated[int, Field(ge=1, le=1_024)] = 1
    retries: Annotated[int, Field(ge=0, le=100)] = 3
    timeout: Seconds = 30.0
    version: Text | None = None
    cache: PathText | None = None

    @model_validator(mode="after")
    def _named(self) -> "QualitySettings":
        if self.function is None and self.model_fields_set:
            raise ValueError("function is required, such as my_judge:judge")
        return self


class EngineSettings(Table):
    """One engine with its build and search parameters: values, lists and ranges."""

    name: Text
    build: Annotated[dict[str, Any], Field(default_factory=dict)]
    search: Annotated[dict[str, Any], Field(default_factory=dict)]

    @property
    def engine(self) -> type[Engine]:
        """Its class."""
        return get_engine(self.name)

    @property
    def axes(self) -> Axes:
        """Every parameter with its values."""
        return self._read[0]

    @property
    def problems(self) -> Problems:
        """Problems with the parameters, with places relative to this entry."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Axes, Problems]:
        return read_axes(self.engine, self.build, self.search)


class PathSettings(Table):
    """A retrieval path: its stages in order."""

    name: Text
    k: Annotated[int, Field(ge=1, le=100_000)] | None = None
    stages: Annotated[tuple[dict[str, Any], ...], BeforeValidator(as_list)]

    @cached_property
    def stage_problems(self) -> Problems:
        """Problems with the stages, with places relative to this entry."""
        found = Problems()
        for place, said in read_stages(self.name, self.stages, self.k)[1]:
            found.add(place, said)
        return found

    @cached_property
    def path(self) -> Path:
        """The path."""
        return Path(self.name, self.stages, self.k)

    @property
    def engine(self) -> type[Engine]:
        """The path as an engine, known to this process by its name from now on."""
        return declare(self._engine)

    @cached_property
    def _engine(self) -> type[PathEngine]:
        return path_engine(self.path)

    def truth_depths(self, k: int) -> set[int]:
        """Depths of the truth by vectors that its settings need."""
        names = list(self.axes.search)
        values = itertools.product(*(self.axes.search[name].values for name in names))
        searches = (dict(zip(names, each, strict=True)) for each in itertools.islice(values, MOST))
        return {truth_depth(self._engine, each, k) for each in searches}

    @property
    def build(self) -> dict[str, Any]:
        """Build parameters that its stages state."""
        return PathKnobs(self.path).given()[0]

    @property
    def axes(self) -> Axes:
        """Every parameter with its values."""
        return self._read[0]

    @cached_property
    def problems(self) -> Problems:
        """Problems with the parameters, with places relative to this entry."""
        knobs = PathKnobs(self.path)
        return self._read[1].moved(lambda place: (*knobs.place(*place[:2]), *place[2:]))

    @cached_property
    def _read(self) -> tuple[Axes, Problems]:
        return read_axes(self._engine, *PathKnobs(self.path).given())


class WaiverSettings(Table):
    """A linter rule whose findings are accepted, with the reason."""

    rule: Text
    reason: Text

    @field_validator("rule")
    @classmethod
    def _a_code(cls, value: str) -> str:
        if not re.fullmatch(r"R\d\d", value):
            raise ValueError(f"{described(value)}. Accepted: the code of a rule, such as R03")
        return value


def _without_traceback(read: Any, text: str) -> Any:
    """Parse a text; turn a RecallError into a validation error of this table."""
    try:
        return read(text)
    except RecallError as problem:
        raise ValueError(str(problem)) from None


Loads = Annotated[tuple[LoadSettings, ...], BeforeValidator(as_list)]
Engines = Annotated[tuple[EngineSettings, ...], BeforeValidator(as_list)]
Paths = Annotated[tuple[PathSettings, ...], BeforeValidator(as_list)]
Waivers = Annotated[tuple[WaiverSettings, ...], BeforeValidator(as_list)]
