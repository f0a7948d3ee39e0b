"""Reload of settings: which changes a running broker applies, and which need a restart.

A reload is all or nothing: the new settings are read and checked, certificates included, before the first is applied.
A setting that is built into listeners, links, routing tables or the open database keeps its value until a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

from palio.network.addresses import Address
from palio.network.server.settings import Settings

# Settings that a running broker changes: whole tables, or single settings.
LIVE_SETTINGS: Final = (
    "flow",
    "heartbeat",
    "http.origin",
    "http.origins",
    "http.persistence",
    "http.sinks",
    "keeping.dead_letters",
    "keeping.log_bytes",
    "keeping.log_seconds",
    "keeping.queue_bytes",
    "keeping.queue_events",
    "keeping.queue_overflow",
    "limits",
    "log.level",
    "log.modules",
    "tls.certificate",
    "tls.client_authority",
    "tls.key",
    "tls.require_certificate",
    "trust",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Reload:
    """The settings to apply, the names of those that changed, and of those that wait for a restart."""

    settings: Settings
    changed: tuple[str, ...]
    postponed: tuple[str, ...]


def plan_reload(now: Settings, wanted: Settings) -> Reload:
    """Compare the settings in effect with wanted ones."""
    before, after = dict(_flatten(now)), dict(_flatten(wanted))
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    changed = tuple(name for name in differing if _is_live(name) and name in before and name in after)
    postponed = tuple(name for name in differing if name not in changed)
    return Reload(_merge(now, wanted, changed, ""), changed, postponed)


def _is_live(name: str) -> bool:
    return any(name == live or name.startswith(f"{live}.") for live in LIVE_SETTINGS)


def _flatten(settings: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All settings by their names in a file; those of a table that is absent are one, the table."""
    for each in fields(settings):
        name, value = f"{place}{each.name}", getattr(settings, each.name)
        if is_dataclass(value) and not isinstance(value, Address):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _merge(now: Any, wanted: Any, changed: tuple[str, ...], place: str) -> Any:
    """The settings now, with the changed ones as wanted."""
    values = {}
    for each in fields(now):
        name, value = f"{place}{each.name}", getattr(wanted, each.name)
        if name in changed:
            values[each.name] = value
        elif any(one.startswith(f"{name}.") for one in changed):
            values[each.name] = _merge(getattr(now, each.name), value, changed, f"{name}.")
    return replace(now, **values)
