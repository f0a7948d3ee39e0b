"""Message attributes as they are published and delivered become events."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from palio import EventError
from palio.languages.sns import event_of_attributes, parse


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ({"DataType": "String", "StringValue": "x"}, "x"),
        ({"Type": "String", "Value": "99"}, "99"),
        ({"Type": "String.label", "Value": "x"}, "x"),
        ({"Type": "Number", "Value": "99"}, 99),
        ({"DataType": "Number.float", "StringValue": "301.50"}, Decimal("301.50")),
        ({"Type": "Number", "Value": "3.015e2"}, Decimal("3.015E+2")),
        ({"Type": "Number", "Value": "1e3"}, 1000),
        ({"Type": "Number", "Value": 300}, 300),
        ({"Type": "String.Array", "Value": '["a", 1, true, null]'}, ["a", 1, True, None]),
        ({"Type": "String.Array", "Value": "[]"}, []),
        ({"Type": "String.Array", "Value": "7.5"}, 7.5),
        ({"Type": "String.Array", "Value": '"golf"'}, "golf"),
        ({"Type": "String.Array", "Value": "golf"}, "golf"),
        ({"Type": "String.Array", "Value": "['golf']"}, "['golf']"),
    ],
)
def test_an_attribute_is_its_value(attribute: dict[str, Any], value: Any) -> None:
    (found,) = event_of_attributes({"x": attribute}).values()
    assert found == value
    assert type(found) is type(value)


def test_binary_attributes_are_passed_over() -> None:
    attributes = {"x": {"DataType": "Binary", "BinaryValue": b"x"}, "y": {"Type": "Binary.png", "Value": "AA=="}}
    assert event_of_attributes(attributes) == {}
    assert parse({"x": [{"exists": False}]}).matches(event_of_attributes(attributes))


def test_a_policy_is_asked_of_them() -> None:
    event = event_of_attributes(
        {
            "store": {"Type": "String", "Value": "example_corp"},
            "price_usd": {"Type": "Number", "Value": "210.75"},
            "interests": {"Type": "String.Array", "Value": '["hockey", "soccer"]'},
        }
    )
    assert parse({"store": ["example_corp"], "price_usd": [{"numeric": [">=", 100]}]}).matches(event)
    assert parse({"interests": ["soccer", "rugby"], "price_usd": [210.75]}).matches(event)
    assert not parse({"store": [{"anything-but": "example_corp"}]}).matches(event)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ([], "message attributes are a mapping of names, not list"),
        ({"x": "y"}, "x: a message attribute has a type and a value"),
        ({"x": {"Value": "y"}}, "x: a message attribute without DataType or Type"),
        ({"x": {"Type": "String"}}, "x: a message attribute without StringValue or Value"),
        ({"x": {"Type": "Text", "Value": "y"}}, "x: a message attribute is a String"),
        ({"x": {"Type": "Number", "Value": "y"}}, "x: 'y' is no number"),
        ({"x": {"Type": "Number", "Value": "NaN"}}, "x: 'NaN' is no number"),
        ({"x": {"Type": "Number", "Value": None}}, "x: 'None' is no number"),
        ({"x": {"Type": "String.Array", "Value": '{"a": 1}'}}, "x: a String.Array is a JSON array"),
        ({"x": {"Type": "String.Array", "Value": "[[1]]"}}, "x: a String.Array is a JSON array"),
    ],
)
def test_what_is_no_message_attribute_is_refused(attributes: Any, reason: str) -> None:
    with pytest.raises(EventError) as refused:
        event_of_attributes(attributes)
    assert reason in str(refused.value)
