"""Which ways of forwarding are there? Each is a class in the module of its name, imported when it is chosen."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from palio.routing.forwarding.protocol import Forwarding, Setting

_HOMES: Final = {
    "content": ("palio.routing.forwarding.content", "ContentForwarding"),
    "reuse": ("palio.routing.forwarding.reuse", "ReuseForwarding"),
    "prefix": ("palio.routing.forwarding.prefix", "PrefixForwarding"),
    "bloom": ("palio.routing.forwarding.bloom", "BloomForwarding"),
}


def known_forwardings() -> list[str]:
    """The names that `make_forwarding` takes."""
    return [name for name, (module, _) in _HOMES.items() if find_spec(module) is not None]


def make_forwarding(name: str, setting: Setting) -> Forwarding:
    """A forwarding by its name, for one broker: the class is called with the setting."""
    module, made = _HOMES[name]
    forwarding: Forwarding = getattr(import_module(module), made)(setting)
    return forwarding
