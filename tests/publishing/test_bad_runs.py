"""Runs that cannot be trusted: listed as such, left out of every table, never a crash and never code."""

import json
import os
import shutil

import pyarrow.parquet as pq
import pytest
from made_runs import HOSTILE
from published_runs import links, results, saved

from recallatk import publish
from recallatk.publishing.addresses import page_addresses

ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("sound") / "sound")


@pytest.fixture
def runs(sound, tmp_path):
    """A sound run, and a copy of it to spoil."""
    shutil.copytree(sound, tmp_path / "runs" / "sound")
    shutil.copytree(sound, tmp_path / "runs" / "spoiled")
    return tmp_path / "runs"


def newer(run):
    header = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**header, "format_version": 99}))


def cut(run):
    path = run / "trial-1.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def flipped(run):
    path = run / "trial-1.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))


def changed(run):
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"made"', '"better"'))


def missing(run):
    (run / "trial-1.parquet").unlink()


def garbage(run):
    (run / "run.json").write_bytes(b"\xff\x00" * 50)


def nested(run):
    (run / "run.json").write_text("[" * 100_000)


def numbers(run):
    (run / "run.json").write_text('{"format_version": Infinity, "trials": NaN}')


def linked(run):
    target = run.parent.parent / "secret.parquet"
    (run / "trial-1.parquet").rename(target)
    (run / "trial-1.parquet").symlink_to(target)


def linked_header(run):
    target = run.parent.parent / "secret.json"
    (run / "run.json").rename(target)
    (run / "run.json").symlink_to(target)


def traversing(run):
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace("trial-1.parquet", "../../secret.parquet"))


def pipe(run):
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")


@pytest.mark.parametrize(
    "spoil",
    [
        newer,
        cut,
        flipped,
        changed,
        missing,
        garbage,
        nested,
        numbers,
        linked,
        linked_header,
        traversing,
        pipe,
    ],
    ids=lambda each: each.__name__,
)
def test_a_spoiled_run_is_listed_and_left_out(runs, tmp_path, spoil):
    spoil(runs / "spoiled")
    found = publish(runs, tmp_path / "site")
    assert found.runs == 1
    [left] = found.left_out
    assert left.name == "spoiled" and left.why
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Left out" in page and "spoiled" in page
    assert [each["run"] for each in results(tmp_path / "site")["runs"]] == ["sound"]
    assert {each["run"] for each in results(tmp_path / "site")["trials"]} == {"sound"}
    assert not (tmp_path / "site" / "reports" / "spoiled.html").exists()


def test_a_newer_format_says_how_to_upgrade(runs, tmp_path):
    newer(runs / "spoiled")
    [left] = publish(runs, tmp_path / "site").left_out
    assert "format 99" in left.why and "pip install --upgrade" in left.why


def test_links_to_folders_are_not_searched(runs, tmp_path, sound):
    (runs / "linked").symlink_to(sound, target_is_directory=True)
    assert publish(runs, tmp_path / "site").runs == 2


def test_hostile_names_lead_nowhere_and_stay_text(tmp_path):
    names = [ATTACK.replace("/", "_"), "con", "a b", "é", "x" * 200, "javascript:alert(1)", "UPPER", "upper"]
    for name in names:
        saved(tmp_path / "runs" / name, name=f"data {name} {HOSTILE} ../../up")
    found = publish(tmp_path / "runs", tmp_path / "site")
    assert found.runs == len(names) and found.left_out == ()
    inside = [path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*")]
    assert len([path for path in inside if path.parts[0] == "reports"]) == len(names) + 1
    assert len({str(path).lower() for path in inside}) == len(inside)
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script>window" not in text and "<img src=x" not in text
        assert "javascript:" not in str(links(page))
        for address in links(page):
            target = (page.parent / address).resolve()
            assert target.is_file() and (tmp_path / "site").resolve() in target.parents


def test_addresses_are_different_whatever_names_are():
    plain = page_addresses("reports", ["UPPER"])["UPPER"]
    stem = plain.removeprefix("reports/").removesuffix(".html")
    found = page_addresses("reports", ["UPPER", stem, "upper", "con", "", "."])
    assert len(set(found.values())) == 6
    assert found["upper"] == "reports/upper.html" and found["con"] != "reports/con.html"


def test_texts_of_a_crafted_run_are_no_formulas_in_the_data(tmp_path):
    saved(tmp_path / "run", name="=HYPERLINK(1)")
    publish(tmp_path / "run", tmp_path / "site")
    text = (tmp_path / "site" / "data" / "results.csv").read_text()
    assert "'=HYPERLINK(1)" in text and ",=HYPERLINK" not in text
    table = pq.read_table(tmp_path / "site" / "data" / "results.parquet")
    assert table["dataset"].to_pylist() == ["=HYPERLINK(1)"] and table.num_rows == 1


def test_numbers_that_nobody_can_measure_cost_a_run_its_place(tmp_path):
    """A crafted run with valid checksums whose environment is of other types than ours."""
    odd = {"processor": ["a", {"b": 1}], "cores": None, "memory_bytes": "much", "processor_limit": True}
    saved(tmp_path / "runs" / "odd", environment=odd)
    saved(tmp_path / "runs" / "sound", begun=None)
    found = publish(tmp_path / "runs", tmp_path / "site")
    assert found.runs == 2
    assert len({each["machine"] for each in results(tmp_path / "site")["runs"]}) == 2
