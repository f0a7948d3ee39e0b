"""Interest index and client table, against a search of all filters one by one."""

from __future__ import annotations

from random import Random

import pytest

from palio import Event, Filter
from palio.routing.effects import Recipient
from palio.routing.interest_index import ClientTable, InterestIndex
from palio.routing.messages import LOCAL

FILTERS = [Filter.parse(f"x {operator} {value}") for operator in ("<", "=", ">") for value in range(6)]
EVENTS = [Event.from_dict({"x": value}) for value in range(-1, 7)]
INTERFACES = (LOCAL, 1, 2, 3)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_those_interfaces_and_keys_that_have_a_matching_filter(seed: int) -> None:
    random = Random(seed)
    index = InterestIndex()
    held: dict[tuple[int, bytes], Filter] = {}
    for step in range(60):
        if held and random.random() < 0.4:
            interface, key = random.choice(list(held))
            del held[interface, key]
            index.remove(interface, key)
        else:
            # Several keys with one filter, and one filter at several interfaces, are matched once.
            interface, key, wanted = random.choice(INTERFACES), b"%d" % step, random.choice(FILTERS)
            held[interface, key] = wanted
            index.add(interface, key, wanted)
        assert len(index) == len({wanted.digest for wanted in held.values()})
        for event, found in zip(EVENTS, index.find_interested(EVENTS), strict=True):
            matching = [place for place, wanted in held.items() if wanted.matches(event)]
            assert found.links == tuple(sorted({interface for interface, _ in matching if interface != LOCAL}))
            assert sorted(found.local) == sorted(key for interface, key in matching if interface == LOCAL)


@pytest.mark.parametrize("per_subscription", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_recipients_are_the_owners_of_the_keys_each_once_with_all_its_names(seed: int, per_subscription: bool) -> None:
    random = Random(seed)
    table = ClientTable(7, per_subscription)
    owned: dict[tuple[str, str], Filter] = {}
    for _ in range(80):
        place = random.choice("abcd"), random.choice(("one", "two", "three"))
        shared = [each for each, wanted in owned.items() if wanted == owned.get(place)]
        if place in owned:
            key = table.remove(*place)
            # A key is withdrawn with its last name: at once where every name has one of its own.
            assert (key is not None) == (per_subscription or len(shared) == 1)
            del owned[place]
        else:
            wanted = random.choice(FILTERS[:4])
            is_new = per_subscription or wanted not in owned.values()
            assert (table.add(*place, wanted) is not None) == is_new
            owned[place] = wanted
        assert sorted(table.clients()) == sorted({client for client, _ in owned})
        chosen = set(random.sample(FILTERS[:4], random.randrange(5)))
        keys = tuple(key for key, wanted in table.keys().items() if wanted in chosen)
        expected: dict[str, list[str]] = {}
        for (client, name), wanted in sorted(owned.items()):
            if wanted in chosen:
                expected.setdefault(client, []).append(name)
        assert table.recipients(keys) == tuple(
            Recipient(client, tuple(sorted(names))) for client, names in sorted(expected.items())
        )
        assert table.recipients(keys) == table.recipients(keys)  # the second is from the memo


def test_a_memo_of_recipients_is_forgotten_when_a_known_key_gets_another_owner() -> None:
    table = ClientTable(7, per_subscription=False)
    keys = (table.add("desk", "a", FILTERS[0]),)
    assert keys[0] is not None
    assert table.recipients(keys) == (Recipient("desk", ("a",)),)  # type: ignore[arg-type]
    assert table.add("home", "b", FILTERS[0]) is None
    assert table.recipients(keys) == (Recipient("desk", ("a",)), Recipient("home", ("b",)))  # type: ignore[arg-type]
