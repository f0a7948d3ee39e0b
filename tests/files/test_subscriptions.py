"""Files of subscriptions, and those lines of them that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palio.errors import InputError
from palio.files import (
    SubscriptionLine,
    read_subscriptions,
)
from tests.files.sample_files import COMPRESS, CONTENTS, Make, parquet

WANTS = [
    {"id": "desk", "where": "price > 100"},
    {"id": "ops", "where": "level = 'error'", "language": "sql", "subscriber": "ann", "team": "night"},
]


def lines(path: Path, **options: Any) -> list[SubscriptionLine]:
    return list(read_subscriptions(path, **options))


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("format", CONTENTS)
def test_subscriptions_are_read_from_every_kind_of_file(format: str, compression: str, make: Make) -> None:
    names = ("id", "where", "language", "subscriber", "team")
    rows: list[Any] = [{name: want.get(name) for name in names} for want in WANTS]
    if format == "csv":
        rows = [{name: "" if value is None else value for name, value in row.items()} for row in rows]
    found = lines(make(f"wants.{format}{compression}", COMPRESS[compression](CONTENTS[format](rows))))
    nulls = {"team": None} if "json" in format else {}
    first = {"parquet": 1, "csv": 2, "json": 2}.get(format, 1)
    assert [(one.id, one.where, one.language, one.subscriber, one.metadata) for one in found] == [
        ("desk", "price > 100", None, None, nulls),
        ("ops", "level = 'error'", "sql", "ann", {"team": "night"}),
    ]
    assert found[0].line == first
    assert found[1].line > found[0].line


def test_a_condition_may_be_json(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":{"x":[1]},"language":"eventbridge"}\n{"id":"b","where":[{"y":1}]}\n')
    assert [one.where for one in lines(path)] == [{"x": [1]}, [{"y": 1}]]


def test_an_integer_id_is_its_digits_and_csv_ids_are_text(make: Make) -> None:
    path = make("a.jsonl", b'{"id":7,"where":"x","subscriber":12}\n{"id":12345678901234567890,"where":"x"}')
    assert [(one.id, one.subscriber) for one in lines(path)] == [("7", "12"), ("12345678901234567890", None)]
    assert [one.id for one in lines(make("a.csv", b"id,where\n007,x\n1.50,x\n"))] == ["007", "1.50"]
    assert [one.id for one in lines(make("a.parquet", parquet([{"id": 7, "where": "x"}])))] == ["7"]


def test_everything_else_is_kept_as_metadata(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":"x","tags":["p"],"owner":{"n":1},"note":null}')
    assert lines(path)[0].metadata == {"tags": ["p"], "owner": {"n": 1}, "note": None}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"where":"x"}', 'there is no "id"'),
        ('{"id":null,"where":"x"}', 'there is no "id"'),
        ('{"id":"a"}', 'there is no "where"'),
        ('{"id":"","where":"x"}', '"id" is empty'),
        ('{"id":true,"where":"x"}', '"id" must be a string or an integer, not bool'),
        ('{"id":1.5,"where":"x"}', '"id" must be a string or an integer, not float'),
        ('{"id":["a"],"where":"x"}', '"id" must be a string or an integer, not list'),
        ('{"id":"a","where":5}', '"where" must be a condition as text, or as JSON, not int'),
        ('{"id":"a","where":"x","language":5}', '"language" must be a string, not int'),
        ('{"id":"a","where":"x","subscriber":{}}', '"subscriber" must be a string or an integer, not dict'),
        ('{"id":"a","id":"b","where":"x"}', "id: the key occurs twice in one object"),
        ('{"id":"a","where":"x","m":{"k":1,"k":2}}', "m.k: the key occurs twice in one object"),
        ("[1]", "a subscription is an object such as "),
        ("nonsense", "not JSON: "),
    ],
)
def test_a_subscription_that_cannot_be_used_is_reported_by_its_line(text: str, reason: str, make: Make) -> None:
    path = make("a.jsonl", b'{"id":"first","where":"x"}\n\n' + text.encode() + b'\n{"id":"last","where":"y"}\n')
    faults: list[InputError] = []
    assert [one.id for one in lines(path, on_error=faults.append)] == ["first", "last"]
    (fault,) = faults
    assert fault.line == 3
    assert fault.reason.startswith(reason)
    with pytest.raises(InputError, match=r"a\.jsonl:3: "):
        lines(path)


def test_columns_that_are_missing_are_reported_for_each_row(make: Make) -> None:
    faults: list[InputError] = []
    assert lines(make("a.csv", b"id,condition\na,x\nb,y\n"), on_error=faults.append) == []
    assert [(fault.line, fault.reason) for fault in faults] == [
        (2, 'there is no "where"'),
        (3, 'there is no "where"'),
    ]


def test_subscriptions_are_read_as_they_are_asked_for(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":"x"}\n' * 100_000 + b"nonsense\n")
    found = read_subscriptions(path)
    assert next(found).id == "a"
    found.close()  # type: ignore[attr-defined]


def test_a_missing_file_of_subscriptions_is_raised_at_once() -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_subscriptions("nowhere.jsonl")
