"""The page in a real browser: it draws, follows, asks nobody for anything, and texts stay texts."""

import base64
import itertools
import re
import time

import pytest

from chromium import ATTACK, LONG

POINTS = "document.querySelectorAll('[data-chart=recall-latency] .points_marks path')"
PAGES = ("real_page", "varied_page", "large_page", "hostile_page")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_asked_for_and_nothing_is_complained_of(name, browser, request):
    page = request.getfixturevalue(name)
    browser.open(page)
    assert browser.run("document.querySelectorAll('.drawing svg').length") >= 3
    assert browser.complaints() == []
    assert set(browser.requests()) == {page.as_uri()}
    assert browser.run("performance.getEntriesByType('resource').length") == 0


def test_the_policy_refuses_what_is_not_ours(browser, varied_page):
    browser.open(varied_page)
    browser.driver.execute_script(
        "const added = document.createElement('script'); added.textContent = 'window.pwned = 1';"
        "document.body.append(added); const seen = new Image(); seen.src = 'https://example.invalid/x.png';"
        "setTimeout('window.pwned = 2', 0);"
    )
    refused = [each for each in browser.complaints() if "Content Security Policy" in each]
    assert len(refused) == 3
    assert browser.run("window.pwned") is None
    assert set(browser.requests()) == {varied_page.as_uri()}


def test_pointing_at_a_point_shows_its_parameters(browser, real_page):
    browser.open(real_page)
    assert browser.run("document.getElementById('tip').hidden")
    browser.hover(browser.point("recall-latency", 0))
    browser.wait("!document.getElementById('tip').hidden")
    said = browser.run("document.getElementById('tip').innerText")
    for words in ("faiss-hnsw", "M=4", "ef=10", "recall", "p95", "QPS", "Memory"):
        assert words.lower() in said.lower()


def test_choosing_a_point_makes_the_page_follow(browser, real_page):
    browser.open(real_page)
    seen = {}
    for place in (0, 1, 3):
        browser.click(browser.point("recall-qps", place))
        number = browser.run("document.querySelector('tr[aria-current=true]').dataset.row")
        assert browser.run("document.getElementById('setting').value") == number
        label = browser.run("document.querySelector('tr[aria-current=true] th').innerText")
        assert browser.run("document.getElementById('shown').textContent") == f"Shown: {label}"
        parts = (
            "[data-follow=measures]",
            "[data-follow=tails]",
            "[data-follow=worst]",
            "[data-say=diagnosis]",
        )
        seen[number] = [browser.run(f"document.querySelector('{each}').innerText") for each in parts]
        assert all(seen[number])
        rings = "document.querySelectorAll('[data-chart=recall-latency] .ring_marks path').length"
        assert browser.wait(rings) == 1
    assert len({tuple(each) for each in seen.values()}) == 3


def test_what_follows_is_what_was_there_at_first(browser, real_page):
    browser.open(real_page)
    first = browser.run("document.getElementById('setting').value")
    whole = "[...document.querySelectorAll('[data-follow], [data-say]')].map((each) => each.innerText)"
    before = browser.run(whole)
    for number in ("0" if first != "0" else "1", first):
        browser.driver.execute_script(
            "const select = document.getElementById('setting'); select.value = arguments[0];"
            "select.dispatchEvent(new Event('change', {bubbles: true}));",
            number,
        )
    assert browser.run(whole) == before


def test_the_keyboard_is_enough(browser, real_page):
    from selenium.webdriver.common.keys import Keys

    browser.open(real_page)
    before = browser.run("document.querySelector('[data-follow=measures]').innerText")
    browser.run("document.querySelector('tr[aria-current=false] button').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run("document.querySelector('[data-follow=measures]').innerText") != before
    assert browser.run("document.activeElement.closest('tr').getAttribute('aria-current')") == "true"


def test_everything_has_a_name_for_those_who_do_not_see_it(browser, real_page):
    browser.open(real_page)
    assert browser.run("document.querySelectorAll('h1').length") == 1
    levels = browser.run(
        "[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))"
    )
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert browser.run("[...document.querySelectorAll('select')].every((each) => each.labels.length === 1)")
    assert browser.run(
        "[...document.querySelectorAll('.drawing svg')].every((each) => each.getAttribute('aria-label') ||"
        " each.querySelector('[aria-label]'))"
    )
    assert browser.run("[...document.querySelectorAll('th')].every((each) => each.scope)")
    assert browser.run("document.documentElement.lang") == "en"
    nodes = browser.cdp("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        each
        for each in nodes
        if each.get("role", {}).get("value") in ("button", "combobox", "link", "region")
        and not each.get("name", {}).get("value")
    ]
    assert nameless == []


def luminance(color):
    parts = [int(each) / 255 for each in re.findall(r"\d+", color)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


BACKGROUND = """((element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (!color.startsWith('rgba') || !color.endsWith(' 0)')) return color;
  }
  return 'rgb(255, 255, 255)';
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_texts_and_marks_stand_out_in_light_and_in_dark(dark, browser, varied_page):
    browser.open(varied_page, dark=dark)
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (luminance(paper) < 0.05) == dark
    pairs = browser.run(
        "[...document.querySelectorAll('h1, h2, p, td, th, a, dt, dd, figcaption, summary, button, select')]"
        f".map((each) => [getComputedStyle(each).color, {BACKGROUND}(each)])"
    )
    assert min(contrast(*pair) for pair in {tuple(pair) for pair in pairs}) >= 4.5
    words = browser.run(
        "[...document.querySelectorAll('.drawing text')].map((each) => getComputedStyle(each).fill)"
    )
    assert min(contrast(each, paper) for each in set(words)) >= 4.5
    marks = browser.run(
        "[...document.querySelectorAll('.points_marks path')].map((each) => getComputedStyle(each).fill)"
    )
    assert min(contrast(each, paper) for each in set(marks)) >= 3


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_needs_no_sideways_scrolling(name, browser, request):
    browser.open(request.getfixturevalue(name), width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelector('[data-chart=recall-latency] svg').clientWidth") <= 390


# Elements that are narrower than their content and do not scroll.
CLIPPED = """[...document.querySelectorAll('body *')].filter((each) => {
  if (each.closest('svg, .hidden, .skip') || !each.clientWidth) return false;
  if (['auto', 'scroll'].includes(getComputedStyle(each).overflowX)) return false;
  return each.scrollWidth > each.clientWidth + 1;
}).map((each) => `${each.tagName} ${each.className} ${each.scrollWidth} > ${each.clientWidth}`)"""
# Scrolling elements without the shadows at their edges that show it.
SILENT = """[...document.querySelectorAll('body *')].filter((each) =>
  each.clientWidth && each.scrollWidth > each.clientWidth + 1
  && ['auto', 'scroll'].includes(getComputedStyle(each).overflowX)
  && !getComputedStyle(each).backgroundImage.includes('gradient')
).map((each) => `${each.tagName} ${each.className}`)"""
OPENED = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@pytest.mark.parametrize("width", [390, 1280, 1900])
@pytest.mark.parametrize("name", ["real_page", "varied_page", "hostile_page", "filtered_page"])
def test_nothing_is_clipped_and_what_scrolls_shows_it(name, width, browser, request):
    browser.open(request.getfixturevalue(name), width=width)
    browser.run(OPENED)
    assert browser.run(CLIPPED) == []
    assert browser.run(SILENT) == []


# Widths at 96 dots an inch without margins: A4 upright, and letter on its side, the smaller of each pair.
UPRIGHT, SIDEWAYS = 703, 965
WIDE = "section:has(thead th:nth-child(11))"


@pytest.mark.parametrize("name", ["real_page", "varied_page", "hostile_page", "filtered_page", "tables_page"])
def test_nothing_leaves_the_paper(name, browser, request):
    for width, apart in ((UPRIGHT, f".hidden, .skip, svg, {WIDE}"), (SIDEWAYS, ".hidden, .skip, svg")):
        browser.open(request.getfixturevalue(name), width=width, media="print")
        browser.run(OPENED)
        outside = browser.run(
            f"[...document.querySelectorAll('body *')].filter((each) => !each.closest('{apart}') "
            f"&& !each.querySelector('{WIDE}') && each.getBoundingClientRect().right > {width + 1})"
            ".map((each) => `${each.tagName} ${each.className}`)"
        )
        assert outside == []
    assert browser.run(CLIPPED) == []


# Words of number cells that take more than one line.
BROKEN = """[...document.querySelectorAll('td.number bdi')].flatMap((cell) => {
  const text = cell.firstChild, range = document.createRange();
  return [...text.data.matchAll(/\\S+/g)].filter((word) => {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length !== 1;
  }).map((word) => word[0]);
})"""


@pytest.mark.parametrize("name", ["filtered_page", "tables_page"])
def test_numbers_do_not_break_on_paper(name, browser, request):
    for width in (UPRIGHT, SIDEWAYS):
        browser.open(request.getfixturevalue(name), width=width, media="print")
        browser.run(OPENED)
        assert browser.run("document.querySelectorAll('td.number bdi').length") > 10
        assert browser.run(BROKEN) == []


def test_wide_tables_are_printed_sideways_and_closed_parts_open(browser, tables_page):
    browser.open(tables_page, media="print")
    printed = base64.b64decode(browser.cdp("Page.printToPDF")["data"])
    boxes = [[float(each) for each in box.split()] for box in re.findall(rb"/MediaBox \[([^]]+)\]", printed)]
    sideways = [width > height for _, _, width, height in boxes]
    assert not sideways[0] and any(sideways)
    assert browser.run("document.querySelector('details:not([open]) table').checkVisibility()")


def test_tables_fit_a_laptop_without_scrolling(browser, real_page):
    browser.open(real_page, width=1280)
    wide = (
        "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth + 1)"
    )
    assert browser.run(f"{wide}.map((each) => each.getAttribute('aria-label'))") == []


def test_a_wide_screen_is_used(browser, real_page):
    browser.open(real_page, width=1700)
    assert browser.run("document.querySelector('[data-chart=recall-latency]').clientWidth") > 1500


@pytest.mark.parametrize("width", [390, 1280])
def test_numbers_of_a_heat_map_stand_out_and_stay_in_their_cells(width, browser, filtered_page):
    browser.open(filtered_page, width=width)
    cells = browser.run(
        "[...document.querySelectorAll('[data-chart=selectivity] .mark-rect.role-mark path')].map((each) => "
        "[getComputedStyle(each).fill, each.getBoundingClientRect().width])"
    )
    numbers = browser.run(
        "[...document.querySelectorAll('[data-chart=selectivity] .values_marks text')].map((each) => "
        "[getComputedStyle(each).fill, each.getBoundingClientRect().width, getComputedStyle(each).opacity])"
    )
    assert len(cells) == len(numbers) == 6
    for (cell, room), (ink, taken, shown) in zip(cells, numbers, strict=True):
        assert contrast(cell, ink) >= 4.0
        assert float(shown) == 0 or taken <= room


def test_a_label_that_is_cut_has_its_whole_text_as_a_title(browser, filtered_page):
    browser.open(filtered_page, width=390)
    titles = browser.run(
        "[...document.querySelectorAll('[data-chart=selectivity] .role-axis-label text')].map((each) => "
        "[each.firstChild.data, each.querySelector('title')?.textContent])"
    )
    cut = [(shown, whole) for shown, whole in titles if shown.endswith("…")]
    assert cut and all(whole.startswith(shown[:-1]) for shown, whole in cut)


def test_paper_is_white_and_without_controls(browser, varied_page):
    browser.open(varied_page, dark=True, media="print")
    assert luminance(browser.run("getComputedStyle(document.body).backgroundColor")) > 0.9
    assert luminance(browser.run("getComputedStyle(document.querySelector('.drawing text')).fill")) < 0.2
    assert browser.run("getComputedStyle(document.querySelector('.chooser')).display") == "none"
    assert len(browser.cdp("Page.printToPDF")["data"]) > 10_000


def test_four_hundred_points_take_less_than_two_seconds_of_work(browser, large_page):
    browser.cdp("Performance.enable", timeDomain="threadTicks")
    browser.open(large_page)
    assert (
        browser.run("document.querySelectorAll('[data-chart=recall-latency] .points_marks path').length")
        == 400
    )
    # Of the processor, which others may keep busy.
    found = {each["name"]: each["value"] for each in browser.cdp("Performance.getMetrics")["metrics"]}
    browser.cdp("Performance.disable")
    assert found["TaskDuration"] < 2.0


def test_hostile_texts_stay_texts(browser, hostile_page):
    browser.open(hostile_page)
    for number in range(4):
        browser.driver.execute_script(
            "const select = document.getElementById('setting'); select.value = arguments[0];"
            "select.dispatchEvent(new Event('change', {bubbles: true}));",
            str(number),
        )
        browser.hover(browser.point("recall-latency", number))
        browser.wait("!document.getElementById('tip').hidden")
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 3
    assert browser.run("document.body.innerText").count("<script>") > 10
    assert browser.run("document.documentElement.scrollWidth") <= 1200
    assert browser.complaints() == []


def test_the_data_can_be_saved(browser, measured, real_page):
    from recallatk.reporting.exports.tabular import csv_text
    from recallatk.storage import load_run

    browser.open(real_page)
    browser.run("document.querySelector('[data-file=\"trials.csv\"]').click()")
    saved = browser.folder / "saved" / "trials.csv"
    until = time.monotonic() + 20
    while not saved.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert saved.read_text() == csv_text(load_run(measured))
    assert not [each for each in browser.requests() if not each.startswith(("file:", "blob:"))]


def test_another_load_can_be_shown(browser, varied_page):
    browser.open(varied_page)
    assert browser.run(f"{POINTS}.length") == 6
    browser.driver.execute_script(
        "const select = document.getElementById('load'); select.value = '1';"
        "select.dispatchEvent(new Event('change', {bubbles: true}));"
    )
    browser.wait(f"{POINTS}.length === 2")


def test_texts_of_the_fixture_are_as_hostile_as_they_claim(hostile):
    run, dataset, _ = hostile
    assert LONG in {each for trial in run.measurements for _, each in trial.trial.build}
    assert ATTACK in dataset.queries.metadata["text"].to_pylist()


def test_a_page_of_three_thousand_settings_is_drawn_and_follows(browser, endless_page):
    browser.open(endless_page)
    assert browser.run("document.querySelectorAll('tr[data-row]').length") == 1_000
    assert browser.run(f"{POINTS}.length") == 1_000
    said = browser.run("document.querySelector('#settings .note').innerText")
    assert said.startswith("1,000 of 3,000 settings are shown")
    browser.driver.execute_script("document.querySelector('#settings .note a').click()")
    assert browser.run("location.hash") == "#data-files"
    number = browser.run("document.querySelectorAll('tr[data-row]')[700].dataset.row")
    browser.driver.execute_script(
        "document.querySelectorAll('tr[data-row]')[700].querySelector('button').click()"
    )
    assert browser.run("document.querySelector('tr[aria-current=true]').dataset.row") == number
    label = browser.run("document.querySelector('tr[aria-current=true] th').innerText")
    assert browser.run("document.getElementById('shown').textContent") == f"Shown: {label}"
    assert browser.complaints() == []
