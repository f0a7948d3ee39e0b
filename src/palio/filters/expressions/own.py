"""What Palio's own functions do, those that Spark does not have: networks, and the event as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from palio.events.values import Scalar
from palio.filters.expressions.conversion import to_text
from palio.filters.expressions.tree import Call, Expression, walk
from palio.filters.expressions.values import Value

# Functions that look at all attributes of an event, whatever their names.
OF_THE_EVENT = frozenset({"any_value_like", "any_value_ilike", "any_value_rlike"})
OWN = OF_THE_EVENT | {"ip_in_network", "condition_in", "in_timezone", "cesql_int", "cesql_string"}


def uses_own(expression: Expression) -> bool:
    """Whether an expression calls a function that only Palio has."""
    return any(isinstance(node, Call) and node.function in OWN for node in walk(expression))


def reads_whole_event(expression: Expression) -> bool:
    """Whether an expression looks at attributes that it does not name."""
    return any(isinstance(node, Call) and node.function in OF_THE_EVENT for node in walk(expression))


@lru_cache(maxsize=4096)
def network(text: str) -> IPv4Network | IPv6Network:
    """A network in CIDR notation; the bits of a host in it are passed over."""
    return ip_network(text, strict=False)


@lru_cache(maxsize=16_384)  # one address is asked for many networks
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def ip_in_network(address: str, of: str) -> bool:
    """Whether a text is an IP address within a network; FALSE for any other text."""
    found = _address(address)
    return found is not None and found in network(of)


def texts_of(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]], zone: str) -> Iterator[str]:
    """Every value of an event as a text."""
    for several in (event.values(), *arrays.values()):
        for value in several:
            text = value if isinstance(value, str) else text_of(value, zone)
            if text is not None:
                yield text


def text_of(value: Value, zone: str) -> str | None:
    """A value as a text, as CAST writes it; null and bytes have none."""
    return None if value is None or isinstance(value, bytes) else to_text(value, zone)


def any_value(
    accepts: Callable[[str], bool], zone: str
) -> Callable[[Mapping[str, Scalar], Mapping[str, tuple[Scalar, ...]]], Value]:
    """Whether some value of an event is accepted: TRUE or FALSE, never NULL."""
    return lambda event, arrays: any(accepts(text) for text in texts_of(event, arrays, zone))
