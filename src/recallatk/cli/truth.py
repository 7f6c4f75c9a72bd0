"""`recallatk truth`: exact neighbours with proof, and proof of anybody's neighbours."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from recallatk.cli.exits import FAILED, complain, guarded, warn_if_swapped
from recallatk.cli.options import CorpusPath, IdColumn, Json, MetricName, QueriesPath, VectorColumn, Where
from recallatk.cli.progress import progress
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.core import Dataset
    from recallatk.truths.compute import Obtained
    from recallatk.truths.faults import Verification, Wrong

_SHOWN = 20

Memory = Annotated[
    str | None,
    typer.Option(help="How much memory to use, such as 1GiB. Default: 2GiB, or a quarter of all."),
]
Threads = Annotated[int | None, typer.Option(help="How many cores to use; all by default.")]
Seed = Annotated[int, typer.Option(help="Which ones a sample takes.")]


class DefaultGroup(TyperGroup):
    """Commands of which the first is meant where none is named."""

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
    depth: Annotated[int, typer.Option(help="How many neighbours to keep for each query.")] = 100,
    where: Where = None,
    out: Annotated[str | None, typer.Option(help="Write the truth here too, as Parquet.")] = None,
    memory: Memory = None,
    threads: Threads = None,
    store: Annotated[
        str | None, typer.Option(help="Where truths are kept; by default in the user's cache directory.")
    ] = None,
    backend: Annotated[str, typer.Option(help="Whose kernel scans: blas or faiss.")] = "blas",
    corpus_sample: Annotated[
        int | None, typer.Option(help="Take only so many rows, for experiments; the result is marked.")
    ] = None,
    seed: Seed = 0,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Json = False,
) -> None:
    """Compute the exact nearest neighbours of every query, with proof.

    Found again in the store when nothing has changed; brought up to date when only some rows have. After
    an interruption the same command goes on where it was.

    Example: recallatk truth corpus.parquet queries.parquet --metric cosine --out truth.parquet
    """
    from recallatk.datasets import open_dataset, sampled
    from recallatk.files import require_writable
    from recallatk.truths import obtain_truth, save_truth

    if out is not None:
        require_writable(out)
    dataset = open_dataset(
        corpus, queries, metric=metric, where=where, id_column=id_column, vector_column=vector_column
    )
    warn_if_swapped(dataset.corpus.rows, dataset.queries.rows)
    if corpus_sample is not None:
        dataset = sampled(dataset, corpus_sample, seed=seed)
    started = time.perf_counter()
    with progress("truth", 2 * dataset.corpus.dimension) as step:
        found = obtain_truth(
            dataset,
            depth=depth,
            store=store,
            memory=memory,
            threads=threads,
            backend=backend,
            progress=step,
        )
    seconds = time.perf_counter() - started
    if out is not None:
        save_truth(found.truth, out)
    written = out or str(found.path)
    if as_json:
        typer.echo(json.dumps(_as_json(found, seconds, written)))
    else:
        typer.echo("\n".join(_described(found, dataset, seconds, written)))


def verify(
    file: Annotated[
        str, typer.Argument(help="Ours, or somebody else's: ann-benchmarks HDF5, ivecs, ibin, VectorDBBench.")
    ],
    corpus: CorpusPath,
    queries: QueriesPath = None,
    metric: MetricName = None,
    where: Where = None,
    sample: Annotated[int | None, typer.Option(help="Prove only so many queries; all by default.")] = None,
    seed: Seed = 0,
    memory: Memory = None,
    threads: Threads = None,
    id_column: IdColumn = None,
    vector_column: VectorColumn = None,
    as_json: Json = False,
) -> None:
    """Prove a truth file anew and name every wrong neighbour; the exit code is 1 if there is one.

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
            f"  a sample of {truth.sampled_from:,} rows: recall on it does not carry over to all of them"
        )
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
        complain(f"{file} was made from other data: {', '.join(found.other_data)}")
    lines.append(
        f"{file}: {found.checked:,} of {found.queries:,} queries proved anew at depth {found.depth:,}: "
        + (_counted(found) if found.wrong else "every neighbour is right")
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
    gap = f", {wrong.gap:.3g} worse than the last that belongs" if wrong.gap else ""
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
