"""Paths, URLs and writes that are whole or not at all."""

import errno
import os
import stat
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from commands import recallatk
from recallatk.datasets import convert
from recallatk.errors import FormatError, UsageError, WriteError
from recallatk.files import atomic_file, locate, locate_all, read_exactly, write_text
from recallatk.redaction import is_url, without_secrets


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
    with pytest.raises(FormatError, match="ends at byte 5, but 9 bytes were expected at 1"):
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


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("key s3://bucket/x.npy is gone", "key s3://bucket/x.npy is gone"),
        ("path 'bucket/x.npy' is gone", "path 's3://bucket/x.npy' is gone"),
        ("bucket/x.npy.tmp is gone", "s3://bucket/x.npy.tmp is gone"),
        ("other-bucket/x.npy is gone", "other-bucket/x.npy is gone"),
    ],
)
def test_a_message_names_the_url_once(tmp_path, reason, shown):
    class Store:
        def open_input_file(self, path):
            raise OSError(reason)

    location = type(locate(tmp_path))(Store(), "bucket/x.npy", "s3://bucket/x.npy", local=False)
    with pytest.raises(UsageError) as caught:
        location.open()
    assert str(caught.value) == f"s3://bucket/x.npy: cannot be opened: {shown}"


@pytest.mark.parametrize("url", ["s3://", "gs://"])
def test_a_store_without_a_bucket_is_refused_in_one_sentence(url):
    ran = recallatk("inspect", url)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == (
        f"recallatk: {url}: not a URL that can be read: the bucket is missing. Accepted: {url}BUCKET/PATH"
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_web_server_that_does_not_answer_is_told_from_a_missing_file(scheme):
    url = f"{scheme}://127.0.0.1:9/a.parquet"
    ran = recallatk("inspect", url)
    assert ran.returncode == 2
    said = ran.stderr.splitlines()[-1]
    assert said.startswith(f"recallatk: {url}: cannot be reached: ")
    assert said.endswith("or download the file and pass its path")
    assert "no such file" not in said


class _NoRanges(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def test_a_web_server_that_has_no_such_file_or_gives_no_parts_of_files_says_so(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2_000, 16), "float32"))
    handler = partial(_NoRanges, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            missing = recallatk("inspect", f"{url}/nothing.npy")
            whole = recallatk("inspect", f"{url}/x.npy")
        finally:
            server.shutdown()
            thread.join()
    assert f"{url}/nothing.npy: no such file or folder" in missing.stderr
    assert (whole.returncode, whole.stderr.count("Traceback")) == (2, 0)
    assert f"{url}/x.npy: cannot be " in whole.stderr
    assert "download the file" in whole.stderr


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


@pytest.mark.parametrize(
    "problem",
    [
        lambda scratch: OSError(errno.ENOSPC, "No space left on device"),
        lambda scratch: OSError(errno.EIO, "Input/output error", str(scratch)),
        lambda scratch: OSError(f"Failed to write {scratch}: broken"),
    ],
)
def test_an_error_names_the_file_that_was_asked_for_and_not_the_temporary_one(tmp_path, problem):
    target = tmp_path / "x.txt"
    with pytest.raises(WriteError) as caught, atomic_file(target) as scratch:
        raise problem(scratch)
    assert str(target) in str(caught.value)
    assert scratch.name not in str(caught.value)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that nobody may write to")
@pytest.mark.parametrize("to", ["csv", "json", "parquet"])
def test_an_export_that_cannot_be_written_names_its_file(tmp_path, to):
    run = Path(__file__).parent / "storage" / "format-1"
    ran = recallatk("export", run, "--to", to, "--out", f"/proc/self/out.{to}")
    assert ran.returncode == 2
    assert ran.stderr == f"recallatk: /proc/self/out.{to}: cannot be written: No such file or directory\n"


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path):
    name = "ü" * 120 + ".txt"
    write_text(tmp_path / name, "text")
    assert leftovers(tmp_path) == [name]


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
    with pytest.raises(UsageError, match="s3://bucket/x: files can be written only to local paths"):
        write_text("s3://KEY:SECRET@bucket/x", "text")
    with pytest.raises(UsageError, match="is a folder"):
        write_text(tmp_path, "text")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        write_text(tmp_path / "pipe", "text")
    assert leftovers(tmp_path) == ["pipe"]


def test_scratch_files_are_no_shards(tmp_path):
    with atomic_file(tmp_path / "x.npy"):
        assert locate(tmp_path).children() == []
