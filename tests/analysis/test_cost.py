"""Cost per million queries: the price of a machine over what it answers."""

import pytest

from recallatk.analysis.cost import MachinePrice, parse_price, price_of
from recallatk.errors import UsageError


@pytest.mark.parametrize(
    ("text", "per_hour", "currency"),
    [
        ("0.34/h", 0.34, None),
        (" 0.34 USD / h ", 0.34, "USD"),
        ("$2/hour", 2.0, "$"),
        ("48/day", 2.0, None),
        ("€730/month", 1.0, "€"),
    ],
)
def test_a_price_is_read(text, per_hour, currency):
    assert parse_price(text) == MachinePrice(pytest.approx(per_hour), currency)


@pytest.mark.parametrize("text", ["", "0.34", "h", "0/h", "-1/h", "0.34/year", "0,34/h", "1e3/h", "0.34/h/h"])
def test_any_other_text_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"such as 0\.34/h"):
        parse_price(text)


def test_a_million_queries_at_a_thousand_a_second_take_a_thousand_seconds():
    assert MachinePrice(3.6).per_million(1000) == pytest.approx(1.0)
    assert MachinePrice(3.6).per_million(None) is None
    assert MachinePrice(3.6).per_million(0) is None


def test_the_price_of_a_run_is_in_its_settings():
    assert price_of({"cost": {"per_hour": 0.5, "currency": "USD"}}) == MachinePrice(0.5, "USD")
    for settings in (
        {},
        {"cost": None},
        {"cost": {}},
        {"cost": {"per_hour": "0.5"}},
        {"cost": {"per_hour": 0}},
    ):
        assert price_of(settings) is None


def test_the_unit_names_the_currency_if_there_is_one():
    assert MachinePrice(1.0, "USD").unit == "USD/1M queries"
    assert MachinePrice(1.0).unit == "cost/1M queries"
