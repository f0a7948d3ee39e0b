"""Palio: any WHERE clause is a subscription, and a million of them run over your stream at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palio.errors import *  # noqa: F403  every error is public, and listed by its definition

if TYPE_CHECKING:
    from palio.events import Event as Event
    from palio.filters.column import col as col
    from palio.filters.filter import Filter as Filter
    from palio.filters.value_sets import ValueSet as ValueSet
    from palio.matching.matcher import Matcher as Matcher
    from palio.matching.subscription import Subscription as Subscription
    from palio.network.client.blocking import connect_blocking as connect_blocking
    from palio.network.client.broker import connect as connect
    from palio.routing.durable_settings import DurableSettings as DurableSettings

__version__ = "0.1.0"

# The modules of the other public names. They are imported at first use: a program that only parses conditions
# should not wait for Arrow and a compiler. Type checkers follow the imports above; a test compares both.
_LAZY_MODULES = {
    "DurableSettings": "palio.routing.durable_settings",
    "Event": "palio.events",
    "Filter": "palio.filters.filter",
    "Matcher": "palio.matching.matcher",
    "Subscription": "palio.matching.subscription",
    "ValueSet": "palio.filters.value_sets",
    "col": "palio.filters.column",
    "connect": "palio.network.client.broker",
    "connect_blocking": "palio.network.client.blocking",
}


if not TYPE_CHECKING:  # a type checker has the imports above, and reports a name that is not among them
    _errors = vars(import_module("palio.errors")).items()
    _ERROR_NAMES = [name for name, value in _errors if isinstance(value, type)]
    __all__ = [*_ERROR_NAMES, *_LAZY_MODULES, "__version__"]  # noqa: PLE0604  all of them are strings

    def __getattr__(name: str) -> Any:
        module = _LAZY_MODULES.get(name)
        if module is None:
            raise AttributeError(f"module 'palio' has no attribute {name!r}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
