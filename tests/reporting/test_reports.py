"""Reports show the numbers, and show hostile text instead of obeying it."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from made_runs import HOSTILE, large_run, make_calls, make_measurement, make_run, varied_run

from recallatk import to_markdown
from recallatk import to_text as to_screen
from recallatk.analysis.headline import headline_measure
from recallatk.cli.live import described
from recallatk.core import Caution, Failure, Load, Mean, Trial
from recallatk.errors import UsageError
from recallatk.reporting.charts.points import curve_of
from recallatk.reporting.labels import cut, fitted
from recallatk.reporting.markdown import escaped
from recallatk.reporting.text import printable
from recallatk.reporting.trial_lines import trial_lines


def to_text(run, **options):
    """Everything that a terminal can show."""
    return to_screen(run, **{"verbose": True, **options})


def one_run(name="data", engine="faiss-hnsw", evidence="graph", measured=True, version="faiss 1.2.3"):
    trial = Trial(engine, (("M", 16),), (("ef", 40),))
    anomalies = {"short": 3, "duplicate": 0, "padding": 1200, "unknown": None}
    made = make_measurement(trial, version=version, evidence=evidence, anomalies=anomalies)
    measures = {
        "recall@1": Mean(0.8125, 0.75, 100),
        "recall@10": Mean(0.987654, 0.987654, 100) if measured else Mean(None, None, 0),
    }
    build = made.build
    if not measured:
        build = dataclasses.replace(build, seconds=None, memory_bytes=None, size_bytes=None)
    score = dataclasses.replace(made.score, measures=measures)
    return make_run([dataclasses.replace(made, score=score, build=build)], dataset=name)


def table_lines(text, title="Latency"):
    """The lines of one table, its header first."""
    lines = text.split("\n")
    start = next(place for place, line in enumerate(lines) if line.startswith(title)) + 1
    stop = next((place for place in range(start, len(lines)) if not lines[place]), len(lines))
    return lines[start:stop]


def cells(line):
    return re.split(r"\s*\|\s*|\s{2,}", line)


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_a_report_holds_the_numbers(render):
    text = render(one_run())
    # p50, p95 and p99 of 200 calls of 0.01 to 2 ms are the 100th, 190th and 198th; the rounds take 50.5 and
    # 150.5 ms.
    numbers = ("0.812", "0.988", "1.000", "1.900", "1.980", "1,322", "664", "1,980")
    for number in (*numbers, "12.35", "56.7", "34.5", "0.7500"):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text), number
    words = (
        "faiss 1.2.3",
        "A Processor",
        "2 cores",
        "Timed: one library call for the top 10, 1 search thread; build on 2 threads.",
        "short 3",
        "padding 1,200",
        "graph",
        "cosine",
    )
    for word in words:
        assert word in text
    assert "duplicate" not in text
    assert "unknown" not in text


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_what_was_not_measured_is_a_dash(render):
    line = next(line for line in render(one_run(measured=False)).splitlines() if "ef=40" in line)
    assert cells(line).count("-") == 4


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_an_engine_without_a_version_is_named(render):
    assert "Engine: faiss-hnsw." in render(one_run(version=None))
    assert "None" not in render(one_run(version=None))


def test_a_percentile_of_too_few_calls_is_a_dash():
    run = one_run()
    few = dataclasses.replace(run.measurements[0], calls=make_calls(np.full((1, 50), 10**6)))
    run = dataclasses.replace(run, measurements=(few,))
    line = trial_lines(run)[0]
    assert (line.latency_ms["p50"].value, line.latency_ms["p99"].value) == (1.0, None)
    assert line.qps.median == pytest.approx(1000)
    assert "Queries never sent" in to_text(run)
    assert "50 of 100" in to_text(run)


@pytest.mark.parametrize("render", [to_text, to_markdown])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("by", ["mode", "load"])
def test_a_report_obeys_nothing_of_hostile_text(render, wide, by):
    def hostile(text, other):
        run = varied_run((f"one{text}", f"two{text}"), dataset=text, begun=None)
        measured = [
            dataclasses.replace(
                each,
                exercised=text,
                trial=dataclasses.replace(each.trial, search=((text, other),)),
                build=dataclasses.replace(each.build, version=text, call=text),
            )
            for each in run.measurements[:3]
        ]
        failed = dataclasses.replace(measured[0].trial, engine=f"two{text}")
        return dataclasses.replace(
            run,
            measurements=tuple(measured),
            failures=(Failure(failed, text, text, text, text),),
            cautions=(Caution(text, text, 1.0, 2.0),),
            seconds={text: 1.0},
            environment={"processor": text, "cores": text},
            planned=None,
        )

    text = render(hostile(HOSTILE, HOSTILE), wide=wide, by=by)
    assert all(each.isprintable() for line in text.split("\n") for each in line)
    assert len(text.split("\n")) == len(render(hostile("plain", "text"), wide=wide, by=by).split("\n"))
    assert "\\x1b" in text
    if render is to_markdown:
        for inside in re.findall(r"evil.*?(?: \| |$)", text, re.MULTILINE):
            inside = inside.removesuffix(" | ").removesuffix(" |")
            for special in "`<>[]#*_&|":
                assert not re.search(rf"(?<!\\){re.escape(special)}", inside), (special, inside)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字", "plain é 漢字"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text, shown):
    assert printable(text) == shown


def test_markdown_escapes_its_own_signs():
    assert escaped("a|b *c* <d> &amp; \\ [e](f)") == r"a\|b \*c\* \<d\> \&amp; \\ \[e\](f)"


@pytest.mark.parametrize("run", [one_run(), varied_run(), large_run()], ids=["one", "varied", "large"])
def test_a_table_has_as_many_cells_in_every_row(run):
    grouped = itertools.groupby(to_markdown(run).splitlines(), lambda line: line.startswith("|"))
    tables = [list(lines) for is_table, lines in grouped if is_table]
    settings = [table for table in tables if "p50 ms" in table[0]]
    assert sum(len(table) - 2 for table in settings) == len(run.measurements)
    for table in tables:
        assert len({row.replace("\\|", "").count("|") for row in table}) == 1


def test_latency_comes_first_and_the_front_before_the_rest():
    text = to_text(varied_run())
    places = [text.index(f"\n{title}: ") for title in ("Latency", "Throughput", "Rate")]
    assert places == sorted(places)
    header, *lines = table_lines(text)
    column = cells(header).index("recall@10")
    marked = [line for line in lines if line.startswith("*")]
    assert lines[: len(marked)] == marked
    assert [float(cells(line)[column][:5]) for line in marked] == [0.70, 0.94, 0.95]
    others = [float(cells(line.strip())[column - 1][:5]) for line in lines[len(marked) :]]
    assert others == [0.92, 0.93, 0.931]


def test_what_all_trials_of_an_engine_share_stands_in_the_title_only():
    text = to_text(varied_run())
    title, *lines = text.split("\n\n")[1].split("\n")
    assert title == "2 engines on data: 100 to 120 queries, cosine"
    assert lines[:2] == ["faiss-hnsw(ef_construction=200)", "hnswlib(M=16, ef_construction=200)"]
    assert text.count("ef_construction") == 2
    assert "M=32" in text
    assert "\n\nengine on data: 100 queries, cosine\n" in to_text(large_run(2))
    assert "\n\nfaiss-hnsw(M=16) on data: 100 queries, cosine\n" in to_text(one_run())


def test_one_load_does_not_compete_with_another():
    marks = {str(line.trial): line.front for line in trial_lines(varied_run())}
    assert marks["faiss-hnsw(M=16, ef_construction=200)[ef=40] throughput(batch=32)"]
    assert marks["hnswlib(M=16, ef_construction=200)[ef=40] throughput(clients=4, via=processes)"]
    assert not marks["faiss-hnsw(M=16, ef_construction=200)[ef=40] throughput(clients=4, via=processes)"]


def test_each_mode_has_its_own_columns():
    text = to_text(varied_run())
    throughput, rate = (cells(table_lines(text, title)[0]) for title in ("Throughput", "Rate"))
    assert {"clients", "batch", "via"} <= set(throughput)
    assert {"rate/s", "late", "highest rate/s", "p99 limit ms"} <= set(rate)
    assert not {"clients", "late"} & set(cells(table_lines(text)[0]))
    assert "100.0%" in text
    assert "812" in text


def test_a_table_per_load_has_the_load_as_its_title():
    text = to_text(varied_run(), by="load")
    for load in ("latency", "throughput(clients=4, via=processes)", "rate(rate=500.0, seconds=2.0)"):
        assert f"\n{load}\n" in text
    with pytest.raises(UsageError, match="mode or load"):
        to_text(varied_run(), by="engine")


def test_wide_tables_have_the_intervals():
    header, *lines = table_lines(to_text(varied_run(), wide=True))
    assert header.count("95 %") == 2 + 5
    assert "p99.9 ms" in header
    assert "0.6500 to 0.7500" in lines[0]
    assert "95 %" not in table_lines(to_text(varied_run()))[0]


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_what_failed_is_said_with_its_reason_and_its_log(render):
    text = render(varied_run(), logs="runs/one/logs")
    line = next(line for line in text.splitlines() if "SIGSEGV" in line)
    for word in ("hnswlib", "ef=160", "crash", "build"):
        assert word in line
    assert "runs/one/logs" in text


def test_a_message_of_many_lines_is_one_line():
    run = varied_run(failures=(Failure(Trial("hnswlib", (), ()), "exception", "search", "no\n\nway " * 500),))
    (line,) = [line for line in to_text(run).split("\n") if line.startswith("failed")]
    assert len(line) < 500


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_a_caution_has_its_number_and_its_limit(render):
    line = next(line for line in render(varied_run()).splitlines() if "noise" in line)
    assert "0.234" in line
    assert "0.1" in line


def test_what_is_odd_about_a_trial_is_counted():
    text = to_text(varied_run())
    for said in (
        "1 of 200 calls",
        "20 of 120",
        "latency still changed after 500 calls",
        "building 30.0 s (30%), searching 60.0 s (60%), other 10.0 s (10%)",
        "faiss-hnsw (library 1.2.3), hnswlib (hnswlib 0.8)",
        "Index use, hnswlib: levels.",
    ):
        assert said in text, said


def test_a_run_that_is_not_complete_says_how_far_it_came():
    assert "11 of 13 trials measured, 1 failed. Resume with: recallatk run again" in to_text(
        varied_run(), go_on="recallatk run again"
    )
    whole = varied_run(planned=None)
    assert "Resume" not in to_text(whole)


def test_a_run_in_which_nothing_was_measured_is_still_told():
    failed = dataclasses.replace(varied_run(), measurements=())
    assert "0 of 13 trials measured, 1 failed" in to_text(failed)
    assert "SIGSEGV" in to_markdown(failed)
    assert "Nothing measured yet on data" in to_text(make_run([]))


def test_a_large_run_has_a_line_for_each_trial_and_few_notes():
    text = to_text(large_run())
    assert len(table_lines(text)) == 401
    assert len(text.split("\n")) < 440
    assert len([line for line in table_lines(text) if line.startswith("*")]) == 400


def test_long_parameters_do_not_break_the_table():
    texts = [f"OPQ64,IVF65536,{'x' * 500}{end}" for end in ("PQ32", "PQ64")]
    run = make_run(make_measurement(Trial("faiss", (("factory", text),), (("nprobe", 1),))) for text in texts)
    lines = table_lines(to_text(run))
    assert max(map(len, lines)) < 200
    assert "PQ32" in lines[1]
    assert "PQ64" in lines[2]
    # Values of a whole page are cut even in the wide table.
    assert "OPQ64,IVF65536" in table_lines(to_text(run, wide=True))[1]


def test_texts_that_look_alike_when_cut_get_a_number():
    first, second = (f"{'a' * 50}{middle}{'b' * 50}" for middle in "xy")
    shown = fitted([first, second, first, "short"], 20)
    assert shown[0] == shown[2] != shown[1]
    assert shown[3] == "short"
    assert all(len(each) < 26 for each in shown)
    assert len(cut(first, 20)) == 20


def test_the_headline_is_recall_at_10_or_the_nearest_to_it():
    run = one_run()
    assert headline_measure(run) == "recall@10"
    measures = {
        "recall@5": Mean(0.5, 0.5, 1),
        "recall@100": Mean(0.7, 0.7, 1),
        "recall@5(ids)": Mean(0, 0, 1),
    }
    score = dataclasses.replace(run.measurements[0].score, measures=measures)
    other = make_run([dataclasses.replace(run.measurements[0], score=score)])
    assert headline_measure(other) == "recall@5"
    assert headline_measure(make_run([])) is None


def test_the_last_batch_may_be_smaller():
    trial = Trial("engine", (), (), Load("throughput", batch=32))
    calls = make_calls(np.full((2, 4), 10**9), batch=32, queries=100)
    made = dataclasses.replace(make_measurement(trial), calls=calls)
    (line,) = trial_lines(make_run([made]))
    assert line.asked == 100
    assert line.qps.median == pytest.approx(100 / 4)


def test_secrets_in_parameters_are_not_shown():
    trial = Trial("http", (("url", "https://me:geheim@host/x"),), (("api_key", "geheim"),))
    assert "geheim" not in to_text(make_run([make_measurement(trial)]))


@pytest.mark.parametrize("run", [varied_run(), large_run(40)])
def test_text_and_page_have_the_same_front_and_say_by_which_latency(run):
    curve, lines = curve_of(run), trial_lines(run)
    main = [point for point in curve.main if point["latencyFront"]]
    first = [place for place, line in enumerate(lines) if line.front and line.trial.load == curve.loads[0]]
    assert [point["n"] for point in main] == first
    said = next(line for line in to_text(run).splitlines() if "marks the Pareto front" in line)
    assert f"recall@10 and {curve.tail}" in said


def test_the_front_is_by_p95_and_by_p50_where_there_are_too_few_calls():
    def front(count):
        # The second has the better median and the worse tail.
        even, uneven = np.full((1, count), 20_000), np.full((1, count), 10_000)
        uneven[0, : count // 5] = 90_000
        measured = [
            dataclasses.replace(
                make_measurement(Trial("hnswlib", (), (("ef", ef),)), queries=count, rounds=1),
                calls=make_calls(latency),
            )
            for ef, latency in ((10, even), (40, uneven))
        ]
        return [line.front for line in trial_lines(make_run(measured))]

    assert front(200) == [True, False]
    assert front(5) == [False, True]


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_the_smallest_share_of_calls_that_the_index_answered_is_told_with_its_setting(render):
    shares = {10: "124 of 124 calls (100.0%)", 20: "317 of 476 calls (66.6%)", 40: "475 of 476 calls (99.8%)"}
    trials = [Trial("pgvector-hnsw", (), (("ef", ef),)) for ef in shares]
    run = make_run(
        [make_measurement(t, evidence=said) for t, said in zip(trials, shares.values(), strict=True)]
    )
    text = render(run)
    assert re.search(r"lowest at ef=20: 317 of 476 calls .{0,2}66\.6%.{0,2}; up to 100\.0% at other", text)


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_goals_stand_below_their_verdict_and_its_setting(render):
    trials = [Trial("hnswlib", (), (("ef", ef),)) for ef in (10, 40)]
    made = [make_measurement(trial, recall) for trial, recall in zip(trials, (0.5, 0.9), strict=True)]
    text = render(make_run(made, settings={"tune": {"target": ["recall@10 >= 0.99"]}}))
    said = [line.strip("- ").replace("\\", "") for line in text.splitlines()]
    place = next(
        place for place, line in enumerate(said) if line.startswith("Missed: ") and "is ef=40: " in line
    )
    assert next(line for line in said[place + 1 :] if line).startswith("recall@10 >= 0.99: missed, 0.9000")


def test_progress_tells_the_headline_that_the_report_has():
    made = make_measurement(Trial("hnswlib", (), ()))
    measures = {f"recall@{k}": Mean(k / 100, k / 100, 100) for k in (1, 5, 100)}
    found = dataclasses.replace(made, score=dataclasses.replace(made.score, measures=measures))
    headline = headline_measure(make_run([found]))
    assert described(found).startswith(f"{headline} 0.0500")
