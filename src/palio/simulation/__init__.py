"""Networks of brokers in virtual time: every protocol of Palio, and users' own applications, without a network."""

from palio.simulation.history import Advertisement, Delivery, Subscription
from palio.simulation.network import Network
from palio.simulation.oracle import Verdict
from palio.simulation.topologies import Topology

__all__ = ["Advertisement", "Delivery", "Network", "Subscription", "Topology", "Verdict"]
