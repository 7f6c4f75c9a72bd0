"""SQLite files as users make them, for the tests of collections and of the commands."""

import apsw
import numpy as np
import sqlite_vec
from embedded_collections import CITIES, IDS, PRICES, ROWS, VECTORS

# Metadata of vec0 itself cannot be null, and long text lies in a table of its own.
WORDS = [f"the word number {row % 6}" for row in range(ROWS)]
WHOLE = [row % 13 for row in range(ROWS)]
COLUMNS = {
    "word": WORDS,
    "whole": WHOLE,
    "share": [row % 4 / 4 for row in range(ROWS)],
    "sold": [row % 2 for row in range(ROWS)],
    "part": [f"p{row % 2}" for row in range(ROWS)],
    "city": CITIES,
    "price": PRICES,
}
DECLARED = (
    "word text, whole integer, share float, sold boolean, part text partition key, +city text, +price int"
)
PLAIN = "word text, whole integer, share double, sold boolean, part varchar(9), city text, price int"


def connect(file):
    connection = apsw.Connection(str(file))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def made(file, vector="float[32] distance_metric=cosine", ids=IDS, key="id integer primary key", rows=ROWS):
    """A file with a vec0 table; without a type of vectors, an ordinary table with BLOBs."""
    kind = "vec0" if vector else None
    with connect(file) as connection:
        start = f"CREATE VIRTUAL TABLE items USING vec0({key}, embedding {vector}, {DECLARED})"
        connection.execute(start if kind else f"CREATE TABLE items ({key}, embedding blob, {PLAIN})")
        taken = {"int8": "vec_int8(?)", "bit[": "vec_bit(?)"}.get((vector or "")[:4], "?")
        named = ", ".join(["id", "embedding", *COLUMNS])
        insert = f"INSERT INTO items ({named}) VALUES (?, {taken}{', ?' * len(COLUMNS)})"
        lines = zip(ids[:rows], stored(vector)[:rows], *COLUMNS.values(), strict=False)
        connection.executemany(insert, ((each[0], each[1].tobytes(), *each[2:]) for each in lines))
    connection.close()
    return file


def stored(vector):
    """The vectors as the type has them."""
    if vector and vector.startswith("int8"):
        return np.clip(np.rint(VECTORS * 30), -128, 127).astype("i1")
    if vector and vector.startswith("bit"):
        return np.packbits(VECTORS > 0, axis=1, bitorder="little")
    return VECTORS


def url(file, rest=""):
    return f"sqlite://{str(file).replace('%', '%25').replace('?', '%3F')}{rest}"
