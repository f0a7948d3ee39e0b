"""Authorization: grants bound what is received and published, also after they change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, Filter, NotPermitted
from palio.network.security.authorization import (
    ANYONE,
    LinkFilters,
    Principal,
    check_annotation,
    check_status,
    effective_filter,
    may_receive,
    published_by,
    revise_grants,
)

CONDITIONS = st.sampled_from(
    [
        "true",
        "false",
        "x > 3",
        "x < 5",
        "x = 4 OR y = 'a'",
        "NOT (x = 4)",
        "y IS NULL",
        "y LIKE '%a%'",
        "x + 1 > 3",
        "x BETWEEN 2 AND 6 AND (y = 'a' OR y = 'b')",
        "array_contains(x, 4)",
    ]
).map(Filter.parse)
VALUES = st.one_of(st.none(), st.integers(0, 8), st.lists(st.integers(0, 8), max_size=3))
EVENTS = st.fixed_dictionaries({}, optional={"x": VALUES, "y": st.sampled_from(["a", "b", "cab", None])}).map(
    Event.from_dict
)


def made(wanted: Filter, principal: Principal) -> Filter:
    """The subscription that a principal gets, if any."""
    try:
        return effective_filter(wanted, principal)
    except NotPermitted:
        return Filter.nothing


@given(CONDITIONS, CONDITIONS, EVENTS)
def test_what_is_heard_was_asked_for_and_granted(wanted: Filter, granted: Filter, event: Event) -> None:
    principal = Principal("p", may_subscribe=granted)
    if made(wanted, principal).matches(event) and may_receive(principal, event):
        assert wanted.matches(event)
        assert granted.matches(event)


@given(CONDITIONS, EVENTS)
def test_every_element_must_be_granted(granted: Filter, event: Event) -> None:
    """Permission is that of each event with one of the elements; functions of arrays see all of them."""
    content = event.to_dict()
    elements = content.get("x")
    choices = [content]
    if isinstance(elements, list) and elements and "array_contains" not in str(granted):
        choices = [{**content, "x": each} for each in elements]
    expected = all(granted.matches(each) for each in choices)
    assert may_receive(Principal("p", may_subscribe=granted), event) == expected
    link = LinkFilters(imports=granted, exports=granted)
    assert (link.admits(event), link.releases(event)) == (expected, expected)
    publisher = Principal("p", may_publish=granted, sources=("*",))
    if expected:
        assert published_by(publisher, event) is event
    else:
        with pytest.raises(NotPermitted):
            published_by(publisher, event)


@given(CONDITIONS, CONDITIONS, st.integers(0, 8), st.sampled_from(["a", "b", "cab"]))
def test_all_that_was_asked_for_and_granted_is_heard(wanted: Filter, granted: Filter, x: int, y: str) -> None:
    event = Event.from_dict({"x": x, "y": y})
    heard = made(wanted, Principal("p", may_subscribe=granted)).matches(event)
    assert heard == (wanted.matches(event) and granted.matches(event))


@given(st.dictionaries(st.sampled_from("abc"), CONDITIONS), CONDITIONS, CONDITIONS, st.lists(EVENTS))
def test_after_a_revision_nothing_is_heard_that_the_new_grant_does_not_give(
    wanted: dict[str, Filter], before: Filter, after: Filter, waiting: list[Event]
) -> None:
    old, new = Principal("p", may_subscribe=before), Principal("p", may_subscribe=after)
    live = {name: asked & before for name, asked in wanted.items()}
    revision = revise_grants(old, new, wanted)
    live.update(revision.replace)
    for name in revision.remove:
        del live[name]
    assert all(each == wanted[name] & after for name, each in live.items())
    assert [revision.keeps(event) for event in waiting] == [may_receive(new, event) for event in waiting]


def test_whoever_is_not_known_any_more_or_has_another_role_leaves() -> None:
    wanted = {"a": Filter.parse("x > 1")}
    for after in (None, replace(ANYONE, role="client")):
        revision = revise_grants(ANYONE, after, wanted)
        assert revision.principal is None
        assert revision.remove == {"a"}
        assert not revision.keeps(Event.from_dict({"x": 2}))


def test_a_subscription_of_which_nothing_is_left_is_refused() -> None:
    desk = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"))
    with pytest.raises(NotPermitted, match="desk may not subscribe to that") as caught:
        effective_filter(Filter.parse("symbol = 'INIT'"), desk)
    assert "ACME" not in str(caught.value)  # what may be heard is not told to those who may not hear it


def test_whoever_has_no_grant_may_do_nothing() -> None:
    nobody = Principal("nobody")
    with pytest.raises(NotPermitted):
        effective_filter(Filter.everything, nobody)
    with pytest.raises(NotPermitted):
        published_by(nobody, Event.from_dict({"x": 1}))
    with pytest.raises(NotPermitted, match="--may-see-status"):
        check_status(nobody)
    with pytest.raises(NotPermitted, match="--may-annotate"):
        check_annotation(nobody, b"header")
    check_annotation(nobody, b"")


def test_an_event_without_a_source_gets_its_publishers_name_and_stays_the_same_otherwise() -> None:
    desk = Principal("desk", may_publish=Filter.everything)
    event = Event.from_dict({"items": [{"a": 1}, {"b": 2}]}, id="7")
    named = published_by(desk, event)
    assert (named.source, named.id, named.attributes) == ("desk", "7", event.attributes)
    assert event.source is None


@pytest.mark.parametrize("source", ["desk", "desk/7", "https://bank.example/fx", "https://bank.example/fx/usd"])
def test_a_source_of_ones_own_is_kept(source: str) -> None:
    desk = Principal("desk", may_publish=Filter.everything, sources=("https://bank.example/fx/",))
    event = Event.from_dict({"x": 1}, source=source)
    if source == "https://bank.example/fx":
        with pytest.raises(NotPermitted):
            published_by(desk, event)
    else:
        assert published_by(desk, event) is event


@pytest.mark.parametrize(
    "content",
    [
        {"id": "1", "source": "bank", "type": "t", "specversion": "1.0"},
        {"id": "1", "source": "desktop", "type": "t", "specversion": "1.0"},
        {"id": "1", "source": "desk/../bank", "type": "t", "specversion": "1.0"},
    ],
)
def test_a_source_of_others_is_refused_in_a_cloudevent(content: dict[str, str]) -> None:
    with pytest.raises(NotPermitted, match="publish as"):
        published_by(Principal("desk", may_publish=Filter.everything), Event.from_cloudevent(content))


@pytest.mark.parametrize("claimed", ["bank", 5, ["desk", "bank"]])
def test_a_source_of_others_is_refused_as_an_attribute_too(claimed: object) -> None:
    with pytest.raises(NotPermitted, match="publish as"):
        published_by(Principal("desk", may_publish=Filter.everything), Event.from_dict({"source": claimed}))


def test_any_source_is_for_those_who_may_name_any() -> None:
    event = Event.from_dict({"x": 1}, source="bank")
    assert published_by(ANYONE, event) is event


def test_only_what_the_grant_matches_may_be_published() -> None:
    desk = Principal("desk", may_publish=Filter.parse("price > 0"))
    assert published_by(desk, Event.from_dict({"price": 1})).source == "desk"
    for content in ({"price": 0}, {}, {"price": None}):
        with pytest.raises(NotPermitted, match="grant"):
            published_by(desk, Event.from_dict(content))


def test_a_link_lets_in_what_its_broker_may_say_and_lets_out_what_it_may_hear() -> None:
    hub = Principal("hub", "broker", Filter.parse("region = 'eu'"), Filter.parse("public"))
    link = LinkFilters.of(hub)
    assert link.admits(Event.from_dict({"public": True}))
    assert not link.admits(Event.from_dict({"region": "eu"}))
    assert link.releases(Event.from_dict({"region": "eu"}))
    assert not link.releases(Event.from_dict({"public": True}))
    assert not link.are_open
    assert LinkFilters.of(ANYONE).are_open
