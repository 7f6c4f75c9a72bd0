"""Files as other people's programs write them: nothing here is shared with the readers under test."""

import struct

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

_LETTERS = {"float32": "f", "uint8": "B", "int8": "b", "int32": "i", "float16": "e"}
_ARROW_TYPES = {
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
}


def numbers(rows, dimension, dtype="float32", seed=7):
    """Distinct-looking vectors that every type holds exactly, none of them zero."""
    generator = np.random.default_rng(seed)
    low, high = (1, 250) if dtype == "uint8" else (-120, 120)
    whole = generator.integers(low, high, (rows, dimension))
    whole[:, 0] = np.where(whole[:, 0] == 0, 1, whole[:, 0])
    return (whole / 4 if dtype.startswith("float") else whole).astype(dtype)


def write_npy(path, matrix):
    np.save(path, matrix)
    return path


def write_npz(path, matrix, *, compressed=False, name="vectors", **columns):
    (np.savez_compressed if compressed else np.savez)(path, **{name: matrix}, **columns)
    return path


def write_vecs(path, matrix):
    letter = _LETTERS[matrix.dtype.name]
    with path.open("wb") as file:
        for row in matrix.tolist():
            file.write(struct.pack(f"<i{len(row)}{letter}", len(row), *row))
    return path


def write_xbin(path, matrix, *, wide=False):
    rows, columns = matrix.shape
    letter = _LETTERS[matrix.dtype.name]
    with path.open("wb") as file:
        file.write(struct.pack("<QQ" if wide else "<II", rows, columns))
        file.write(struct.pack(f"<{rows * columns}{letter}", *matrix.reshape(-1).tolist()))
    return path


def write_neighbors_with_distances(path, rows, distances, *, wide=False):
    """The ground truth of big-ann-benchmarks: counts, all ids, all distances."""
    count = rows.size
    path.write_bytes(
        struct.pack("<QQ" if wide else "<II", *rows.shape)
        + struct.pack(f"<{count}i", *rows.reshape(-1).tolist())
        + struct.pack(f"<{count}f", *distances.reshape(-1).tolist())
    )
    return path


def vector_column(matrix, kind="list"):
    """A matrix as a `list`, `large_list` or `fixed` column."""
    item = _ARROW_TYPES[matrix.dtype.name]
    types = {
        "list": pa.list_(item),
        "large_list": pa.large_list(item),
        "fixed": pa.list_(item, matrix.shape[1]),
    }
    return pa.array(list(matrix), types[kind])


def table(matrix, kind="list", **columns):
    """`vector`, and other columns before it."""
    return pa.table({**columns, "vector": vector_column(matrix, kind)})


def write_parquet(path, matrix, *, kind="list", row_group_rows=None, options=None, **columns):
    pq.write_table(table(matrix, kind, **columns), path, row_group_size=row_group_rows, **(options or {}))
    return path


def write_arrow(path, matrix, *, kind="list", batch_rows=None, compression=None, stream=False, **columns):
    made = table(matrix, kind, **columns)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(path, made.schema, options=options) as writer:
        writer.write_table(made, max_chunksize=batch_rows)
    return path


def write_hdf5(path, train, test, neighbors=None, distances=None, *, storage=None, **attributes):
    with h5py.File(path, "w") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        file.create_dataset("train", data=train, **(storage or {}))
        file.create_dataset("test", data=test, **(storage or {}))
        if neighbors is not None:
            file.create_dataset("neighbors", data=neighbors)
        if distances is not None:
            file.create_dataset("distances", data=distances)
    return path
