"""`recallatk tune`: from a sentence to a setting, through real engines on small data."""

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from recallatk.bench.benchmark import Benchmark
from recallatk.bench.settings import SettingsError, read_settings, settings_from
from recallatk.cli.exits import guarded
from recallatk.cli.lint_and_report import before_tuning, lint, report_tuning
from recallatk.cli.live import TuneLines, tune_headline
from recallatk.cli.report import report
from recallatk.cli.tune import tune
from recallatk.core import Mean
from recallatk.core.tuned import Candidate
from recallatk.errors import UsageError
from recallatk.reporting.tuned_file import read_tuned
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth
from recallatk.tuning.study import TuningProgress

sys.path.insert(0, str(Path(__file__).parent.parent / "reporting"))
from made_tuned import made_candidate, made_tuned

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(tune))
reports = typer.Typer(rich_markup_mode=None)
reports.command()(guarded(report))

BENCH = """
name = "mine"
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "cosine"
[tune]
target = "recall@10 >= 0.9"
budget = ["p95 <= 1h", "size <= 1TiB"]
by = "kind"
time = "2min"
[[engine]]
name = "faiss-ivf-flat"
"""


def write_data(dataset, **columns):
    """Corpus and queries as files in the current folder."""
    for records, name, more in ((dataset.corpus, "corpus", {}), (dataset.queries, "queries", columns)):
        flat = pa.array(np.array(records.vectors.read(0, records.rows)).ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, 16)
        pq.write_table(pa.table({"id": records.ids, "vector": vectors, **more}), f"{name}.parquet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_data(tiny_dataset(1500, 400, 16), kind=["a", "b"] * 200)
    return tmp_path


@pytest.fixture(scope="module")
def tuned_once(tmp_path_factory):
    """What one real tuning said, and the folder in which it was started."""
    with pytest.MonkeyPatch.context() as patch:
        here = tmp_path_factory.mktemp("tuned")
        patch.chdir(here)
        patch.setenv("XDG_CACHE_HOME", str(here / "cache"))
        write_data(tiny_dataset(1500, 400, 16), kind=["a", "b"] * 200)
        found = ran(
            *("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9"),
            *("--engine", "faiss-ivf-flat", "--by", "kind", "--json"),
        )
    return json.loads(found.stdout), here


def reported(*arguments, code=0):
    return ran(*arguments, code=code, program=reports)


def ran(*arguments, code=0, program=app):
    found = CliRunner().invoke(program, [str(each) for each in arguments])
    assert found.exit_code == code, found.output
    return found


def test_a_target_becomes_a_setting_with_its_files(tuned_once):
    said, here = tuned_once
    assert said["met"] is True and said["choice"]["engine"] == "faiss-ivf-flat"
    assert said["validated"]["recall@10"]["value"] >= 0.9 and said["latency_ms"]["p95"] > 0
    assert said["trials"] > 0 and said["builds"] > 0 and said["seconds"] > 0
    assert said["worst_segment"]["name"] in ("kind=a", "kind=b")
    out = here / said["out"]
    assert out == here / "runs" / "corpus-tune"
    kept = json.loads((out / "tuned.json").read_text())
    assert kept == {name: value for name, value in said.items() if name != "out"}


def test_the_cost_that_was_preferred_is_in_the_file_on_the_screen_and_on_the_page(folder):
    words = ("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9")
    shown = ran(
        *words, "--engine", "faiss-ivf-flat", "--prefer", "cost", "--price", "3.6EUR/h", "--out", "out"
    )
    kept = json.loads(Path("out/tuned.json").read_text())
    assert kept["prefer"] == "cost" and kept["cost"]["per_hour"] == 3.6
    # 3.6 an hour is a thousandth a second.
    assert kept["cost"]["cost_per_million"] == pytest.approx(1e3 / kept["qps"])
    assert "EUR per million queries" in " ".join(shown.stdout.split())
    assert "Cost per million queries" in Path("out/report.html").read_text()
    # On a busy machine the final timing may rank a setting above the choice that validation does not confirm.
    best = max((each for each in kept["front"] if each["bound"]), key=lambda each: each["qps"])
    off_front = any(each["kind"] == "off-front" for each in kept["cautions"])
    assert off_front or best["search"] == kept["choice"]["search"]


def test_the_linter_has_looked_and_every_report_says_so(tuned_once):
    said, here = tuned_once
    out = here / said["out"]
    found = said["audit"]["findings"]
    assert said["audit"]["counts"]["error"] == 0 and said["audit"]["counts"]["waived"] == 0
    # What a benchmark of one k is told is nothing to tell somebody who names a target.
    assert "R11" not in {each["rule"] for each in found}
    text, page = (out / "report.md").read_text(), (out / "report.html").read_text()
    assert text.startswith("# Tuning") and "## Linter" in text and "The linter found" in text
    assert "Linter findings" in page and "Content-Security-Policy" in page
    for each in found:
        assert f"{each['rule']}</span>" in page and f"{each['severity']} {each['rule']}" in text


def test_report_writes_the_page_of_a_tuning_again(tuned_once, tmp_path):
    said, here = tuned_once
    out = here / said["out"]
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    again = reported(out)
    assert (out / "report.html").read_bytes() == page and str(out / "report.html") in again.stdout
    reported(
        *(out / "tuned.json", "--out", tmp_path / "other.html", "--svg", tmp_path / "charts"),
        *("--markdown", tmp_path / "other.md"),
    )
    assert (tmp_path / "other.html").read_bytes() == page
    assert [each.name for each in (tmp_path / "charts").iterdir()] == ["recall-cost.svg"]
    assert (tmp_path / "other.md").read_text() == (out / "report.md").read_text()


def test_a_tuning_stands_alone_and_needs_no_data(tuned_once):
    said, here = tuned_once
    out = here / said["out"]
    assert "is a tuning. Accepted: one tuning" in reported(out, out, code=2).stderr
    assert "whose report needs no data" in reported(out, "--truth", "t.parquet", code=2).stderr


def test_errors_are_said_before_the_work_and_strict_ends_there(folder, monkeypatch):
    write_data(tiny_dataset(300, 60, 16))
    started = []
    monkeypatch.setattr("recallatk.tuning.flow.tune", lambda *_, **__: started.append(1))
    arguments = ("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9")
    found = ran(*arguments, "--strict", code=1)
    assert "error R01: Too few queries: there are 60 queries" in found.stderr
    assert found.stdout == "" and started == []


def known_of(text):
    Path("bench.toml").write_text(text)
    benchmark = Benchmark(read_settings("bench.toml"))
    truth = ground_truth(benchmark.dataset, depth=10)
    return benchmark, before_tuning(benchmark, truth, benchmark.settings.tune.target)


WAIVER = """
[[waive]]
rule = "R01"
reason = "this is all there is"
"""


def test_waivers_of_the_bench_file_hold_before_and_after(folder, capsys):
    write_data(tiny_dataset(300, 60, 16), kind=["a"] * 60)
    with pytest.raises(typer.Exit):
        lint(known_of(BENCH)[1], strict=True)
    capsys.readouterr()
    benchmark, known = known_of(BENCH + WAIVER)
    lint(known, strict=True)
    assert capsys.readouterr().err == ""
    (folder / "out").mkdir()
    found = report_tuning(made_tuned(), folder / "out", known, benchmark, seed=0)
    few = next(each for each in found if each.rule == "R01")
    # Of the queries that prove it, which are about half.
    assert few.waived == "this is all there is" and 15 < few.measured < 45
    assert read_tuned(folder / "out" / "tuned.json") == (made_tuned(), found)
    assert "this is all there is" in (folder / "out" / "report.html").read_text()


def test_the_linter_sees_the_outcome_and_both_sides(folder):
    write_data(tiny_dataset(300, 200, 16), kind=["a"] * 200)
    benchmark, known = known_of(BENCH)
    (folder / "out").mkdir()
    tuned = made_tuned(looks=3, choice=made_candidate(40, 0.96, 0.3, "qdrant"))
    rules = {each.rule: each for each in report_tuning(tuned, folder / "out", known, benchmark, seed=0)}
    assert "used 3 times" in rules["R34"].message and rules["R34"].severity == "warning"
    assert "qdrant" in rules["R25"].message and "recallatk run" in rules["R25"].remedy


def test_nothing_that_meets_the_target_ends_with_one(folder):
    found = ran(
        *("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9"),
        *("--budget", "p95 <= 0.000001ms", "--engine", "faiss-ivf-flat", "--out", "here"),
        code=1,
    )
    assert found.stdout.startswith("Missed: no setting was shown to meet recall@10 >= 0.9 within p95 <=")
    assert json.loads((folder / "here" / "tuned.json").read_text())["met"] is False


def test_a_bench_file_says_all_of_it(folder):
    (folder / "bench.toml").write_text(BENCH)
    found = ran("bench.toml")
    assert found.stdout.startswith("Met: run faiss-ivf-flat (build nlist=")
    kept = json.loads((folder / "runs" / "mine-tune" / "tuned.json").read_text())
    assert kept["targets"] == ["recall@10 >= 0.9"] and kept["budgets"] == ["p95 <= 1h", "size <= 1TiB"]
    assert kept["worst_segment"] is not None


@pytest.mark.parametrize(
    ("listed", "engines"),
    [
        ("", None),
        ('[[engine]]\nname = "exact"', ("exact",)),
        ('[[engine]]\nname = "exact"\n[[engine]]\nname = "hnswlib"', ("exact", "hnswlib")),
    ],
)
def test_the_engines_of_a_bench_file_are_those_that_are_tuned(folder, monkeypatch, listed, engines):
    asked = []

    def stop(*_, **named):
        asked.append(named["engines"])
        raise UsageError("seen")

    monkeypatch.setattr("recallatk.tuning.flow.tune", stop)
    (folder / "bench.toml").write_text(f"{BENCH.partition('[[engine]]')[0]}[measure]\nat = 10\n{listed}\n")
    assert "seen" in ran("bench.toml", code=2).stderr
    assert asked == [engines]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], 'no target. State one: --target "recall@10 >= 0.95"'),
        (["--target", "fast"], "no goal 'fast'. Accepted: recall@10 >= 0.95"),
        (["--target", "recall@10 >= 0.9", "--budget", "free"], "no goal 'free'. Accepted: "),
        (["--target", "recall@10 >= 0.9", "--prefer", "luck"], "Accepted: p95, qps, memory, build or cost"),
        (["--target", "recall@10 >= 0.9", "--time", "soon"], "'soon' is not a duration"),
        (
            ["--target", "recall@10 >= 0.9", "--by", "sort"],
            "no query column 'sort'. Accepted: kind",
        ),
        (["--target", "recall@10 >= 0.9", "--engine", "best"], "no engine 'best'"),
        (["--target", "ndcg@10 loss <= 0.01"], "needs relevance judgments"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(folder, arguments, said):
    found = ran("corpus.parquet", "queries.parquet", "--metric", "cosine", *arguments, code=2)
    assert said in found.stderr and found.stdout == ""


def test_all_bad_texts_are_said_at_once(folder):
    arguments = ["--target", "fast", "--target", "recall@10 >= 7", "--budget", "free"]
    found = ran("corpus.parquet", "queries.parquet", "--metric", "cosine", *arguments, code=2)
    assert all(part in found.stderr for part in ("'fast'", "recall@10 >= 7", "'free'"))


def test_a_bench_file_without_a_target_says_where_to_put_one(folder):
    (folder / "bench.toml").write_text(BENCH.replace('target = "recall@10 >= 0.9"', ""))
    assert "under [tune] in the file" in ran("bench.toml", code=2).stderr
    assert "cannot be combined with a bench file" in ran("bench.toml", "--metric", "ip", code=2).stderr


def test_the_tune_table_reads_back():
    settings = settings_from(tomllib.loads(BENCH))
    assert settings.tune.target == ("recall@10 >= 0.9",) and settings.tune.time == 120
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    plain = {name: value for name, value in tomllib.loads(BENCH).items() if name != "tune"}
    assert "[tune]" not in settings_from(plain).to_toml()
    # What is looked for changes nothing about a run.
    assert settings_from(plain).identity() == settings.identity()


def test_the_tune_table_refuses_what_it_does_not_know():
    with pytest.raises(SettingsError) as caught:
        settings_from({**tomllib.loads(BENCH), "tune": {"targets": "x", "prefer": "luck", "time": 5}})
    assert "tune.targets: no such key. Did you mean target?" in str(caught.value)
    assert "tune.prefer" in str(caught.value) and "tune.time" in str(caught.value)


def test_progress_says_the_best_the_front_and_the_time_left(capsys):
    best = Candidate(
        "hnswlib", (("M", 16),), (("ef", 40),), {"recall@10": Mean(0.96, None, 9)}, latency_ms={"p95": 0.25}
    )
    progress = TuningProgress("effort", "hnswlib", best, (best, best), 65.0, 30.0, "passed: after 64 queries")
    assert tune_headline(progress) == (
        "tune, effort of hnswlib; passed: after 64 queries; best so far hnswlib(M=16)[ef=40]: recall@10 "
        "0.9600, p95 0.250 ms; 2 settings on the front; 65 s; at most 30 s left"
    )
    lines = TuneLines()
    lines.show(progress)
    assert capsys.readouterr().err == ""  # what is quick is silent
    lines.begun -= 60
    lines.said -= 60
    lines.show(progress)
    lines.show(progress)
    assert capsys.readouterr().err.count("best so far") == 1
