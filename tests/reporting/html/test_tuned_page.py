"""The page of a tuning: what it says, in which order, and that no text in it is obeyed."""

import base64
import gzip
import json
import re
import time
from dataclasses import replace
from html import unescape

import pytest
from made_tuned import made_candidate, made_tuned, missed_tuned

from chromium import ATTACK, LONG, MIRRORED
from recallatk.core import Caution, Mean
from recallatk.core.judgments import Finding, Severity
from recallatk.core.tuned import Attempt, Candidate, Tuned
from recallatk.reporting import tuned_to_html
from recallatk.reporting.charts.theme import specification
from recallatk.reporting.charts.tuned_curve import tuned_chart, tuned_curve
from recallatk.reporting.tuned_file import tuned_text

FINDINGS = [
    Finding("R01", Severity.ERROR, "Too few queries", "there is 1 query", 1.0, 100.0, "Means.", "Ask more."),
    Finding(
        "R25", Severity.WARNING, "Built once", "hnswlib is built once", 1.0, 2.0, "Luck.", "", "so be it"
    ),
]
SECTIONS = ["verdict", "paste", "curve", "price", "worst", "tried", "took", "care", "files"]


def plain(page):
    """The words of a page without its scripts."""
    return " ".join(
        unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", page))).split()
    )


def data(page):
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', page)[1])


def drawn(tuned):
    """The chart, and the rows of a part of it."""
    made = tuned_chart(tuned_curve(tuned))
    assert made.to_dict(validate=True), "it keeps to the schema, which pages do not check again"
    spec = specification(made)
    return spec, lambda part: spec["datasets"][part["data"]["name"]]


@pytest.fixture(scope="session")
def hostile_tuned():
    """An outcome in which every text that a user can choose attacks the page."""
    texts = [ATTACK, LONG, MIRRORED]
    name = f"recall@10 in {ATTACK}={LONG}"
    settings = [
        Candidate(
            f"engine {text}",
            (("path", text), (text[:40], 1)),
            (("ef", 10 * place),),
            measures={name: Mean(0.9 + place / 100, None, 50, 0.85, 0.95)},
            latency_ms={"p95": 0.1 * place, "p50": None},
            version=text,
        )
        for place, text in enumerate(texts, start=1)
    ]
    attempt = Attempt(ATTACK, ((ATTACK, MIRRORED),), None, 5, ATTACK, ATTACK)
    return Tuned(
        targets=(f"recall@10 >= 0.9 in {ATTACK}={LONG}",),
        budgets=("p95 <= 5ms",),
        prefer="p95",
        met=True,
        choice=settings[0],
        validated={name: Mean(0.9, None, 9)},
        looks=1,
        runner_up=settings[1],
        front=tuple(settings),
        knee=settings[2],
        worst_segment=(ATTACK, Mean(0.5, None, 3)),
        attempts=(Attempt(ATTACK, ((ATTACK, LONG),), None, 5, ATTACK, LONG), *[attempt] * 399),
        cautions=(Caution(ATTACK, ATTACK),),
        snippet=f"{ATTACK}\n{LONG}\n</code></pre>",
    )


@pytest.fixture(scope="session")
def tuned_page(pages):
    return pages("tuned", lambda: tuned_to_html(made_tuned(), findings=FINDINGS))


@pytest.fixture(scope="session")
def hostile_tuned_page(hostile_tuned, pages):
    finding = replace(FINDINGS[0], title=ATTACK, message=LONG, why=MIRRORED)
    return pages("hostile-tuned", lambda: tuned_to_html(hostile_tuned, findings=[finding]))


def test_the_parts_stand_in_the_order_in_which_a_reader_asks(tuned_page):
    page = tuned_page.read_text()
    assert re.findall(r'<section id="([a-z]+)"', page) == SECTIONS
    linked = re.findall(r'href="#([a-z]+)"', page)
    assert set(linked) <= set(SECTIONS)


def test_everything_is_said_on_the_page(tuned_page):
    words = plain(tuned_page.read_text())
    for said in (
        "Met Run hnswlib (build M=16, ef_construction=200; search ef=52). Held out: recall@10 0.958 ±0.007",
        "0.958 ±0.007 95 % interval, 1,000 held-out queries",
        "index.set_ef(52)",
        "1.50× p95, 0.50× memory",
        "0.95 0.98 2.10×",
        "front, choice, knee 0.961 ±0.010",
        "category=noun.animal: 0.910 ±0.030 (44 queries)",
        "memory 3GiB is over budget",
        "the full grid would take about 609 s (14.5×)",
        "hnswlib: a setting failed though one below had passed",
        "R01 error Too few queries there is 1 query Means. Ask more.",
        "Waived: so be it",
        "p95 <= 5ms is outside the chart",
    ):
        assert said in words, said


def test_where_nothing_meets_the_target_the_nearest_and_what_binds_come_first():
    page = tuned_to_html(missed_tuned())
    words = plain(page)
    assert "Missed No setting was shown to meet recall@10 >= 0.95 within p95 <= 5ms" in words
    assert words.index("the build is the limit") < words.index("Nearest miss: hnswlib")
    assert "Ring: the nearest miss" in words and 'id="paste"' not in page
    assert "Linter findings" not in words


def test_that_the_linter_found_nothing_is_said():
    assert "Linter findings None." in plain(tuned_to_html(made_tuned(), findings=[]))


def test_an_outcome_without_any_setting_is_a_page_too():
    page = tuned_to_html(Tuned(("recall@10 >= 0.9",), (), "p95", False, None, {}, 0))
    assert data(page)["charts"] == {} and "so there is no chart" in plain(page)


def test_the_data_behind_the_button_are_the_file(tuned_page):
    packed = data(tuned_page.read_text())["files"]["tuned.json"]
    assert gzip.decompress(base64.b64decode(packed)).decode() == tuned_text(made_tuned(), FINDINGS)


def test_every_setting_of_the_outcome_is_drawn_once_and_stands_in_the_table():
    tuned = made_tuned()
    spec, rows_of = drawn(tuned)
    rows = rows_of(spec)
    assert [(row["engine"], row["search"]) for row in rows] == [
        ("hnswlib", "ef=20"), ("hnswlib", "ef=52"), ("hnswlib", "ef=200"), ("voyager", "ef=40")
    ]  # fmt: skip
    assert [row["mark"] for row in rows] == ["", "choice, knee", "", "runner-up"]
    assert [row["costFront"] for row in rows] == [True, True, True, False]
    assert rows[1]["build"] == "M=16, ef_construction=200" and rows[1]["recallLow"] == 0.961 - 0.01
    assert spec["params"][0] == {"name": "chosen", "value": 1}
    words = plain(tuned_to_html(tuned))
    assert all(
        each in words for each in ("hnswlib ef=20 front", "hnswlib ef=200 front", "voyager ef=40 runner-up")
    )


def rules(tuned):
    """Where dashed lines are, across and up."""
    spec, rows_of = drawn(tuned)
    found = [layer for layer in spec["layer"] if "strokeDash" in layer["mark"]]
    return [(next(iter(layer["encoding"])), rows_of(layer)[0]["at"]) for layer in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [("x", 0.95)]),
        ({"budgets": ("p95 <= 1ms",)}, [("x", 0.95), ("y", 1.0)]),
        ({"targets": ("p5(recall@10) >= 0.6",)}, [("x", 0.95)]),
        ({"targets": ("recall@10 >= 0.9 in kind='a>=1'",)}, [("x", 0.9)]),
        ({"prefer": "memory", "budgets": ("memory <= 50MiB",)}, [("x", 0.95), ("y", 50.0)]),
        ({"prefer": "build", "budgets": ("build <= 4s",)}, [("x", 0.95), ("y", 4.0)]),
        ({"prefer": "qps", "budgets": ("qps >= 1000",)}, [("x", 0.95), ("y", 1000.0)]),
    ],
)
def test_target_and_budget_are_lines_where_they_belong(changes, expected):
    assert rules(made_tuned(**changes)) == expected


def test_a_loss_has_its_better_side_on_the_left():
    name = "ndcg@10 loss"
    settings = [
        replace(
            made_candidate(ef, 0.9, p95), measures={name: Mean(loss, None, 100, loss - 0.002, loss + 0.002)}
        )
        for ef, p95, loss in ((10, 0.1, 0.006), (40, 0.3, -0.001))
    ]
    tuned = made_tuned(
        targets=("ndcg@10 loss <= 0.005",),
        choice=settings[1],
        front=tuple(settings),
        runner_up=None,
        knee=None,
    )
    across = next(each["encoding"]["x"] for each in drawn(tuned)[0]["layer"] if each.get("name") == "points")
    assert across["title"] == "ndcg@10 loss (less is better)"
    assert across["scale"]["domain"][0] < -0.003 and across["scale"]["domain"][1] < 0.01
    assert rules(tuned) == [("x", 0.005)]
    assert "Down and to the left is better" in plain(tuned_to_html(tuned))


def test_hostile_texts_leave_no_markup(hostile_tuned_page):
    page = hostile_tuned_page.read_text()
    assert len(page.encode()) < 3_000_000
    markup = re.sub(r"(?s)<(script|style)[ >].*?</\1>", "", page)
    assert "<img" not in markup and "<script" not in markup and "\u202e" not in page
    assert "tuned.json has 100 more." in plain(page)
    assert markup.count("</pre>") == 1


def test_a_browser_draws_it_and_asks_nobody(browser, tuned_page):
    for width, dark in ((1200, False), (1200, True), (390, False)):
        browser.open(tuned_page, width=width, dark=dark)
        assert browser.complaints() == [] and set(browser.requests()) == {tuned_page.as_uri()}
        assert browser.run("document.querySelectorAll('.points_marks path').length") == 4
        assert browser.run("document.querySelectorAll('.ring_marks path').length") == 1
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelectorAll('.finding').length") == 2
        assert browser.run("document.querySelector('.finding.error').checkVisibility()")
    browser.hover(browser.point("recall-cost", 1))
    browser.wait("!document.getElementById('tip').hidden")
    said = browser.run("document.getElementById('tip').innerText")
    assert all(each in said for each in ("M=16, ef_construction=200", "ef=52", "choice, knee", "0.200 ms"))
    browser.run("document.querySelector('[data-file=\"tuned.json\"]').click()")
    saved, until = browser.folder / "saved" / "tuned.json", time.monotonic() + 20
    while not saved.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert saved.read_text() == tuned_text(made_tuned(), FINDINGS)


def test_a_browser_obeys_no_text_of_it(browser, hostile_tuned_page):
    browser.open(hostile_tuned_page, width=390)
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 3
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []
