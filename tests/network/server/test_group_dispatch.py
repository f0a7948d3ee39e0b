"""Dispatch of a consumer group: nothing lost, nothing with two members at once, order per key, in any run."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palio.network.server.group_dispatch import MAX_BACKLOG_EVENTS, GroupDispatch

SECONDS = 30.0


class Groups(RuleBasedStateMachine):
    """Members come, go, hang, acknowledge and reject; the model is who holds what."""

    @initialize(is_ordered=st.booleans())
    def begin(self, is_ordered: bool) -> None:
        self.is_ordered = is_ordered
        self.group = GroupDispatch[str]()
        self.names = count(1)
        self.numbers = count(1)
        self.windows: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.holds: dict[int, str] = {}  # the member of each event that is given out
        self.released: list[int] = []  # with nobody: the store is being asked
        self.waiting: set[int] = set()
        self.keys: dict[int, str | None] = {}
        self.done: list[int] = []
        self.now = 0.0
        # Hypothesis leaves out some rules in each run: without these, members and events would seldom meet.
        for window in (1, 2):
            self.join(window)
        self.publish(["a", "a", "b", None, "a", "b"])

    def dispatch(self) -> None:
        for member, number in self.group.assign(self.now):
            assert number in self.waiting, "an event that waits for nobody was given out"
            assert member not in self.hanging
            self.waiting.discard(number)
            self.holds[number] = member

    @rule(keys=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=5))
    def publish(self, keys: list[str | None]) -> None:
        for key in keys:
            number = next(self.numbers)
            self.keys[number] = key if self.is_ordered else None
            self.waiting.add(number)
            self.group.add(number, self.keys[number])
        self.dispatch()

    @rule(window=st.integers(1, 3))
    def join(self, window: int) -> None:
        name = f"member {next(self.names)}"
        self.windows[name] = window
        self.group.join(name, window, SECONDS)
        self.dispatch()

    @precondition(lambda self: self.windows)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(sorted(self.windows)))
        del self.windows[member]
        self.hanging.discard(member)
        held = sorted(number for number, holder in self.holds.items() if holder == member)
        assert self.group.leave(member) == held
        self.release(held)

    def release(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.holds[number]
            self.released.append(number)

    @precondition(lambda self: self.windows)
    @rule(data=st.data(), again=st.booleans())
    def acknowledge_or_reject(self, data: st.DataObject, again: bool) -> None:
        """Any member, any numbers: also such as it does not hold, or not any more."""
        member = data.draw(st.sampled_from(sorted(self.windows)))
        held_by_any = st.sampled_from(sorted(self.holds)) if self.holds else st.just(1)
        numbers = data.draw(st.lists(held_by_any | st.integers(1, max(self.keys, default=1)), max_size=4))
        held = [number for number in dict.fromkeys(numbers) if self.holds.get(number) == member]
        assert self.group.release(member, numbers) == held
        self.hanging.discard(member)
        self.release(held)
        if not again:
            for number in held:
                self.end(number)
        self.dispatch()

    def end(self, number: int) -> None:
        self.released.remove(number)
        self.done.append(number)
        self.group.finish(number)

    @precondition(lambda self: self.released)
    @rule(data=st.data(), is_dead_letter=st.booleans())
    def hear_from_the_store(self, data: st.DataObject, is_dead_letter: bool) -> None:
        number = data.draw(st.sampled_from(self.released))
        if is_dead_letter:
            self.end(number)
        else:
            self.released.remove(number)
            self.waiting.add(number)
            self.group.give_back(number)
        self.dispatch()

    @rule(seconds=st.sampled_from([1.0, SECONDS / 2, SECONDS]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.group.next_deadline()
        late = self.group.overdue(self.now)
        assert bool(late) == (deadline is not None and deadline <= self.now)
        for member, numbers in late:
            assert {self.holds[number] for number in numbers} == {member}
            self.hanging.add(member)
            self.release(numbers)
        self.dispatch()

    @invariant()
    def nobody_holds_more_than_its_window(self) -> None:
        for member, window in getattr(self, "windows", {}).items():
            held = {number for number, holder in self.holds.items() if holder == member}
            assert set(self.group.held(member)) == held
            assert len(held) <= window

    @invariant()
    def of_a_key_one_event_is_out_and_it_is_the_oldest(self) -> None:
        for key in ("a", "b", "c"):
            known = [number for number, its in getattr(self, "keys", {}).items() if its == key]
            left = [number for number in known if number not in self.done]
            out = [number for number in left if number not in self.waiting]
            assert out in ([], left[:1])
            ended = [number for number in self.done if self.keys[number] == key]
            assert ended == sorted(ended)

    @invariant()
    def nothing_waits_while_a_member_has_room(self) -> None:
        if not hasattr(self, "waiting"):
            return
        assert self.group.waiting == len(self.waiting)
        busy = {self.keys[number] for number in (*self.holds, *self.released)} - {None}
        may_go = [number for number in self.waiting if self.keys[number] not in busy]
        load = {member: sum(holder == member for holder in self.holds.values()) for member in self.windows}
        room = sum(self.windows[each] - load[each] for each in self.windows if each not in self.hanging)
        assert not may_go or room == 0
        if self.is_ordered:
            assert self.group.demand(True) == (MAX_BACKLOG_EVENTS - len(self.waiting) if room else 0)
        else:
            assert self.group.demand(False) == room or not room

    def teardown(self) -> None:
        """One member that works remains: it gets everything that is left."""
        if not hasattr(self, "windows"):
            return
        for member in list(self.windows):
            self.release(self.group.leave(member))
        self.windows.clear()
        self.hanging.clear()
        for number in list(self.released):
            self.group.give_back(number)
            self.waiting.add(number)
        self.released.clear()
        self.windows["last"] = 2
        self.group.join("last", 2, SECONDS)
        self.dispatch()
        while self.holds:
            held = self.group.release("last", list(self.holds))
            self.release(held)
            for number in held:
                self.end(number)
            self.dispatch()
        assert sorted(self.done) == sorted(self.keys)


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_members_with_room_take_turns() -> None:
    group = GroupDispatch[str]()
    for name in ("one", "two", "three"):
        group.join(name, 2, SECONDS)
    for number in range(1, 10):
        group.add(number, None)
    given = group.assign(0.0)
    assert given == [("one", 1), ("two", 2), ("three", 3), ("one", 4), ("two", 5), ("three", 6)]
    assert group.release("two", [2]) == [2]
    assert group.assign(0.0) == [("two", 7)]


def test_an_event_of_a_key_waits_for_the_one_before_it_also_when_that_comes_again() -> None:
    group = GroupDispatch[str]()
    group.join("one", 8, SECONDS)
    group.join("two", 8, SECONDS)
    for number, key in ((1, "eve"), (2, "eve"), (3, "bob")):
        group.add(number, key)
    assert group.assign(0.0) == [("one", 1), ("two", 3)]
    assert group.leave("one") == [1]
    group.give_back(1)
    assert group.assign(0.0) == [("two", 1)]
    group.release("two", [1])
    group.finish(1)
    assert group.assign(0.0) == [("two", 2)]


def test_a_member_that_lets_an_event_become_overdue_gets_no_other_until_it_shows_life() -> None:
    group = GroupDispatch[str]()
    group.join("hanging", 1, SECONDS)
    group.add(1, None)
    assert group.assign(0.0) == [("hanging", 1)]
    assert group.overdue(SECONDS - 1) == []
    assert group.overdue(SECONDS) == [("hanging", [1])]
    group.give_back(1)
    assert group.assign(SECONDS) == []
    assert group.release("hanging", [1]) == []  # too late: it holds it no more
    assert group.assign(SECONDS) == [("hanging", 1)]
