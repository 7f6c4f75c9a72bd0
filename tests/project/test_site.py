"""The documentation site: strict where it is built, and whole without a server or a network."""

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

# What Sphinx says to the authors of its extensions.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def builder():
    return script("build_site")


@pytest.fixture(scope="module")
def site(builder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "a site"
    assert builder.build(folder) > 75
    return folder


@pytest.fixture
def small(tmp_path):
    """A repository of two pages."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Some tool\n\n## Start\n\n- [First](first.md#part-two)\n")
    (tmp_path / "docs" / "first.md").write_text("# First\n\nBack [up](index.md).\n\n## Part two\n\nText.\n")
    return tmp_path


def test_every_page_of_the_menu_is_there_and_every_link_leads_somewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for link in re.findall(r'(?:href|src)="([^"#?]+)', text):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / unquote(link)).exists(), f"{page.name} links to {link}"


def test_no_page_loads_anything_from_elsewhere(site):
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        loaded = re.findall(
            r'(?:<(?:script|img|iframe|source)[^>]+src|<link(?![^>]+rel="(?:canonical|next|prev)")[^>]+href)='
            r'"([a-z]+:[^"]+|//[^"]+)"|url\(["\']?(https?:[^)]+)',
            page.read_text(),
        )
        assert loaded == [], page


def test_a_reader_without_a_network_can_search(browser, site):
    browser.driver.get("about:blank")
    for kind in ("browser", "performance"):
        browser.driver.get_log(kind)
    browser.driver.get((site / "index.html").as_uri())
    menu = browser.run("document.querySelector('.sidebar-tree').innerText")
    assert ["Start here" in menu or "START HERE" in menu, "Command line" in menu] == [True, True]
    browser.driver.get((site / "search.html").as_uri() + "?q=oversample")
    # Results come one after the other.
    found = browser.wait(
        "[...document.querySelectorAll('#search-results li a')].map(each => each.href)"
        ".filter(each => /\\/paths.html([?#]|$)/.test(each))"
    )
    browser.driver.get(found[0])
    assert "oversample" in browser.run("document.body.innerText")
    assert {each.partition(":")[0] for each in browser.requests()} <= {"file", "data", "about"}
    assert browser.complaints() == []


def test_two_pages_are_a_site(builder, small):
    assert builder.build(small / "made", small) == 2
    assert 'href="first.html#part-two"' in (small / "made" / "index.html").read_text()


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("first.md", "# First\n\n[gone](gone.md)\n", "links to gone.md, which is not a file"),
        ("first.md", "# First\n\n[out](../../../secret.md)\n", "links to ../../../secret.md"),
        ("index.md", "# Some tool\n\n[part](#nowhere)\n\n## Start\n\n- [First](first.md)\n", ""),
        ("index.md", "# Some tool\n\n## Start\n\n- [First](first.md#part-three)\n", ""),
        ("second.md", "# Second\n\nNobody lists it.\n", "docs/second.md is not listed in docs/index.md"),
        ("first.md", "# First\n\n#### Four\n", ""),
    ],
    ids=["no-file", "outside", "no-heading", "no-heading-there", "not-listed", "jump"],
)
def test_what_is_wrong_with_a_page_ends_the_build(builder, small, capfd, page, text, said):
    (small / "docs" / page).write_text(text)
    with pytest.raises(SystemExit) as ended:
        builder.build(small / "made", small)
    assert ended.value.code not in (0, None)
    assert said in str(ended.value.code)


def test_code_keeps_its_text_and_files_that_are_no_pages_come_along(builder, small):
    (small / "tool.py").write_text("print(1)\n")
    (small / "docs" / "first.md").write_text(
        "# First\n\n## Part two\n\n[the tool](../tool.py)\n\n```md\n[not a link](nowhere.md)\n```\n"
    )
    builder.build(small / "made", small)
    assert "[not a link](nowhere.md)" in re.sub("<[^>]+>", "", (small / "made" / "first.html").read_text())
    assert [each.read_text() for each in (small / "made").rglob("tool.py")] == ["print(1)\n"]


def test_every_public_name_and_every_notebook_has_its_place(site):
    import recallatk

    page = (site / "python.html").read_text()
    for name in recallatk.__all__:
        assert (
            name == "__version__" or f'id="{name.lower().replace("_", "-")}"' in page or f">{name}<" in page
        )
    for notebook in (ROOT / "examples").glob("*.ipynb"):
        assert (site / "examples" / f"{notebook.stem}.html").exists()
