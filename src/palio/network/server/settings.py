"""Settings of a broker, with their defaults and their names in a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from palio.errors import InvalidArgument
from palio.network.addresses import Address
from palio.network.gateway.settings import HttpSettings
from palio.network.links.key_exchange import KeySettings
from palio.network.logging_setup import LogSettings
from palio.network.protocol import OVERFLOW_POLICIES, Overflow
from palio.network.security.authorization import OPEN_LINK, LinkFilters
from palio.network.security.quotas import BrokerLimits
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.settings_validation import change_settings, check_positive
from palio.network.store.interface import Retention
from palio.network.store.schema import Safety
from palio.routing.combinations import Combination
from palio.routing.strategies import SIMULATION_OPTIONS


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow control: bounds of queues and windows, and the overflow policy."""

    queue: int = 10_000  # events of one subscription, unless it asks for another bound
    longest_queue: int = 1_000_000
    overflow: Overflow = "drop_oldest"
    window: int = 1_024  # confirmed events of one client under way
    patience: float = 10.0  # seconds for which requests to all brokers wait for those that are away
    queue_bytes: int = 32 * 2**20  # of the events that wait for one subscription; an empty queue takes any event
    confirm_seconds: float = 30.0  # after which a publisher gets an error instead of a confirmation
    block_seconds: float = 10.0  # for which a full queue of policy `block` holds publishers back

    def __post_init__(self) -> None:
        if self.overflow not in OVERFLOW_POLICIES:
            raise InvalidArgument(
                f"there is no overflow rule {self.overflow!r}; known are {', '.join(OVERFLOW_POLICIES)}"
            )
        check_positive(self, "queue", "longest_queue", "window", "queue_bytes", "confirm_seconds", "block_seconds")
        if type(self.patience) not in (int, float) or not 0 <= self.patience < inf:
            raise InvalidArgument(f"patience is a number of seconds, not {self.patience!r}")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one broker. `data` is its data directory; None keeps everything in memory."""

    listen: tuple[Address, ...] = (Address("127.0.0.1"),)
    connect: tuple[Address, ...] = ()
    public: Address | None = None  # to which other brokers refer clients; None is where it listens
    data: Path | None = None
    propagation: str = "identity"
    forwarding: str = "content"
    advertisements: bool = False
    tables: str = "hard"
    crash_log: str = "none"
    paths: str = "tree"
    options: Mapping[str, Any] = field(default_factory=lambda: {"circles": True})
    heartbeat: float = 5.0
    watch: float = 2.0  # seconds between checks of the principals file and measurements of rates
    token: str = ""  # by which this broker authenticates itself to others
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    flow: Flow = field(default_factory=Flow)
    tls: ServerTls | None = None  # what `palio+tls://` listens with
    trust: ClientTls = field(default_factory=ClientTls)  # authorities that links over TLS trust
    keeping: Retention = field(default_factory=Retention)
    safety: Safety = "durable"
    http: HttpSettings | None = None  # None is no HTTP at all
    log: LogSettings = field(default_factory=LogSettings)
    stamps: bool = False  # whether events carry the times at which links wrote and read them
    links: Mapping[str, LinkFilters] = field(default_factory=dict)  # filters of dialled links, by address
    keys: KeySettings = field(default_factory=KeySettings)  # of sealed datagrams
    sealing_keys: Path | None = None  # file with the keys of sealed events; this is an edge broker then
    insecure: bool = False  # whether exposed addresses may do without TLS and tokens

    def __post_init__(self) -> None:
        check_positive(self, "heartbeat", "watch")
        for name in SIMULATION_OPTIONS & self.options.keys():
            raise InvalidArgument(f"{name} is an option of simulated networks; real links are as they are")
        if self.crash_log == "recover" and self.data is None:
            raise InvalidArgument("crash_log recover needs a data directory: what is kept in memory ends with a crash")

    @property
    def combination(self) -> Combination:
        """The routing strategies; `IllegalCombination` where they do not go together."""
        sealed = {} if self.sealing_keys is None else {"sealed": True}
        options = {**self.options, **sealed}
        upkeep = self.tables, self.crash_log, self.paths
        return Combination(self.propagation, self.forwarding, self.advertisements, *upkeep, options)

    def with_changes(self, given: Mapping[str, Any]) -> Settings:
        """A copy with some settings replaced, given as a TOML file or a command line has them."""
        changes = dict(given)
        if isinstance(changes.get("keys"), Mapping) and "at" in changes["keys"]:
            changes["keys"] = {**changes["keys"], "at": _places(changes["keys"]["at"])}
        if "links" in changes:
            changes["links"] = _links(changes["links"])
        if isinstance(changes.get("http"), str | Mapping):
            changes["http"] = self._http(changes["http"])
        if "options" in changes:
            changes["options"] = {**self.options, **_table(changes["options"], "options")}
        return change_settings(self, changes)

    def _http(self, given: str | Mapping[str, Any]) -> HttpSettings | None:
        """Settings of HTTP; any setting but "off" makes HTTP mandatory."""
        if given == "off":
            return None
        if isinstance(given, str):
            at = HttpSettings.at(given)
            given = {"host": at.host, "port": at.port}
        return change_settings(self.http or HttpSettings(), {"is_optional": False, **given}, "http")


def _places(given: Any) -> dict[str, Address]:
    return {str(Address.parse(each)): _address(at) for each, at in _table(given, "keys.at").items()}


def _address(given: str | Address) -> Address:
    return given if isinstance(given, Address) else Address.parse(given)


def _links(given: Any) -> dict[str, LinkFilters]:
    return {str(Address.parse(at)): _filters(each, at) for at, each in _table(given, "links").items()}


def _filters(given: Any, at: str) -> LinkFilters:
    place = f'links."{at}"'
    return given if isinstance(given, LinkFilters) else change_settings(OPEN_LINK, _table(given, place), place)


def _table(given: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{place} is a table, not {given!r:.80}")
    return given
