"""Tests of the intended differences from Spark, on both sides.

Each is a condition, an event, what Spark says of it and what Palio says. They are what `generate.py` never writes:
if one of them disappears, the generator may write it. docs/language.md says why each is as it is.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from palio import Event, Filter, ParseError
from tests.oracles.answers import Answer
from tests.oracles.spark_answers import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRUE, FALSE, NULL, RAISES = Answer
REFUSES = "refuses"


class Difference(NamedTuple):
    name: str
    condition: str
    event: dict[str, Any]
    spark: Answer | str
    palio: Answer | str


_SCHEMA = pa.schema(
    [
        ("num", pa.int32()),
        ("big", pa.int64()),
        ("flt", pa.float32()),
        ("dbl", pa.float64()),
        ("dec", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 0)),
        ("str", pa.string()),
        ("bin", pa.binary()),
        ("day", pa.date32()),
        ("nums", pa.list_(pa.int64())),
    ]
)
_TWO_53 = 2**53
_MONEY = Decimal("5.00")

_DIFFERENCES = [
    Difference("what Spark raises is NULL", "1 / num > 0", {"num": 0}, RAISES, NULL),
    Difference("what Spark raises is NULL, and coalesced", "coalesce(1 / num, 1) = 1", {"num": 0}, RAISES, TRUE),
    Difference("a string value is no number", "str > 5", {"str": "10"}, TRUE, NULL),
    Difference("LIKE is of strings", "num LIKE '1%'", {"num": 12}, TRUE, NULL),
    Difference("startswith is of strings", "startswith(num, '1')", {"num": 12}, TRUE, NULL),
    Difference("a string literal is no bytes", "bin = 'abc'", {"bin": b"abc"}, TRUE, NULL),
    Difference("integers have 64 bits", "num + 1 > 0", {"num": 2**31 - 1}, RAISES, TRUE),
    Difference("integers have 64 bits, tried", "try_add(num, 1) > 0", {"num": 2**31 - 1}, NULL, TRUE),
    Difference("names are case-sensitive", "NUM = 5", {"num": 5}, TRUE, NULL),
    Difference("an unknown name is NULL", "nothing = 5", {"num": 5}, REFUSES, NULL),
    Difference("a comparison asks for some element", "nums = 5", {"nums": [3, 5]}, REFUSES, TRUE),
    Difference("IS NULL asks for some element", "nums IS NULL", {"nums": [10, None]}, FALSE, TRUE),
    Difference("an empty array has no element", "nums IS NULL", {"nums": []}, FALSE, TRUE),
    Difference("a missing value has no type", "typeof(num) = 'void'", {}, FALSE, TRUE),
    # By an INT Spark keeps 13 digits, by a BIGINT 23, and by a decimal of ten digits 13.
    Difference("a quotient keeps more digits", "dec / num = 1.6666666666667", {"dec": _MONEY, "num": 3}, TRUE, FALSE),
    Difference("a quotient keeps more digits", "1 / dec * 7 < 1.4", {"dec": _MONEY}, FALSE, FALSE),
    Difference("a quotient keeps more digits", "8 / (dec - 2) = 2.666666666667", {"dec": _MONEY}, TRUE, FALSE),
    # Spark brings decimal(38,0) and decimal(2,1) to decimal(38,0), and 1.5 to 2.
    Difference("decimals are compared exactly", "wide = 1.5", {"wide": Decimal(2)}, TRUE, FALSE),
    Difference("decimals are multiplied exactly", "wide * 0.0000001 > 0", {"wide": Decimal(3)}, FALSE, TRUE),
    Difference("NULL is not less than a decimal", "num <= 10000000000000000000BD", {"num": None}, TRUE, NULL),
    Difference("floats have 64 bits", "flt * flt > 0.0100000005D", {"flt": 0.1}, TRUE, FALSE),
    Difference("floats have 64 bits, as text", "CAST(flt AS STRING) = '0.1'", {"flt": 0.1}, TRUE, FALSE),
    Difference("a cast to FLOAT is only compared", "CAST(num AS FLOAT) + 1 > 0", {"num": 1}, TRUE, REFUSES),
    # Of a value that is NULL the type is not known, and so not what it makes of those beside it.
    Difference("choices among unlike types", f"coalesce(big, dbl) = {_TWO_53 + 1}", {"big": _TWO_53}, TRUE, FALSE),
    Difference("lists of unlike types", f"big IN ({_TWO_53 + 1}, dbl)", {"big": _TWO_53}, TRUE, NULL),
    # In Spark the text is read as decimal(12,2) here, and as a double where an attribute is a decimal.
    Difference("texts and decimals in one list", "num IN ('1.001', 1.50)", {"num": 1}, TRUE, FALSE),
    Difference("bytes that are no text", "CAST(bin AS STRING) > '😀'", {"bin": b"\xff"}, TRUE, FALSE),
    Difference("years end with 9999", "day + 1 IS NOT NULL", {"day": date(9999, 12, 31)}, TRUE, FALSE),
    Difference("no time without its date", "CAST('12:30' AS TIMESTAMP) IS NULL", {}, FALSE, TRUE),
    Difference("texts have a megabyte", "length(repeat(str, 2000000)) > 0", {"str": "a"}, TRUE, NULL),
]


@pytest.mark.parametrize("each", _DIFFERENCES, ids=lambda each: f"{each.name}: {each.condition}")
def test_palio_differs_from_spark_as_the_specification_says(spark: SparkSession, each: Difference) -> None:
    table = pa.Table.from_pylist([each.event], _SCHEMA)
    table = table.append_column("id", pa.array([0], pa.int32()))
    assert _spark(spark, table, each.condition) == each.spark
    assert _palio(table, each.condition) == each.palio


def _spark(spark: SparkSession, table: pa.Table, condition: str) -> Answer | str:
    asked = SparkTable(spark, table)
    return REFUSES if asked.refusals([condition]) else asked.answers([condition])[0][0]


def _palio(table: pa.Table, condition: str) -> Answer | str:
    try:
        wanted = Filter.parse(condition)
    except ParseError:
        return REFUSES
    (event,) = Event.from_arrow(table)
    if wanted.matches(event):
        return TRUE
    return FALSE if (~wanted).matches(event) else NULL
