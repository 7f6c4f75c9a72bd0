"""NPZ archives, as numpy writes them."""

import zipfile

import numpy as np
import pytest
from writers import numbers, write_npz

import recallatk
from commands import recallatk as recallatk_command
from recallatk.errors import FormatError, RecallError, UsageError


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_matrix_and_the_arrays_beside_it_are_read(tmp_path, same, compressed, dtype):
    matrix = numbers(30, 5, dtype)
    names = np.array([f"doc-{row}é" for row in range(30)])
    path = write_npz(tmp_path / "a.npz", matrix, compressed=compressed, ids=names, year=np.arange(30) + 1990)
    corpus = recallatk.open_corpus(path)
    same(corpus, matrix)
    assert corpus.ids.to_pylist() == names.tolist()
    assert corpus.metadata.to_pydict() == {"year": list(range(1990, 2020))}


@pytest.mark.parametrize("compressed", [False, True])
def test_the_byte_order_of_another_machine_is_turned(tmp_path, same, compressed):
    matrix = numbers(30, 5)
    path = write_npz(
        tmp_path / "a.npz", matrix.astype(">f4"), compressed=compressed, id=np.arange(30, dtype=">i4")
    )
    corpus = recallatk.open_corpus(path)
    same(corpus, matrix)
    assert corpus.ids.to_pylist() == list(range(30))


def test_a_stored_array_in_column_order_is_read_by_rows(tmp_path, same):
    matrix = numbers(30, 5)
    same(recallatk.open_corpus(write_npz(tmp_path / "a.npz", np.asfortranarray(matrix))), matrix)


def test_a_compressed_array_in_column_order_is_refused(tmp_path):
    path = write_npz(tmp_path / "a.npz", np.asfortranarray(numbers(30, 5)), compressed=True)
    with pytest.raises(FormatError, match=r"a\.npz.*column order"):
        recallatk.open_corpus(path)


def test_the_only_matrix_is_the_vectors_whatever_its_name(tmp_path, same):
    matrix = numbers(30, 5)
    same(recallatk.open_corpus(write_npz(tmp_path / "a.npz", matrix, name="arr_0")), matrix)


def test_blocks_of_a_stored_array_can_be_given_to_compiled_code(tmp_path):
    for name in ("v", "ve", "vec", "vect"):  # the length of the name shifts the numbers
        corpus = recallatk.open_corpus(write_npz(tmp_path / "a.npz", numbers(30, 5), name=name))
        assert corpus.vectors.read(3, 9).flags.aligned


def test_several_matrices_have_to_be_chosen_from(tmp_path, same):
    first, second = numbers(30, 5, seed=1), numbers(30, 5, seed=2)
    path = write_npz(tmp_path / "a.npz", first, name="left", right=second)
    with pytest.raises(UsageError, match="left or right"):
        recallatk.open_corpus(path)
    same(recallatk.open_corpus(path, vector_column="right"), second)
    with pytest.raises(UsageError, match="middle"):
        recallatk.open_corpus(path, vector_column="middle")


def test_an_id_array_can_be_named_and_must_hold_ids(tmp_path):
    path = write_npz(tmp_path / "a.npz", numbers(3, 5), key=np.array([7, 8, 9]), weight=np.array([0.5, 1, 2]))
    assert recallatk.open_corpus(path, id_column="key").ids.to_pylist() == [7, 8, 9]
    for wrong in ("weight", "nothing"):
        with pytest.raises(UsageError, match=f"{wrong}.*key"):
            recallatk.open_corpus(path, id_column=wrong)


def test_an_array_called_ids_that_holds_fractions_is_refused(tmp_path):
    path = write_npz(
        tmp_path / "a.npz", numbers(3, 5), ids=np.array([0.5, 1.5, 2.5]), key=np.array([7, 8, 9])
    )
    with pytest.raises(FormatError, match=r"a\.npz \(ids\): ids of type float64.*strings or integers"):
        recallatk.open_corpus(path)
    corpus = recallatk.open_corpus(path, id_column="key")
    assert corpus.ids.to_pylist() == [7, 8, 9]
    assert corpus.metadata["ids"].to_pylist() == [0.5, 1.5, 2.5]


MISFITS = {
    "too few ids": {"ids": np.arange(299)},
    "too many ids": {"ids": np.array([f"d{row}" for row in range(301)])},
    "ids as a column": {"ids": np.arange(300)[:, None]},
    "text ids as a column": {"doc_id": np.array([f"d{row}" for row in range(300)])[:, None]},
    "one id": {"id": np.array(7)},
    "metadata": {"metadata": np.array(["red"] * 299)},
    "a category": {"ids": np.arange(300), "category": np.array(["red"] * 301)},
    "a category as a column": {"category": np.array(["red"] * 300)[:, None]},
    "a filter": {"filter": np.array(["size > 3"] * 30)},
    "as many texts as components": {"text": np.array(["word"] * 8)},
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("misfit", MISFITS)
def test_an_array_beside_the_vectors_that_does_not_fit_them_is_refused(tmp_path, misfit, compressed):
    arrays = MISFITS[misfit]
    path = write_npz(tmp_path / "a.npz", numbers(300, 8), compressed=compressed, **arrays)
    name, array = list(arrays.items())[-1]
    ran = recallatk_command("inspect", path)
    assert ran.returncode == 2
    assert f"a.npz ({name}): an array of shape {array.shape}, and 'vectors' has 300 vectors" in ran.stderr
    assert "shape (300,)" in ran.stderr


def test_ids_as_a_column_are_no_second_matrix_of_vectors(tmp_path):
    path = write_npz(tmp_path / "a.npz", numbers(300, 8), name="arr_0", ids=np.arange(300)[:, None])
    with pytest.raises(FormatError, match=r"a\.npz \(ids\): an array of shape \(300, 1\), and 'arr_0'"):
        recallatk.open_corpus(path)


def test_what_belongs_to_another_matrix_of_the_archive_is_left_out(tmp_path, same):
    matrix = numbers(30, 5)
    path = write_npz(
        tmp_path / "a.npz",
        matrix,
        queries=numbers(4, 5),
        query_names=np.array(list("abcd")),
        version=np.array(3),
    )
    corpus = recallatk.open_corpus(path)
    same(corpus, matrix)
    assert corpus.metadata_names == []


def test_what_is_of_the_components_or_of_the_whole_is_left_out(tmp_path, same):
    matrix = numbers(30, 5)
    path = write_npz(tmp_path / "a.npz", matrix, mean=matrix.mean(axis=0), model=np.array(["minilm"]))
    corpus = recallatk.open_corpus(path)
    same(corpus, matrix)
    assert corpus.metadata_names == []


def test_an_archive_without_a_matrix_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", left=np.arange(3), right=np.arange(3))
    with pytest.raises(FormatError, match=r"a\.npz.*left or right"):
        recallatk.open_corpus(tmp_path / "a.npz")


def test_an_array_of_objects_is_a_pickle(tmp_path):
    path = write_npz(tmp_path / "a.npz", numbers(3, 5), ids=np.array(["a", None, 1], dtype=object))
    with pytest.raises(FormatError, match=r"a\.npz.*ids.*pickle"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize("name", ["model.pt", "model.npz", "model"])
def test_a_torch_archive_is_a_pickle(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        archive.writestr("archive/data/0", b"\0" * 64)
    with pytest.raises(FormatError, match=r"model.*pickle"):
        recallatk.open_corpus(tmp_path / name)


def test_another_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(FormatError, match=r"a\.zip"):
        recallatk.open_corpus(tmp_path / "a.zip")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_changed_number_does_not_fit_the_checksum(tmp_path, everything, compressed):
    matrix = numbers(9000, 4)
    path = write_npz(tmp_path / "a.npz", matrix, compressed=compressed)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))
    with pytest.raises(FormatError, match=r"a\.npz"):
        everything(recallatk.open_corpus(path))


def test_a_header_that_says_more_than_there_is_is_refused(tmp_path):
    path = write_npz(tmp_path / "a.npz", numbers(30, 5))
    with zipfile.ZipFile(path) as archive:
        inner = archive.read("vectors.npy").replace(b"(30, 5)", b"(31, 5)")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", inner)
    with pytest.raises(FormatError, match=r"a\.npz \(vectors\.npy\).*bytes"):
        recallatk.open_corpus(path)


def test_an_archive_holds_no_truth(tmp_path):
    with pytest.raises(RecallError, match="no ground truth"):
        recallatk.load_truth(write_npz(tmp_path / "a.npz", numbers(3, 5)))
