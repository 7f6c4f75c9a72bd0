"""Data in memory: data frames, Arrow, arrays, tensors and lists are opened as files are."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import recallatk
from recallatk import RecallError, make_corpus, make_queries, open_corpus, open_dataset, open_queries
from recallatk.fingerprint import fingerprints

VECTORS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
IDS = [f"d{row}" for row in range(40)]
COLORS = ["red", "blue"] * 20


class DlpackOnly:
    """A tensor that has nothing but `__dlpack__`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def pandas_frame(vectors, ids, **columns):
    return pd.DataFrame({"id": ids, "vector": list(vectors), **columns})


def polars_lists(vectors, ids, **columns):
    return pl.DataFrame(
        {"id": ids, "vector": pl.Series(vectors.tolist(), dtype=pl.List(pl.Float32)), **columns}
    )


def polars_arrays(vectors, ids, **columns):
    return pl.DataFrame({"id": ids, "vector": vectors, **columns})


def polars_lazy(vectors, ids, **columns):
    return polars_arrays(vectors, ids, **columns).lazy()


def arrow_table(vectors, ids, **columns):
    return pa.table({"id": ids, "vector": list(vectors), **columns})


def arrow_chunks(vectors, ids, **columns):
    whole = arrow_table(vectors, ids, **columns)
    middle = len(ids) // 2
    return pa.concat_tables([whole.slice(0, middle), whole.slice(middle)])


def mapping(vectors, ids, **columns):
    return {"id": ids, "vector": vectors, **columns}


def rows(vectors, ids, **columns):
    names = ["id", "vector", *columns]
    return [dict(zip(names, row, strict=True)) for row in zip(ids, vectors, *columns.values(), strict=True)]


def pandas_index(vectors, ids, **columns):
    return pandas_frame(vectors, ids, **columns).set_index("id")


FRAMES = [
    pandas_frame,
    polars_lists,
    polars_arrays,
    polars_lazy,
    arrow_table,
    arrow_chunks,
    mapping,
    rows,
    pandas_index,
]
every_frame = pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.__name__)


@every_frame
def test_a_frame_holds_what_the_file_holds(frame, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(arrow_table(VECTORS, IDS, color=COLORS), tmp_path / "corpus.parquet")
    queries = {"text": ["a"] * 5, "filter": ["color = 'red'", None, None, "", None]}
    pq.write_table(arrow_table(VECTORS[:5], IDS[:5], **queries), tmp_path / "queries.parquet")
    files = open_dataset(tmp_path / "corpus.parquet", tmp_path / "queries.parquet", metric="cosine")
    held = open_dataset(
        frame(VECTORS, IDS, color=COLORS), frame(VECTORS[:5], IDS[:5], **queries), metric="cosine"
    )
    assert held.corpus.ids.to_pylist() == IDS
    assert held.corpus.metadata_names == ["color"]
    assert held.queries.text_column == "text"
    assert held.queries.filters == files.queries.filters
    assert fingerprints(held) == fingerprints(files)


@pytest.mark.parametrize(
    "matrix",
    [
        VECTORS,
        DlpackOnly(VECTORS),
        list(VECTORS),
        pd.Series(list(VECTORS)),
        pd.Series(list(VECTORS)).to_numpy(),
        pl.Series("anything", VECTORS),
        pd.DataFrame(VECTORS),
        pl.DataFrame(VECTORS, schema=[f"v{i}" for i in range(6)]),
        pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 6),
    ],
    ids=lambda each: type(each).__module__.partition(".")[0] + " " + type(each).__name__,
)
@pytest.mark.parametrize("make", [open_corpus, make_corpus, open_queries, make_queries])
def test_vectors_alone_are_numbered(matrix, make):
    made = make(matrix)
    assert made.vectors.dtype == np.float32
    assert np.array_equal(made.vectors.read(3, 9), VECTORS[3:9])
    assert made.id_column is None and made.ids.to_pylist() == list(range(40))


@pytest.mark.parametrize(
    "vectors",
    [VECTORS, pl.DataFrame({"vector": VECTORS}), pa.table({"v": list(VECTORS)})],
    ids=lambda each: type(each).__name__,
)
def test_one_chunk_is_not_copied(vectors):
    held = open_corpus(vectors).vectors.vectors.array
    again = open_corpus(vectors).vectors.vectors.array
    assert np.shares_memory(held, again)


@pytest.mark.parametrize(
    "ids",
    [IDS, np.array(IDS), pd.Series(IDS), pd.Index(IDS), pl.Series(IDS), pa.array(IDS), pd.Categorical(IDS)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize(
    "metadata",
    [
        {"color": COLORS},
        {"color": pd.Series(COLORS)},
        pd.DataFrame({"color": COLORS}),
        pl.DataFrame({"color": COLORS}),
        pa.table({"color": COLORS}),
        [{"color": color} for color in COLORS],
    ],
    ids=lambda each: type(each).__name__,
)
def test_ids_and_metadata_may_be_held_apart(ids, metadata):
    made = make_corpus(VECTORS, ids, metadata)
    assert made.ids.to_pylist() == IDS
    assert made.metadata.to_pydict() == {"color": COLORS}


def test_what_is_given_beside_a_frame_replaces_what_it_holds():
    frame = pandas_frame(VECTORS, IDS, color=COLORS)
    assert make_corpus(frame).ids.to_pylist() == IDS
    assert make_corpus(frame, range(40)).ids.to_pylist() == list(range(40))
    assert make_corpus(frame, range(40)).metadata_names == ["color"]
    other = make_corpus(frame, metadata={"size": range(40)})
    assert other.ids.to_pylist() == IDS and other.metadata_names == ["size"]
    assert make_queries(VECTORS[:2], filters=["n > 1", None]).filters[0] == recallatk.parse_filter("n > 1")


class TestThePandasIndex:
    def test_with_a_name_it_is_the_ids(self):
        frame = pd.DataFrame({"vector": list(VECTORS)}, index=pd.RangeIndex(100, 140, name="sku"))
        assert open_corpus(frame).ids.to_pylist() == list(range(100, 140))
        assert open_corpus(frame[::-1]).ids.to_pylist() == list(range(139, 99, -1))
        assert open_corpus(frame.sample(20, random_state=1)).ids[0].as_py() >= 100

    def test_with_text_it_is_the_ids(self):
        frame = pd.DataFrame({"vector": list(VECTORS)}, index=IDS)
        assert open_corpus(frame).ids.to_pylist() == IDS
        assert open_corpus(frame["vector"]).ids.to_pylist() == IDS

    def test_integers_without_a_name_are_what_slicing_left(self):
        frame = pd.DataFrame({"vector": list(VECTORS), "n": range(40)}).sample(20, random_state=1)
        opened = open_corpus(frame)
        assert opened.ids.to_pylist() == list(range(20))
        assert opened.metadata["n"].to_pylist() == frame["n"].tolist()

    def test_an_id_column_wins(self):
        frame = pd.DataFrame({"id": IDS, "vector": list(VECTORS)}, index=IDS[::-1])
        assert open_corpus(frame).ids.to_pylist() == IDS
        assert open_corpus(frame, id_column="index").ids.to_pylist() == IDS[::-1]

    def test_several_levels_are_metadata(self):
        levels = pd.MultiIndex.from_arrays([IDS, COLORS], names=["name", "color"])
        opened = open_corpus(pd.DataFrame({"vector": list(VECTORS)}, index=levels))
        assert opened.id_column is None and opened.metadata_names == ["name", "color"]


def test_columns_can_be_named():
    frame = pl.DataFrame({"sku": IDS, "image": VECTORS, "title": VECTORS * 2})
    with pytest.raises(RecallError, match=r"could be the vector: image or title\. Name one: vector_column="):
        open_corpus(frame)
    opened = open_corpus(frame, id_column="sku", vector_column="title")
    assert opened.ids.to_pylist() == IDS and np.array_equal(opened.vectors.read(0, 40), VECTORS * 2)


def test_files_and_frames_go_together(tmp_path):
    np.save(tmp_path / "queries.npy", VECTORS[:3])
    dataset = open_dataset(polars_lists(VECTORS, IDS), tmp_path / "queries.npy", metric="l2", format="npy")
    assert open_dataset(dataset) is not None and open_dataset(dataset, metric="l2").metric == "l2"
    with pytest.raises(RecallError, match="metric mismatch: the dataset uses l2, not cosine"):
        open_dataset(dataset, metric="cosine")
    assert open_corpus(dataset.corpus) is dataset.corpus and open_queries(dataset.queries) is dataset.queries


@every_frame
def test_a_frame_is_inspected_and_converted(frame, tmp_path):
    found = recallatk.inspect(frame(VECTORS, IDS, color=COLORS))
    assert (found["rows"], found["dimension"], found["format"]) == (40, 6, "in memory")
    recallatk.convert(frame(VECTORS, IDS, color=COLORS), tmp_path / "corpus.parquet")
    assert recallatk.inspect(tmp_path / "corpus.parquet")["fingerprint"] == found["fingerprint"]


BAD = {
    "a vector": (VECTORS[0], r"shape \(6,\)\. Accepted: a matrix .* vector\.reshape\(1, -1\)"),
    "a cube": (VECTORS[None], r"shape \(1, 40, 6\)"),
    "numbers": ([1.0, 2.0], r"shape \(2,\)"),
    "nothing": (None, "an object of type NoneType. Accepted: a path, a data frame"),
    "a number": (5, "an object of type int"),
    "a generator": ((row for row in VECTORS), "an object of type generator"),
    "no rows": (np.zeros((0, 3)), r"shape \(0, 3\)"),
    "an empty list": ([], r"shape \(0,\)"),
    "an empty pandas frame": (pd.DataFrame({"vector": []}), "it has no rows"),
    "an empty polars frame": (pl.DataFrame(), "it has no rows"),
    "no vectors": (pl.DataFrame({"n": [1], "t": ["x"]}), r"no column holds .*n: int64, t: large_string"),
    "vectors as text": (pd.DataFrame({"embedding": ["[1, 2]"]}), "'embedding' holds text: parse it"),
    "text": (np.array([["a", "b"]]), "a matrix of str32"),
    "whole numbers": ([[1, 2], [3, 4]], r"a matrix of int64.*astype\('float32'\)"),
    "ragged lists": ([[1.0, 2.0], [1.0]], "row 1: 1 numbers, but row 0 has 2"),
    "a ragged frame": (pd.DataFrame({"v": [[1.0, 2.0], [1.0]]}), "row 1: the vector has 1 numbers"),
    "ragged polars": (pl.DataFrame({"v": [[1.0], [1.0, 2.0]]}), "row 1: the vector has 2 numbers"),
    "a null vector": (pd.DataFrame({"v": [[1.0], None]}), "row 1: the vector is null"),
    "a null first": (pl.DataFrame({"v": [None, [1.0]]}), "row 0: the vector is null"),
    "a null in a list": ([[1.0], None], "row 1: the vector is null"),
    "a null number": (pl.DataFrame({"v": [[1.0], [None]]}), "row 1: a number is null or NaN"),
    "mixed values": (
        pd.DataFrame({"v": [[1.0], [2.0]], "size": [1, "xl"]}),
        "column size .*Convert the column",
    ),
    "two columns of one name": (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "column names"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("role", ["corpus", "queries"])
def test_what_holds_no_vectors_is_refused(what, role):
    value, said = BAD[what]
    with pytest.raises(RecallError, match=rf"^{role}.*{said}"):
        (open_corpus if role == "corpus" else open_queries)(value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: open_dataset(VECTORS, VECTORS[:, :3], metric="l2"),
            "the corpus has 6",
        ),
        (lambda: open_dataset(VECTORS, VECTORS), "no metric: corpus does not state one"),
        (lambda: open_dataset(pd.DataFrame(VECTORS), metric="l2"), "Pass the queries too"),
        (lambda: open_corpus(VECTORS, id_column="sku"), "no column 'sku', because numpy ndarray"),
        (lambda: open_corpus(VECTORS, format="npy"), "format='npy' is for files"),
        (lambda: open_corpus(pd.DataFrame({"v": [[1.0]]}), id_column="n"), "there is no column 'n'"),
        (lambda: open_corpus(pd.DataFrame({"v": [[1.0]], "n": ["a"]}), vector_column="n"), "'n' holds"),
        (lambda: open_corpus(pl.DataFrame({"id": [1, 1], "v": [[1.0], [2.0]]})).ids, "row 1: duplicate id 1"),
        (lambda: open_corpus(pd.DataFrame({"id": [0.5], "v": [[1.0]]})), "the column 'id' holds double"),
        (lambda: make_corpus(VECTORS, IDS[:3]), "40 vectors but 3 values of 'id'"),
        (lambda: make_corpus(VECTORS, VECTORS[:, 0]), "ids of type float"),
        (lambda: make_corpus(VECTORS, 5), r"corpus \(ids\)"),
        (lambda: make_corpus(VECTORS, metadata=5), "metadata of type int"),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    with pytest.raises(RecallError, match=said):
        call()
