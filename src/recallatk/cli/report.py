"""`recallatk report`: runs or a tuning as one HTML file, and their charts as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recallatk.cli.guard import complain
from recallatk.cli.show import opened
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Dataset, Run, Truth
    from recallatk.report.charts.kinds import Chart
    from recallatk.report.html.opening import Opened

FILE = "report.html"


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="The folders of runs, or their run.json; or that of a tuning."),
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

    Further runs of the same data are put beside the first, query by query. A tuning stands alone.

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
    tuning = _tuning(runs, [truth, corpus, queries])
    if tuning is not None:
        _report_tuning(tuning, out, {"png": png, "svg": svg}, markdown)
        return
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
    _pictures(made.charts, {"png": png, "svg": svg})
    if markdown is not None:
        write_text(markdown, "\n\n".join(to_markdown(run) for run, _ in found))
        typer.echo(str(markdown))


def _tuning(given: list[str], data: list[str | None]) -> Path | None:
    """The file of a tuning, where the first that is given is one."""
    from recallatk.report.tuned_file import TUNED

    path = Path(given[0])
    file = path / TUNED if path.is_dir() else path
    if file.name != TUNED or not file.is_file() or (path.is_dir() and (path / "run.json").exists()):
        return None
    if len(given) > 1:
        raise UsageError(f"{path} is a tuning, which stands alone. Accepted: one tuning, or several runs")
    if any(data):
        raise UsageError(
            f"{path} is a tuning, whose page needs no data. Leave out --truth, --corpus, --queries"
        )
    return file


def _report_tuning(
    file: Path, out: Path | None, folders: dict[str, Path | None], markdown: Path | None
) -> None:
    from recallatk.files import require_writable, write_text
    from recallatk.report import tuned_to_html
    from recallatk.report.findings import findings_to_markdown
    from recallatk.report.html.tuned_page import tuned_charts
    from recallatk.report.tuned import tuned_to_markdown
    from recallatk.report.tuned_file import read_tuned

    target = file.parent / FILE if out is None else out
    require_writable(target)
    tuned, findings = read_tuned(file)
    write_text(target, tuned_to_html(tuned, findings=findings))
    size = target.stat().st_size / 1e6
    typer.echo(f"{target}: a tuning with {tuned.trials:,} settings tried, {size:.1f} MB")
    _pictures(tuned_charts(tuned), folders)
    if markdown is not None:
        linted = "" if findings is None else f"\n{findings_to_markdown(findings)}"
        write_text(markdown, f"{tuned_to_markdown(tuned)}{linted}")
        typer.echo(str(markdown))


def _pictures(charts: Mapping[str, Chart], folders: dict[str, Path | None]) -> None:
    from recallatk.report.charts.rendering import write_images

    for kind, folder in folders.items():
        if folder is not None:
            written = write_images(charts, folder, kind)
            typer.echo(f"{folder}: {len(written):,} chart{'' if len(written) == 1 else 's'}")


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
