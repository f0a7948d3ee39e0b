"""Networks of semantic communities for tests: random interests of three kinds, and the invariants of the overlays."""

from __future__ import annotations

from random import Random
from typing import Any

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.containment_member import ContainmentMember
from palio.peers.communities.relation import Relation, relate
from palio.peers.communities.similarity_member import CHOSEN, CHOSEN_BY, RANDOM, RANDOM_BY, SimilarityMember
from palio.simulation import CommunityNetwork

KINDS = ("sets", "attributes", "xpath")
_PATHS = "/a /a/b /a//c //c /a[b]/c /a/*/c //b[c] /a/b[c] /a[b][d] //d /e /e/* /*/b".split()


def interest(kind: str, random: Random) -> Filter:
    """A random interest, such that many contain others and some are equivalent."""
    if kind == "sets":
        chosen = sorted(random.sample(range(8), random.randint(1, 6)))
        return Filter.parse(f"x IN ({', '.join(map(str, chosen))})")
    if kind == "xpath":
        return Filter.parse(random.choice(_PATHS), language="xpath")
    low = random.randrange(10) * 10
    match random.randrange(5):
        case 0:
            return Filter.parse(f"price > {low}")
        case 1:
            return Filter.parse(f"price BETWEEN {low} AND {low + 10 * random.randrange(5)}")
        case 2:
            return Filter.parse(f"price > {low} AND city = 'c{random.randrange(3)}'")
        case 3:
            return Filter.parse(f"city LIKE 'c{random.randrange(3)}%' OR volume < {low}")
    return Filter.parse(f"volume IS NULL AND price < {low}")


def event(kind: str, random: Random) -> Event:
    if kind == "sets":
        return Event({"x": random.randrange(8)})
    if kind == "xpath":
        return Event.from_xml(f"<{(name := random.choice('abce'))}>{_content(random, 3)}</{name}>")
    made: dict[str, Any] = {"price": random.randrange(110), "city": f"c{random.randrange(3)}"}
    if random.random() < 0.7:
        made["volume"] = random.randrange(100)
    return Event(made)


def _content(random: Random, levels: int) -> str:
    if not levels:
        return ""
    names = random.choices("abcd", k=random.randrange(3))
    return "".join(f"<{name}>{_content(random, levels - 1)}</{name}>" for name in names)


def populated(peers: int, kind: str, seed: int, **choices: Any) -> tuple[CommunityNetwork, Random]:
    """A network in which every peer has one subscription."""
    random = Random(seed)
    net = CommunityNetwork(peers, seed=seed, **choices)
    for at in range(peers):
        net.subscribe(at, interest(kind, random))
    net.run()
    return net, random


def check_tree(net: CommunityNetwork, equivalents: int = 100) -> None:
    """Every parent contains its child, links hold at both ends, and all lead to the top level, which knows itself."""
    members = {each.address: each for each in net.members().values() if isinstance(each, ContainmentMember)}
    tops = {address for address, each in members.items() if each.parent is None}
    for address, each in members.items():
        assert each.is_placed, f"{address} has no place"
        assert each.order is not None
        if each.parent is None:
            assert set(each.siblings) == tops - {address}, f"{address} knows the top level otherwise"
        else:
            parent = members[each.parent]
            assert address in parent.children, f"{each.parent} does not know its child {address}"
            assert not each.siblings
            relation = relate(parent.wanted, each.wanted)
            assert relation in (Relation.CONTAINS, Relation.EQUIVALENT), f"{parent.wanted} is above {each.wanted}"
            assert parent.children[address] == (relation is Relation.EQUIVALENT)
            if relation is Relation.EQUIVALENT:
                assert parent.order is not None
                assert parent.order < each.order
        assert sum(each.children.values()) <= equivalents
        for child in each.children:
            assert members[child].parent == address, f"{address} keeps {child}, whose parent is another"
    assert len(net.depths()) == len(members)  # ends: there is no circle


def check_orders(net: CommunityNetwork) -> None:
    """What holds at any moment, also while members move: no link goes up, so no circle can close."""
    members = {each.address: each for each in net.members().values() if isinstance(each, ContainmentMember)}
    for each in members.values():
        parent = members.get(each.parent) if each.parent is not None else None
        if parent is None:
            continue
        relation = relate(parent.wanted, each.wanted)
        assert relation in (Relation.CONTAINS, Relation.EQUIVALENT)
        if relation is Relation.EQUIVALENT:
            assert parent.order is not None
            assert each.order is not None
            assert parent.order < each.order


def check_graph(net: CommunityNetwork) -> None:
    """Links hold at both ends for the same reasons, and the closest neighbours are in order and no more than n."""
    members = {each.address: each for each in net.members().values() if isinstance(each, SimilarityMember)}
    opposite = {CHOSEN: CHOSEN_BY, CHOSEN_BY: CHOSEN, RANDOM: RANDOM_BY, RANDOM_BY: RANDOM}
    for address, each in members.items():
        assert each.is_placed
        assert each.best == sorted(each.best, key=lambda choice: choice[0])
        assert len(each.best) <= net.settings.semantic
        assert {choice[2] for choice in each.best} == {to for to, flags in each.links.items() if flags & CHOSEN}
        for to, flags in each.links.items():
            assert to in members, f"{address} is linked to {to}, which is gone"
            for reason, other in opposite.items():
                assert bool(flags & reason) == bool(members[to].links.get(address, 0) & other), (address, to, reason)
        # Random neighbours may come to be chosen for their interests, and the first members found nobody to draw.
        wanted = min(net.settings.semantic, len(members) - 1)
        assert len(each.links) >= wanted, f"{address} has {len(each.links)} neighbours of {wanted}"
