"""Redaction: names, forms and known values that are secrets, and text that every file can hold."""

import html
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.errors import EngineError, UsageError
from recallatk.redaction import (
    hide_known,
    literal_secret,
    public,
    redact_text,
    remember,
    without_known,
    writable,
)
from recallatk.references import expanded, remember_references, remember_variables

SECRET = "hunter2/Sword fish"


@pytest.mark.parametrize(
    "text",
    [
        f"the server did not like {SECRET}",
        f"{json.dumps({'x': SECRET})}",
        "GET /search?q=hunter2%2FSword%20fish",
        "GET /search?q=hunter2%2FSword+fish",
        f"before{SECRET}after",
        "<p>no such key: hunter2/Sword fish</p>",
    ],
)
def test_a_value_that_is_known_is_hidden_in_every_spelling(monkeypatch, text):
    monkeypatch.setenv("OUR_VALUE", SECRET)
    expanded("${OUR_VALUE}", "url", "test")
    shown = redact_text(text)
    assert "hunter2" not in shown
    assert "${OUR_VALUE}" in shown


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("QDRANT_API_KEY", "hush-hush-hush", "hush-hush-hush"),
        ("PGPASSWORD", "hush-hush-hush", "hush-hush-hush"),
        ("DATABASE_URL", "postgresql://me:hush-hush@host/db", "hush-hush"),
        ("RECALLATK_PG_DSN", "host=here password='hush hush' user=me", "hush hush"),
    ],
)
def test_variables_that_are_secrets_by_their_name_or_content_are_known(monkeypatch, name, value, hidden):
    monkeypatch.setenv(name, value)
    assert hidden not in redact_text(f"denied: {hidden}!")
    assert hidden not in public({"said": f"denied: {hidden}!"})["said"]
    assert hidden not in str(UsageError(f"denied: {hidden}!"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("KeyError: {'password': 'hush hush'}", "KeyError: {'password': …}"),
        ('{"keys": {"password": "hush hush"}}', '{"keys": {"password": …}}'),
        ("primary_key: password: hush", "primary_key: password: …"),
        ("sort_key=token=hush", "sort_key=token=…"),
        ("Unknown keyword: secret = hush", "Unknown keyword: secret = …"),
        (r'{"api_key": "hu\"sh-hush", "k": 10}', '{"api_key": …, "k": 10}'),
        (r"password='hu\'sh hush' k=10", "password=… k=10"),
        (r"{\"token\": \"hush hush\", \"k\": 10}", r"{\"token\": …, \"k\": 10}"),
        ('{"secrets": ["hush", "hush"], "k": 10}', '{"secrets": …, "k": 10}'),
        ('{"token": {"value": "hush"}}', '{"token": …}'),
        ("[('k', '10'), ('x-api-key', 'hush')]", "[('k', '10'), ('x-api-key', …)]"),
        ("--keys --token hush --password 'hush hush' 10", "--keys --token … --password … 10"),
        ("token='hush", "token=…"),
        ("token=[hush, hush\nnext", "token=…\nnext"),
        ("password=${MINE} token=hush", "password=${MINE} token=…"),
    ],
)
def test_values_are_hidden_whatever_stands_around_them(text, shown):
    assert redact_text(text) == shown
    assert "hush" not in str(EngineError(text))


@pytest.mark.parametrize(
    "text",
    [
        *("max_tokens=512", "second pass: 10 rows", "'token', 'user' or 'host'", "sort_key=price, k=10"),
        *("token=${MINE}", "the key is missing", "a password is needed"),
    ],
)
def test_text_without_a_secret_stays(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        *("key", "sort_key=", "token='", "token=[", "token=\\", "password \t", "eyJ-", "('token',"),
        'token="\\\\',
    ],
)
def test_the_work_of_redaction_grows_as_the_text_does(piece):
    few, many = (_seconds(piece * count) for count in (1_000, 16_000))
    assert many < 48 * few + 0.25


def _seconds(text):
    began = time.process_time()
    redact_text(text)
    return time.process_time() - began


@pytest.mark.parametrize(
    ("name", "value"), [("PWD", "/some/where"), ("AUTHOR", "somebody"), ("TOKEN", "abc")]
)
def test_variables_that_are_no_secrets_or_too_short_are_left_alone(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert redact_text(f"it said {value} twice") == f"it said {value} twice"


def test_what_an_engine_reads_is_known_though_it_is_short(monkeypatch):
    monkeypatch.setenv("MILVUS_TOKEN", "hush")
    assert redact_text("it said hush") == "it said hush"
    remember_variables(["MILVUS_TOKEN"])
    assert redact_text("it said hush, hushed") == "it said ${MILVUS_TOKEN}, hushed"


def test_a_value_that_is_no_secret_by_name_or_place_stays_in_settings(monkeypatch):
    monkeypatch.setenv("INDEX", "wordnet-minilm")
    monkeypatch.setenv("OURS", "hush-hush-hush")
    remember_references(
        {"url": "https://host/${INDEX}/_search", "headers": '{"Authorization": "Bearer ${OURS}"}'}
    )
    settings = {"corpus": "data/wordnet-minilm.parquet", "note": "hush-hush-hush"}
    assert public(settings) == {"corpus": "data/wordnet-minilm.parquet", "note": "${OURS}"}
    assert redact_text("no index wordnet-minilm") == "no index ${INDEX}"


def test_hiding_a_value_that_is_part_of_its_own_name_ends():
    remember("OUR_TOKEN_VALUE", "OUR_TOKEN_VALUE")
    assert hide_known(hide_known("it is OUR_TOKEN_VALUE")) == "it is ${OUR_TOKEN_VALUE}"


@pytest.mark.parametrize(
    ("value", "name", "found"),
    [
        ({"api_key": "x"}, "parameters", "api_key"),
        ('{"deep": [{"access_token": "x"}]}', "body", "access_token"),
        ({"Ocp-Apim-Subscription-Key": "x"}, "headers", "the header Ocp-Apim-Subscription-Key"),
        ("prog --token X", "command", "--token"),
        ("prog --password=X", "command", "--password"),
        ("env PGPASSWORD=X prog", "command", "PGPASSWORD"),
        ("prog -H 'Authorization: Bearer X'", "command", "Authorization"),
        ("sh -c 'prog --token X'", "command", "--token"),
        ("prog https://me:X@host/", "command", "the user in the URL"),
        ("postgresql://me:X@host/db", "dsn", "the user in the URL"),
        ("host=here password=X", "dsn", "a password"),
        ("https://host/?sig=X", "url", "sig in the URL"),
    ],
)
def test_a_secret_that_is_written_out_is_found(value, name, found):
    assert literal_secret(value, name) == found


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"api_key": "${KEY}", "tokens": 5, "max_tokens": "auto", "key": "id"}, "parameters"),
        ('{"api_key": "$api_key", "primary_key": "id"}', "body"),
        ("prog --token ${TOKEN} --port 80 -p 80 --tokenizer bert --max-tokens 5", "command"),
        ("prog --token", "command"),
        ("", "command"),
        ("prog 'unbalanced", "command"),
        ("postgresql://postgres:@/db", "dsn"),
        ("postgresql://me@host/db", "dsn"),
        ("host=here password='' user=me", "dsn"),
        ("https://host/?page=2&key=${KEY}", "url"),
    ],
)
def test_what_is_no_secret_or_comes_from_the_environment_is_accepted(value, name):
    assert literal_secret(value, name) is None


def test_references_are_expanded_wherever_they_stand_and_can_be_escaped(monkeypatch):
    monkeypatch.setenv("ONE", "1 $2")
    assert expanded({"a": ["x${ONE}", 3, None]}, "parameters", "test") == {"a": ["x1 $2", 3, None]}
    assert expanded("$${ONE} $ONE", "url", "test") == "${ONE} $ONE"
    with pytest.raises(
        UsageError, match=r"^test: the environment variable NO_SUCH is not set\. Set it: export NO_"
    ):
        expanded("${NO_SUCH}", "url", "test")


@given(st.text(st.characters(exclude_categories=()), max_size=20))
def test_every_text_can_be_written(text):
    for shown in (writable(text), redact_text(text), str(EngineError(text)), public({text: text})):
        json.dumps(shown, ensure_ascii=False).encode()
    assert writable(writable(text)) == writable(text)


@given(st.text(max_size=20))
def test_text_that_can_be_written_stays_as_it_is(text):
    assert writable(text) == text


@pytest.mark.parametrize("depth", [10, 900])
def test_values_of_any_depth_are_looked_through_or_hidden(depth):
    assert "hush" not in json.dumps(public({"x": "[" * depth + '{"token": "hush"}' + "]" * depth}))
    nested = {"token": "hush"}
    for _ in range(depth):
        nested = [nested]
    assert "hush" not in json.dumps(public({"x": nested}))


def test_a_folder_that_is_called_what_a_password_is_keeps_its_name(monkeypatch):
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    settings = {"data": {"corpus": "/data/postgres/c.npy", "queries": "postgres/q.npy"}, "user": "postgres"}
    for shown in (public(settings), without_known(settings)):
        assert shown == {**settings, "user": "${POSTGRES_PASSWORD}"}
    url = {"corpus": "https://host/postgres/c.npy"}
    assert "postgres" not in public(url)["corpus"] and "postgres" not in without_known(url)["corpus"]


def test_a_value_is_hidden_in_a_page_of_html_too(monkeypatch):
    secret = "pq\"7'w<9&secret"
    monkeypatch.setenv("OUR_VALUE", secret)
    expanded("${OUR_VALUE}", "url", "test")
    for escaped in (html.escape(secret), html.escape(secret, quote=False), "pq&quot;7&#39;w&lt;9&amp;secret"):
        assert redact_text(f"<p>{escaped}</p>") == "<p>${OUR_VALUE}</p>"
