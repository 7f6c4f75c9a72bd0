"""`recallatk truth`: exact ground truth with proof, and verification of any truth file."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from recallatk.cli.exits import FAILED, complain, guarded, nothing_to_resume, warn_if_swapped
from recallatk.cli.options import (
    By,
    CorpusPath,
    CorpusSample,
    IdColumn,
    Json,
    MetricName,
    ModelColumn,
    ModelName,
    QueriesPath,
    QueryModel,
    Quiet,
    Sample,
    VectorColumn,
    Where,
)
from recallatk.cli.pages import require_pages
from recallatk.cli.progress import progress
from recallatk.cli.volume import set_quiet
from recallatk.errors import FormatError, UsageError, unknown
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Dataset, Truth
    from recallatk.truths.compute import Obtained
    from recallatk.truths.faults import Verification, Wrong

_SHOWN = 20

Memory = Annotated[
    str | None,
    typer.Option(help="Memory limit, e.g. 1GiB. Default: 2GiB, at most a quarter of the machine's."),
]
Threads = Annotated[int | None, typer.Option(help="Number of threads. Default: all cores.")]
Depth = Annotated[int, typer.Option(help="Neighbors to keep for each query.")]
Out = Annotated[str | None, typer.Option(help="Also write the truth to this Parquet file.")]
StoreFolder = Annotated[
    str | None, typer.Option(help="Folder of stored truths. Default: in the user's cache directory.")
]
Seed = Annotated[int, typer.Option(help="Random seed for sampling.")]
On = Annotated[str | None, typer.Option(help="Compute on ray; --memory is then per task.")]
Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster: auto, ray://HOST:PORT or HOST:PORT. Default: Ray on this machine."),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(help="Folder or URL that all nodes reach, for finished tasks. Default: in the store."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Print bytes, time and cost instead, from a short pilot.")]
Workers = Annotated[
    int | None, typer.Option(help="With --plan: number of Ray workers, one core each. Default: 1.")
]
PlanPrice = Annotated[
    str | None,
    typer.Option("--price", help="With --plan: price of the machine and of a worker, e.g. 0.5/h."),
]
Precision = Annotated[
    float | None, typer.Option(help="With --plan: half-width wanted for recall. Default: 0.01.")
]


class DefaultGroup(TyperGroup):
    """A group whose first command runs if none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the first command's name before arguments that name none."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """What the first command takes, and which others there are."""
        first, *others = self.commands.values()
        own = first.get_help(type(ctx)(first, info_name=ctx.info_name, parent=ctx.parent))
        said = [f"  recallatk {ctx.info_name} {each.name}  {each.get_short_help_str(80)}" for each in others]
        return "\n".join([own, "", "Also:", *said])


def compute(
    corpus: CorpusPath,
    queries: QueriesPath = None,
    metric: MetricName = None,
    depth: Depth = 100,
    where: Where = None,
    by: By = None,
    out: Out = None,
    memory: Memory = None,
    threads: Threads = None,
    store: StoreFolder = None,
    backend: Annotated[str, typer.Option(help="Compute backend: auto, blas, faiss, int8 or jax.")] = "auto",
    device: Annotated[str | None, typer.Option(help="Device: cpu, or gpu or tpu through JAX.")] = None,
    sample: Sample = None,
    corpus_sample: CorpusSample = None,
    seed: Seed = 0,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    model: ModelName = None,
    query_model: QueryModel = None,
    model_column: ModelColumn = None,
    on: On = None,
    address: Address = None,
    checkpoints: Checkpoints = None,
    plan: Plan = False,
    workers: Workers = None,
    price: PlanPrice = None,
    precision: Precision = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute the exact nearest neighbors of every query, with proof.

    The store returns a truth that was computed before, and updates it if only some rows changed. The same
    command resumes an interrupted computation.

    Example: recallatk truth corpus.parquet queries.parquet --metric cosine --out truth.parquet
    """
    from recallatk.datasets import open_dataset
    from recallatk.truths import on_cluster

    set_quiet(quiet)
    if plan and out is not None:
        raise UsageError("--out cannot be combined with --plan, which computes no truth. Omit one of them")
    planning = _plan_options(plan, workers=workers, price=price, precision=precision)
    cluster = on_cluster(on, address, checkpoints)
    require_pages([out], () if out is None or _is_truth(out) else (corpus, queries))
    dataset = open_dataset(
        corpus, queries, metric=metric, where=where, id_column=id_column, vector_column=vector_column,
        model=model, query_model=query_model, model_column=model_column,
    )  # fmt: skip
    warn_if_swapped(dataset.corpus.rows, dataset.queries.rows)
    dataset = _sampled(dataset, sample, corpus_sample, seed)
    how = {"depth": depth, "memory": memory, "threads": threads, "backend": backend, "device": device}
    if plan:
        _print_plan(dataset, as_json=as_json, **how, **planning)
    else:
        _print_truth(dataset, by or (), out, as_json=as_json, store=store, on=cluster, **how)


def _is_truth(out: str) -> bool:
    """Whether an older truth is there; it is no part of the data, even in their folder."""
    from recallatk.truths import is_truth_file

    try:
        return Path(out).is_file() and is_truth_file(out)
    except FormatError:
        return False


def _print_truth(
    dataset: Dataset, by: Sequence[str], out: str | None, *, as_json: bool, **options: Any
) -> None:
    from recallatk.truths import obtain_truth, save_truth

    groups = [_grouping(dataset, name) for name in by]
    started = time.perf_counter()
    with progress("truth", 2 * dataset.corpus.dimension) as step:
        found = obtain_truth(dataset, progress=step, **options)
    seconds = time.perf_counter() - started
    if out is not None:
        save_truth(found.truth, out)
    written = out or str(found.path)
    if as_json:
        typer.echo(json.dumps(_as_json(found, seconds, written) | _groups_as_json(found.truth, groups)))
    else:
        typer.echo("\n".join(_described(found, dataset, seconds, written) + _segments(found.truth, groups)))


def _plan_options(plan: bool, **given: Any) -> dict[str, Any]:
    """The options of --plan that were given; refused without it."""
    named = {name: value for name, value in given.items() if value is not None}
    if named and not plan:
        raise UsageError(f"{', '.join(f'--{name}' for name in named)} without --plan. Add --plan")
    return named


def _print_plan(dataset: Dataset, *, as_json: bool, **options: Any) -> None:
    from recallatk.api.truth_plan import plan_truth
    from recallatk.reporting.text import render_text, terminal_width
    from recallatk.reporting.truth_plan import plan_document

    with nothing_to_resume(), progress("pilot"):
        found = plan_truth(dataset, **options)
    typer.echo(
        json.dumps(found.to_dict())
        if as_json
        else render_text(plan_document(found), terminal_width()).rstrip()
    )


def _sampled(dataset: Dataset, queries: int | None, rows: int | None, seed: int) -> Dataset:
    from recallatk.datasets import sample_queries, sampled

    if queries is not None:
        dataset = replace(dataset, queries=sample_queries(dataset.queries, queries, seed=seed))
    return dataset if rows is None else sampled(dataset, rows, seed=seed)


def verify(
    file: Annotated[
        str, typer.Argument(help="Truth file: ours, ann-benchmarks HDF5, ivecs, ibin or VectorDBBench.")
    ],
    corpus: CorpusPath,
    queries: QueriesPath = None,
    metric: MetricName = None,
    where: Where = None,
    sample: Annotated[int | None, typer.Option(help="Verify a random sample of this many queries.")] = None,
    seed: Seed = 0,
    memory: Memory = None,
    threads: Threads = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Json = False,
) -> None:
    """Verify a truth file and name every wrong neighbor; the exit code is 1 if there is one.

    Example: recallatk truth verify glove-25-angular.hdf5 glove-25-angular.hdf5
    """
    from recallatk.bench.truth_lookup import TruthFile
    from recallatk.datasets import open_dataset
    from recallatk.truths import verify_truth

    given = TruthFile(file)
    stated = metric or given.metric
    dataset = open_dataset(
        corpus, queries, metric=stated, where=where, id_column=id_column, vector_column=vector_column
    )
    warn_if_swapped(dataset.corpus.rows, dataset.queries.rows)
    truth = given.read(dataset.corpus, dataset.metric)
    with progress("truth", 2 * dataset.corpus.dimension) as step:
        found = verify_truth(
            truth, dataset, sample=sample, seed=seed, memory=memory, threads=threads, progress=step
        )
    if as_json:
        typer.echo(json.dumps(_verdict_as_json(found), ensure_ascii=False))
    else:
        typer.echo("\n".join(_verdict(found, file)))
    if not found.right:
        raise typer.Exit(FAILED)


def _as_json(found: Obtained, seconds: float, out: str) -> dict[str, Any]:
    from recallatk.fingerprint import fingerprint_truth
    from recallatk.truths import truth_summary

    truth = found.truth
    return {
        "queries": len(truth),
        "depth": truth.depth,
        "longest_list": int((truth.rows >= 0).sum(axis=1).max()),
        "metric": truth.metric,
        "corpus_rows": truth.corpus_rows,
        "certified": truth_summary.certified(truth),
        "decided": truth_summary.decisions(truth),
        "ties": {str(k): int(truth_summary.ties_at(truth, k).sum()) for k in truth_summary.cutoffs(truth)},
        "eligible_min": None if truth.eligible is None else int(truth.eligible.min()),
        "seconds": seconds,
        "reused": found.way == "reused",
        "way": found.way,
        "scanned_rows": found.scanned_rows,
        "redone_queries": found.redone_queries,
        "sampled_from": truth.sampled_from,
        "synthetic_filters": truth.synthetic,
        "out": out,
        "fingerprint": fingerprint_truth(truth),
    }


def _described(found: Obtained, dataset: Dataset, seconds: float, out: str) -> list[str]:
    from recallatk.reporting.text import printable
    from recallatk.truths import truth_summary

    truth, rows = found.truth, dataset.corpus.rows
    lines = [
        f"{out}: the best {min(truth.depth, rows):,} of {counted(rows, 'row', 'rows')} for "
        f"{counted(len(truth), 'query', 'queries')}, {truth.metric}",
        f"  {truth_summary.in_words(truth)}",
        f"  {_way(found)} in {seconds:,.1f} s",
    ]
    if truth.sampled_from is not None:
        lines.append(
            f"  a sample of {truth.sampled_from:,} rows: recall on a sample does not transfer to all rows"
        )
    if truth.synthetic:
        lines.append("  the filters are synthetic")
    short = 0 if truth.eligible is None else int((truth.eligible < truth.depth).sum())
    if truth.depth > rows:
        lines.append(
            f"  the depth of {truth.depth:,} exceeds the {counted(rows, 'row', 'rows')} of the corpus: every "
            "query lists all of its eligible rows"
        )
    elif short:
        lines.append(
            f"  {counted(short, 'query has', 'queries have')} fewer than {truth.depth:,} eligible rows"
        )
    return [printable(line) for line in lines]


def _grouping(dataset: Dataset, name: str) -> tuple[str, list[str]]:
    """A column of the queries with its values as text."""
    known = dataset.queries.metadata_names
    if name not in known:
        raise UsageError(f"--by: {unknown('query column', name, known)}")
    return name, [str(each) for each in dataset.queries.metadata[name].to_pylist()]


def _by_value(truth: Truth, labels: list[str]) -> dict[str, dict[str, int]]:
    """For each value of a column: queries, those with a tie at the last place, the fewest eligible rows."""
    import numpy as np

    from recallatk.truths import truth_summary

    ties, found = truth_summary.ties_at(truth, truth.depth), {}
    for value in sorted(set(labels)):
        inside = np.array([each == value for each in labels])
        found[value] = {"queries": int(inside.sum()), "ties": int(ties[inside].sum())}
        if truth.eligible is not None:
            found[value]["eligible_min"] = int(truth.eligible[inside].min())
    return found


def _groups_as_json(truth: Truth, groups: Any) -> dict[str, Any]:
    return {"by": {name: _by_value(truth, labels) for name, labels in groups}} if groups else {}


def _segments(truth: Truth, groups: list[tuple[str, list[str]]]) -> list[str]:
    from recallatk.reporting.text import printable

    lines = []
    for name, labels in groups:
        for value, each in _by_value(truth, labels).items():
            least = f", at least {each['eligible_min']:,} eligible rows" if "eligible_min" in each else ""
            queries = counted(each["queries"], "query", "queries")
            ties = f"{each['ties']:,} with a tie at k={truth.depth}"
            lines.append(printable(f"  {name} = {value}: {queries}, {ties}{least}"))
    return lines


def _way(found: Obtained) -> str:
    if found.way == "updated":
        rows = counted(found.scanned_rows, "new row", "new rows")
        return f"updated: {rows} scanned, {counted(found.redone_queries, 'query', 'queries')} redone,"
    return f"reused from {found.path}" if found.way == "reused" else "computed"


def _verdict(found: Verification, file: str) -> list[str]:
    from recallatk.reporting.text import printable

    lines = [_line(each) for each in found.wrong[:_SHOWN]]
    if len(found.wrong) > _SHOWN:
        lines.append(f"... and {len(found.wrong) - _SHOWN:,} more; --json names them all")
    if found.other_data:
        complain(f"{file} was computed for different data: {', '.join(found.other_data)}")
    lines.append(
        f"{file}: {found.checked:,} of {found.queries:,} queries verified at depth {found.depth:,}: "
        + (_counted(found) if found.wrong else "every neighbor is correct")
    )
    return [printable(line) for line in lines]


def _counted(found: Verification) -> str:
    queries = len({each.query for each in found.wrong})
    return f"{counted(len(found.wrong), 'fault', 'faults')} in {counted(queries, 'query', 'queries')}"


def _line(wrong: Wrong) -> str:
    """One fault as a sentence: a column of the file that is wrong, or a neighbor."""
    place = f"query {wrong.query}" if wrong.rank is None else f"query {wrong.query}, rank {wrong.rank}"
    if wrong.claim is not None:
        neighbor = "" if wrong.neighbor is None else f" of {wrong.neighbor}"
        claim = wrong.claim
        return f"{place}: {wrong.fault}: {claim.column}{neighbor} is {claim.stated}, not {claim.actual}"
    if wrong.neighbor is None:
        return f"{place}: the neighbor is {wrong.fault}"
    score = "" if wrong.score is None else f", score {wrong.score:.9g}"
    gap = f", {wrong.gap:.3g} worse than the last correct one" if wrong.gap else ""
    return f"{place}: {wrong.neighbor} is {wrong.fault}{score}{gap}"


def _verdict_as_json(found: Verification) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "queries": found.queries,
        "checked": found.checked,
        "depth": found.depth,
        "right": found.right,
        "wrong": [asdict(each) for each in found.wrong],
        "other_data": list(found.other_data),
    }


GROUP = typer.Typer(
    cls=DefaultGroup,
    help="Exact nearest neighbors with proof: recallatk truth CORPUS QUERIES.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
GROUP.command()(guarded(compute))
GROUP.command()(guarded(verify))
