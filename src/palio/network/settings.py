"""What can be chosen when a broker is started? Every choice has a default, and a place in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any

from palio.errors import InputError, InvalidArgument
from palio.filters.filter import Filter
from palio.network.addresses import Address
from palio.network.gateway.settings import HttpSettings
from palio.network.outlets import OVERFLOWS
from palio.network.protocol import Overflow
from palio.network.security.grants import OPEN, LinkFilters
from palio.network.security.limits import Limits
from palio.network.security.sealing import KeySettings
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.store.interface import Keeping
from palio.network.store.schema import Safety
from palio.routing.combinations import Combination


@dataclass(frozen=True, slots=True)
class Flow:
    """How much may wait for one client, and what happens to one that is slow."""

    queue: int = 10_000  # events for one subscription, where it does not say how many
    longest_queue: int = 1_000_000
    overflow: Overflow = "drop_oldest"
    window: int = 1_024  # confirmed events of one client under way
    patience: float = 10.0  # seconds for which what is asked of all brokers waits for those that are away

    def __post_init__(self) -> None:
        if self.overflow not in OVERFLOWS:
            raise InvalidArgument(f"there is no overflow rule {self.overflow!r}; known are {', '.join(OVERFLOWS)}")
        for name in ("queue", "longest_queue", "window"):
            value = getattr(self, name)
            if type(value) is not int or value <= 0:
                raise InvalidArgument(f"{name} is a positive whole number, not {value!r}")
        if type(self.patience) not in (int, float) or not 0 <= self.patience < inf:
            raise InvalidArgument(f"patience is a number of seconds, not {self.patience!r}")


@dataclass(frozen=True, slots=True)
class Settings:
    """All choices for one broker. `data` is where it keeps what must outlive it; None is nowhere."""

    listen: tuple[Address, ...] = (Address("127.0.0.1"),)
    connect: tuple[Address, ...] = ()
    public: Address | None = None  # where clients of other brokers reach this one; None is where it listens
    data: Path | None = None
    propagation: str = "identity"
    forwarding: str = "content"
    advertisements: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: {"circles": True})
    heartbeat: float = 5.0
    watch: float = 2.0  # seconds between two looks at who is let in, and at what was counted
    token: str = ""  # with which this broker greets others
    limits: Limits = field(default_factory=Limits)
    flow: Flow = field(default_factory=Flow)
    tls: ServerTls | None = None  # what `palio+tls://` listens with
    trust: ClientTls = field(default_factory=ClientTls)  # whom links over TLS trust
    keeping: Keeping = field(default_factory=Keeping)
    safety: Safety = "durable"
    http: HttpSettings | None = None  # None is no HTTP at all
    stamps: bool = False  # whether events carry the times at which links wrote and read them
    links: Mapping[str, LinkFilters] = field(default_factory=dict)  # what passes a link that is dialled, by its address
    keys: KeySettings = field(default_factory=KeySettings)  # for datagrams that leave this machine
    insecure: bool = False  # whether strangers may be listened to without TLS and tokens

    @property
    def combination(self) -> Combination:
        """The choices of a network; `IllegalCombination` where they do not go together."""
        return Combination(self.propagation, self.forwarding, self.advertisements, options=dict(self.options))

    def with_changes(self, given: Mapping[str, Any]) -> Settings:
        """These settings with others in their places, as a file or a command line has them."""
        changes = dict(given)
        known = {each.name for each in fields(self)}
        _check_names(changes, known, "setting")
        for name in ("listen", "connect"):
            if name in changes:
                several = [changes[name]] if isinstance(changes[name], str) else changes[name]
                changes[name] = tuple(map(_address, several))
        if isinstance(changes.get("public"), str):
            changes["public"] = Address.parse(changes["public"])
        if isinstance(changes.get("data"), str):
            changes["data"] = None if changes["data"] == "none" else Path(changes["data"])
        if isinstance(changes.get("keys"), Mapping):
            changes["keys"] = _keys(changes["keys"])
        for name in ("limits", "flow", "keeping", "keys"):
            if isinstance(changes.get(name), Mapping):
                changes[name] = _changed(getattr(self, name), changes[name], name)
        if "links" in changes:
            changes["links"] = {str(Address.parse(at)): _filters(given) for at, given in changes["links"].items()}
        if isinstance(changes.get("http"), str):
            changes["http"] = None if changes["http"] == "off" else HttpSettings.at(changes["http"])
        if isinstance(changes.get("http"), Mapping):
            lists = {name: tuple(each) if isinstance(each, list) else each for name, each in changes["http"].items()}
            changes["http"] = _changed(self.http or HttpSettings(), lists, "http")
        if "options" in changes:
            changes["options"] = {**self.options, **changes["options"]}
        if isinstance(changes.get("tls"), Mapping):
            changes["tls"] = ServerTls(**_paths(changes["tls"], ServerTls))
        if isinstance(changes.get("trust"), Mapping):
            changes["trust"] = ClientTls(**_paths(changes["trust"], ClientTls))
        return replace(self, **changes)


def read_table(path: Path) -> dict[str, Any]:
    """What a TOML file says, for `with_changes`: the names of `Settings`, and tables for what has parts."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(error)) from None


def _changed(table: Any, given: Mapping[str, Any], name: str) -> Any:
    _check_names(given, {each.name for each in fields(table)}, f"setting of {name}")
    return replace(table, **given)


def _keys(given: Mapping[str, Any]) -> dict[str, Any]:
    places = {str(Address.parse(each)): _address(at) for each, at in given.get("at", {}).items()}
    return {**given, "at": places}


def _address(given: str | Address) -> Address:
    return given if isinstance(given, Address) else Address.parse(given)


def _filters(given: LinkFilters | Mapping[str, str]) -> LinkFilters:
    if isinstance(given, LinkFilters):
        return given
    _check_names(given, {each.name for each in fields(LinkFilters)}, "filter of a link")
    return replace(OPEN, **{name: Filter.parse(condition) for name, condition in given.items()})


def _check_names(given: Mapping[str, Any], known: set[str], what: str) -> None:
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
            raise InvalidArgument(f"there is no {what} {name!r}; {hint}")


def _paths(given: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    _check_names(given, {each.name for each in fields(kind)}, "setting of TLS")
    return {name: Path(value) if isinstance(value, str) else value for name, value in given.items()}
