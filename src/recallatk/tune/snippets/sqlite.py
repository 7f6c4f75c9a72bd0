"""The vec0 table of sqlite-vec: SQL in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def write(setting: Setting) -> str:
    """Fill the table and ask it; it has no parameters."""
    return lines(
        "import apsw  # its SQLite can load extensions, which Python's own often cannot",
        "import sqlite_vec",
        "",
        INPUTS,
        'connection = apsw.Connection("items.db")',
        "connection.enable_load_extension(True)",
        "connection.load_extension(sqlite_vec.loadable_path())",
        "connection.execute(",
        '    "CREATE VIRTUAL TABLE items USING "',
        f'    f"vec0(vector float[{{vectors.shape[1]}}] distance_metric={setting.metric})"',
        ")",
        "with connection:",
        "    connection.executemany(",
        '        "INSERT INTO items (rowid, vector) VALUES (?, ?)",',
        "        ((row, vector.tobytes()) for row, vector in enumerate(vectors)),",
        "    )",
        "",
        f'statement = "SELECT rowid FROM items WHERE vector MATCH ? AND k = {setting.k}"',  # noqa: S608
        "found = [",
        "    [row for (row,) in connection.execute(statement, (query.tobytes(),))] for query in queries",
        "]",
    )
