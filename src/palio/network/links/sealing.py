"""What does a link of sealed datagrams send by? A socket, through the newest key that the other end surely has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from palio.network.links.udp import Place, UdpLink
from palio.network.security.sealing import Seal

USED_UP: Final = "key for datagrams used up"


class Sealing:
    """The way out of one link. Keys change, and it stays."""

    def __init__(self, link: UdpLink, socket: Any, seal: Seal, drops: Counter[str], now: Callable[[], float]) -> None:
        self.link = link
        self.seal = seal
        self._socket = socket
        self._drops = drops
        self._now = now

    @property
    def is_in_use(self) -> bool:
        """Whether the link still sends by this, and by nothing that came later."""
        return self.link.transport is self

    def sendto(self, data: bytes, place: Place | None) -> None:
        if self.seal.is_over(self._now()):
            self._drops[USED_UP] += 1
        elif not self._socket.is_closing():
            self._socket.sendto(self.seal.seal(data), place)
