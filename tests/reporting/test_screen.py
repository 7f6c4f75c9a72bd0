"""One terminal screen of a run: the result, in the width that there is."""

import re
from dataclasses import replace

import pytest
from made_runs import HOSTILE, filtered_run, large_run, make_measurement, make_run, varied_run

from recallatk import to_markdown, to_text
from recallatk.core import Caution, Failure, Mean, Trial
from recallatk.core.judgments import Finding, Severity
from recallatk.reporting.charts.points import curve_of
from recallatk.reporting.engine_segments import EngineRow, EngineSegments, segment_section, settings_by_engine
from recallatk.reporting.findings import findings_in_brief
from recallatk.reporting.labels import with_margin
from recallatk.reporting.text import columns_taken

WIDTHS = (80, 120, 200)


def goal_run(target, **others):
    return make_run(
        (
            make_measurement(Trial("hnswlib", (("M", 16),), (("ef", ef),)), recall, scale)
            for ef, recall, scale in ((10, 0.7, 1.0), (40, 0.9, 2.0), (160, 0.94, 6.0))
        ),
        settings={"tune": {"target": target}},
        **others,
    )


def finding(rule, severity=Severity.WARNING, message="something", waived=None):
    return Finding(rule, severity, f"Title of {rule}", message, None, None, "why", "remedy", waived)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "run", [varied_run(), large_run(400), goal_run("recall@10 >= 0.8")], ids=["varied", "large", "goal"]
)
def test_a_screen_fits_the_terminal(run, width):
    findings = [finding(f"R{each:02}", message="long words " * 40) for each in range(12)]
    text = to_text(run, width=width, findings=findings, files=["Files: runs/x"])
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 64
    assert lines[-1] == "Files: runs/x"
    assert not re.search(r"Timed:|Machine:|Where the time went", text)


def test_wider_terminals_show_more_columns():
    found = [to_text(varied_run(), width=width) for width in WIDTHS]
    assert "p50 ms" not in found[0].split("--verbose")[0] and "p50 ms" in found[1]
    # No column is lost in silence.
    assert "--verbose shows p50 ms, p99 ms." in found[0]
    assert "p50" not in "".join(re.findall(r"--verbose shows.*", found[2]))


def test_what_all_rows_share_stands_once_above_them():
    text = to_text(large_run(5), width=100)
    assert text.count("12.35") == 1 and "build 12.35 s, memory 56.7 MB, size 34.5 MB" in text
    assert "memory MB" not in text


def test_recall_has_its_margin_beside_it():
    text = to_text(goal_run([]), width=100)
    assert "0.900 ±0.050" in text
    assert "95 % intervals" not in text and "0.8500 to" not in text


@pytest.mark.parametrize(
    ("mean", "shown"),
    [
        (Mean(0.9645, None, 1000, 0.9593, 0.9690), "0.965 ±0.005"),
        (Mean(0.5, None, 10, 0.2, 0.75), "0.500 ±0.300"),
        (Mean(1.0, None, 1000, 0.9963, 1.0), "1.000 ±0.004"),
        # 1 is shown for nothing but 1, and a margin is never 0.
        (Mean(0.99987, None, 10**6, 0.99977, 0.9999), "0.9999 ±0.0001"),
        (Mean(0.9, None, 10**8, 0.89996, 0.90004), "0.90000 ±0.00004"),
        (Mean(0.9, None, 1), "0.900"),
        (Mean(None, None, 0), "-"),
        (None, "-"),
    ],
)
def test_a_value_has_no_more_digits_than_its_margin_means(mean, shown):
    assert with_margin(mean) == shown


def test_the_verdict_comes_first():
    first = {
        text: to_text(goal_run(text), width=200).splitlines()[0]
        for text in ("recall@10 >= 0.8", "recall@10 >= 0.9999", "recall@10 >= 0.93")
    }
    assert first["recall@10 >= 0.8"].startswith(
        "Met: the cheapest setting that meets recall@10 >= 0.8 is ef=40: recall@10 0.900 ±0.050, p95"
    )
    assert first["recall@10 >= 0.9999"].startswith(
        "Missed: no setting meets recall@10 >= 0.9999; the highest"
    )
    assert first["recall@10 >= 0.93"].startswith("Undecided: ")
    assert to_text(goal_run([]), width=200).startswith("No target")


def test_a_line_says_that_bounds_of_goals_are_not_the_interval():
    said = "Goals are decided by bounds that hold for any distribution, so these differ from ±."
    for text in (to_text, to_markdown):
        for target in ("recall@10 >= 0.8", "p95 <= 5ms", []):
            assert (said in " ".join(text(goal_run(target)).split())) is ("recall" in target)


def test_the_heading_names_data_queries_filters_and_target():
    run = goal_run("recall@10 >= 0.8", dataset="mine", fingerprints={"metadata": "x"})
    for text in (to_text(run, width=200), to_markdown(run).replace("\\", "")):
        assert "hnswlib(M=16) on mine: 100 filtered queries, cosine, target recall@10 >= 0.8" in text
    assert "filtered" not in to_text(goal_run([]))


def test_findings_are_one_line_per_rule_with_a_count():
    found = [finding("R29", Severity.NOTE)] * 20 + [finding("R01"), finding("R02", Severity.ERROR)]
    assert findings_in_brief(found) == [
        "error R02: Title of R02: something",
        "warning R01: Title of R01: something",
        "note R29 ×20: Title of R29: something",
    ]
    assert findings_in_brief([finding("R01", waived="known")]) == []


def test_more_rules_than_five_lines_are_counted():
    found = [finding(f"R{each:02}") for each in range(9)] + [finding("R08")]
    lines = findings_in_brief(found, 30)
    assert len(lines) == 5
    assert lines[-1] == "5 more rules: 6 warnings"
    assert all(len(line) <= 30 for line in lines)


def test_cautions_are_said_where_nobody_linted():
    cautions = tuple(Caution(f"kind {each}", "the machine was busy") for each in range(9))
    run = varied_run(cautions=cautions)
    said = [line for line in to_text(run, width=80).splitlines() if line.startswith("caution: ")]
    assert len(said) == 4
    assert "6 more cautions" in to_text(run, width=80)
    linted = to_text(run, width=80, findings=[finding("R32")])
    # Odd answers are said in any case: no rule counts them.
    assert linted.count("caution: ") == 1 and "caution: Answer anomalies at" in linted


def test_failures_say_why_at_the_end_each_reason_once():
    trials = [Trial("hnswlib", (), (("ef", each),)) for each in range(7)]
    failures = tuple(Failure(each, "crash", "build", "out of memory") for each in trials)
    run = varied_run(failures=failures)
    text = to_text(run, width=200, logs="runs/x/logs", files=["Files: runs/x"])
    (line,) = [line for line in text.splitlines() if line.startswith("failed: ")]
    assert "and 6 more: crash in build: out of memory" in line
    assert "Logs of failed trials: runs/x/logs\nFailed trials are not measured again, unless you add" in text
    assert text.endswith("\n\nFiles: runs/x")


def test_every_engine_has_a_row_among_many_settings():
    many = [make_measurement(Trial("a", (), (("ef", each),)), each / 100, each) for each in range(1, 60)]
    slow = make_measurement(Trial("b", (), (("ef", 1),)), 0.3, 100.0)
    text = to_text(make_run([*many, slow]), width=100)
    assert re.search(r"^   b +ef=1 ", text, re.MULTILINE)
    assert "--verbose shows 48 more settings." in text
    assert len(to_text(make_run([*many, slow]), verbose=True).splitlines()) > 70


def test_a_console_without_unicode_gets_ascii():
    text = to_text(varied_run(), width=80, ascii_only=True)
    assert text.isascii() and "+-" in text
    # Nothing moves: a table stays a table. Only the legend of the sign gets longer.
    pairs = zip(text.splitlines(), to_text(varied_run(), width=80).splitlines(), strict=True)
    assert all(len(plain) == len(line) for plain, line in pairs if "±:" not in line)


def test_hostile_names_do_not_break_the_screen():
    run = varied_run((f"one{HOSTILE}", f"two{HOSTILE}"), dataset=HOSTILE)
    text = to_text(run, width=80)
    assert all(each.isprintable() for line in text.split("\n") for each in line)


@pytest.mark.parametrize("width", WIDTHS)
def test_filtered_runs_print_recall_by_selectivity_for_every_engine(width):
    run, truth = filtered_run()
    text = to_text(run, width=width, truth=truth)
    assert "30 filtered queries" in text
    assert max(map(len, text.splitlines())) <= width
    lines = text[text.index("Recall by filter selectivity") :].splitlines()
    first, second, *changes = [line for line in lines if re.match(r"(engine|other) ", line)]
    assert any("falls off at 1 to 10 % of the rows" in each for each in changes)
    # The second engine has no answers under the narrowest filters.
    assert second.split()[-1] != first.split()[-1] and "0.000" in second
    assert next(line for line in lines if line.startswith("queries")).split()[1:] == ["30", "10", "10", "10"]


@pytest.mark.parametrize(
    ("target", "named", "instead"),
    [([], 160, 40), ("recall@10 >= 0.8", 40, 160)],
    ids=["no target", "target"],
)
def test_the_named_setting_is_one_of_the_plan(target, named, instead):
    run = goal_run(target)
    assert f" ef={named}:" in to_text(run, width=200)
    planned = tuple(each.trial for each in run.measurements if dict(each.trial.search)["ef"] != named)
    grown = replace(run, planned=planned)
    text = to_text(grown, width=200)
    assert f" ef={instead}:" in text and f" ef={named}:" not in text
    (point,) = settings_by_engine(curve_of(grown), None)
    assert point["label"].endswith(f"ef={instead}")
    begun = to_text(replace(run, planned=(Trial("hnswlib", (("M", 16),), (("ef", 320),)),)), width=200)
    assert "No setting of the plan has both recall and latency." in begun


def segmented(engines, groups):
    def mean(value):
        return Mean(value, None, 50, value - 0.01, value + 0.01)

    rows = [
        EngineRow(name, f"{name} ef=10", place, mean(0.9), dict.fromkeys(groups, mean(0.8)))
        for place, name in enumerate(engines)
    ]
    return EngineSegments("kind", "recall@10", groups, rows)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_segments_of_many_engines_fit_the_terminal_and_say_what_is_missing(width):
    found = segmented(
        ["faiss-hnsw", "hnswlib", "usearch", "qdrant", "pgvector"], {"a long name" * 9: 50, "b": 9}
    )
    table, said = segment_section(found, 1, width).blocks
    assert columns_taken(table.header, table.rows) <= width
    shown = len(table.header) - 2
    assert shown >= 1
    assert said.lines[-1].startswith("--verbose shows 1 more segment")
    assert ("more engine" in said.lines[-1]) == (shown < 5)


def test_a_console_without_unicode_keeps_blanks_in_sentences():
    text = to_text(varied_run(), width=80, ascii_only=True)
    assert ". +-: 95 % interval over queries." in " ".join(text.split())
    # In tables the blank goes, so that the columns stay aligned.
    assert re.search(r"\d\+-\d", text) and not re.search(r"\d \+-\d", text)


def test_the_legend_of_the_curve_fits_a_narrow_terminal():
    names = ("faiss-ivf-flat", "hnswlib", "usearch", "faiss-hnsw", "pgvector-hnsw")
    run = make_run(
        make_measurement(Trial(name, (("M", 16),), (("ef", 10),)), 0.5 + place / 10, 1.0 + place)
        for place, name in enumerate(names)
    )
    text = to_text(run, width=60)
    assert max(map(len, text.splitlines())) <= 60
    drawn = text[text.index("└") :]
    assert all(name in drawn for name in names)


def test_segments_with_few_queries_are_marked_and_the_mark_is_explained():
    found = segmented(["exact"], {"large": 10, "small": 9})
    table, said = segment_section(found, 5).blocks
    assert [row[0] for row in table.rows] == ["large", "small *", "all queries"]
    assert said.lines == ["* fewer than 10 queries, not ranked."]


def test_identical_settings_do_not_take_the_rows_of_others():
    same = [make_measurement(Trial("a", (), (("probes", each),)), 0.5, 50 + each) for each in range(12)]
    others = [make_measurement(Trial("b", (), (("ef", each),)), 0.6 + each / 100, 10) for each in range(8)]
    text = to_text(make_run([*same, *others]), width=100)
    assert len(re.findall(r"^.  b +ef=", text, re.MULTILINE)) == 8
    assert re.search(r"^.  a +probes=0 ", text, re.MULTILINE), "the cheapest of the same recall"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_price_leaves_the_table_before_it_leaves_the_terminal(width):
    run = varied_run(settings={"cost": {"per_hour": 1.5, "currency": "USD"}})
    text = to_text(run, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "USD/1M queries" in " ".join(text.split())
