"""Brokers with HTTP, and HTTP clients of them, as context managers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from palio.network.gateway.settings import HttpSettings
from palio.network.server.process import Server
from tests.network.running import broker


@asynccontextmanager
async def serving(http: HttpSettings | None = None, **changes: Any) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A broker with HTTP on a free port, and a client of it."""
    async with broker(http=http or HttpSettings(port=0), **changes) as server, client_of(server) as client:
        yield server, client


def base(server: Server, scheme: str = "http") -> str:
    """Where a broker speaks HTTP."""
    assert server.gateway is not None
    return f"{scheme}://127.0.0.1:{server.gateway.address[1]}"


@asynccontextmanager
async def client_of(server: Server, token: str = "", **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = bearing(token) if token else {}
    async with httpx.AsyncClient(
        base_url=base(server), headers=headers, timeout=20, trust_env=False, **options
    ) as client:
        yield client


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class Stream:
    """Events of a stream, as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next_line(self) -> str:
        """The next line, of whatever kind."""
        return await anext(self._lines)

    async def next(self) -> dict[str, Any]:
        """The next event; comments and settings are skipped."""
        async for line in self._lines:
            if line.startswith("data: "):
                event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return event
        raise EOFError


@asynccontextmanager
async def listening(client: httpx.AsyncClient, where: str = "true", **parameters: str) -> AsyncIterator[Stream]:
    """A stream of events, once the broker knows of it."""
    async with client.stream("GET", "/events", params={"where": where, **parameters}) as response:
        assert response.status_code == 200, await response.aread()
        yield Stream(response)
