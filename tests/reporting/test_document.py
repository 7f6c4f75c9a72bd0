"""The document model: a section is written once, and every renderer shows what it can of it."""

import re
from html import unescape

import pytest
from made_runs import HOSTILE, varied_run
from made_tuned import made_tuned

from recallatk.reporting import run_report, to_html, to_markdown, to_text, tuned, tuned_to_html
from recallatk.reporting.document import (
    Code,
    Columns,
    Details,
    Document,
    Drawing,
    Figure,
    Form,
    Heading,
    Items,
    Lead,
    Linted,
    Remark,
    Section,
    Sentences,
    Table,
    Tiles,
    Widget,
    build_sections,
)
from recallatk.reporting.html.page import render_html
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import render_text

RENDER = {Form.TEXT: render_text, Form.MARKDOWN: render_markdown, Form.HTML: render_html}


def words(page):
    markup = re.sub(r"(?s)<(script|style|title).*?</\1>", "", page)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup.replace("<wbr>", ""))).split())


def selectivity(_):
    """What a later section would be: sentences and a table."""
    table = Table("Selectivity", ["filter", "recall@10"], [["price < 5", "0.91"]], 1)
    return Section("Selectivity", [Sentences(["Recall under filters."]), table], "selectivity", "Filters")


def test_a_section_that_is_written_once_stands_in_every_form(monkeypatch):
    monkeypatch.setattr(run_report, "SECTIONS", (*run_report.SECTIONS, (Form.ALL, selectivity)))
    monkeypatch.setattr(tuned, "SECTIONS", (*tuned.SECTIONS, (Form.ALL, selectivity)))
    run = varied_run()
    assert to_text(run).endswith(
        "Selectivity\nRecall under filters.\nfilter     recall@10\nprice < 5       0.91"
    )
    assert "## Selectivity\n\nRecall under filters.\n\n| filter | recall@10 |\n| --- | ---: |" in to_markdown(
        run
    )
    for page in (to_html(run), tuned_to_html(made_tuned())):
        assert "Selectivity Recall under filters. filter recall@10 price < 5 0.91" in words(page)
        assert '<li><a href="#selectivity">Filters</a></li>' in page


def test_builders_make_sections_for_their_forms_only_and_empty_ones_are_left_out():
    def table(rows):
        return lambda _: Section("A", [Table("A", ["a"], rows, 1), Items([]), Code("")])

    builders = [
        (Form.TEXT, table([["1"]])),
        (Form.HTML, table([["2"]])),
        (Form.ALL, table([])),
        (Form.ALL, lambda _: None),
        (Form.PROSE, lambda count: [Section(str(each), [Sentences(["x"])]) for each in range(count)]),
    ]
    assert [each.title for each in build_sections(builders, 2, Form.TEXT)] == ["A", "0", "1"]
    assert [each.title for each in build_sections(builders, 2, Form.MARKDOWN)] == ["0", "1"]
    assert [each.title for each in build_sections(builders, 2, Form.HTML)] == ["A"]


@pytest.mark.parametrize("form", RENDER)
def test_a_heading_is_shown_where_the_section_says(form):
    section = Section("Cautions", [Items(["hot"], "caution")], "care", headed=form)
    for each, render in RENDER.items():
        # The page has headings throughout, for those who go from one to the next.
        assert ("Cautions" in render(Document("", [section]))) == (each in (form, Form.HTML))


def test_a_table_shows_its_title_where_the_heading_says_something_else():
    table = Table("Front", ["a"], [["1"]], 1)
    for title, count in (("Front", 1), ("Settings", 2)):
        document = Document("", [Section(title, [table], "front")])
        assert render_text(document).count("Front") + render_text(document).count("Settings") == count
        assert render_markdown(document).count("#") == 2 + 3 * (count - 1)
        assert render_html(document).count("<caption>") == count - 1


def test_a_table_without_column_names_has_no_head_on_the_page():
    table = Table("Environment", ["", ""], [["cores", "2"]], 2)
    assert "<thead>" not in render_html(Document("", [Section("Origin", [table], "origin")]))


def every_block(text):
    remark = Remark("R01", "error", text, text, "Chance.", "Ask more.", "", explained=True)
    return [
        Lead(text, "Met", good=True),
        Sentences([text]),
        Items([text], "note"),
        Heading("More"),
        Table(text, [text], [[text]], 1),
        Code(f"{text}\n```\n{text}"),
        Linted([remark], "The linter found 1 error."),
        Drawing([text]),
        Figure("chart", text, None),
        Tiles([(text, "1", "2")]),
        Details("Details", [Sentences([text])]),
        Columns([Sentences([text])]),
        Widget("said", {"key": "k", "text": "said"}),
    ]


@pytest.mark.parametrize("form", RENDER)
def test_no_renderer_obeys_a_text_in_any_block(form):
    document = Document(HOSTILE, [Section(HOSTILE, every_block(HOSTILE), "all")], [HOSTILE])
    made = RENDER[form](document)
    assert not set("\x1b\x07\r\u202e\u200b\x00\x9b") & set(made)
    if form is Form.HTML:
        markup = re.sub(r"(?s)<(script|style)[ >].*?</\1>", "", made)
        assert "<script" not in markup
    if form is Form.MARKDOWN:
        outside = re.sub(r"(?s)`{4}.*?`{4}", "", made)
        assert not re.search(r"(?<!\\)<script", outside)
