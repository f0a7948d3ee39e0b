"""Palio: any WHERE clause is a subscription, and a million of them run over your stream at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palio.errors import (
        AuthenticationFailed,
        BrokenLanguage,
        ConnectionFailed,
        DuplicateSubscription,
        EventError,
        ExpiredOffset,
        HomeAway,
        IllegalCombination,
        IndexFileError,
        InputError,
        InvalidArgument,
        InvalidSubscription,
        LimitReached,
        LivesElsewhere,
        MissingExtra,
        NotAdvertised,
        NotPermitted,
        PalioError,
        ParseError,
        PipelineError,
        QueueFull,
        Refused,
        StoreError,
        StoreFull,
        StoreInUse,
        SubscriptionError,
        SubscriptionLogError,
        UnknownLanguage,
        UnknownSubscription,
        VersionNotKept,
        WireError,
    )
    from palio.events import Event
    from palio.filters.filter import Filter
    from palio.filters.values import ValueSet
    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription

__version__ = "0.1.0"

# Where each public name lives. Names are imported when first used: a program that only parses conditions should
# not wait for Arrow and a compiler.
_HOMES = {
    "AuthenticationFailed": "palio.errors",
    "BrokenLanguage": "palio.errors",
    "DuplicateSubscription": "palio.errors",
    "Event": "palio.events",
    "EventError": "palio.errors",
    "ExpiredOffset": "palio.errors",
    "Filter": "palio.filters.filter",
    "HomeAway": "palio.errors",
    "IllegalCombination": "palio.errors",
    "IndexFileError": "palio.errors",
    "InputError": "palio.errors",
    "InvalidArgument": "palio.errors",
    "InvalidSubscription": "palio.errors",
    "Matcher": "palio.matching.matcher",
    "LimitReached": "palio.errors",
    "LivesElsewhere": "palio.errors",
    "MissingExtra": "palio.errors",
    "NotAdvertised": "palio.errors",
    "NotPermitted": "palio.errors",
    "PalioError": "palio.errors",
    "ParseError": "palio.errors",
    "PipelineError": "palio.errors",
    "QueueFull": "palio.errors",
    "StoreError": "palio.errors",
    "StoreFull": "palio.errors",
    "StoreInUse": "palio.errors",
    "Subscription": "palio.matching.subscription",
    "SubscriptionError": "palio.errors",
    "SubscriptionLogError": "palio.errors",
    "UnknownLanguage": "palio.errors",
    "UnknownSubscription": "palio.errors",
    "ValueSet": "palio.filters.values",
    "VersionNotKept": "palio.errors",
    "ConnectionFailed": "palio.errors",
    "Refused": "palio.errors",
    "connect": "palio.network.client.connecting",
    "connect_blocking": "palio.network.client.blocking",
    "WireError": "palio.errors",
}

__all__ = [
    "AuthenticationFailed",
    "BrokenLanguage",
    "ConnectionFailed",
    "DuplicateSubscription",
    "Event",
    "EventError",
    "ExpiredOffset",
    "Filter",
    "HomeAway",
    "IllegalCombination",
    "IndexFileError",
    "InputError",
    "InvalidArgument",
    "InvalidSubscription",
    "LimitReached",
    "LivesElsewhere",
    "Matcher",
    "MissingExtra",
    "NotAdvertised",
    "NotPermitted",
    "PalioError",
    "ParseError",
    "PipelineError",
    "QueueFull",
    "Refused",
    "StoreError",
    "StoreFull",
    "StoreInUse",
    "Subscription",
    "SubscriptionError",
    "SubscriptionLogError",
    "UnknownLanguage",
    "UnknownSubscription",
    "ValueSet",
    "VersionNotKept",
    "WireError",
    "__version__",
    "connect",
    "connect_blocking",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'palio' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
