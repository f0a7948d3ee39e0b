"""Delivery attempts: a late acknowledgement of an earlier attempt does not count for a later one."""

from __future__ import annotations

from palio.simulation import Network

HOP = 0.01  # seconds, as links have it by default
DISK = 0.5


def raced(restarted: float, killed: float) -> None:
    """A line of four: an event goes from 0 to the homes 2 and 3, of which 3 is away at first.

    Broker 2 takes its time to write, and acknowledges the first attempt when 3 is behind it already, but without 3.
    Broker 0 begins anew meanwhile, and its second attempt crosses that acknowledgement. Then 2 crashes.
    """
    net = Network.line(4, options={"disk": DISK})
    for at in (2, 3):
        net.subscribe(at, "x > 0", durable=True)
    net.run()
    net.cut((2, 3))
    net.run()
    net.publish(0, {"x": 1}, confirm=True)
    net.run(DISK + 4 * HOP)  # it is on disk, and the first attempt is being written at 2
    net.crash(0)
    net.mend((2, 3))
    net.run(restarted)
    net.restart(0)
    net.run(killed)
    net.crash(2)
    net.run(DISK * 4)
    net.restart(2)
    net.run()
    verdict = net.verdict()
    assert verdict.is_right, f"{restarted:.3f} {killed:.3f}\n{verdict}"


def test_an_acknowledgement_is_that_of_its_attempt() -> None:
    for restarted in range(20):
        for killed in range(5):
            raced(0.43 + 0.002 * restarted, 0.02 + 0.01 * killed)
