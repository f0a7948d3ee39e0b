"""Is there a Spark at an address? Asked before a JVM is started, which would answer with pages, some after a minute."""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.request import getproxies

from palio.errors import PipelineError

# Spark's own forms: SparkContext's `SparkMasterRegex`, and the address of Connect.
_FORMS: Final = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|k8s://.+|spark://.+|sc://.+"
)
_PORTS: Final = {"spark": 7077, "sc": 15002}
_SECONDS_TO_CONNECT: Final = 5.0


def check_master(master: str) -> None:
    """Refuse what is no address of a Spark, and one at which nobody listens."""
    if _FORMS.fullmatch(master) is None:
        raise PipelineError(
            f"{master} is no master of Spark's; write local[*] or local[4] for this machine, spark://host:7077, yarn "
            "or k8s://… for a cluster, sc://host:15002 for Spark Connect"
        )
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS or (scheme == "sc" and getproxies()):  # a proxy knows hosts that we do not
        return
    reasons = [_refusal(each, _PORTS[scheme]) for each in rest.partition("/")[0].split(",")]
    if None not in reasons:  # of several masters of a cluster, those that stand by may not answer
        raise PipelineError(f"no Spark answers at {scheme}://{rest.partition('/')[0]}: {reasons[0]}")


def _refusal(address: str, usual_port: int) -> str | None:
    """Why nobody can be reached at `host:port`; None where somebody listens."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):  # the colons of an IPv6 address are in brackets
        host, port = address, str(usual_port)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return f"{port!r} is no port"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
