"""`recallatk audit`: what is misleading about a benchmark, before and after it is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import FAILED, complain
from recallatk.cli.progress import progress
from recallatk.cli.truth import Json

if TYPE_CHECKING:
    from recallatk.core import QuerySet
    from recallatk.core.findings import Finding


def audit(
    what: Annotated[str, typer.Argument(metavar="FILE|RUN", help="A bench file, or the folder of a run.")],
    production: Annotated[
        str | None, typer.Option(help="Queries as users ask them: a file of vectors, perhaps with filters.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help='What recall is asked for, such as "recall@10 >= 0.95".')
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where there is an error that is not waived.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what is misleading about a benchmark: its queries, data, truth, engines and timing.

    A bench file is looked at before anything is measured; a run with its data, where these are still there.

    Example: recallatk audit bench.toml --production sample.parquet --strict

    Example: recallatk audit recallatk-demo
    """
    from recallatk.report.findings import findings_to_dict, findings_to_text

    sample = None if production is None else _opened(production)
    with progress("audit"):
        found = _found(what, sample, target or [])
    if as_json:
        typer.echo(
            json.dumps({"audited": what, **findings_to_dict(found)}, ensure_ascii=False, allow_nan=False)
        )
    else:
        typer.echo(findings_to_text(found))
    if strict and any(each.counts for each in found):
        raise typer.Exit(FAILED)


def _opened(path: str) -> QuerySet:
    from recallatk.datasets import open_queries

    return open_queries(path)


def _found(what: str, production: QuerySet | None, targets: list[str]) -> list[Finding]:
    from recallatk.audit import audit_run, audit_settings
    from recallatk.audit.opening import open_if_there, settings_beside, truth_if_there
    from recallatk.bench.settings import read_settings

    if what.endswith(".toml"):
        return audit_settings(read_settings(what), production=production)
    folder = Path(what).parent if Path(what).name == "run.json" else Path(what)
    settings = settings_beside(folder)
    dataset = None if settings is None else open_if_there(settings)
    if dataset is None and (folder / "run.json").exists():
        complain(
            f"{folder}: the data of this run cannot be opened from here; rules that need them are left out"
        )
    truth = None if settings is None or dataset is None else truth_if_there(settings, dataset)
    if truth is None and settings is not None and settings.truth.file is not None and dataset is not None:
        complain(
            f"{settings.truth.file}: the truth of this run cannot be read; rules that need it are left out"
        )
    return audit_run(
        folder, dataset=dataset, truth=truth, settings=settings, production=production, targets=targets
    )
