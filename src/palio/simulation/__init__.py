"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""

from palio.routing.measures import Measures
from palio.routing.strategies import (
    Bloom,
    BrokerOptions,
    Content,
    Covering,
    Failover,
    Flooding,
    Group,
    Hard,
    Identity,
    Leases,
    Merging,
    NoCrashLog,
    Prefix,
    Recover,
    RedundantPaths,
    Reuse,
    Simple,
    SimulationOptions,
    Stabilising,
    TreeRepair,
    XRoute,
)
from palio.simulation.community_network import CommunityNetwork, Reach
from palio.simulation.corruption import Corruption
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
    TableCorruption,
)
from palio.simulation.history import Advertisement, Completion, Delivery, Subscription
from palio.simulation.network import Network
from palio.simulation.oracle import Verdict
from palio.simulation.peer_network import ChordNetwork
from palio.simulation.properties import Violation
from palio.simulation.shrinking import shrink
from palio.simulation.table_errors import TableErrors
from palio.simulation.topologies import Topology

__all__ = [
    "Advertisement",
    "Bloom",
    "BrokerOptions",
    "ChordNetwork",
    "ClockJump",
    "CommunityNetwork",
    "Completion",
    "Content",
    "Corruption",
    "Covering",
    "Crash",
    "Delivery",
    "DiskFull",
    "Failover",
    "Fault",
    "FaultSchedule",
    "Faults",
    "Flooding",
    "Group",
    "Hard",
    "Identity",
    "Leases",
    "LinkCut",
    "Measures",
    "Merging",
    "Network",
    "NoCrashLog",
    "Partition",
    "Prefix",
    "Reach",
    "Recover",
    "RedundantPaths",
    "Reuse",
    "Simple",
    "SimulationOptions",
    "SlowBroker",
    "Stabilising",
    "Subscription",
    "TableCorruption",
    "TableErrors",
    "Topology",
    "TreeRepair",
    "Verdict",
    "Violation",
    "XRoute",
    "shrink",
]
