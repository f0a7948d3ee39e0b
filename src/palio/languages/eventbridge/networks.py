"""Networks in patterns: what may stand after `cidr`."""

from __future__ import annotations

from ipaddress import ip_address

from palio.languages.eventbridge.document import Value, kind_of
from palio.languages.eventbridge.refusal import Place


def read_network(operand: Value, place: Place) -> str:
    """A network in CIDR notation, checked; the bits of a host in it are passed over."""
    if not isinstance(operand.content, str):
        raise place.refuse(operand, f"this takes a string, not {kind_of(operand)}")
    text = operand.content
    address, slash, mask = text.partition("/")
    if not slash or not mask or "/" in mask:
        raise place.refuse(operand, "a network is an address, a slash and the number of its bits", "as in 10.0.0.0/8")
    if not (mask.isascii() and mask.isdigit() and len(mask) <= 4):
        raise place.refuse(operand, f"the bits of a network are a whole number, not {mask[:80]!r}")
    try:
        found = ip_address(_decimal_octets(address))
    except ValueError:
        raise place.refuse(operand, f"{address[:80]!r} is no IP address") from None
    widest = found.max_prefixlen - 1
    if int(mask) > widest:
        raise place.refuse(
            operand,
            f"a network of IPv{found.version} has at most {widest} bits",
            "a single address is written as a string by itself",
        )
    return f"{found}/{int(mask)}"


def _decimal_octets(address: str) -> str:
    """The address with octets as Python wants them, without zeros before them; ValueError for a mixed notation."""
    if "%" in address or (":" in address and "." in address):
        raise ValueError(address)
    octets = address.split(".")
    if all(octet.isascii() and octet.isdigit() and len(octet) < 10 for octet in octets):
        return ".".join(str(int(octet)) for octet in octets)
    return address
