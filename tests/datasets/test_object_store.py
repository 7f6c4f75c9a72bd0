"""Every format from a server that speaks S3, and from fsspec: what is read is what is on disk."""

import json

import boto3
import fsspec
import numpy as np
import pytest
from moto.server import ThreadedMotoServer
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

import recallatk
from recallatk.datasets import convert, inspect, open_corpus, open_dataset, read_truth
from recallatk.errors import FormatError, RecallError, UsageError
from recallatk.files import locate, locate_all

MATRIX, QUERIES = numbers(60, 4), numbers(5, 4, seed=8)
BUCKET = "vectors"
FILES = [
    "x.parquet",
    "x.npy",
    "fortran.npy",
    "x.fbin",
    "x.fvecs",
    "x.arrow",
    "stream.arrow",
    "x.hdf5",
    "x.jsonl",
    "x.csv",
    "x.npz",
    "compressed.npz",
    "a file ü [1].npy",
]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """One matrix in every format, on disk."""
    folder = tmp_path_factory.mktemp("local")
    write_parquet(folder / "x.parquet", MATRIX, row_group_rows=16, id=[f"r{i}" for i in range(60)])
    write_npy(folder / "x.npy", MATRIX)
    write_npy(folder / "fortran.npy", np.asfortranarray(MATRIX))
    write_npy(folder / "a file ü [1].npy", MATRIX)
    write_npz(folder / "x.npz", MATRIX, id=np.arange(60))
    write_npz(folder / "compressed.npz", MATRIX, compressed=True)
    write_xbin(folder / "x.fbin", MATRIX)
    write_vecs(folder / "x.fvecs", MATRIX)
    write_vecs(folder / "truth.ivecs", np.arange(10, dtype=np.int32).reshape(5, 2))
    write_arrow(folder / "x.arrow", MATRIX, batch_rows=16)
    write_arrow(folder / "stream.arrow", MATRIX, batch_rows=16, stream=True)
    write_hdf5(folder / "x.hdf5", MATRIX, QUERIES, distance="euclidean")
    lines = [json.dumps({"id": i, "vector": row.tolist()}) for i, row in enumerate(MATRIX)]
    (folder / "x.jsonl").write_text("\n".join(lines))
    (folder / "x.csv").write_text(
        "id,vector\n" + "".join(f"{i},{' '.join(map(str, r))}\n" for i, r in enumerate(MATRIX))
    )
    for number in range(3):
        rows = np.arange(number * 20, number * 20 + 20)
        for kind, write in (("parquet", write_parquet), ("arrow", write_arrow)):
            path = folder / kind / f"part-{number}.{kind}"
            path.parent.mkdir(exist_ok=True)
            write(path, MATRIX[rows], id=rows)
    (folder / "parquet" / "_SUCCESS").write_text("")
    (folder / "pair").mkdir()
    write_npy(folder / "pair" / "corpus.npy", MATRIX)
    write_npy(folder / "pair" / "queries.npy", QUERIES)
    (folder / "pair" / "qrels.tsv").write_text("0\t1\t1\n")
    return folder


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def uploaded(endpoint, local):
    store = boto3.client(
        "s3",
        endpoint_url=f"http://{endpoint}",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    store.create_bucket(Bucket=BUCKET)
    for path in local.rglob("*.*"):
        store.put_object(Bucket=BUCKET, Key=str(path.relative_to(local)), Body=path.read_bytes())
    store.put_object(Bucket=BUCKET, Key="short.npy", Body=(local / "x.npy").read_bytes()[:-1])
    store.put_object(Bucket=BUCKET, Key="empty.npy", Body=b"")
    store.close()


@pytest.fixture
def url(uploaded, endpoint, monkeypatch):
    """The address of a key, which says where the server is."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def of(key, bucket=BUCKET, secret=""):
        return f"s3://{secret}{bucket}/{key}?endpoint_override={endpoint}&scheme=http&region=us-east-1"

    return of


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_from_the_store_as_from_disk(url, local, same, name):
    remote, here = open_corpus(url(name)), open_corpus(local / name)
    same(remote, MATRIX)
    assert remote.ids.equals(here.ids)
    for start, stop in ((40, 45), (0, 3), (59, 60), (17, 17), (10, 50)):
        np.testing.assert_array_equal(remote.vectors.read(start, stop), MATRIX[start:stop])
    assert remote.name.startswith(f"s3://{BUCKET}/{name}")
    assert inspect(url(name))["fingerprint"] == inspect(local / name)["fingerprint"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("pattern", ["{}", "{}/", "{}/*", "{}/part-[0-2].{}", "{}/part-*.{}"])
def test_a_folder_and_a_pattern_of_shards_are_one_table(url, same, kind, pattern):
    corpus = open_corpus(url(pattern.format(kind, kind)))
    same(corpus, MATRIX)
    assert corpus.ids.to_pylist() == list(range(60))
    np.testing.assert_array_equal(corpus.vectors.read(15, 45), MATRIX[15:45])


def test_the_server_may_be_named_as_a_url_within_the_url(url, endpoint, same):
    address = f"s3://{BUCKET}/parquet/part-*?endpoint_override=http://{endpoint}&region=us-east-1"
    same(open_corpus(address), MATRIX)


def test_a_key_may_be_escaped(url, same):
    same(open_corpus(url("a%20file%20%C3%BC%20%5B1%5D.npy")), MATRIX)


def test_a_folder_with_corpus_queries_and_judgments_is_a_dataset(url, same):
    dataset = open_dataset(url("pair"), metric="l2")
    same(dataset.corpus, MATRIX)
    same(dataset.queries, QUERIES)
    assert dataset.qrels == {"0": {"1": 1}}


def test_truth_and_conversions_read_from_the_store(url, tmp_path):
    assert read_truth(url("truth.ivecs")).rows.tolist() == np.arange(10).reshape(5, 2).tolist()
    convert(url("x.hdf5"), tmp_path / "q.npy", part="queries")
    np.testing.assert_array_equal(np.load(tmp_path / "q.npy"), QUERIES)


def test_a_truth_is_computed_from_the_store(url, local):
    remote = recallatk.ground_truth(open_dataset(url("x.hdf5")), depth=3)
    here = recallatk.ground_truth(open_dataset(local / "x.hdf5"), depth=3)
    assert remote.rows.tolist() == here.rows.tolist()
    assert remote.fingerprints == here.fingerprints


@pytest.mark.parametrize("key", ["nothing.npy", "nothing/*.npy", "parquet/*.npy"])
def test_a_missing_key_is_refused(url, key):
    with pytest.raises(UsageError, match=r"s3://vectors/[^?]*: no (such )?file"):
        open_corpus(url(key))


def test_a_missing_bucket_is_refused(url):
    with pytest.raises(UsageError, match=r"s3://nowhere-at-all/x.npy: no such file or folder"):
        open_corpus(url("x.npy", bucket="nowhere-at-all"))


def test_damaged_objects_are_refused_as_files_are(url):
    with pytest.raises(FormatError, match=f"s3://{BUCKET}/short.npy: the file is truncated"):
        open_corpus(url("short.npy"))
    with pytest.raises(FormatError, match=f"s3://{BUCKET}/empty.npy: the file is empty"):
        open_corpus(url("empty.npy"))


def test_several_formats_are_refused(url):
    with pytest.raises(FormatError, match=r"s3://vectors/x\.\*: files of several formats"):
        open_corpus(url("x.*"))


def test_bytes_beyond_the_end_are_none(url, local):
    size = (local / "x.npy").stat().st_size
    location = locate(url("x.npy"))
    assert [len(location.read_at(place, 9)) for place in (size - 4, size, size + 100)] == [4, 0, 0]


def test_a_server_that_is_not_there_is_refused(url, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = "endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1&connect_timeout=0.2"
    with pytest.raises(UsageError, match=r"s3://vectors/x.npy: "):
        open_corpus(f"s3://vectors/x.npy?{options}")


KEY, SECRET = "AKIAKEYKEYKEY", "s3cr3t%2Fs3cr3t"


@pytest.mark.parametrize(
    "key",
    [
        "x.npy",
        "parquet",
        "parquet/*",
        "nothing.npy",
        "nothing/*",
        "short.npy",
        "empty.npy",
        "x.*",
        "truth.ivecs",
        "pair",
    ],
)
def test_secrets_are_never_shown(url, key):
    address = url(key, secret=f"{KEY}:{SECRET}@")
    try:
        corpus = open_corpus(address)
        dataset = open_dataset(corpus, corpus_as_queries(corpus), metric="l2")
        shown = [corpus.name, dataset.name, json.dumps(inspect(address))]
    except RecallError as problem:
        shown = [str(problem), repr(problem)]
    shown += [repr(each.text) for each in located(address)]
    for text in shown:
        assert not any(part in text for part in (KEY, "s3cr3t", "endpoint_override")), text


def corpus_as_queries(corpus):
    return recallatk.queries_from_corpus(corpus, 2)


def located(address):
    try:
        return locate_all(address)
    except RecallError:
        return []


@pytest.fixture
def memory(local):
    store = fsspec.filesystem("memory")
    for path in local.rglob("*.*"):
        store.pipe(f"/folder/{path.relative_to(local)}", path.read_bytes())
    yield "memory://folder"
    store.rm("/folder", recursive=True)


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read_through_fsspec(memory, same, name):
    corpus = open_corpus(f"{memory}/{name}")
    same(corpus, MATRIX)
    np.testing.assert_array_equal(corpus.vectors.read(10, 50), MATRIX[10:50])


@pytest.mark.parametrize(
    "path", ["parquet", "arrow", "parquet/*", "parquet/part-[0-2].parquet", "arrow/part*"]
)
def test_shards_are_read_through_fsspec(memory, same, path):
    same(open_corpus(f"{memory}/{path}"), MATRIX)


def test_what_fsspec_does_not_find_is_refused(memory):
    for path in ("nothing.npy", "parquet/*.npy"):
        with pytest.raises(UsageError, match=r"memory://folder/.*no (such )?file"):
            open_corpus(f"{memory}/{path}")
