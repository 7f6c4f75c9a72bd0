"""Statements of the user's as searches: one SELECT each, whatever its literals and comments hold."""

import pytest

from recallatk.adapters.postgres_template import checked_template
from recallatk.errors import UsageError

END = "ORDER BY embedding <=> $vector LIMIT $k"


@pytest.mark.parametrize(
    "where",
    [
        "name <> 'a;b'",
        "name <> 'it''s; here'",
        r"name <> E'quoted \'; here'",
        '"odd;name" = 1',
        "name <> $$a;b$$",
        "name <> $tag$it's; $$ here$tag$",
        "TRUE -- a comment; to its end\n",
        "TRUE /* a comment; with 'a quote */",
    ],
)
def test_a_semicolon_within_a_literal_a_name_or_a_comment_ends_nothing(where):
    text = f"SELECT id FROM items WHERE {where} {END}"
    assert checked_template(text) == text
    assert checked_template(f"{text};  ") == text


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1; SELECT id FROM items {END}",
        f"SELECT id FROM items WHERE name <> 'a'; DELETE FROM items WHERE name <> 'b' {END}",
        # Whether the backslash ends these literals depends on the server.
        f"SELECT id FROM items WHERE name <> 'a\\'; DELETE FROM items; --' {END}",
        f"SELECT id FROM items WHERE made = date'a\\'; DELETE FROM items; --' {END}",
        f"SELECT id FROM items WHERE TRUE /* a /* b */ ; DELETE FROM items -- */ {END}",
        f"SELECT id FROM items WHERE name <> $a$x$b$; DELETE FROM items; $b$ {END}",
        f"DELETE FROM items {END}",
    ],
)
def test_more_than_one_statement_or_another_one_is_refused(text):
    with pytest.raises(UsageError, match="--sql is not a single SELECT"):
        checked_template(text)
