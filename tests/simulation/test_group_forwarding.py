"""Group forwarding: one look at content, a list of brokers, and no event that goes anywhere in vain."""

from __future__ import annotations

from itertools import pairwise

import pytest

from palio.errors import WireError
from palio.routing.forwarding import headers
from palio.routing.forwarding.group import GroupHeader
from palio.simulation import Network


@pytest.mark.parametrize("options", [{}, {"trees": "publisher"}], ids=["shared", "publisher"])
def test_content_is_read_where_an_event_is_published_and_where_it_is_delivered(options: dict[str, str]) -> None:
    net = Network.line(8, propagation="covering", forwarding="group", options=options)
    for at, where in ((0, "x > 1"), (3, "x > 5"), (5, "x > 8"), (5, "y = 1")):
        net.subscribe(at, where)
    net.run()
    net.publish(7, {"x": 6})
    net.run()
    assert sorted(each.at for each in net.deliveries) == [0, 3]
    assert {at: reads for at, reads in net.content_reads.items() if reads} == {0: 1, 3: 1, 7: 1}
    assert net.traffic.messages("publish") == 7
    assert net.traffic.false_positives() == 0


def test_the_list_shrinks_on_its_way() -> None:
    net = Network.line(6, forwarding="group")
    for broker in range(5):
        net.subscribe(broker, "TRUE")
    net.publish(5, {})
    net.run()
    sizes = [net.traffic.bytes("publish", link=(each, each + 1)) for each in range(5)]
    # One number of a broker less on each link.
    assert [after - before for before, after in pairwise(sizes)] == [1, 1, 1, 1]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\xa1x", b"\x91\xc0", b"\x93\x01"])
def test_bytes_that_are_no_list_are_no_header(data: bytes) -> None:
    with pytest.raises(WireError):
        GroupHeader.decode(data)
    assert headers.decode(bytes((GroupHeader.kind,)) + data) is None


def test_a_list_is_what_was_written() -> None:
    header = GroupHeader((0, 3, 2**40))
    assert headers.decode(headers.encode(header)) == header
