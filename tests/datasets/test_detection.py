"""A file is told by its first bytes, then by its ending; what is neither is refused with what is accepted."""

import json
import pickle
import shutil
import struct

import numpy as np
import pytest
from writers import (
    numbers,
    write_arrow,
    write_hdf5,
    write_npy,
    write_npz,
    write_parquet,
    write_vecs,
    write_xbin,
)

from recallatk.datasets import convert, inspect, open_corpus
from recallatk.datasets.registry import FORMATS, all_formats, format_for_writing
from recallatk.errors import FormatError, RecallError, UsageError

MATRIX = numbers(6, 4)
WRITERS = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".fvecs": write_vecs,
    ".fbin": write_xbin,
    ".hdf5": lambda path, matrix: write_hdf5(path, matrix, matrix, distance="euclidean"),
    ".jsonl": lambda path, matrix: path.write_text(
        "".join(json.dumps({"vector": r.tolist()}) + "\n" for r in matrix)
    ),
    ".csv": lambda path, matrix: np.savetxt(path, matrix, delimiter=",", fmt="%.9g"),
}
WITH_MAGIC = [".npy", ".npz", ".parquet", ".arrow", ".hdf5"]


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_the_ending_may_be_written_in_capitals(tmp_path, same, suffix):
    path = tmp_path / f"a file{suffix.upper()}"
    WRITERS[suffix](tmp_path / f"x{suffix}", MATRIX)
    shutil.move(tmp_path / f"x{suffix}", path)
    same(open_corpus(path), MATRIX)


@pytest.mark.parametrize("suffix", WITH_MAGIC)
@pytest.mark.parametrize("name", ["x.parquet", "x.npy", "x.csv", "x.data", "x", "x.pickle"])
def test_the_content_wins_over_the_ending(tmp_path, same, suffix, name):
    made = tmp_path / f"made{suffix}"
    WRITERS[suffix](made, MATRIX)
    same(open_corpus(shutil.move(made, tmp_path / name)), MATRIX)


def test_lines_of_objects_are_told_without_an_ending(tmp_path, same):
    WRITERS[".jsonl"](tmp_path / "lines", MATRIX)
    same(open_corpus(tmp_path / "lines"), MATRIX)


@pytest.mark.parametrize(
    "suffix", [".npy", ".npz", ".parquet", ".arrow", ".hdf5", ".fvecs", ".fbin", ".csv", ".jsonl"]
)
@pytest.mark.parametrize("content", [b"not what the name says", bytes(100), b"\xff" * 100])
def test_another_content_than_the_ending_says_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"x{suffix}"):
        open_corpus(path)


@pytest.mark.parametrize(
    "format", sorted(name for name in FORMATS if name not in ("beir", "folder", "vectordbbench"))
)
def test_a_stated_format_is_checked(tmp_path, format):
    path = tmp_path / "x.data"
    path.write_bytes(b"not what was said, and no vectors in any format")
    with pytest.raises(FormatError, match=r"x.data"):
        open_corpus(path, format=format)


def test_a_stated_format_wins_over_the_ending(tmp_path, same):
    path = write_xbin(tmp_path / "x.csv", MATRIX)
    same(open_corpus(path, format="fbin"), MATRIX)
    with pytest.raises(
        UsageError,
        match=r"no format 'fbinn'. Did you mean fbin\? Accepted: .* or vectordbbench",
    ):
        open_corpus(path, format="fbinn")


def test_an_unknown_file_is_refused_with_every_ending_there_is(tmp_path):
    path = tmp_path / "x.xyz"
    path.write_bytes(b"?" * 50)
    with pytest.raises(FormatError, match="--format") as caught:
        open_corpus(path)
    for each in all_formats():
        assert all(suffix in str(caught.value) for suffix in each.suffixes)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ["x.pkl", "x.npy", "x.data", "x.csv", "x.parquet"])
def test_a_pickle_is_refused_whatever_it_is_called(tmp_path, protocol, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps([[0.5] * 3] * 4, protocol))
    with pytest.raises(FormatError, match="pickle, which can run code and is never loaded"):
        open_corpus(path)


@pytest.mark.parametrize("name", ["x.pkl", "x.pickle", "x.joblib", "x.pt", "x.pth"])
def test_the_endings_of_pickles_are_refused(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"(lp0\n.")
    with pytest.raises(FormatError, match="pickle"):
        open_corpus(path)


@pytest.mark.parametrize("dimension", [640, 896, 1152, 1408])
def test_vectors_whose_dimension_looks_like_a_pickle_are_read(tmp_path, same, dimension):
    matrix = numbers(2, dimension)
    same(open_corpus(write_vecs(tmp_path / "x.fvecs", matrix)), matrix)


def test_counts_that_look_like_a_magic_are_counts(tmp_path, same):
    rows = struct.unpack("<I", b"\x93NUM")[0]
    matrix = np.ones((3, 1), np.uint8)
    path = tmp_path / "x.u8bin"
    path.write_bytes(struct.pack("<II", 3, 1) + matrix.tobytes())
    same(open_corpus(path), matrix)
    path.write_bytes(struct.pack("<II", rows, 1) + b"\1" * 8)
    with pytest.raises(FormatError, match=f"{rows} rows"):
        open_corpus(path)


@pytest.mark.parametrize("name", ["x.npy", "x.jsonl", "x.parquet", "x.csv", "x.fbin", "x"])
def test_an_empty_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FormatError, match="the file is empty"):
        open_corpus(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere.npy: no such file or folder"):
        open_corpus(tmp_path / "nowhere.npy")


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_paths_may_have_spaces_and_any_letters(tmp_path, same, suffix):
    folder = tmp_path / "mein Ordner" / "データ #1 % 'x' & (y)"
    folder.mkdir(parents=True)
    WRITERS[suffix](folder / f"naïve vectors{suffix}", MATRIX)
    same(open_corpus(folder / f"naïve vectors{suffix}"), MATRIX)
    same(open_corpus(str(folder / f"naïve vectors{suffix}")), MATRIX)


def test_the_ending_says_what_is_written(tmp_path):
    source = write_npy(tmp_path / "x.npy", MATRIX)
    for name in ("y.parquet", "y.FBIN", "y.tsv", "y.ndjson"):
        convert(source, tmp_path / name)
        assert inspect(tmp_path / name)["rows"] == 6
    with pytest.raises(UsageError, match=r"\.npy"):
        format_for_writing("y.xyz")
    with pytest.raises(RecallError):
        convert(source, tmp_path / "y.npz")
    assert not (tmp_path / "y.npz").exists()


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = write_npy(tmp_path / "x.npy", MATRIX)
    monkeypatch.setattr("recallatk.files.Location.open", forbidden)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        open_corpus(path)


def forbidden(location):
    raise PermissionError(13, "Permission denied")
