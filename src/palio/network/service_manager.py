"""Notification of the service manager: a datagram to the socket that systemd names, and none elsewhere.

With `Type=notify` a unit counts as started when the broker serves, and not when its process exists. The protocol is one
datagram of `NAME=VALUE` lines (sd_notify(3)); a library for that would be longer than this.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify_service_manager(state: str) -> None:
    """Send a state such as `READY=1`; failures are ignored, as the protocol demands."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A name that begins with @ is in the abstract namespace of Linux, in which that byte is zero.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification:
        notification.connect("\0" + address[1:] if address.startswith("@") else address)
        notification.sendall(state.encode())
