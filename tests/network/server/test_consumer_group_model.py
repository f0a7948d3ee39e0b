"""Consumer groups at a broker, in process: whatever members and broker do, no event is lost, none is with two members,
and events of a key are processed in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palio import DurableSettings, Event, Filter
from palio.network.security.authorization import ANYONE
from palio.network.server.delivery_queues import Delivered, GroupOptions, SubscribeOptions
from palio.network.server.process import Server
from palio.network.server.session import Session
from palio.network.server.settings import Settings
from palio.network.store.memory import MemoryStore
from palio.routing import codec

CLIENT = "durable anyone/billing"
MOST = 3  # failed deliveries
_SETTLE_TURNS = 12  # of the loop; a store in memory answers at once


class Groups(RuleBasedStateMachine):
    """The model is what each member has got and not given back."""

    @initialize(is_ordered=st.booleans())
    def begin(self, is_ordered: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = MemoryStore()
        self.key = "account" if is_ordered else ""
        self.accounts: dict[int, str] = {}
        self.numbers = count(1)
        self.done: list[int] = []
        self.failures: dict[int, int] = {}
        self.holds: dict[Session, dict[int, int]] = {}  # number of the delivery, by event
        self.windows: dict[Session, int] = {}
        self.run(self.start())
        # Hypothesis leaves out some rules in each run: without these, members and events would seldom meet.
        for window in (2, 3):
            self.join(window)
        self.publish(["eve", "eve", "bob", "eve"])
        for session in list(self.holds):
            self.take_all(session, 4)

    def run(self, doing: Coroutine[Any, Any, None]) -> None:
        async def settled() -> None:
            await doing
            for _ in range(_SETTLE_TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(settled())

    async def start(self) -> None:
        self.server = Server(Settings(listen=()).with_changes({"data": "none"}), self.store)
        await self.server.start()
        self.publisher = self.server.open_session(ANYONE)

    @rule(accounts=st.lists(st.sampled_from(["eve", "bob"]), min_size=1, max_size=4))
    def publish(self, accounts: list[str]) -> None:
        async def publish() -> None:
            for account in accounts:
                number = next(self.numbers)
                self.accounts[number] = account
                await self.publisher.publish(codec.encode_event(Event({"n": number, "account": account})))

        self.run(publish())

    @rule(window=st.integers(1, 3))
    def join(self, window: int) -> None:
        async def join() -> None:
            session = self.server.open_session(ANYONE)
            limits = DurableSettings(max_deliveries=MOST)
            options = SubscribeOptions(durable=True, credit=window, group=GroupOptions(self.key), settings=limits)
            await session.subscribe("billing", Filter.everything, options)
            self.holds[session], self.windows[session] = {}, window

        self.run(join())

    def member(self, data: st.DataObject) -> Session:
        members = sorted(self.holds, key=lambda each: each.client)
        return members[data.draw(st.integers(0, len(members) - 1))]

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), most=st.integers(1, 4))
    def take(self, data: st.DataObject, most: int) -> None:
        self.take_all(self.member(data), most)

    def take_all(self, session: Session, most: int) -> None:
        for each in session.take(most):
            self.receive(session, each)

    def receive(self, session: Session, delivered: Delivered) -> None:
        event = int(str(codec.decode_event(delivered.event.body).get("n")))
        assert event not in self.done, "processed already"
        assert not any(event in held for held in self.holds.values()), "with two members"
        assert delivered.deliveries == 1 + self.failures.get(event, 0)
        if self.key:
            mine = [each for each, account in self.accounts.items() if account == self.accounts[event]]
            assert all(each in self.done for each in mine if each < event), "before an earlier one of its account"
        self.holds[session][event] = delivered.number
        assert len(self.holds[session]) <= self.windows[session]

    @precondition(lambda self: any(self.holds.values()))
    @rule(data=st.data(), how=st.sampled_from(["ack", "reject", "give up"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        session = self.member(data)
        if not self.holds[session]:
            return
        event = data.draw(st.sampled_from(sorted(self.holds[session])))
        number = self.holds[session].pop(event)

        async def finish() -> None:
            if how == "ack":
                session.ack("billing", (number,))
            else:
                session.reject("billing", (number,), how == "reject", "no")

        self.run(finish())
        if how == "reject":
            self.fail(event)
        else:
            self.done.append(event)

    def fail(self, event: int) -> None:
        self.failures[event] = self.failures.get(event, 0) + 1
        if self.failures[event] >= MOST:
            self.done.append(event)  # a dead letter

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        session = self.member(data)
        del self.holds[session]

        async def leave() -> None:
            self.server.close_session(session)

        self.run(leave())
        self.read_failures()

    def read_failures(self) -> None:
        """Which of its events a member failed on is a rule of its own, tested elsewhere: it is read from the store."""
        queue = self.store.queue(CLIENT, "billing")
        waiting = queue.read(0, 10_000)
        failures = queue.failures([number for number, _ in waiting])
        known = {int(str(codec.decode_event(event.body).get("n"))): number for number, event in waiting}
        for event in self.accounts:
            if event in known:
                self.failures[event] = failures.get(known[event], 0)
            elif event not in self.done:
                letters = [codec.decode_event(each.data).get("n") for each in self.store.dead_letters.read(0, 10_000)]
                assert event in letters, "lost"
                self.done.append(event)

    @rule()
    def restart(self) -> None:
        async def restart() -> None:
            await self.server.stop()
            await self.start()

        before = {event: count for event, count in self.failures.items() if event not in self.done}
        self.holds.clear()
        self.run(restart())
        self.read_failures()
        assert {event: self.failures[event] for event in before} == before, "a broker that stops is no failure"

    @invariant()
    def what_is_not_done_waits(self) -> None:
        if hasattr(self, "store"):
            queued = self.store.queue(CLIENT, "billing").size().events
            assert queued == len(self.accounts) - len(self.done)

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        if not self.holds:
            self.join(3)
        while len(self.done) < len(self.accounts):
            before = len(self.done)
            for session, held in self.holds.items():
                self.take_all(session, 10)
                for event in sorted(held):
                    self.run(self.acknowledge(session, held.pop(event)))
                    self.done.append(event)
            assert len(self.done) > before, "events wait, and a member with room gets none"
        assert sorted(self.done) == sorted(self.accounts)
        self.run(self.server.stop())
        self.loop.close()

    async def acknowledge(self, session: Session, number: int) -> None:
        session.ack("billing", (number,))


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
