"""Parts of URLs, as `java.net.URI` finds them (RFC 2396): parse_url().

A URL with a character that no URL may have is NULL, where Spark raises. Characters beyond ASCII are allowed, as in
Java. A host that is no host name (`a_b`, `1.2.3`) leaves an authority without host, user information and port.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

PARTS: Final = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")

_OTHER: Final = r"[^\x00-\xA0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]"
_MARKED: Final = rf"(?:[A-Za-z0-9_.!~*'();:@&=+$,-]|%[0-9A-Fa-f]{{2}}|{_OTHER})"
_URL: Final = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?\Z", re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_PATH: Final = re.compile(rf"(?:{_MARKED}|/)*\Z")
_QUERY: Final = re.compile(rf"(?:{_MARKED}|[/?\[\]])*\Z")
_AUTHORITY: Final = re.compile(rf"(?:{_MARKED})*\Z")
_SERVER: Final = re.compile(r"(?:([^@]*)@)?(\[[^\]]*\]|[^:]*)(?::([0-9]*))?\Z")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"(?:{_LABEL}\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?\Z")
_IPV4: Final = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\Z")


def parse_url(part: str, key: str | None = None) -> Callable[[str], str | None]:
    """The function that finds a part of a URL, or the value of a key in its query."""
    if part.upper() in PARTS and part not in PARTS:
        return lambda url: None  # Spark knows the names in capital letters only
    if part not in PARTS:
        raise ValueError(f"a URL has no part {part!r}; its parts are {', '.join(PARTS)}")
    if key is None:
        return lambda url: _parts(url).get(part)
    if part != "QUERY":
        raise ValueError("only the part QUERY has keys")
    # Spark takes the key for a regular expression; here it stands for itself.
    pair = re.compile(rf"(?:&|^){re.escape(key)}=([^&]*)")

    def value(url: str) -> str | None:
        found = pair.search(_parts(url).get("QUERY") or "")
        return None if found is None else found[1]

    return value


def _parts(url: str) -> dict[str, str | None]:
    """The parts that a URL has; a ValueError where it is none."""
    found = _URL.match(url)
    if found is None:
        raise ValueError("no URL")
    scheme, authority, path, query, fragment = found.groups()
    _check(scheme is None or _SCHEME.match(scheme), fragment is None or _QUERY.match(fragment))
    parts: dict[str, str | None] = {"PROTOCOL": scheme, "REF": fragment}
    if scheme is not None and authority is None and not path.startswith("/"):
        # Opaque, as in mailto:a@b: what is behind the scheme has no parts.
        _check(path or query, _QUERY.match(f"{path}?{query}" if query is not None else path))
        return parts
    _check(_PATH.match(path), query is None or _QUERY.match(query), authority != "" or path)
    parts |= {"PATH": path, "QUERY": query, "FILE": path if query is None else f"{path}?{query}"}
    if authority:
        parts |= {"AUTHORITY": authority, **_server(authority)}
    return parts


def _server(authority: str) -> dict[str, str | None]:
    """The user information and the host of an authority; nothing where it is no server's."""
    found = _SERVER.match(authority)
    if found is not None:
        user, host, _ = found.groups()
        if (user is None or _AUTHORITY.match(user)) and (_HOST.match(host) or _IPV4.match(host) or _is_ipv6(host)):
            return {"USERINFO": user, "HOST": host}
    _check(_AUTHORITY.match(authority))
    return {}


def _is_ipv6(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True


def _check(*holds: object) -> None:
    if not all(holds):
        raise ValueError("no URL")
