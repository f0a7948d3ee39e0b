"""Conditions of a broker's clients that cost too much: no longer evaluated, and their owners told.

A subscription of a session ends. A durable one is put aside: it stays with its queue, and another condition may take
the place of the first.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from palio.errors import LimitReached
from palio.filters.evaluation_cost import is_free
from palio.filters.filter import Filter
from palio.network.security.quotas import BrokerLimits, check_cost
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX, owner_of
from palio.network.server.matching_costs import ConditionCost, MatchingCosts
from palio.network.server.put_aside import PutAside
from palio.routing.client_messages import SubscribeClient
from palio.routing.effects import Client

if TYPE_CHECKING:
    from palio.network.server.host import Host

log = logging.getLogger("palio.host")


class CostlyConditions:
    """The costs of all conditions of one broker's clients, and those that were put aside."""

    def __init__(self, host: Host, limits: BrokerLimits, data: Path | None) -> None:
        self._host = host
        self.put_aside = PutAside(data)
        self.costs = MatchingCosts(limits, host.now, host.run_off_loop, self._principal_of, self._on_over_budget)

    def begin(self) -> None:
        """Take over the durable subscriptions of an earlier run; those that cost more than the limits are put aside.

        A condition that was accepted under higher limits must not stop this broker again.
        """
        self.put_aside.read()
        for client, name, wanted in list(self._host.subscriptions_of_clients(DURABLE_CLIENT_PREFIX)):
            if is_free(wanted):
                continue  # of hundreds of thousands, nearly all
            self.costs.add(client, name, wanted)
            try:
                check_cost(wanted, self.costs.limits)
            except LimitReached as error:
                self._put_aside_durable(client, name, wanted, error)

    def add(self, client: Client, name: str, wanted: Filter) -> None:
        """A subscription begins, or has another condition now."""
        self.costs.add(client, name, wanted)

    def remove(self, client: Client, name: str) -> None:
        """A subscription has ended."""
        self.costs.remove(client, name)
        self.put_aside.remove(client, name)

    def _principal_of(self, client: Client, name: str) -> str:
        if client.startswith(DURABLE_CLIENT_PREFIX):
            return owner_of(client, name)
        principal = getattr(self._host.clients.get(client), "principal", None)
        return "" if principal is None else str(principal.name)

    def _on_over_budget(self, cost: ConditionCost, error: LimitReached) -> None:
        log.warning(
            "a condition is put aside",
            extra={"principal": cost.principal, "subscription": cost.name, "reason": str(error)},
        )
        self._host.drops["condition put aside"] += 1
        if cost.client.startswith(DURABLE_CLIENT_PREFIX):
            self._put_aside_durable(cost.client, cost.name, cost.wanted, error)
        elif (end := self._host.clients.get(cost.client)) is not None:
            end.withdraw(cost.name, error)

    def _put_aside_durable(self, client: Client, name: str, wanted: Filter, error: LimitReached) -> None:
        self.put_aside.add(client, name, wanted, error)
        # Its queue stays: under a known name another condition takes the place of the first.
        self._host.request(client, SubscribeClient(name, Filter.nothing, "no", True))
        end = self._host.clients.get(client)
        if end is not None:
            end.withdraw(name, error)
