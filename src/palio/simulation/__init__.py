"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""

from palio.routing.strategies import (
    Bloom,
    BrokerOptions,
    Content,
    Covering,
    Flooding,
    Group,
    Identity,
    Leases,
    Merging,
    Prefix,
    Reuse,
    Simple,
    SimulationOptions,
)
from palio.simulation.history import Advertisement, Delivery, Subscription
from palio.simulation.network import Network
from palio.simulation.oracle import Verdict
from palio.simulation.topologies import Topology

__all__ = [
    "Advertisement",
    "Bloom",
    "BrokerOptions",
    "Content",
    "Covering",
    "Delivery",
    "Flooding",
    "Group",
    "Identity",
    "Leases",
    "Merging",
    "Network",
    "Prefix",
    "Reuse",
    "Simple",
    "SimulationOptions",
    "Subscription",
    "Topology",
    "Verdict",
]
