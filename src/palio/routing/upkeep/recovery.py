"""Crash recovery of routing tables: numbered updates, acknowledgements, and an atomic recovery database.

Without it the tables of a link last as long as its connection: `Begin` empties them, and both ends send all they have
anew. Here they are kept in a *table session* of two neighbours, which outlives connections, and with
`crash_log=recover` crashes of either end (Crash/Recover, Chand §6.1). Each end numbers its updates to the other in a
stream, keeps those that are not acknowledged, and remembers what the other has been told. When a link comes into use
again both ends say how much they have of the other's stream (`Resume`). Then each repeats what is missing, and sends
the difference between what it should have told by now and what it has: a filter that came and went meanwhile costs
nothing.

The recovery database has, for each neighbour, the filters that came from it, the keys of those it was told, the updates
that it has not acknowledged, and how far both streams are. Changes of a batch are one write, and *every* control
message of the batch waits for it: acknowledgements, updates, and queries of an echo, in their order. So a crash before
the write makes the neighbour repeat its update, and a crash after it makes the repetition a duplicate, while the
updates that followed from it are in the buffer. Events do not wait: to lose one is never wrong, and they depend on no
number.

What cannot be resumed is told anew, under another stream: a database that was lost or is older than the neighbour's, or
a session that was given up because the neighbour was away for too long. A failing disk stops nothing: messages leave
without having been written, and the numbers of the streams show after a crash that the database is too old.

What was there before, and what this is not. The link session (`link_sessions`, `retransmission`) gives order and no
loss within a connection, so that a gap between numbers means a lost connection, never a lost frame; it forgets
everything with the connection. Requests of clients are persisted before they are answered, and are therefore no part of
this database: a restarted broker has its own subscriptions from there, and tells neighbours the difference. Confirmed
events have a log, acknowledgements and a deduplication window of their own (`delivery`), and need none of this.

The source keeps one buffer of everything that happens while a neighbour is away, without a bound. Differences need
none: the buffer has only what was under way when the link broke.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from palio.errors import PalioError
from palio.routing import codec
from palio.routing.effects import CancelTimer, Drop, Effect, LinkRecord, NotPersisted, Send, SetTimer
from palio.routing.messages import (
    Advertise,
    Resume,
    Stored,
    Subscribe,
    TableChange,
    Unadvertise,
    Unsubscribe,
    Update,
)
from palio.routing.routing_tables import RoutingTables
from palio.routing.upkeep.recovery_database import RecoveryDatabase
from palio.routing.upkeep.table_session import TableSession, updates_of

SESSION_TIMER: Final = "session "  # begin of the names of timers, which a neighbour's number follows
_FIRST_KEPT_INTERFACE: Final = 1 << 40  # of tables without a link, above the numbers of all links
_PROGRESS, _SUBSCRIBED, _ADVERTISED, _TOLD_SUBSCRIPTIONS, _TOLD_ADVERTISEMENTS, _UNACKNOWLEDGED = range(6)
_PARTS: Final = range(6)
_RECEIVED_PARTS: Final = _SUBSCRIBED, _ADVERTISED
_SENT_PARTS: Final = _TOLD_SUBSCRIPTIONS, _TOLD_ADVERTISEMENTS, _UNACKNOWLEDGED
_encode_progress: Final = msgspec.msgpack.Encoder().encode
_decode_progress: Final = msgspec.msgpack.Decoder(tuple[int, int, int, int]).decode


class TableSessions:
    """The table sessions of one broker.

    `outbox` is where its tables append updates. Tables of a neighbour that is away are kept for `kept_seconds`.
    """

    __slots__ = (
        "_by_link",
        "_database",
        "_effects",
        "_is_upkeep",
        "_kept_seconds",
        "_neighbours",
        "_next_interface",
        "_next_stream",
        "_sessions",
        "_tables",
        "outbox",
        "suspended",
    )

    def __init__(
        self,
        incarnation: int,
        database: RecoveryDatabase,
        kept_seconds: float,
        is_upkeep: bool,
        effects: list[Effect],
    ) -> None:
        """With `is_upkeep` nothing waits until sessions end."""
        self._database = database
        self._kept_seconds = kept_seconds
        self._is_upkeep = is_upkeep
        self.suspended: set[int] = set()  # interfaces of neighbours that are away
        self._effects = effects
        self._sessions: dict[int, TableSession] = {}
        self._by_link: dict[int, TableSession] = {}
        self._neighbours: dict[int, int] = {}  # by link
        self._next_interface = _FIRST_KEPT_INTERFACE
        self._next_stream = incarnation << 32
        self._tables: RoutingTables | None = None
        self.outbox: list[Effect] = []

    @property
    def tables(self) -> RoutingTables:
        assert self._tables is not None, "the tables are served before anything else happens"
        return self._tables

    # Restart

    def serve(self, tables: RoutingTables, records: Sequence[LinkRecord]) -> None:
        """Restore the sessions of the last life into the tables."""
        self._tables = tables
        tables.after_updates = self.send_updates
        by_neighbour: dict[int, list[LinkRecord]] = {}
        for row in records:
            by_neighbour.setdefault(row.neighbour, []).append(row)
        for neighbour, rows in by_neighbour.items():
            session = self._sessions[neighbour] = TableSession(neighbour, self._next_interface)
            self._next_interface += 1
            tables.open_column(session.interface)
            self.suspended.add(session.interface)
            try:
                for row in rows:
                    self._restore(session, row)
            except (PalioError, msgspec.DecodeError):
                # Another version of Palio wrote it, say. The neighbour tells everything anew.
                self.end(neighbour)

    def _restore(self, session: TableSession, row: LinkRecord) -> None:
        key, data = row.key or b"", row.data or b""
        if row.part == _PROGRESS:
            progress = _decode_progress(data)
            session.sent_stream, session.sent, session.received_stream, session.received = progress
        elif row.part == _TOLD_SUBSCRIPTIONS:
            session.told_subscriptions[key] = None
        elif row.part == _TOLD_ADVERTISEMENTS:
            session.told_advertisements[key] = None
        else:
            message = codec.decode_message(data)
            if isinstance(message, Update):
                session.unacknowledged[message.number] = message
            elif isinstance(message, Subscribe):
                self.tables.on_subscribe(session.interface, message)
            elif isinstance(message, Advertise):
                self.tables.on_advertise(session.interface, message)

    def start_timers(self) -> None:
        """Count from now how long neighbours of the last life are waited for."""
        for session in self._sessions.values():
            self._set_timer(session)

    # Links

    def on_link_up(self, link: int, neighbour: int) -> None:
        self._neighbours[link] = neighbour

    def resume_message(self, link: int) -> Resume:
        """How much this broker has of a neighbour's stream, and keeps until the link is in use or given up."""
        session = self._sessions.get(self._neighbours[link])
        if session is None:
            return Resume(0, 0)
        session.link = link
        self._effects.append(CancelTimer(f"{SESSION_TIMER}{session.neighbour}"))
        return Resume(session.received_stream, session.received)

    def give_up_opening(self, link: int) -> None:
        """A link was given up before it came into use."""
        session = self._sessions.get(self._neighbours[link])
        if session is not None and session.link == link:
            session.link = None
            self._set_timer(session)

    def open_link(self, link: int, resume: Resume) -> None:
        """Take a link into use whose neighbour has said how much it has."""
        neighbour = self._neighbours[link]
        session = self._sessions.get(neighbour)
        other = next((each for each in self._sessions.values() if each.interface == link), None)
        if other is not None and other is not session:
            self.end(other.neighbour)  # another broker answers now at the other end of this link
        if session is None:
            session = self._sessions[neighbour] = TableSession(neighbour, link)
            self.tables.open_column(link)
        elif session.interface != link:
            self.suspended.discard(session.interface)
            self.tables.move_column(session.interface, link)
            session.interface = link
        self.suspended.discard(link)
        session.link = link
        self._by_link[link] = session
        self._effects.append(CancelTimer(f"{SESSION_TIMER}{neighbour}"))
        self._send_tables(session, link, resume)

    def repeat(self, link: int, resume: Resume) -> None:
        """A neighbour says, of a link in use, how much it has: send it the rest."""
        session = self._by_link[link]
        if session.can_resume(resume):
            self._resend(session, link, resume.received)
        else:
            self.tables.close_updates(link)
            self._send_tables(session, link, resume)

    def _send_tables(self, session: TableSession, link: int, resume: Resume) -> None:
        """Send what a neighbour lacks: the updates in the buffer, and with the next ones the difference."""
        if session.can_resume(resume):
            self._resend(session, link, resume.received)
        else:
            self._begin_stream(session, resume.stream)
        session.is_resuming = True
        self.tables.open_updates(link)

    def _resend(self, session: TableSession, link: int, received: int) -> None:
        self._forget_acknowledged(session, received)
        self._effects += [Send((link,), update) for update in session.unacknowledged.values()]

    def _begin_stream(self, session: TableSession, known: int) -> None:
        # Above the one that the neighbour knows: the count of incarnations may have been lost with a disk.
        self._next_stream = max(self._next_stream, known) + 1
        session.sent_stream, session.sent = self._next_stream, 0
        session.unacknowledged = {}
        session.told_subscriptions, session.told_advertisements = {}, {}
        self._database.clear(session.neighbour, _SENT_PARTS)
        self._note_progress(session)

    def close_link(self, link: int) -> None:
        """Keep the tables of a neighbour whose link is given up, for some time."""
        session = self._by_link.pop(link)
        session.link = None
        session.is_resuming = session.owes_acknowledgement = session.has_gap = False
        self.tables.close_updates(link)
        self.suspended.add(link)
        self._set_timer(session)

    def end(self, neighbour: int) -> None:
        """Give up a session: what came from a neighbour that is away is withdrawn."""
        session = self._sessions.get(neighbour)
        if session is None or session.link is not None:
            return
        del self._sessions[neighbour]
        self.suspended.discard(session.interface)
        self.tables.close_column(session.interface)
        self._database.clear(neighbour, _PARTS)

    def on_timer(self, name: str) -> None:
        self.end(int(name.removeprefix(SESSION_TIMER)))

    def _set_timer(self, session: TableSession) -> None:
        name = f"{SESSION_TIMER}{session.neighbour}"
        self._effects.append(SetTimer(name, self._kept_seconds, upkeep=self._is_upkeep))

    # Updates of a neighbour

    def on_update(self, link: int, update: Update) -> None:
        session = self._by_link[link]
        if update.stream != session.received_stream and update.number == 1:
            # All of it comes anew. Within the batch of inputs what comes again is no change for others.
            self.tables.forget(link)
            session.received_stream, session.received = update.stream, 0
            self._database.clear(session.neighbour, _RECEIVED_PARTS)
        if update.stream != session.received_stream or update.number > session.received + 1:
            # Links keep order, so that this is not seen unless a neighbour forgot more than it says. It is asked again.
            session.has_gap = True
            self._effects.append(Drop("an update before its turn", update))
            return
        session.owes_acknowledgement = True
        if update.number <= session.received:
            return  # a repetition: the acknowledgement of the first was lost
        session.received = update.number
        for change in update.changes:
            self._apply(session, link, change)
        self._note_progress(session)

    def _apply(self, session: TableSession, link: int, change: TableChange) -> None:
        tables, neighbour = self.tables, session.neighbour
        match change:
            case Subscribe(key):
                tables.on_subscribe(link, change)
                self._database.put(neighbour, _SUBSCRIBED, key, codec.encode(change))
            case Unsubscribe(key):
                tables.on_unsubscribe(link, key)
                self._database.remove(neighbour, _SUBSCRIBED, key)
            case Advertise(key):
                tables.on_advertise(link, change)
                self._database.put(neighbour, _ADVERTISED, key, codec.encode(change))
            case Unadvertise(key):
                tables.on_unadvertise(link, key)
                self._database.remove(neighbour, _ADVERTISED, key)

    def on_stored(self, link: int, stored: Stored) -> None:
        session = self._by_link[link]
        if stored.stream == session.sent_stream:
            self._forget_acknowledged(session, stored.number)

    def _forget_acknowledged(self, session: TableSession, upto: int) -> None:
        for number in [each for each in session.unacknowledged if each <= upto]:
            del session.unacknowledged[number]
            # After a crash the neighbour says how much it has, so that an update too many is not repeated.
            self._database.remove_some_time(session.neighbour, _UNACKNOWLEDGED, number.to_bytes(8, "big"))

    # Updates to neighbours

    def send_updates(self) -> None:
        """Number the updates that the tables have put into the outbox, and send them."""
        changes: dict[int, list[TableChange]] = {}
        outbox = self.outbox.copy()
        self.outbox.clear()
        for each in outbox:
            if isinstance(each, Send):
                for link in each.links:
                    changes.setdefault(link, []).append(each.message)  # type: ignore[arg-type]
            else:
                self._effects.append(each)
        for link, session in sorted(self._by_link.items()):
            own: Sequence[TableChange] = changes.get(link, ())
            if session.is_resuming:
                session.is_resuming = False
                own = session.difference(own)
                # The first update of a stream is sent although it be empty: it empties what was told before.
                if not session.sent and not own:
                    self._send_update(session, link, ())
            for part in updates_of(own):
                self._send_update(session, link, part)

    def _send_update(self, session: TableSession, link: int, changes: tuple[TableChange, ...]) -> None:
        session.sent += 1
        update = session.unacknowledged[session.sent] = Update(session.sent_stream, session.sent, changes)
        database, neighbour = self._database, session.neighbour
        database.put(neighbour, _UNACKNOWLEDGED, session.sent.to_bytes(8, "big"), codec.encode(update))
        for change in changes:
            is_subscription = isinstance(change, Subscribe | Unsubscribe)
            part = _TOLD_SUBSCRIPTIONS if is_subscription else _TOLD_ADVERTISEMENTS
            told = session.told_subscriptions if is_subscription else session.told_advertisements
            if isinstance(change, Subscribe | Advertise):
                told[change.key] = None
                database.put(neighbour, part, change.key)
            else:
                told.pop(change.key, None)
                database.remove(neighbour, part, change.key)
        self._note_progress(session)
        self._effects.append(Send((link,), update))

    def _note_progress(self, session: TableSession) -> None:
        progress = session.sent_stream, session.sent, session.received_stream, session.received
        self._database.put(session.neighbour, _PROGRESS, b"", _encode_progress(progress))

    # Batches

    def finish_batch(self, effects: list[Effect]) -> list[Effect]:
        """The effects of a batch with acknowledgements, of which control messages wait for the disk."""
        for link, session in self._by_link.items():
            if session.owes_acknowledgement:
                session.owes_acknowledgement = False
                effects.append(Send((link,), Stored(session.received_stream, session.received)))
            if session.has_gap:
                session.has_gap = False
                effects.append(Send((link,), Resume(session.received_stream, session.received)))
        return self._database.commit(effects)

    def on_persisted(self, token: int) -> None:
        self._database.on_persisted(token)

    def on_not_persisted(self, failure: NotPersisted) -> None:
        self._database.on_not_persisted(failure)

    # What can be asked of sessions

    @property
    def sessions(self) -> list[TableSession]:
        """The sessions with all neighbours, those that are away included."""
        return list(self._sessions.values())
