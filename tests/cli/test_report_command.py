"""`recallatk report`: one file from folders of runs."""

import dataclasses
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from recallatk.cli.exits import guarded
from recallatk.cli.report import report
from recallatk.storage import save_run
from recallatk.truths import save_truth

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_runs import scored_run

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(report))


@pytest.fixture
def folder(tmp_path):
    run, dataset, truth = scored_run()
    save_run(run, dataset, tmp_path / "run")
    save_truth(truth, tmp_path / "run" / "truth.parquet")
    return tmp_path / "run"


def reported(*arguments, code=0):
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == code, ran.output
    return ran


def test_the_page_stands_in_the_folder_of_the_run_and_tells_single_queries(folder):
    ran = reported(folder)
    page = (folder / "report.html").read_text()
    assert str(folder / "report.html") in ran.stdout
    assert ran.stderr == ""
    assert "The worst queries" in page
    reported(folder / "run.json", "--out", folder.parent / "other.html")
    assert (folder.parent / "other.html").read_text() == page


def test_pictures_and_markdown_are_written_beside_it(folder, tmp_path):
    png, svg, markdown = tmp_path / "png", tmp_path / "svg", tmp_path / "report.md"
    ran = reported(folder, "--png", png, "--svg", svg, "--markdown", markdown)
    names = {each.stem for each in png.iterdir()}
    assert {"recall-latency", "recall-qps", "distribution", "cost"} <= names
    assert {each.stem for each in svg.iterdir()} == names
    assert markdown.read_text().startswith("# ")
    assert f"{png}: {len(names)} charts" in ran.stdout


def test_without_a_truth_it_says_what_is_left_out_and_takes_one_by_name(folder, tmp_path):
    kept = (folder / "truth.parquet").rename(tmp_path / "kept.parquet")
    assert "the report has no per-query details" in reported(folder).stderr
    assert "The worst queries" not in (folder / "report.html").read_text()
    assert reported(folder, "--truth", kept).stderr == ""
    assert "The worst queries" in (folder / "report.html").read_text()


def test_further_runs_stand_beside_the_first(folder, tmp_path):
    run, dataset, _ = scored_run()
    save_run(dataclasses.replace(run, begun="2026-01-02T03:04:05+00:00"), dataset, tmp_path / "later")
    other, data, _ = scored_run(rows=90)
    save_run(other, data, tmp_path / "strange")
    ran = reported(folder, tmp_path / "later", tmp_path / "strange")
    page = (folder / "report.html").read_text()
    assert "Comparison of runs" in page and "later" in page
    assert "strange cannot be compared: different vectors" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["FOLDER", "--queries", "q.npy"], "--queries cannot be used without --corpus"),
        (["FOLDER", "--truth", "nowhere.parquet"], "nowhere.parquet"),
        (["FOLDER", "--out", "FOLDER"], "run"),
    ],
)
def test_what_cannot_be_reported_is_one_line_and_code_2(arguments, said, folder):
    ran = reported(*(str(folder) if each == "FOLDER" else each for each in arguments), code=2)
    assert said in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_another_truth_is_refused(folder, tmp_path):
    _, _, truth = scored_run(rows=90)
    save_truth(truth, tmp_path / "other.parquet")
    assert "a different truth" in reported(folder, "--truth", tmp_path / "other.parquet", code=2).stderr
