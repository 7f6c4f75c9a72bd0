"""The store: a truth is found by its content and by nothing else, and a damaged file is none."""

import dataclasses
import io
import json
import shutil
import subprocess
import sys
from functools import partial
from subprocess import PIPE

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_updating import contents, expected, made, numbers

from recallatk import make_corpus, make_queries, open_dataset, save_truth
from recallatk.core import Origin, Truth
from recallatk.digests import row_digests
from recallatk.filters import Equals, Range
from recallatk.truths import ground_truth, obtain_truth
from recallatk.truths.compute import Way
from recallatk.truths.store import default_folder

DEPTH = 5
RANDOM = np.random.default_rng(0)
CORPUS, QUERIES = numbers(RANDOM, 150, "float32"), numbers(RANDOM, 6, "float32")


def plain(corpus=CORPUS, queries=QUERIES, metric="l2", ids=None):
    return made(corpus, queries, metric, ids=ids)


RED = Equals("colour", "red")


def filtered(colours=("red", "blue"), condition=RED, **columns):
    metadata = {"colour": list(colours) * 75, **columns}
    asked = make_queries(QUERIES, filters=[condition] * len(QUERIES))
    return open_dataset(make_corpus(CORPUS, metadata=metadata), asked, metric="l2")


def obtained(dataset, store, depth=DEPTH, **options):
    """The truth through the store, which must be the one that is computed without it."""
    found = obtain_truth(dataset, depth=depth, store=store, **{"threads": 1, **options})
    assert contents(found.truth) == expected(dataset, depth)
    assert found.path.exists()
    return found


def forbidden(*_):
    pytest.fail("nothing has to be scanned")


@pytest.mark.parametrize("make", [plain, filtered])
def test_what_was_computed_once_is_read_and_not_scanned_again(tmp_path, make):
    seen = []
    first = obtained(make(), tmp_path, progress=lambda *step: seen.append(step))
    assert first.way is Way.COMPUTED
    assert seen
    again = obtained(make(), tmp_path, progress=forbidden)
    assert (again.way, again.path) == (Way.REUSED, first.path)
    assert (again.scanned_rows, again.redone_queries) == (0, 0)
    assert (again.truth.certificate.decided == first.truth.certificate.decided).all()


def test_how_a_truth_is_computed_is_not_what_it_is(tmp_path):
    first = obtained(plain(), tmp_path, threads=1)
    for options in ({"threads": 2}, {"memory": "256MiB"}, {"backend": "faiss"}, {"checkpoint_seconds": 0}):
        assert obtained(plain(), tmp_path, progress=forbidden, **options).path == first.path


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def own_rows(rows):
    dataset = plain()
    return dataclasses.replace(dataset, queries=dataclasses.replace(dataset.queries, corpus_rows=rows))


NAMED = [f"row {number}" for number in range(150)]
OTHERS = {
    "one number of the corpus": (plain, plain(changed(CORPUS, (149, 4), 0.5))),
    "a zero with a sign": (plain(changed(CORPUS, (3, 3), 0.0)), plain(changed(CORPUS, (3, 3), -0.0))),
    "two rows exchanged": (plain, plain(CORPUS[[1, 0, *range(2, 150)]])),
    "a row more": (plain, plain(np.concatenate([CORPUS, CORPUS[:1]]))),
    "a row less": (plain, plain(CORPUS[:-1])),
    "another type of number": (plain, plain(CORPUS.astype("float64"), QUERIES.astype("float64"))),
    "ids": (plain, plain(ids=NAMED)),
    "other ids": (plain(ids=NAMED), plain(ids=NAMED[::-1])),
    "one number of the queries": (plain, plain(queries=changed(QUERIES, (5, 0), 0.5))),
    "queries in another order": (plain, plain(queries=QUERIES[::-1].copy())),
    "fewer queries": (plain, plain(queries=QUERIES[:-1])),
    "queries that are corpus rows": (plain, own_rows(np.arange(6))),
    "other corpus rows": (own_rows(np.arange(6)), own_rows(np.arange(1, 7))),
    "cosine": (plain, plain(metric="cosine")),
    "inner product": (plain(metric="cosine"), plain(metric="ip")),
    "a sample": (
        plain,
        dataclasses.replace(plain(), corpus=dataclasses.replace(plain().corpus, sampled_from=900)),
    ),
    "a filter": (plain, filtered()),
    "no filter": (filtered, plain()),
    "another filter": (filtered, filtered(condition=Equals("colour", "blue"))),
    "other metadata": (filtered, filtered(colours=("blue", "red"))),
    "other numbers in the metadata": (
        filtered(condition=Range("n", lt=75), n=np.arange(150)),
        filtered(condition=Range("n", lt=75), n=np.arange(150)[::-1]),
    ),
}


@pytest.mark.parametrize("pair", OTHERS.values(), ids=OTHERS)
def test_other_content_has_another_entry_and_neither_is_taken_for_the_other(tmp_path, pair):
    datasets = [each() if callable(each) else each for each in pair]
    one, other = (obtained(dataset, tmp_path) for dataset in datasets)
    assert Way.REUSED not in (one.way, other.way)
    assert one.path != other.path
    assert [obtained(dataset, tmp_path).way for dataset in datasets] == [Way.REUSED] * 2


def test_another_depth_has_another_entry(tmp_path):
    paths = {obtained(plain(), tmp_path, depth).path for depth in (1, 5, 6, 149, 150, 151)}
    assert len(paths) == 6
    assert obtained(plain(), tmp_path, 6).way is Way.REUSED


def test_metadata_that_no_filter_reads_is_no_part_of_a_truth(tmp_path):
    first = obtained(plain(), tmp_path)
    corpus = make_corpus(CORPUS, metadata={"colour": ["red"] * 150})
    assert obtained(open_dataset(corpus, make_queries(QUERIES), metric="l2"), tmp_path).path == first.path


def test_the_same_data_in_other_files_is_the_same(tmp_path):
    np.save(tmp_path / "corpus.npy", CORPUS)
    np.save(tmp_path / "queries.npy", QUERIES)
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 5)):
        table = pa.table({"vector": pa.array(list(CORPUS), kind)})
        pq.write_table(table, tmp_path / f"corpus {kind.num_fields} {kind}.parquet", row_group_size=11)
    first = obtained(plain(), tmp_path / "store")
    for path in sorted(tmp_path.glob("corpus*")):
        dataset = open_dataset(path, tmp_path / "queries.npy", metric="l2")
        found = obtained(dataset, tmp_path / "store", progress=forbidden)
        assert (found.way, found.path) == (Way.REUSED, first.path)


@pytest.mark.parametrize("name", ["with spaces and ünïcode 数据 🧭", "a/b/c", "100%", "*", "a'b\"c"])
def test_a_store_may_have_any_name(tmp_path, name):
    for store in (tmp_path / name, str(tmp_path / name)):
        obtained(plain(), store)
    assert obtained(plain(), tmp_path / name, progress=forbidden).way is Way.REUSED
    assert obtained(plain(CORPUS[:-1]), tmp_path / name).way is Way.UPDATED
    assert len(list((tmp_path / name / "truth").iterdir())) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other rules for caches")
def test_the_default_is_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_folder() == tmp_path / "cache" / "recallatk"
    found = obtained(plain(), None)
    assert found.path.is_relative_to(tmp_path / "cache" / "recallatk")
    assert obtained(plain(), None, progress=forbidden).way is Way.REUSED


def saved(write, *arrays, **options):
    file = io.BytesIO()
    write(file, *arrays, **options)
    return file.getvalue()


def said_otherwise(whole, **changes):
    said = json.loads(whole)
    said["fingerprints"]["vectors"] = changes.pop("vectors", said["fingerprints"]["vectors"])
    return json.dumps({**said, **changes}).encode()


PARTS = ("truth.parquet", "rows.npy", "entry.json", "checkpoint.npz")
DAMAGE = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "empty": lambda _: b"",
    "text": lambda _: b"this is no such file\n" * 20,
    "begins as a zip": lambda _: b"PK\x03\x04" + bytes(60),
    "other arrays": lambda _: saved(np.savez, CORPUS),
    "another matrix": lambda _: saved(np.save, CORPUS),
    "objects": lambda _: saved(np.save, np.array([{}, []], object), allow_pickle=True),
    "another table": lambda _: saved(
        lambda file, table: pq.write_table(table, file), pa.table({"rows": [[1]]})
    ),
    "other JSON": lambda _: b'{"fingerprints": {"queries": [1]}, "corpus_rows": null}',
    "deep JSON": lambda _: b"[" * 100_000,
}
ENTRY_DAMAGE = {
    "endless": lambda whole: said_otherwise(whole, corpus_rows=float("inf")),
    "nameless": lambda whole: said_otherwise(whole, vectors=None),
    "nameless and empty": lambda whole: said_otherwise(whole, vectors=None, corpus_rows=0),
    "nameless and long": lambda whole: said_otherwise(whole, vectors=None, corpus_rows=10**6),
    "shorter": lambda whole: said_otherwise(whole, corpus_rows=140),
    "another depth": lambda whole: said_otherwise(whole, depth=4),
}
CASES = [(part, name) for part in PARTS for name in DAMAGE] + [("entry.json", name) for name in ENTRY_DAMAGE]
NEXT = {
    "the same": CORPUS,
    "more rows": np.concatenate([CORPUS, QUERIES]),
    "fewer rows": CORPUS[2:],
    "another row": changed(CORPUS, 77, QUERIES[0]),
}


@pytest.mark.parametrize("after", NEXT)
@pytest.mark.parametrize(("part", "damage"), CASES)
def test_a_damaged_file_in_the_store_is_as_good_as_none(tmp_path, part, damage, after):
    path = obtained(plain(), tmp_path).path.with_name(part)
    whole = path.read_bytes() if path.exists() else b""
    path.write_bytes((DAMAGE | ENTRY_DAMAGE)[damage](whole))
    obtained(plain(NEXT[after]), tmp_path)
    assert obtained(plain(NEXT[after]), tmp_path, progress=forbidden).way is Way.REUSED


@pytest.mark.parametrize("after", NEXT)
@pytest.mark.parametrize("part", PARTS[:3])
def test_a_missing_file_in_the_store_is_no_obstacle(tmp_path, part, after):
    obtained(plain(), tmp_path).path.with_name(part).unlink()
    obtained(plain(NEXT[after]), tmp_path)
    assert obtained(plain(NEXT[after]), tmp_path, progress=forbidden).way is Way.REUSED


def test_a_cut_or_flipped_truth_is_never_believed(tmp_path):
    path = obtained(plain(), tmp_path).path
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for place in random.integers(0, len(whole), 60).tolist():
        flipped = whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :]
        path.write_bytes(flipped if place % 2 else whole[:place])
        obtained(plain(), tmp_path)
        path.write_bytes(flipped if place % 2 else whole[:place])
        obtained(plain(CORPUS[1 : 100 + place % 40]), tmp_path)


def test_flipped_digests_change_no_truth(tmp_path):
    path = obtained(plain(), tmp_path).path.with_name("rows.npy")
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for number, place in enumerate([*range(0, 128, 3), *random.integers(128, len(whole), 20).tolist()]):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        obtained(plain(CORPUS[number:]), tmp_path)


FOREIGN = {
    "somebody else's": lambda: Truth(np.zeros((6, 5), np.int64), None, None, None, Origin.IMPORTED),
    "of other queries": lambda: ground_truth(plain(queries=-QUERIES), depth=DEPTH),
    "of fewer queries": lambda: ground_truth(plain(queries=QUERIES[:3]), depth=DEPTH),
    "of another metric": lambda: ground_truth(plain(metric="ip"), depth=DEPTH),
    "of another depth": lambda: ground_truth(plain(), depth=DEPTH - 2),
    "of another corpus": lambda: ground_truth(plain(CORPUS[::-1].copy()), depth=DEPTH),
}


@pytest.mark.parametrize("after", NEXT)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_sound_truth_of_something_else_is_neither_reused_nor_brought_up_to_date(tmp_path, foreign, after):
    save_truth(FOREIGN[foreign](), obtained(plain(), tmp_path).path)
    assert obtained(plain(NEXT[after]), tmp_path).way is Way.COMPUTED


def test_digests_of_other_rows_are_not_believed(tmp_path):
    path = obtained(plain(), tmp_path).path
    np.save(path.with_name("rows.npy"), row_digests(NEXT["another row"]))
    obtained(plain(NEXT["another row"]), tmp_path)


def test_an_entry_that_speaks_of_another_corpus_is_not_believed(tmp_path):
    whole, part = obtained(plain(), tmp_path), obtained(plain(CORPUS[:100]), tmp_path)
    shutil.copy(whole.path.with_name("entry.json"), part.path.with_name("entry.json"))
    obtained(plain(NEXT["more rows"]), tmp_path)


def test_a_folder_under_another_name_is_not_taken_for_it(tmp_path):
    one, other = obtained(plain(), tmp_path), obtained(plain(metric="ip"), tmp_path)
    shutil.rmtree(one.path.parent)
    shutil.copytree(other.path.parent, one.path.parent)
    assert obtained(plain(), tmp_path).way is Way.COMPUTED


def test_other_things_in_the_folder_are_left_alone(tmp_path):
    path = obtained(plain(), tmp_path).path
    for place in (tmp_path, tmp_path / "truth", path.parent):
        (place / "notes.txt").write_text("mine")
        (place / "folder").mkdir()
    assert obtained(plain(), tmp_path).way is Way.REUSED
    assert obtained(plain(CORPUS[:-1]), tmp_path).way is Way.UPDATED
    assert len(list(tmp_path.rglob("notes.txt"))) == 3


SCRIPT = """
import sys
import numpy as np
from recallatk import open_dataset
from recallatk.truths import obtain_truth

print("ready", flush=True)
sys.stdin.readline()
for rows in (1500, 2000, 1800):
    np.save(f"{sys.argv[2]}.npy", np.load("corpus.npy")[:rows])
    dataset = open_dataset(f"{sys.argv[2]}.npy", "queries.npy", metric="cosine")
    found = obtain_truth(dataset, depth=10, store=sys.argv[1], threads=1, checkpoint_seconds=0)
    print(found.way, *found.truth.rows.sum(axis=1), flush=True)
"""


def test_processes_that_share_a_store_all_end_well(tmp_path):
    random = np.random.default_rng(0)
    corpus, queries = numbers(random, 2000, "float32"), numbers(random, 40, "float32")
    np.save(tmp_path / "corpus.npy", corpus)
    np.save(tmp_path / "queries.npy", queries)
    start = partial(subprocess.Popen, cwd=tmp_path, stdin=PIPE, stdout=PIPE, text=True)
    workers = [start([sys.executable, "-c", SCRIPT, "store", str(number)]) for number in range(3)]
    assert {worker.stdout.readline() for worker in workers} == {"ready\n"}
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=60)[0].splitlines() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    for number, rows in enumerate((1500, 2000, 1800)):
        dataset = made(corpus[:rows], queries, "cosine")
        computed = ground_truth(dataset, depth=10)
        sums = [str(each) for each in computed.rows.sum(axis=1)]
        assert [lines[number].split()[1:] for lines in said] == [sums] * 3
        found = obtain_truth(dataset, depth=10, store=tmp_path / "store", progress=forbidden)
        assert contents(found.truth) == contents(computed)
    left = [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert sorted(set(left)) == ["entry.json", "rows.npy", "truth.parquet"]
