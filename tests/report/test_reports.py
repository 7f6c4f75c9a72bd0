"""Reports show the numbers, and show hostile text instead of obeying it."""

import dataclasses
import re

import numpy as np
import pytest

from recallatk import to_markdown, to_text
from recallatk.core import Build, Mean, Measurement, Metric, Run, Score, Trial
from recallatk.report.markdown import escaped
from recallatk.report.summary import summarise
from recallatk.report.text import printable

HOSTILE = (
    "evil\x1b[31m\x1b]0;title\x07\r\n\u202e\u200b|<script>alert(1)</script>[x](javascript:y)`#*_&lt;\x00\x9b"
)


def make_run(name="data", engine="faiss-hnsw", exercised="graph", measured=True, version="faiss 1.2.3"):
    calls = np.arange(1, 201).reshape(2, 100) * 10_000
    unmeasured = Mean(None, None, 0)
    measures = {
        "recall@1": Mean(0.8125, 0.75, 100),
        "recall@10": Mean(0.987654, 0.987654, 100) if measured else unmeasured,
    }
    anomalies = {"short": 3, "duplicate": 0, "padding": 1200, "unknown": None}
    measurement = Measurement(
        trial=Trial(engine, (("M", 16),), (("ef", 40),)),
        build=Build(
            engine=engine,
            version=version,
            parameters=(("M", 16),),
            threads=2,
            seconds=12.345 if measured else None,
            memory_bytes=56_700_000 if measured else None,
            size_bytes=None,
        ),
        k=10,
        answers=np.zeros((100, 10), np.int64),
        latencies_ns=calls,
        exercised=exercised,
        score=Score(100, 100, measures, anomalies),
    )
    return Run(
        dataset=name,
        metric=Metric.COSINE,
        fingerprints={},
        environment={"processor": "A Processor", "cores": 2},
        timed="one call",
        measurements=(measurement,),
    )


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_a_report_holds_the_numbers(render):
    text = render(make_run())
    # p50, p95 and p99 of 200 calls of 0.01 to 2 ms are the 100th, 190th and 198th.
    for number in ("0.8125", "0.9877", "1.000", "1.900", "1.980", "995", "12.35", "56.7", "0.7500"):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text), number
    for words in (
        "faiss 1.2.3",
        "A Processor",
        "2 cores",
        "one call",
        "short 3",
        "padding 1,200",
        "graph",
        "cosine",
    ):
        assert words in text
    assert "duplicate" not in text
    assert "unknown" not in text


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_what_was_not_measured_is_a_dash(render):
    cells = re.split(
        r"\s*\|\s*|\s{2,}",
        next(line for line in render(make_run(measured=False)).splitlines() if "ef=40" in line),
    )
    assert cells.count("-") == 3


@pytest.mark.parametrize("render", [to_text, to_markdown])
def test_an_engine_without_a_version_is_named(render):
    assert "Engine: faiss-hnsw." in render(make_run(version=None))
    assert "None" not in render(make_run(version=None))


def test_a_percentile_of_too_few_calls_is_a_dash():
    run = make_run()
    few = dataclasses.replace(run.measurements[0], latencies_ns=np.full((1, 50), 10**6))
    line = summarise(dataclasses.replace(run, measurements=(few,)))[0]
    assert line.latency_ms == {"p50": 1.0, "p95": 1.0, "p99": None}
    assert line.qps == pytest.approx(1000)


def test_a_terminal_obeys_nothing_of_hostile_text():
    run = make_run(HOSTILE, HOSTILE, HOSTILE, version=HOSTILE)
    text = to_text(run)
    assert all(each.isprintable() for line in text.split("\n") for each in line)
    assert len(text.split("\n")) == len(to_text(make_run()).split("\n"))
    assert "\\x1b[31m" in text


def test_markdown_shows_hostile_text_as_it_is():
    text = to_markdown(make_run(HOSTILE, HOSTILE, HOSTILE, version=HOSTILE))
    assert len(text.split("\n")) == len(to_markdown(make_run()).split("\n"))
    assert all(each.isprintable() for line in text.split("\n") for each in line)
    for special in "`<>[]#*_&|":
        for line in text.split("\n"):
            if "evil" in line:
                inside = line[line.index("evil") :]
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


def test_a_table_has_as_many_cells_in_every_row():
    rows = [line for line in to_markdown(make_run()).splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert len(rows) == 3
