"""`recallatk run`: every configuration of every engine on the same truth, kept as it is measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import FAILED, warn_if_swapped
from recallatk.cli.progress import progress
from recallatk.cli.truth import Json, MetricName
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.audit import Evidence
    from recallatk.bench.progress import Progress
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset, Run


def run(
    file: Annotated[str, typer.Argument(help="A bench file (.toml), or the corpus.")],
    queries: Annotated[
        str | None, typer.Argument(help="The queries, where a corpus was named and does not have them.")
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="An engine to measure, without a bench file; may be repeated.")
    ] = None,
    metric: MetricName = None,
    at: Annotated[str, typer.Option(help="The values of k, without a bench file.")] = "1,10,100",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the run; by default the file's, else runs/NAME.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured and what it may take.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that must be there; the same command does too.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove an earlier run in the folder first.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Measure again what had failed.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where the linter finds an error.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure recall, latency, throughput, memory, size and build cost of every setting that a file asks for.

    Each trial is saved as soon as it is measured. After Ctrl-C, a crash or a reboot the same command goes on.

    Example: recallatk run bench.toml

    Example: recallatk run corpus.parquet queries.parquet --metric cosine --engine faiss-hnsw
    """
    from recallatk.audit import Evidence
    from recallatk.bench.benchmark import run_folder
    from recallatk.bench.inputs import find_truth
    from recallatk.bench.settings import open_data
    from recallatk.cli.looking import look

    settings = _settings(file, queries, engine, metric, at)
    folder = run_folder(settings, out)
    if dry_run:
        _show_plan(settings, folder, as_json=as_json)
        return
    if resume and not (folder / "run.json").exists():
        raise UsageError(f"{folder}: no run is here to go on with. Leave out --resume to begin one")
    dataset = open_data(settings)
    known = Evidence(settings, dataset, find_truth(settings, dataset))
    look(known, strict=strict)
    found = _measured(settings, dataset, folder, fresh=fresh, retry_failed=retry_failed)
    _report(found, folder, known, as_json=as_json, strict=strict)


def _measured(settings: Settings, dataset: Dataset, folder: Path, *, fresh: bool, retry_failed: bool) -> Run:
    from recallatk import bench
    from recallatk.cli.live import live

    with progress("truth") as truth, live() as view:

        def show(state: Progress) -> None:
            truth.end()
            view.show(state)

        return bench.run(
            settings,
            dataset=dataset,
            out=folder,
            fresh=fresh,
            retry_failed=retry_failed,
            watch=show,
            progress=truth,
        )


def _settings(
    file: str, queries: str | None, engines: list[str] | None, metric: str | None, at: str
) -> Settings:
    from recallatk.bench.settings import read_settings
    from recallatk.bench.starter import implied
    from recallatk.cli.score import cutoffs

    if file.endswith(".toml"):
        given = {"QUERIES": queries, "--engine": engines, "--metric": metric}
        beside = [name for name, value in given.items() if value]
        if beside:
            raise UsageError(f"{', '.join(beside)}: stands in the bench file, and cannot be given beside it")
        return read_settings(file)
    return implied(file, queries, engines or ["faiss-hnsw"], metric=metric, k=cutoffs(at))


def _report(found: Run, folder: Path, known: Evidence, *, as_json: bool, strict: bool) -> None:
    from recallatk.cli.ending import ended
    from recallatk.report import run_to_dict, to_text
    from recallatk.report.findings import findings_to_dict, findings_to_text

    findings, verdict = ended(found, folder, known)
    if as_json:
        described = {**run_to_dict(found, verdict), "audit": findings_to_dict(findings), "out": str(folder)}
        typer.echo(json.dumps(described, ensure_ascii=False))
    else:
        typer.echo(to_text(found, verdict=verdict, logs=str(folder / "logs")))
        typer.echo(f"\n{findings_to_text(findings, short=True)}\n\n{_next(folder)}")
    if (found.failures and not found.measurements) or (strict and any(each.counts for each in findings)):
        raise typer.Exit(FAILED)


def _next(folder: Path) -> str:
    name = shlex.quote(str(folder))
    return "\n".join(
        [
            f"Files in {name}: report.html, report.md, run.json, bench.toml, logs, and for each trial a "
            "trial-N.parquet with every answer and latency.",
            "",
            "Next:",
            f"  recallatk show {name}",
            f"  recallatk export {name} --to csv --out trials.csv",
        ]
    )


def _show_plan(settings: Settings, folder: Path, *, as_json: bool) -> None:
    """What would be measured, from a quick pilot."""
    from recallatk.bench.benchmark import manner_of, plan_of
    from recallatk.bench.pilot import estimate
    from recallatk.bench.settings import open_data
    from recallatk.report.plan import plan_to_dict, plan_to_text

    dataset = open_data(settings)
    warn_if_swapped(dataset.corpus.sampled_from or dataset.corpus.rows, dataset.queries.rows)
    plan = plan_of(settings, dataset)
    with progress("a quick pilot"):
        estimates = estimate(plan, dataset, manner_of(settings))
    described = plan_to_dict(plan, estimates, str(folder))
    typer.echo(json.dumps(described, ensure_ascii=False) if as_json else plan_to_text(described))
