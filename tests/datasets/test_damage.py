"""Damaged files of every binary format: an error of ours or other numbers, never anything else.

Reading means all of it: vectors block by block, ids, metadata, and the truth where there is one.
Formats read by a C library are damaged each in a process of its own, which may neither crash nor hang.
"""

import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from writers import (
    numbers,
    write_arrow,
    write_hdf5,
    write_neighbors_with_distances,
    write_npy,
    write_npz,
    write_parquet,
    write_vecs,
    write_xbin,
)

import recallatk
from recallatk.core import blocks
from recallatk.datasets.registry import open_source
from recallatk.errors import RecallError

ROWS = 60
MATRIX = numbers(ROWS, 6)
NEIGHBORS = np.random.default_rng(0).permutation(ROWS)[:50].reshape(10, 5).astype(np.int32)
DISTANCES = np.sort(np.random.default_rng(1).random((10, 5)), axis=1).astype(np.float32)
TEXTS = [f"doc{row}" for row in range(ROWS)]
TABLE = {"id": TEXTS, "n": list(range(ROWS))}
FACTORS = {**TABLE, "id": pa.array(TEXTS).dictionary_encode()}
ARRAYS = {"ids": np.array(TEXTS), "n": np.arange(ROWS)}
ATTRIBUTES = {"distance": "euclidean", "type": "dense", "dimension": 6, "point_type": "float"}
ZIPPED = {"chunks": (10, 6), "compression": "gzip"}


def _ours(folder):
    source = write_parquet(folder / "source.parquet", MATRIX, **TABLE)
    recallatk.convert(source, folder / "a.parquet")
    return folder / "a.parquet"


NUMPY_KINDS = {
    "npy": lambda d: write_npy(d / "a.npy", MATRIX),
    "npy by columns": lambda d: write_npy(d / "a.npy", np.asfortranarray(MATRIX)),
    "npz": lambda d: write_npz(d / "a.npz", MATRIX, **ARRAYS),
    "npz compressed": lambda d: write_npz(d / "a.npz", MATRIX, compressed=True, **ARRAYS),
    "fvecs": lambda d: write_vecs(d / "a.fvecs", MATRIX),
    "bvecs": lambda d: write_vecs(d / "a.bvecs", numbers(ROWS, 6, "uint8")),
    "ivecs": lambda d: write_vecs(d / "a.ivecs", NEIGHBORS),
    "fbin": lambda d: write_xbin(d / "a.fbin", MATRIX),
    "fbin wide": lambda d: write_xbin(d / "a.fbin", MATRIX, wide=True),
    "hbin": lambda d: write_xbin(d / "a.hbin", numbers(ROWS, 6, "float16")),
    "u8bin": lambda d: write_xbin(d / "a.u8bin", numbers(ROWS, 6, "uint8")),
    "i8bin": lambda d: write_xbin(d / "a.i8bin", numbers(ROWS, 6, "int8")),
    "ibin": lambda d: write_xbin(d / "a.ibin", NEIGHBORS),
    "ibin with distances": lambda d: write_neighbors_with_distances(d / "a.ibin", NEIGHBORS, DISTANCES),
}
LIBRARY_KINDS = {
    "parquet": lambda d: write_parquet(d / "a.parquet", MATRIX, row_group_rows=25, **TABLE),
    "parquet fixed": lambda d: write_parquet(d / "a.parquet", MATRIX, kind="fixed", **TABLE),
    "parquet ours": _ours,
    "arrow": lambda d: write_arrow(d / "a.arrow", MATRIX, batch_rows=25, **TABLE),
    "arrow fixed": lambda d: write_arrow(d / "a.arrow", MATRIX, kind="fixed", batch_rows=25, **FACTORS),
    "arrow compressed": lambda d: write_arrow(
        d / "a.arrow", MATRIX, batch_rows=25, compression="lz4", **TABLE
    ),
    "arrow stream": lambda d: write_arrow(d / "a.arrow", MATRIX, batch_rows=25, stream=True, **TABLE),
    "hdf5": lambda d: write_hdf5(d / "a.hdf5", MATRIX, MATRIX[:10], NEIGHBORS, DISTANCES, **ATTRIBUTES),
    "hdf5 compressed": lambda d: write_hdf5(
        d / "a.hdf5", MATRIX, MATRIX[:10], NEIGHBORS, DISTANCES, storage=ZIPPED, distance="angular"
    ),
}
KINDS = {**NUMPY_KINDS, **LIBRARY_KINDS}

# A row or a batch less is a whole file again, and so is a zip or HDF5 file with something behind it.
SHORTENED_MAY_BE_WHOLE = ("fvecs", "bvecs", "ivecs", "arrow stream")
LENGTHENED_MAY_BE_WHOLE = (*SHORTENED_MAY_BE_WHOLE, "npz", "npz compressed", "hdf5", "hdf5 compressed")


def read_everything(path):
    """Read all that a file holds."""
    source = open_source(path)
    for records in source.parts.values():
        for _ in blocks(records.vectors, 1000):
            pass
        _ = records.ids
        records.metadata.to_pylist()
    if source.truth is not None:
        source.truth()
    if path.suffix in (".ivecs", ".ibin"):
        recallatk.load_truth(path, metric="l2")


def outcome(path, content):
    """`refused`, `read`, or what went wrong."""
    # A new file each time: one that is still mapped must not change.
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        read_everything(path)
    except RecallError as problem:
        return "refused" if path.name in str(problem) else f"an error without the file's name: {problem}"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "read"


def shortened(good, chance):
    return good[: chance.randrange(1, len(good))]


def lengthened(good, chance):
    return good + chance.randbytes(chance.randint(1, 40))


def flipped(good, chance):
    damaged = bytearray(good)
    for _ in range(chance.choice([1, 1, 1, 2, 8])):
        damaged[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def overwritten(good, chance):
    at = chance.randrange(len(good))
    new = chance.choice([chance.randbytes(chance.randint(1, 16)), b"\xff" * 8, bytes(8), b"\xff\xff\xff\x7f"])
    return good[:at] + new + good[at + len(new) :]


def moved(good, chance):
    at, count = chance.randrange(len(good)), chance.randint(1, 64)
    if chance.random() < 0.5:
        return good[:at] + good[at + count :]
    return good[:at] + good[at : at + count] + good[at:]


DAMAGES = {shortened: 60, lengthened: 30, flipped: 80, overwritten: 60, moved: 20}


def complaints(kind, folder):
    """What a kind of file does wrong under 250 damages, each with what repeats it."""
    path = KINDS[kind](folder)
    good = path.read_bytes()
    read_everything(path)
    target = folder / f"damaged{path.suffix}"
    found = []
    for damage, count in DAMAGES.items():
        strict = (damage is shortened and kind not in SHORTENED_MAY_BE_WHOLE) or (
            damage is lengthened and kind not in LENGTHENED_MAY_BE_WHOLE
        )
        for seed in range(count):
            result = outcome(target, damage(good, random.Random(seed)))
            if result not in (("refused",) if strict else ("refused", "read")):
                found.append(f"{damage.__name__} {seed}: {result}")
    return found


@pytest.mark.parametrize("kind", NUMPY_KINDS)
def test_damaged_arrays_are_refused_or_other_numbers(tmp_path, kind):
    assert sum(DAMAGES.values()) >= 200
    assert complaints(kind, tmp_path) == []


@pytest.fixture(scope="module")
def library_complaints():
    """By kind the exit status of its process and what it wrote; and what they all said to stderr."""
    command = [sys.executable, "-W", "error", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("kind", LIBRARY_KINDS)
def test_damaged_library_files_are_refused_or_other_numbers(library_complaints, kind):
    ended, said = library_complaints
    status, wrote = ended[kind]
    assert status == 0, said[-2000:]
    assert json.loads(wrote) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_first_byte_is_refused(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    good = path.read_bytes()
    for bit in range(8):
        assert outcome(path, bytes([good[0] ^ 1 << bit]) + good[1:]) == "refused"


@pytest.mark.parametrize("kind", ["npy", "npy by columns"])
def test_a_changed_magic_version_or_header_length_is_refused(tmp_path, kind):
    _every_flip_is_refused(KINDS[kind](tmp_path), range(10))


@pytest.mark.parametrize("kind", ["fbin", "hbin", "u8bin", "i8bin", "ibin", "ibin with distances"])
def test_a_changed_count_is_refused(tmp_path, kind):
    _every_flip_is_refused(KINDS[kind](tmp_path), range(8))


def test_a_changed_wide_count_is_refused(tmp_path):
    _every_flip_is_refused(KINDS["fbin wide"](tmp_path), range(16))


@pytest.mark.parametrize(("kind", "row_bytes"), [("fvecs", 28), ("bvecs", 10), ("ivecs", 24)])
def test_a_changed_row_header_is_refused(tmp_path, kind, row_bytes):
    path = KINDS[kind](tmp_path)
    rows = path.stat().st_size // row_bytes
    _every_flip_is_refused(path, [row * row_bytes + byte for row in range(0, rows, 9) for byte in range(4)])


@pytest.mark.parametrize("kind", ["parquet", "parquet fixed", "parquet ours"])
def test_a_changed_parquet_magic_or_footer_length_is_refused(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    size = path.stat().st_size
    _every_flip_is_refused(path, [*range(4), *range(size - 8, size)])


@pytest.mark.parametrize("kind", ["arrow", "arrow fixed", "arrow compressed"])
def test_a_changed_arrow_magic_or_footer_length_is_refused(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    size = path.stat().st_size
    _every_flip_is_refused(path, [*range(6), *range(size - 10, size)])


@pytest.mark.parametrize("kind", ["hdf5", "hdf5 compressed"])
def test_a_changed_hdf5_signature_is_refused(tmp_path, kind):
    _every_flip_is_refused(KINDS[kind](tmp_path), range(8))


@pytest.mark.parametrize("kind", ["npz", "npz compressed"])
def test_a_changed_byte_of_an_archived_array_is_refused(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    raw = path.read_bytes()
    places = []
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name, extra = struct.unpack_from("<HH", raw, info.header_offset + 26)
            begin = info.header_offset + 30 + name + extra
            # The last byte of a compressed array may have bits that mean nothing.
            places += range(begin, begin + info.compress_size - 1)
    _every_flip_is_refused(path, random.Random(0).sample(places, 200), bits=1)


def test_a_changed_byte_of_a_page_that_we_wrote_is_refused(tmp_path):
    path = KINDS["parquet ours"](tmp_path)
    raw = path.read_bytes()
    places = [place for begin, end in _pages(path) for place in _page_body(raw, begin, end)]
    assert len(places) > 1000
    _every_flip_is_refused(path, random.Random(0).sample(places, 300), bits=1)


def _pages(path):
    """Where the pages of each column begin and end; every column here is one page or two."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        begins = [column.dictionary_page_offset] if column.has_dictionary_page else []
        begins.append(column.data_page_offset)
        yield from zip(begins, [*begins[1:], begins[0] + column.total_compressed_size], strict=True)


def _page_body(raw, begin, end):
    """The bytes behind a page's header, whose third number is their count (Thrift, compact)."""
    at, value = begin, 0
    for _ in range(3):
        at, value, shift = at + 1, 0, 0
        while raw[at] & 0x80:
            value, shift, at = value | (raw[at] & 0x7F) << shift, shift + 7, at + 1
        value, at = value | raw[at] << shift, at + 1
    return range(end - (value >> 1), end)


def _every_flip_is_refused(path, places, bits=8):
    good = path.read_bytes()
    target = path.with_name(f"damaged{path.suffix}")
    accepted = []
    for place in places:
        for bit in range(8) if bits == 8 else [place % 8]:
            damaged = bytearray(good)
            damaged[place] ^= 1 << bit
            result = outcome(target, bytes(damaged))
            if result != "refused":
                accepted.append((place, bit, result))
    assert accepted == []


def _forked(kind, folder):
    """The exit status of a process that damages one kind, and what it wrote: importing takes longer."""
    wrote = folder / "complaints.json"
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)  # which ends a process that hangs
            wrote.write_text(json.dumps(complaints(kind, folder)))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, wrote.read_text() if wrote.exists() else ""


def _every_library_kind():
    ended = {}
    for kind in LIBRARY_KINDS:
        with tempfile.TemporaryDirectory() as folder:
            ended[kind] = _forked(kind, Path(folder))
    return ended


if __name__ == "__main__":
    json.dump(_every_library_kind(), sys.stdout)
