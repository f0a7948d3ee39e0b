"""Links in use whose tables are resumed: a link is in use once both ends know how much the other has.

`ActiveLinks` takes a link into use at once, and sends its tables before the neighbour has said anything. Here an end
that opens a link sends `Begin` and `Resume`, and the link is in use when those of the other end have come: only then is
it known which updates the neighbour lacks (`recovery`).
"""

from __future__ import annotations

from collections.abc import Callable

from palio.routing.effects import Effect, Send
from palio.routing.messages import Begin, Message, Resume
from palio.routing.spanning_tree import ActiveLinks, SpanningTree
from palio.routing.upkeep.recovery import TableSessions


class ResumableLinks(ActiveLinks):
    """The links in use of one broker with table sessions. `on_open` and `on_close` are called as in `ActiveLinks`, and
    a link never restarts: what comes again is known by its number."""

    __slots__ = ("_begun", "_sessions")

    def __init__(
        self,
        tree: SpanningTree | None,
        on_open: Callable[[int], None],
        on_close: Callable[[int], None],
        sessions: TableSessions,
        effects: list[Effect],
    ) -> None:
        super().__init__(tree, on_open, on_close, on_close, effects)
        self._sessions = sessions
        self._begun: set[int] = set()  # links whose neighbour has sent `Begin`, and no `Resume` yet

    def on_link_up(self, link: int, neighbour: int) -> None:
        self._sessions.on_link_up(link, neighbour)
        super().on_link_up(link, neighbour)

    def on_begin(self, link: int, message: Begin) -> None:
        pair = message.yours, message.mine  # as this end names them
        self._begun.discard(link)
        if self._pairs.get(link) != pair:
            return
        if link in self.in_use and not message.answers:
            # It begins again, and must be told again how much this end has.
            self._close(link)
            self._open(link, pair, answers=True)
        self._begun.add(link)

    def on_resume(self, link: int, message: Resume) -> None:
        """A neighbour that has begun says how much it has."""
        self._begun.discard(link)
        if link in self.in_use:
            self._sessions.repeat(link, message)
            return
        self.in_use[link] = True
        self._sessions.open_link(link, message)
        self._on_open(link)

    def counts(self, link: int, message: Message) -> bool:
        if type(message) is Resume:
            return link in self._begun or link in self.in_use
        return super().counts(link, message)

    def _open(self, link: int, pair: tuple[int, int], answers: bool = False) -> None:
        self._pairs[link] = pair
        self._effects.append(Send((link,), Begin(*pair, answers)))
        self._effects.append(Send((link,), self._sessions.resume_message(link)))

    def _close(self, link: int) -> None:
        self._begun.discard(link)
        del self._pairs[link]
        if self.in_use.pop(link, None) is None:
            self._sessions.give_up_opening(link)
        else:
            self._sessions.close_link(link)
            self._on_close(link)
