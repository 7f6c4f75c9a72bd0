"""The folder of a site: replaced as a whole, never more than its own files, and whole after a kill."""

import json
import os
import shutil
import signal
import time

import pytest
from published_runs import links, results, saved

from commands import forked
from recallatk import publish
from recallatk.errors import FormatError, UsageError
from recallatk.publishing.site_folder import MANIFEST, SiteFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("some runs")
    saved(folder / "one")
    saved(folder / "Two Words")
    return folder


@pytest.fixture(scope="module")
def made(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("sites") / "site"
    publish(runs, out)
    return out


@pytest.fixture
def site(made, tmp_path):
    """A site of two runs, published a moment ago."""
    return shutil.copytree(made, tmp_path / "a site")


def content(site):
    files = [path for path in site.rglob("*") if path.is_file()]
    return {str(path.relative_to(site)): path.read_bytes() for path in files}


def links_of(site):
    """Every page with the pages that it leads to."""
    return [(page, page.parent / address) for page in site.rglob("*.html") for address in links(page)]


def test_every_link_leads_to_a_file_and_everything_is_listed(site):
    assert all(target.is_file() for _, target in links_of(site))
    assert len(links_of(site)) > 8
    listed = set(json.loads((site / MANIFEST).read_text())["files"])
    assert listed == set(content(site)) - {MANIFEST}
    assert (site / ".nojekyll").read_bytes() == b""
    assert results(site)["runs"][0]["run"] == "Two Words"


def test_the_same_runs_make_the_same_site(site, runs):
    before = content(site)
    assert publish(runs, site).removed == 0
    assert content(site) == before


def test_old_pages_go_and_files_of_others_stay(site, runs):
    (site / "CNAME").write_text("results.example.org")
    (site / "reports" / "notes.txt").write_text("mine")
    (site / ".git").mkdir()
    (site / ".git" / "HEAD").write_text("ref: x")
    found = publish(runs / "one", site)
    # The report of the other run; its data set has the same name.
    assert found.removed == 1
    assert (site / "CNAME").read_text() == "results.example.org"
    assert (site / "reports" / "notes.txt").read_text() == "mine"
    assert (site / ".git" / "HEAD").exists()
    assert [each.name for each in site.glob("reports/*.html")] == ["one.html"]
    assert not (site / ".recallatk-publishing").exists() and not (site / ".lock").exists()


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path, runs):
    out = tmp_path / "home"
    out.mkdir()
    (out / "letter.txt").write_text("dear")
    before = content(out)
    with pytest.raises(UsageError, match=r"letter\.txt.*--out"):
        publish(runs, out)
    assert content(out) == before
    with pytest.raises(UsageError, match="not a folder"):
        publish(runs, out / "letter.txt")
    with pytest.raises(UsageError, match="local folder"):
        publish(runs, "s3://bucket/site")


def test_a_new_branch_that_holds_only_its_repository_is_accepted(tmp_path, runs):
    (tmp_path / "branch").mkdir()
    (tmp_path / "branch" / ".git").write_text("gitdir: ../.git/worktrees/branch")
    assert publish(runs, tmp_path / "branch").runs == 2


def test_a_page_that_somebody_changed_is_not_lost(site, runs):
    (site / "index.html").write_text("my own words")
    before = content(site)
    with pytest.raises(UsageError, match=r"changed since: index\.html"):
        publish(runs, site)
    assert content(site) == before


def test_a_foreign_file_at_a_new_address_is_not_lost(site, runs, tmp_path):
    saved(tmp_path / "more" / "third")
    (site / "reports" / "third.html").write_text("mine")
    before = content(site)
    with pytest.raises(UsageError, match=r"reports/third\.html"):
        publish([runs, tmp_path / "more"], site)
    assert content(site) == before


@pytest.mark.parametrize(
    "address",
    [
        "../letter.txt",
        "/etc/passwd",
        "reports/../../letter.txt",
        "a\\b.html",
        "",
        "reports/",
        "..",
        "x\n.html",
    ],
)
def test_a_manifest_cannot_name_files_elsewhere(site, runs, tmp_path, address):
    (tmp_path / "letter.txt").write_text("dear")
    record = json.loads((site / MANIFEST).read_text())
    record["files"][address] = "0" * 64
    (site / MANIFEST).write_text(json.dumps(record))
    with pytest.raises(FormatError, match="outside the site"):
        publish(runs, site)
    assert (tmp_path / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format_version": 1, "files": 3}', '{"format_version": 99}']
)
def test_a_damaged_or_newer_manifest_is_refused(site, runs, text):
    (site / MANIFEST).write_text(text)
    before = content(site)
    with pytest.raises(FormatError, match=MANIFEST.replace(".", r"\.")):
        publish(runs, site)
    assert content(site) == before


def test_links_in_a_site_are_not_followed(site, runs, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (site / "reports").rename(elsewhere)
    (site / "reports").symlink_to(elsewhere, target_is_directory=True)
    before = content(elsewhere)
    with pytest.raises(UsageError, match="reports/"):
        publish(runs / "one", site)
    assert content(elsewhere) == before


def test_two_publications_do_not_mix(site, runs):
    with SiteFolder(site), pytest.raises(UsageError, match=r"is writing a site there"):
        publish(runs, site)
    assert publish(runs, site).runs == 2


def test_an_interrupted_publication_leaves_the_old_site(site, runs):
    before = content(site)

    def interrupt(_, __):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(runs / "one", site, progress=interrupt)
    assert content(site) == before


def test_a_folder_that_nothing_was_published_to_is_not_left_behind(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no run"):
        publish(tmp_path / "empty", tmp_path / "site")
    with pytest.raises(UsageError, match="no such run folder"):
        publish(tmp_path / "nothing", tmp_path / "site")
    with pytest.raises(KeyboardInterrupt), SiteFolder(tmp_path / "site"):
        raise KeyboardInterrupt
    assert not (tmp_path / "site").exists()


def test_a_site_is_usable_whenever_its_publication_is_killed(site, runs):
    """What its pages lead to is there, and the next publication completes it."""
    for place in range(5):
        sources = [runs / "one"] if place % 2 else [runs]
        process = forked(publish, sources, site)
        time.sleep(0.1 + 0.3 * place)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert all(target.is_file() for _, target in links_of(site))
    assert publish(runs, site).runs == 2
    assert all(target.is_file() for _, target in links_of(site))
    assert not list(site.glob(".recallatk*"))


def test_a_publication_that_was_killed_while_exchanging_is_completed(site, runs):
    """Every state between two files of an exchange is one that the next publication knows."""
    publish(runs / "one", site)
    for stop in range(9):
        with pytest.raises(KilledError), SiteFolder(site) as folder:
            folder._require_room = _never
            for number in range(9):
                folder.write(f"reports/page-{number}.html", f"page {number} of turn {stop}")
            folder._write_manifest(folder._known, _sums(folder))
            for number in range(stop):
                name = f"reports/page-{number}.html"
                (folder._stage / name).replace(site / name)
            raise KilledError
        assert publish(runs / "one", site).runs == 1
        assert [each.name for each in site.glob("reports/*")] == ["one.html"]


class KilledError(Exception):
    pass


def _never(_):
    raise AssertionError


def _sums(folder):
    from recallatk.publishing.site_folder import _checksum

    return {each: _checksum(folder._stage / each) for each in folder._addresses}
