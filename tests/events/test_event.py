"""Tests of events: the mapping of attributes, identity, immutability, and generated ids."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from palio.errors import EventError, PalioError
from palio.events import Event, Limits
from palio.events.event import random_id


def test_an_event_has_the_attributes_it_was_made_of() -> None:
    event = Event({"symbol": "ACME", "price": 120, "tags": ("a", "b")})
    assert event.attributes == {"symbol": "ACME", "price": 120, "tags": ("a", "b")}


def test_get_gives_a_value_or_none() -> None:
    event = Event({"x": 1, "n": None})
    assert (event.get("x"), event.get("n"), event.get("missing")) == (1, None, None)


def test_null_and_missing_are_told_apart_by_the_attributes() -> None:
    event = Event.from_dict({"n": None})
    assert "n" in event.attributes
    assert "missing" not in event.attributes


def test_an_empty_event_is_an_event() -> None:
    assert Event({}).attributes == {}
    assert Event.from_dict({}).attributes == {}
    assert Event.from_json("{}").attributes == {}


def test_the_constructor_takes_canonical_names() -> None:
    assert Event({"a.b": 1, "`a.b`": 2}).attributes == {"a.b": 1, "`a.b`": 2}
    with pytest.raises(EventError, match="is spelled 'ab'"):
        Event({"`ab`": 1})
    with pytest.raises(EventError, match="stray back-quote"):
        Event({"a`b": 1})
    with pytest.raises(EventError, match="must be a string, not int"):
        Event({1: 1})  # type: ignore[dict-item]


def test_the_constructor_refuses_nested_content_and_says_who_takes_it() -> None:
    with pytest.raises(EventError, match=r"a: .*Event\.from_dict"):
        Event({"a": {"b": 1}})


def test_the_constructor_keeps_empty_arrays_and_checks_elements() -> None:
    assert Event({"a": [], "b": [1, 2**63]}).attributes == {"a": (), "b": (1, Decimal(2**63))}
    with pytest.raises(EventError, match="b: an event cannot hold a value of type list"):
        Event({"b": [1, [2]]})


def test_the_constructor_keeps_the_limits() -> None:
    with pytest.raises(EventError, match="more than 1 attributes"):
        Event({"a": 1, "b": 2}, limits=Limits(attributes=1))
    with pytest.raises(EventError, match="a: an array of more than 2 values"):
        Event({"a": (1, 2, 3)}, limits=Limits(array_length=2))
    with pytest.raises(EventError, match="name of more than 3 characters"):
        Event({"abcd": 1}, limits=Limits(name_length=3))


def test_read_takes_an_event_a_mapping_or_json() -> None:
    event = Event({"x": 1})
    assert Event.read(event) is event
    for found in ({"x": 1}, '{"x": 1}', b'{"x": 1}'):
        assert Event.read(found).attributes == {"x": 1}
    with pytest.raises(EventError, match="an event is a mapping of names to values, not int"):
        Event.read(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [[], "text", 1, None])
def test_what_is_no_mapping_is_no_event(content: object) -> None:
    with pytest.raises(EventError, match="mapping"):
        Event.from_dict(content)  # type: ignore[arg-type]
    with pytest.raises(EventError, match="mapping"):
        Event(content)  # type: ignore[arg-type]


def test_an_id_is_made_when_none_is_given_and_stays() -> None:
    one, other = Event({"x": 1}), Event({"x": 1})
    assert one.id == one.id
    assert len(one.id) == 36
    assert one.id != other.id


def test_an_identity_that_was_given_is_kept() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    for event in (
        Event({}, "e1", "/desk", noon),
        Event.from_dict({}, id="e1", source="/desk", time=noon),
        Event.from_json("{}", id="e1", source="/desk", time=noon),
    ):
        assert (event.id, event.source, event.time) == ("e1", "/desk", datetime(2026, 1, 31, 10, tzinfo=UTC))


def test_source_and_time_may_be_unknown() -> None:
    assert Event({}).source is None
    assert Event({}).time is None


def test_an_attribute_called_id_is_content_not_identity() -> None:
    event = Event.from_dict({"id": 7})
    assert event.get("id") == 7
    assert event.id != "7"


def test_a_time_without_a_zone_is_utc() -> None:
    assert Event({}, time=datetime(2026, 1, 31)).time == datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ({"id": ""}, "id: the id of an event must not be empty"),
        ({"id": 5}, "id: the id of an event must be a string, not int"),
        ({"source": b"x"}, "source: the source of an event must be a string, not bytes"),
        ({"time": "now"}, "time: the time of an event must be a datetime, not str"),
        ({"id": "\ud800"}, "id: text has a lone surrogate"),
    ],
)
def test_a_wrong_identity_is_refused(identity: dict[str, object], reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        Event({}, **identity)  # type: ignore[arg-type]


def test_events_are_the_same_by_source_and_id_as_cloudevents_says() -> None:
    assert Event({"x": 1}, "1", "/a") == Event({"x": 2}, "1", "/a")
    assert Event({"x": 1}, "1", "/a") != Event({"x": 1}, "1", "/b")
    assert Event({"x": 1}) != Event({"x": 1})
    assert len({Event({}, "1"), Event({}, "1"), Event({}, "2")}) == 2
    assert Event({}, "1") != "1"


def test_a_copy_is_the_same_event_with_the_same_content() -> None:
    event = Event.from_dict({"a": {"b": [1, None]}}, source="/s", time=datetime(2026, 1, 1))
    for twin in (pickle.loads(pickle.dumps(event)), copy.deepcopy(event)):
        assert twin == event
        assert (twin.attributes, twin.source, twin.time) == (event.attributes, event.source, event.time)


def test_an_event_cannot_be_changed() -> None:
    content = {"x": 1}
    event = Event.from_dict(content)
    content["x"] = 2
    assert event.get("x") == 1
    for name in ("attributes", "id", "source", "time"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)
    with pytest.raises(AttributeError):
        event.other = 1  # type: ignore[attr-defined]


def test_an_event_shows_what_it_holds() -> None:
    assert repr(Event({"x": 1})) == "Event({'x': 1})"
    assert repr(Event({"x": 1}, "e1")) == "Event({'x': 1}, id='e1')"


def test_an_event_error_is_a_palio_error_with_a_path() -> None:
    with pytest.raises(PalioError) as caught:
        Event.from_dict({"a": {"b": object()}})
    assert isinstance(caught.value, EventError)
    assert caught.value.path == "a.b"
    assert caught.value.reason == "an event cannot hold a value of type object"


def test_importing_events_brings_no_heavy_library() -> None:
    heavy = {"numpy", "pyarrow", "numba", "rich", "pandas", "msgspec"}
    code = f"import sys, palio.events; print({heavy} & set(sys.modules) or '')"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


def test_an_event_is_a_mapping() -> None:
    content = {"symbol": "ACME", "quote": {"price": 120, "tags": ["a"]}, "note": None}
    event = Event.from_dict(content)
    flat = {"symbol": "ACME", "quote.price": 120, "quote.tags": ("a",), "note": None}
    assert isinstance(event, Mapping)
    assert dict(event) == flat == {**event}
    assert list(event) == list(flat)
    assert (list(event.keys()), list(event.values())) == (list(flat), list(flat.values()))
    assert list(event.items()) == list(flat.items())
    assert len(event) == 4
    assert event["quote.tags"] == ("a",)
    assert event["note"] is None
    assert "note" in event
    assert "quote" not in event
    assert 5 not in event
    with pytest.raises(KeyError, match="volume"):
        event["volume"]
    match event:
        case {"symbol": symbol, **rest}:
            assert (symbol, len(rest)) == ("ACME", 3)
        case _:
            pytest.fail("no mapping pattern matched")


def test_a_default_stands_for_a_missing_attribute_and_not_for_a_null() -> None:
    event = Event({"note": None})
    assert (event.get("note", 1), event.get("volume", 1), event.get("volume")) == (None, 1, None)


def test_an_event_cannot_be_changed_as_a_mapping() -> None:
    event: Any = Event({"x": 1})
    with pytest.raises(TypeError):
        event["x"] = 2
    with pytest.raises(TypeError):
        del event["x"]


def test_an_event_does_not_equal_its_content() -> None:
    event = Event({"x": 1}, id="1")
    assert event != {"x": 1}
    assert not ({"x": 1} == event)  # noqa: SIM201, SIM300 (the reflected comparison)
    assert dict(event) == {"x": 1}
    assert event == Event({"x": 2}, id="1")
    assert len({event, Event({"x": 2}, id="1"), Event({"x": 1}, id="2")}) == 2


def test_an_event_without_attributes_is_true() -> None:
    assert Event({})
    assert len(Event({})) == 0


def test_an_event_is_content_by_its_paths() -> None:
    event = Event.from_dict({"a": {"b": 1}, "c.d": 2, "items": [{"s": 1, "t": 2}, {"s": 3}]}, id="1")
    for made in (Event(event), Event.from_dict(event)):
        assert made.attributes == event.attributes
        assert made.to_dict() == event.to_dict()
        assert made != event
    assert Event.from_dict({"in": event}).to_dict() == {"in": event.to_dict()}
    assert Event.read(event) is event


def test_an_event_of_a_cloudevent_is_read_as_one_again() -> None:
    content = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order", "data": {"sum": 12}}
    event = Event.from_cloudevent(content)
    again = Event.from_cloudevent(event)
    assert again == event
    assert again.attributes == event.attributes


def test_it_is_a_uuid_of_version_4() -> None:
    for _ in range(200):
        made = UUID(text := random_id())
        assert (made.version, made.variant, str(made)) == (4, RFC_4122, text)


def test_a_program_that_seeds_its_own_chance_gets_others_each_time() -> None:
    random.seed(1)
    first = random_id()
    random.seed(1)
    assert random_id() != first


def test_a_forked_process_makes_others() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_id().encode())
        os._exit(0)  # not sys.exit: the child must not run pytest's own clean-up
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() != random_id()
