"""What becomes of events that no sink took? They are kept as dead letters, until somebody sends them or lets go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PalioError
from palio.network.gateway.problems import HttpProblem
from palio.network.store.interface import DeadLetter, Exhumed

if TYPE_CHECKING:
    from palio.network.gateway.subscriptions import PushSubscriptions
    from palio.network.store.interface import Store

_MOST: Final = 1_000
_DIGITS: Final = 18


class Letters:
    """The dead letters of a broker."""

    def __init__(self, store: Store, push: PushSubscriptions) -> None:
        self._store = store
        self._push = push

    async def list(self, after: int) -> list[dict[str, Any]]:
        """The next ones behind a number."""
        found = await asyncio.to_thread(self._store.dead_letters.read, after, _MOST)
        return [_described(each) for each in found]

    async def delete(self, number: str) -> None:
        """Keep one no more."""
        await self._let_go((await self._find(number)).number)

    async def send(self, number: str) -> None:
        """Send one to its sink once more, and keep it no more where it is taken; `SinkRefused` where it is not."""
        letter = await self._find(number)
        await self._push.send_again(letter.client, letter.name, letter.data)
        await self._let_go(letter.number)

    async def _find(self, text: str) -> DeadLetter:
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
            number = int(text)
            found = await asyncio.to_thread(self._store.dead_letters.read, number - 1, 1)
            if found and found[0].number == number:
                return found[0]
        raise HttpProblem(404, f"there is no dead letter {text:.40}")

    async def _let_go(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PalioError | None] = loop.create_future()

        def answer(error: PalioError | None) -> None:
            loop.call_soon_threadsafe(done.set_result, error)

        self._store.submit([Exhumed((number,))], answer)
        error = await done
        if error is not None:
            raise error


def _described(letter: DeadLetter) -> dict[str, Any]:
    return {
        "number": letter.number,
        "time": letter.time,
        "owner": letter.client,
        "subscription": letter.name,
        "reason": letter.reason,
        "data": letter.data.decode("utf-8", "replace"),
    }
