"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""

from palio.routing.strategies import (
    Bloom,
    BrokerOptions,
    Content,
    Covering,
    Failover,
    Flooding,
    Group,
    Identity,
    Merging,
    Prefix,
    Recover,
    RedundantPaths,
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
    "Failover",
    "Flooding",
    "Group",
    "Identity",
    "Merging",
    "Network",
    "Prefix",
    "Recover",
    "RedundantPaths",
    "Reuse",
    "Simple",
    "SimulationOptions",
    "Subscription",
    "Topology",
    "Verdict",
]
