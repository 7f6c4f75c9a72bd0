"""First settings for a dataset: a commented bench file, or settings implied by a command without one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import require_metric
from recallatk.bench.environment import usable_cores
from recallatk.bench.plan import make_plan
from recallatk.bench.settings import settings_from
from recallatk.bench.settings.bench_file import find_engine, name_of
from recallatk.bench.settings.data_profile import DataProfile, profile_data
from recallatk.bench.settings.grid import is_json
from recallatk.bench.settings.problems import Problems
from recallatk.bench.settings.settings import toml_key, toml_text, toml_value
from recallatk.bench.settings.sweeps import USUAL_K, build_values, effort_sweep, suitable_k
from recallatk.datasets import read_qrels
from recallatk.errors import UsageError
from recallatk.redaction import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.adapters import Engine
    from recallatk.bench.settings import Settings
    from recallatk.core import Knob, Metric
    from recallatk.files import PathLike


def starter(
    corpus: PathLike,
    queries: PathLike | None = None,
    *,
    metric: Metric | str | None = None,
    qrels: PathLike | None = None,
    engine: str = "faiss-hnsw",
    folder: Path | None = None,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """A commented bench file for these data; it reads back without a problem.

    Args:
        corpus: a file, a pattern, a folder or a URL; it holds the queries too if `queries` is None.
        queries: likewise.
        metric: cosine, ip or l2; required unless the file states it or all vectors have length 1.
        qrels: a file of relevance judgments.
        engine: name of the first engine.
        folder: folder of the bench file, the base of its paths; by default the current one.
        format: format of the files, if it cannot be detected.
        id_column: the column with the ids.
        vector_column: the column with the vectors.
        progress: called with the number of rows read and of all rows.
    """
    chosen = _engine(engine)
    opening = {"format": format, "id_column": id_column, "vector_column": vector_column}
    profile = profile_data(corpus, queries, metric, progress=progress, **opening)
    require_metric(chosen, profile.metric)
    place = (folder or Path()).absolute()
    data = {"corpus": _path(corpus, place), "metric": str(profile.metric)}
    if queries is not None:
        data = {"corpus": data["corpus"], "queries": _path(queries, place), "metric": data["metric"]}
    if qrels is not None:
        read_qrels(qrels)
        data["qrels"] = _path(qrels, place)
    data |= {key: text for key, text in opening.items() if text}
    k = suitable_k(profile.rows)
    parts = [_head(os.fspath(corpus), profile), _data(data, profile), _measure(k, profile), _REST]
    text = "\n".join([*parts, _engine_part(chosen, k, profile)])
    _require_sound(text, place, profile)
    return text


def implied(
    corpus: PathLike,
    queries: PathLike | None = None,
    engines: Sequence[str] = ("faiss-hnsw",),
    *,
    metric: Metric | str | None = None,
    k: Sequence[int] = USUAL_K,
    folder: Path | None = None,
    parameters: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    **others: Any,
) -> Settings:
    """Settings without a bench file: each engine's first effort knob swept around its default.

    Args:
        corpus: a file, a pattern, a folder or a URL.
        queries: likewise; leave out if the corpus file contains them.
        engines: names of the engines; may be empty, because tuning chooses its own.
        metric: cosine, ip or l2.
        k: cutoffs to score.
        folder: base of relative paths, by default the current folder.
        parameters: `build` and `search` parameters of engines, instead of the sweep.
        others: further tables of a bench file, such as `measure={"rounds": 5}`.
    """
    given = {"corpus": corpus, "queries": queries, "metric": metric}
    data = {key: os.fspath(value) for key, value in given.items() if value is not None}
    entries = [_entry(name, max(k, default=1), (parameters or {}).get(name, {})) for name in engines]
    values: dict[str, Any] = {"data": data, "measure": {"at": list(k)}, "engine": entries}
    for key, value in others.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, Mapping) else value
    return settings_from(values, folder=folder, engines=False)


def _entry(name: str, k: int, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    search = {**_sweep(name, k), **given.get("search", {})}
    return {"name": name, "build": dict(given.get("build", {})), "search": search}


def _sweep(name: str, k: int) -> dict[str, Any]:
    # Unknown names are reported with all other problems of the settings.
    engine = find_engine(name, (), Problems())
    return {} if engine is None else effort_sweep(engine, {"k": k})


def _engine(name: str) -> type[Engine]:
    problems = Problems()
    engine = find_engine(name, (), problems)
    if engine is None or problems.found:
        raise UsageError(problems.found[0].removeprefix("name: "))
    return engine


def _path(given: PathLike, folder: Path) -> str:
    """A path as the bench file writes it: relative to its folder if the data are below it."""
    text = os.fspath(given)
    if is_url(text):
        return text
    whole = Path(text).absolute()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else str(whole)


def _head(corpus: str, profile: DataProfile) -> str:
    name = name_of(corpus if is_url(corpus) else str(Path(corpus).absolute()))
    return f"""# A benchmark: every setting of every engine on the same queries and the same truth.
# recallatk run FILE measures it; docs/bench-file.md describes every key.
# The data: {profile.rows:,} rows and {profile.queries:,} queries of {profile.dimension:,} dimensions.

name = {toml_text(name)}
"""


def _data(data: dict[str, str], profile: DataProfile) -> str:
    alike = "  # all vectors have length 1, so cosine, ip and l2 rank alike"
    said = {"metric": "" if profile.stated else alike}
    lines = ["[data]", *(f"{key} = {toml_text(text)}{said.get(key, '')}" for key, text in data.items())]
    if profile.own_filters:
        count = f"{profile.own_filters:,} of {profile.queries:,} queries"
        lines.append(f"# {count} have a filter in the column `filter`; where would replace all of them")
    for condition, share in profile.filters:
        lines.append(f"# where = {toml_text(condition)}  # one filter for all queries; passes {share}")
    lines += [
        f"# sample_queries = {min(1000, profile.queries)}  # a seeded sample",
        '# split = "tune"  # two thirds of the queries; "validate" is the rest',
        "",
    ]
    return "\n".join(lines)


def _measure(k: tuple[int, ...], profile: DataProfile) -> str:
    groups = f"# by = {toml_value(profile.groups[:3])}  # also recall for each value of a column\n"
    return f"""# [truth]
# depth = {max(100, k[-1])}  # neighbors to keep for each query, at least the largest k

[measure]
at = {toml_value(list(k))}  # recall@k for each k; every call requests the largest
# measures = ["robust(0.9)@{k[-1]}"]  # in addition to recall@k
{groups if profile.groups else ""}rounds = 5  # number of times each query is sent at each setting
builds = 1  # more builds show how insertion order changes recall
# threads = {{ build = {usable_cores()}, search = 1 }}
"""


_REST = """[[load]]
mode = "latency"  # one client, one query at a time

# [[load]]
# mode = "throughput"  # closed loop; lists are a grid
# clients = [1, 4]
# batch = [1, 64]

# [[load]]
# mode = "rate"  # open loop: finds the highest arrival rate with p99 within this
# p99 = "10ms"

[limits]
trial = "10min"  # a longer trial is recorded as failed, and the run continues
# memory = "8GiB"
"""


def _engine_part(engine: type[Engine], k: tuple[int, ...], profile: DataProfile) -> str:
    lines = ["[[engine]]  # one or more; recallatk engines lists them", f'name = "{engine.name}"']
    build = build_values(engine, profile.rows, profile.dimension)
    if build:
        lines += ["", "[engine.build]  # each is a value, a list (a grid) or a range"]
        lines += [_line(knob, build[knob.name], named=knob.default != "") for knob in engine.build_knobs]
    alone = {name: value[0] if isinstance(value, list) else value for name, value in build.items()}
    known = {**alone, "k": k[-1], "rows": profile.rows, "dimension": profile.dimension}
    sweep = effort_sweep(engine, known)
    if engine.search_knobs:
        lines += ["", "[engine.search]"]
        values = {knob.name: sweep.get(knob.name, knob.default) for knob in engine.search_knobs}
        lines += [_line(knob, values[knob.name], named=knob.name in sweep) for knob in engine.search_knobs]
    return "\n".join(lines) + "\n"


def _line(knob: Knob, value: Any, *, named: bool) -> str:
    """A parameter with its accepted values, commented out if the file does not set it."""
    shown = json.loads(value) if is_json(knob) else value
    accepted = "a table" if is_json(knob) else knob.accepted
    about = f"{accepted}{'; ' + knob.help if knob.help else ''}"
    return f"{'' if named else '# '}{toml_key(knob.name)} = {toml_value(shown)}  # {about}"


def _require_sound(text: str, folder: Path, profile: DataProfile) -> None:
    """Refuse a file that the data or the engine rule out."""
    import tomllib

    settings = settings_from(tomllib.loads(text), folder=folder)
    make_plan(settings, rows=profile.rows, dimension=profile.dimension)
