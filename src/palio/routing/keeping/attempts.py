"""Who still has to acknowledge an event under way? One attempt to bring it to everyone that it is for, at one broker.

An attempt is acknowledged to where it came from when every link it went on by has acknowledged and the broker's own
durable queues are on disk. It is not whole where something that it may be for was lost on the way meanwhile: only the
broker that let the event in knows of all that it is for, and makes another attempt. So brokers on the way need no disk,
and an acknowledgement that is not whole is always safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from palio.routing.effects import Effect, Send
from palio.routing.messages import LOCAL, Acknowledge, Acknowledged, EventId


@dataclass(slots=True)
class _Attempt:
    number: int
    upstream: int
    waiting: set[int]  # links that have not acknowledged
    is_written: bool  # whether the queues of this broker are
    whole: bool
    unwritten: tuple[int, ...] = ()  # homes that could not write it


class Attempts:
    """All attempts under way at one broker; `ended` is called with those that it began itself."""

    __slots__ = ("_answers", "_ended", "_under_way")

    def __init__(self, ended: Callable[[Acknowledged], None]) -> None:
        self._ended = ended
        self._under_way: dict[EventId, _Attempt] = {}
        self._answers: dict[int, list[Acknowledged]] = {}

    def begin(
        self, id: EventId, number: int, upstream: int, links: Iterable[int], is_written: bool, whole: bool
    ) -> None:
        """An event has been sent on; attempts that it had before are over."""
        before = self._under_way.get(id)
        if before is not None and before.upstream != upstream:
            self.refuse(before.upstream, id, before.number)
        made = self._under_way[id] = _Attempt(number, upstream, set(links), is_written, whole)
        self._end_if_complete(id, made)

    def refuse(self, upstream: int, id: EventId, number: int) -> None:
        """Say that an attempt must be made again."""
        self._answer(upstream, Acknowledged(id, number, whole=False))

    def pass_by(self, upstream: int, id: EventId, number: int) -> None:
        """Say that an attempt is done here, with nothing to do."""
        self._answer(upstream, Acknowledged(id, number, whole=True))

    def acknowledged(self, link: int, said: Acknowledge) -> None:
        for each in said.events:
            attempt = self._under_way.get(each.id)
            if attempt is not None and attempt.number == each.attempt and link in attempt.waiting:
                attempt.waiting.remove(link)
                attempt.whole = attempt.whole and each.whole
                attempt.unwritten += each.unwritten
                self._end_if_complete(each.id, attempt)

    def written(self, id: EventId, number: int) -> None:
        """The queues of this broker are on disk."""
        attempt = self._under_way.get(id)
        if attempt is not None and attempt.number == number:
            attempt.is_written = True
            self._end_if_complete(id, attempt)

    def not_written(self, id: EventId, number: int, home: int) -> None:
        """The queues of this broker, the `home`, could not be written."""
        attempt = self._under_way.get(id)
        if attempt is not None and attempt.number == number:
            attempt.whole = False
            attempt.unwritten += (home,)
            self.written(id, number)

    def shrunk(self, link: int) -> None:
        """Less is behind a link than there was when something was sent there."""
        for attempt in self._under_way.values():
            if link in attempt.waiting:
                attempt.whole = False

    def given_up(self, link: int) -> None:
        """A link is not used any more: nothing will be acknowledged by it, and what came by it must come again."""
        for id, attempt in list(self._under_way.items()):
            if attempt.upstream == link:
                del self._under_way[id]
                self.refuse(link, id, attempt.number)
            elif link in attempt.waiting:
                attempt.waiting.remove(link)
                attempt.whole = False
                self._end_if_complete(id, attempt)

    def lost(self, link: int) -> None:
        """There is nobody at the other end of a link any more who waits for an answer."""
        for id in [id for id, attempt in self._under_way.items() if attempt.upstream == link]:
            del self._under_way[id]
        self._answers.pop(link, None)

    def answers(self) -> list[Effect]:
        """What is acknowledged after a batch."""
        said, self._answers = self._answers, {}
        return [Send((link,), Acknowledge(tuple(events))) for link, events in sorted(said.items())]

    def _end_if_complete(self, id: EventId, attempt: _Attempt) -> None:
        if attempt.waiting or not attempt.is_written:
            return
        del self._under_way[id]
        self._answer(attempt.upstream, Acknowledged(id, attempt.number, attempt.whole, attempt.unwritten))

    def _answer(self, upstream: int, answer: Acknowledged) -> None:
        if upstream == LOCAL:
            self._ended(answer)
        else:
            self._answers.setdefault(upstream, []).append(answer)
