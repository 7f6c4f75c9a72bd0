"""`recallatk report`: runs or a tuning as one HTML file, and their charts as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.exits import complain
from recallatk.cli.options import (
    Budgets,
    ByRow,
    PriceOption,
    RunCorpus,
    RunQueries,
    RunTruth,
    Targets,
    Weight,
    judged_by,
    open_run,
    require_columns,
)
from recallatk.cli.pages import measured_files, require_pages
from recallatk.errors import UsageError
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.bench.recorded_benchmark import NamedFiles
    from recallatk.core import Run
    from recallatk.reporting.charts.theme import Chart
    from recallatk.reporting.run_report import RunReport

FILE = "report.html"


Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders or their run.json, or the folder of a tuning."),
]
Out = Annotated[Path | None, typer.Option(help="Output file. Default: report.html in the first folder.")]
Png = Annotated[Path | None, typer.Option(help="Also write every chart as PNG to this folder.")]
Svg = Annotated[Path | None, typer.Option(help="Also write every chart as SVG to this folder.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the report as Markdown to this file.")]


def report(
    runs: Runs,
    out: Out = None,
    png: Png = None,
    svg: Svg = None,
    markdown: Markdown = None,
    by_row: ByRow = None,
    target: Targets = None,
    budget: Budgets = None,
    price: PriceOption = None,
    truth: RunTruth = None,
    corpus: RunCorpus = None,
    queries: RunQueries = None,
    weight: Weight = None,
) -> None:
    """Write a self-contained HTML report: verdict, curves, segments, worst queries, provenance.

    Further runs on the same data are compared with the first, query by query. --by-row, --target, --budget
    and --price replace those that the runs recorded, and --weight weights all means anew. URLs that a run
    folder names are not opened: name them with --corpus, --queries and --truth.

    Example: recallatk report recallatk-demo --out report.html --png charts
    """
    from recallatk.bench.recorded_benchmark import NamedFiles, RecordedBenchmark
    from recallatk.files import write_text
    from recallatk.linter import audit_run
    from recallatk.reporting.html.page import render_html
    from recallatk.reporting.run_report import RunReport

    images = _image_folders(png, svg)
    named = NamedFiles(corpus, queries, truth)
    tuning = _tuning(runs, [truth, corpus, queries])
    if tuning is not None:
        _require_unweighted(tuning, weight)
        _report_tuning(tuning, out, images, markdown)
        return
    judged = [(judged_by(run, target, budget, price, by_row), folder) for run, folder in map(open_run, runs)]
    found = [(_weighted(run, folder, named, weight), folder) for run, folder in judged]
    first, folder = found[0]
    page = out or folder / FILE
    require_pages((page, markdown), (*measured_files(*(each for _, each in found)), truth, corpus, queries))
    data = RecordedBenchmark(first, folder, named)
    require_columns(data, by_row)
    others, names = [run for run, _ in found[1:]], [_name(each) for _, each in found]
    findings = audit_run(first, dataset=data.dataset, truth=data.truth, settings=data.settings)
    made = RunReport(
        first,
        data.truth,
        data.judged_dataset,
        findings=findings,
        others=others,
        names=names,
        no_truth=data.no_truth,
    )
    write_text(page, render_html(made.page))
    typer.echo(f"{page}: {len(first.measurements):,} trials, {page.stat().st_size / 1e6:.1f} MB")
    _note_omissions(made)
    _pictures(made.charts, images)
    if markdown is not None:
        _write_markdown(made, markdown)


def _write_markdown(made: RunReport, path: Path) -> None:
    from recallatk.files import write_text
    from recallatk.reporting import to_markdown
    from recallatk.reporting.document import Form
    from recallatk.reporting.markdown import render_markdown

    compared = render_markdown(made.document(Form.MARKDOWN))
    write_text(path, "\n\n".join([compared, *(to_markdown(run) for run in made.others)]))
    typer.echo(str(path))


def _require_unweighted(tuning: Path, weight: str | None) -> None:
    if weight is not None:
        raise UsageError(f"{tuning} is a tuning. To weight its means: recallatk tune … --weight {weight}")


def _weighted(run: Run, folder: Path, named: NamedFiles, weight: str | None) -> Run:
    """The run with means weighted by a column of its queries, from its data or its truth."""
    if weight is None:
        return run
    from recallatk.analysis.weighting import query_columns, reweighted, weights_from
    from recallatk.bench.recorded_benchmark import RecordedBenchmark

    data = RecordedBenchmark(run, folder, named)
    return reweighted(run, weights_from(query_columns(data.truth, data.dataset), weight))


def _note_omissions(made: RunReport) -> None:
    if made.untold:
        complain(f"the report has no per-query details: {made.untold}")
    for refusal in made.comparison.refusals if made.comparison is not None else ():
        complain(refusal)


def _tuning(given: list[str], data: list[str | None]) -> Path | None:
    """The file of a tuning, where the first that is given is one."""
    from recallatk.reporting.tuned_file import TUNED

    path = Path(given[0])
    file = path / TUNED if path.is_dir() else path
    if file.name != TUNED or not file.is_file() or (path.is_dir() and (path / "run.json").exists()):
        return None
    if len(given) > 1:
        raise UsageError(f"{path} is a tuning. Accepted: one tuning, or several runs")
    if any(data):
        raise UsageError(
            f"{path} is a tuning, whose report needs no data. Omit --truth, --corpus and --queries"
        )
    return file


def _report_tuning(
    file: Path, out: Path | None, folders: dict[str, Path | None], markdown: Path | None
) -> None:
    from recallatk.files import write_text
    from recallatk.reporting import tuned_to_html
    from recallatk.reporting.findings import findings_to_markdown
    from recallatk.reporting.tuned import tuned_charts, tuned_to_markdown
    from recallatk.reporting.tuned_file import read_tuned

    target = file.parent / FILE if out is None else out
    require_pages((target, markdown), measured_files(file.parent))
    tuned, findings = read_tuned(file)
    write_text(target, tuned_to_html(tuned, findings=findings))
    size = target.stat().st_size / 1e6
    typer.echo(f"{target}: a tuning with {tuned.trials:,} settings tried, {size:.1f} MB")
    _pictures(tuned_charts(tuned), folders)
    if markdown is not None:
        linted = "" if findings is None else f"\n{findings_to_markdown(findings)}"
        write_text(markdown, f"{tuned_to_markdown(tuned)}{linted}")
        typer.echo(str(markdown))


def _image_folders(png: Path | None, svg: Path | None) -> dict[str, Path | None]:
    """Folders by format; a missing image library is an error before the report is made."""
    from recallatk.reporting.charts.theme import image_library

    if png is not None or svg is not None:
        image_library()
    return {"png": png, "svg": svg}


def _pictures(charts: Mapping[str, Chart], folders: dict[str, Path | None]) -> None:
    from recallatk.reporting.charts.theme import write_images

    for kind, folder in folders.items():
        if folder is not None:
            written = write_images(charts, folder, kind)
            typer.echo(f"{folder}: {counted(len(written), 'chart', 'charts')}")


def _name(folder: Path) -> str:
    return folder.resolve().name or str(folder)
