"""`recallatk report`: runs as one HTML file, and their charts as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import complain
from recallatk.cli.show import opened
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from recallatk.core import Dataset, Run, Truth
    from recallatk.report.html.opening import Opened
    from recallatk.report.html.page import ReportData

FILE = "report.html"


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="The folders of runs, or their run.json.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; by default report.html in the first folder.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="A folder for every chart as PNG.")] = None,
    svg: Annotated[Path | None, typer.Option(help="A folder for every chart as SVG.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="A file for the report as Markdown.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="The truth of the runs, where it is not where they say.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Their corpus, likewise; it has the words of what was missed.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Their queries, where they are not in the corpus file.")
    ] = None,
) -> None:
    """Write one HTML file that needs nothing beside it: verdict, curves, segments, worst queries, origin.

    Further runs of the same data are put beside the first, query by query.

    Example: recallatk report recallatk-demo --out report.html --png charts
    """
    from recallatk.audit import audit_run
    from recallatk.audit.opening import settings_beside
    from recallatk.files import require_writable, write_text
    from recallatk.report import to_markdown
    from recallatk.report.html import report_data
    from recallatk.report.html.rendering import rendered

    if queries is not None and corpus is None:
        raise UsageError("--queries needs --corpus too")
    found = [opened(each) for each in runs]
    first, folder = found[0]
    target = folder / FILE if out is None else out
    require_writable(target)
    data = _data(first, folder, truth, corpus, queries)
    others, names = [run for run, _ in found[1:]], [_name(each) for _, each in found]
    findings = audit_run(first, dataset=data.dataset, truth=data.truth, settings=settings_beside(folder))
    made = report_data(first, data.truth, data.dataset, findings=findings, others=others, names=names)
    write_text(target, rendered(made))
    typer.echo(f"{target}: {len(first.measurements):,} trials, {target.stat().st_size / 1e6:.1f} MB")
    if made.untold:
        complain(f"single queries are left out: {made.untold}")
    for refusal in made.comparison.refusals if made.comparison is not None else ():
        complain(refusal)
    _pictures(made, {"png": png, "svg": svg})
    if markdown is not None:
        write_text(markdown, "\n\n".join(to_markdown(run) for run, _ in found))
        typer.echo(str(markdown))


def _pictures(made: ReportData, folders: dict[str, Path | None]) -> None:
    from recallatk.report.charts.rendering import write_images

    for kind, folder in folders.items():
        if folder is not None:
            written = write_images(made.charts, folder, kind)
            typer.echo(f"{folder}: {len(written):,} charts")


def _name(folder: Path) -> str:
    return folder.resolve().name or str(folder)


def _data(run: Run, folder: Path, truth: str | None, corpus: str | None, queries: str | None) -> Opened:
    """What is named, and for the rest what the run names, if that is still the same."""
    from recallatk.report.html.opening import Opened, open_recorded

    found = open_recorded(run, folder)
    dataset = found.dataset if corpus is None else _dataset(run, corpus, queries)
    return Opened(found.truth if truth is None else _truth(run, truth), dataset, found.why)


def _dataset(run: Run, corpus: str, queries: str | None) -> Dataset:
    from recallatk.datasets import open_dataset
    from recallatk.history.run import require_same_data

    dataset = open_dataset(corpus, queries, metric=run.metric)
    require_same_data(run, dataset)
    return dataset


def _truth(run: Run, path: str) -> Truth:
    from recallatk.fingerprint import fingerprint_truth
    from recallatk.truth import load_truth

    truth = load_truth(path)
    if run.fingerprints.get("truth") not in (None, fingerprint_truth(truth)):
        raise MismatchError(f"{path}: the run was scored against another truth")
    return truth
