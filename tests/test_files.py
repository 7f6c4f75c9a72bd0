"""Paths, URLs and writes that are whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from recallatk.datasets import convert
from recallatk.errors import FormatError, UsageError, WriteError
from recallatk.files import atomic_file, is_url, locate, locate_all, read_exactly, without_secrets, write_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a/b?c", "a/b?c"),
        ("s3://bucket/a b.npy", "s3://bucket/a b.npy"),
        ("s3://KEY:SECRET@bucket/x?region=a", "s3://bucket/x"),
        ("s3://KEY:SEC%2FRET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:SEC/RET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:12/RET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:SECRET/x", "s3://…"),
        ("s3://bucket/x?access_key=KEY&secret_key=SECRET", "s3://bucket/x"),
        ("https://host:80/x?X-Amz-Signature=SECRET#SECRET", "https://host:80/x"),
        ("hdfs://name:8020/x@y", "hdfs://y"),
        ("s3://bucket[/x", "s3://bucket[/x"),
    ],
)
def test_what_is_shown_of_a_url_has_no_secrets(text, shown):
    assert without_secrets(text) == shown


def test_urls_are_told_from_paths():
    assert is_url("s3://bucket/x")
    assert not is_url("C://x")
    assert not is_url("/a/b://c")


@pytest.mark.parametrize("url", ["s3://KEY:SEC/RET@bucket/x", "nosuch://KEY:SECRET@host/x", "s3://:SECRET@/"])
def test_a_url_that_cannot_be_read_is_refused_without_its_secrets(url):
    with pytest.raises(UsageError) as caught:
        locate(url)
    assert "SEC" not in str(caught.value)
    assert "RET" not in str(caught.value)


def test_an_unknown_scheme_says_so():
    with pytest.raises(UsageError, match="nosuch"):
        locate("nosuch://host/x")


def test_a_file_url_is_a_local_file(tmp_path):
    (tmp_path / "a b ü.txt").write_text("hello")
    location = locate(f"file://{tmp_path}/a b ü.txt")
    assert location.local
    assert location.read_at(1, 3) == b"ell"
    assert locate((tmp_path / "a b ü.txt").as_uri()).read_at(0, 9) == b"hello"


def test_bytes_are_read_as_far_as_there_are_some(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"hello")
    location = locate(path)
    assert [location.read_at(*place) for place in [(0, 9), (4, 2), (5, 1), (99, 1)]] == [
        b"hello",
        b"o",
        b"",
        b"",
    ]
    assert read_exactly(location, 1, 4) == b"ello"
    with pytest.raises(FormatError, match="ends at byte 5 and 9 bytes were expected at 1"):
        read_exactly(location, 1, 9)


def test_what_goes_wrong_while_reading_names_the_file(tmp_path):
    location = locate(tmp_path)
    with pytest.raises(UsageError, match=f"{tmp_path}: cannot be"):
        location.read_at(0, 1)
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="x: cannot be listed"):
        locate(tmp_path / "x").children()


def test_messages_of_a_file_system_do_not_betray_the_url(tmp_path):
    class Web:
        def open_input_file(self, path):
            raise FileNotFoundError(path)

    location = type(locate(tmp_path))(
        Web(), "https://host/x.npy?token=SECRET", "https://host/x.npy", local=False
    )
    assert (location.name, location.suffix) == ("x.npy", ".npy")
    with pytest.raises(UsageError, match=r"https://host/x.npy") as caught:
        location.open()
    assert "SECRET" not in str(caught.value)


def test_a_pattern_finds_files_by_name_and_a_url_keeps_its_question_mark(tmp_path):
    for name in ("b1.x", "a1.x", "c.y"):
        (tmp_path / name).write_text("")
    (tmp_path / "d1.x").mkdir()
    assert [found.name for found in locate_all(tmp_path / "?1.x")] == ["a1.x", "b1.x"]
    assert [found.name for found in locate_all(f"file://{tmp_path}/*.x")] == ["a1.x", "b1.x"]
    assert [found.text for found in locate_all(f"{tmp_path}/[bc]*")] == [
        f"{tmp_path}/b1.x",
        f"{tmp_path}/c.y",
    ]


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_there_when_the_block_ends_well(tmp_path):
    target = tmp_path / "new folder" / "deeper" / "a file.txt"
    with atomic_file(target) as scratch:
        assert scratch.parent == target.parent
        assert scratch.suffix == ".txt"
        assert not target.exists()
        scratch.write_text("whole")
    assert target.read_text() == "whole"
    assert leftovers(target.parent) == ["a file.txt"]


@pytest.mark.parametrize(
    ("problem", "raised"),
    [
        (ValueError, ValueError),
        (KeyboardInterrupt, KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), WriteError),
        # What another file is to blame for is not said of this one.
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "other"), FileNotFoundError),
        (OSError("the stream has ended"), OSError),
    ],
)
def test_a_block_that_fails_leaves_the_old_file_and_no_scratch(tmp_path, problem, raised):
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(raised), atomic_file(target) as scratch:
        scratch.write_text("half")
        raise problem
    assert target.read_text() == "old"
    assert leftovers(tmp_path) == ["x.txt"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.npy", "x.fbin", "x.parquet"])
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, name):
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": 1, "vector": [1, 2]}\n')

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=rf"{name}: cannot be written: No space left"):
        convert(source, tmp_path / name)
    assert leftovers(tmp_path) == ["in.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_a_disk_that_fills_up_while_text_is_written_leaves_nothing_behind(tmp_path, monkeypatch):
    usual = Path.open

    def open_full(path, mode="r", *arguments, **options):
        return usual(Path("/dev/full") if "w" in mode else path, mode, *arguments, **options)

    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(f'{{"id": {i}, "vector": [1, 2]}}' for i in range(3)))
    monkeypatch.setattr(Path, "open", open_full)
    for name in ("x.jsonl", "x.csv"):
        with pytest.raises(WriteError, match=f"{name}: cannot be written: No space left"):
            convert(source, tmp_path / name)
    assert leftovers(tmp_path) == ["in.jsonl"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_file_has_the_rights_that_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "x", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~mask


def test_urls_folders_and_devices_are_not_written(tmp_path):
    with pytest.raises(UsageError, match="s3://bucket/x: files are written to local paths only"):
        write_text("s3://KEY:SECRET@bucket/x", "text")
    with pytest.raises(UsageError, match="is a folder"):
        write_text(tmp_path, "text")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no ordinary file"):
        write_text(tmp_path / "pipe", "text")
    assert leftovers(tmp_path) == ["pipe"]


def test_scratch_files_are_no_shards(tmp_path):
    with atomic_file(tmp_path / "x.npy"):
        assert locate(tmp_path).children() == []
