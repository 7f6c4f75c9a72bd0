"""A published site in a real browser, from disk: no request leaves, links lead on, and texts stay texts."""

import dataclasses

import pytest

from chromium import ATTACK, MIRRORED
from recallatk import publish, save_run
from recallatk.fingerprint import fingerprint_truth, fingerprints


@pytest.fixture(scope="module")
def site(tmp_path_factory, hostile, measured):
    """A real run, an attacking one, a damaged one, and the history of the first."""
    from recallatk import load_run, remember

    folder = tmp_path_factory.mktemp("runs to publish")
    run, dataset, truth = hostile
    prints = {**fingerprints(dataset), "truth": fingerprint_truth(truth)}
    run = dataclasses.replace(run, fingerprints=prints)
    save_run(run, dataset, folder / "attack <b onclick=x>")
    (folder / f"damaged {MIRRORED.split()[0]}").mkdir()
    (folder / f"damaged {MIRRORED.split()[0]}" / "run.json").write_text(ATTACK)
    remember(load_run(measured), folder / "history.db")
    out = folder / "a site"
    found = publish([folder, measured], out, history=folder / "history.db", title=ATTACK)
    assert (found.runs, len(found.left_out)) == (2, 1)
    return out


def opened(browser, page):
    browser.open(page)
    assert browser.complaints() == []
    assert set(browser.requests()) == {page.as_uri()}
    assert browser.run("performance.getEntriesByType('resource').length") == 0
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('img, b, iframe, object, embed').length") == 0


def test_no_page_asks_for_anything_or_obeys_a_name(browser, site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 6
    for page in pages:
        opened(browser, page)


def test_names_are_shown_as_they_are(browser, site):
    browser.open(site / "index.html")
    said = browser.run("document.body.innerText")
    assert ATTACK in said and "attack <b onclick=x>" in said and "wordnet-part" in said
    assert browser.run("document.title") == ATTACK
    assert "damaged" in browser.run("document.getElementById('left-out').innerText")


def test_a_reader_can_walk_from_page_to_page(browser, site):
    browser.open(site / "index.html")
    browser.run("[...document.querySelectorAll('#leaderboards a')].at(-1).click()")
    browser.wait("location.pathname.includes('/leaderboards/') && document.documentElement.dataset.drawn")
    assert browser.run("document.querySelectorAll('.drawing svg .points_marks path').length") >= 3
    browser.run("document.querySelector('table th a').click()")
    browser.wait("location.pathname.includes('/reports/') && document.documentElement.dataset.drawn")
    browser.run("document.querySelector('.brand a').click()")
    browser.wait("location.pathname.endsWith('/index.html') && document.documentElement.dataset.drawn")
    assert set(browser.requests()) <= {page.as_uri() for page in site.rglob("*.html")}


def test_the_first_page_is_small_and_needs_no_chart_library(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert len(text) < 100_000 and "vegaEmbed=" not in text
    assert "vegaEmbed=" in next(site.glob("leaderboards/wordnet*")).read_text(encoding="utf-8")


def test_pages_fit_a_phone(browser, site):
    for page in (site / "index.html", *site.glob("leaderboards/*.html")):
        browser.open(page, width=390)
        assert browser.run("document.documentElement.scrollWidth") <= 390
