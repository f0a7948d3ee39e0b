"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""

from palio.routing.strategies import (
    Bloom,
    BrokerOptions,
    Content,
    Covering,
    Flooding,
    Group,
    Identity,
    Merging,
    Prefix,
    Reuse,
    Simple,
    SimulationOptions,
)
from palio.simulation.faults import (
    ClockJump,
    Crash,
    DiskFull,
    Fault,
    Faults,
    FaultSchedule,
    LinkCut,
    Partition,
    SlowBroker,
)
from palio.simulation.history import Advertisement, Delivery, Subscription
from palio.simulation.network import Network
from palio.simulation.oracle import Verdict
from palio.simulation.properties import Violation
from palio.simulation.shrinking import shrink
from palio.simulation.topologies import Topology

__all__ = [
    "Advertisement",
    "Bloom",
    "BrokerOptions",
    "ClockJump",
    "Content",
    "Covering",
    "Crash",
    "Delivery",
    "DiskFull",
    "Fault",
    "FaultSchedule",
    "Faults",
    "Flooding",
    "Group",
    "Identity",
    "LinkCut",
    "Merging",
    "Network",
    "Partition",
    "Prefix",
    "Reuse",
    "Simple",
    "SimulationOptions",
    "SlowBroker",
    "Subscription",
    "Topology",
    "Verdict",
    "Violation",
    "shrink",
]
