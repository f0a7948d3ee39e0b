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
    Stabilising,
)
from palio.simulation.corruption import Corruption
from palio.simulation.history import Advertisement, Delivery, Subscription
from palio.simulation.network import Network
from palio.simulation.oracle import Verdict
from palio.simulation.table_errors import TableErrors
from palio.simulation.topologies import Topology

__all__ = [
    "Advertisement",
    "Bloom",
    "BrokerOptions",
    "Content",
    "Corruption",
    "Covering",
    "Delivery",
    "Flooding",
    "Group",
    "Identity",
    "Merging",
    "Network",
    "Prefix",
    "Reuse",
    "Simple",
    "SimulationOptions",
    "Stabilising",
    "Subscription",
    "TableErrors",
    "Topology",
    "Verdict",
]
