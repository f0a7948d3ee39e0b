"""Numbered updates of one broker, step by step, with a crash before and after each write."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.routing.broker import Broker
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Effect,
    LinkDown,
    LinkRecord,
    LinkUp,
    NotPersisted,
    Persist,
    Persisted,
    Received,
    Remembered,
    Send,
    TimerFired,
)
from palio.routing.messages import Begin, Message, Resume, Stored, Subscribe, Unsubscribe, Update
from palio.routing.upkeep.recovery import SESSION_TIMER
from palio.routing.upkeep.recovery_database import write_row

D1, D2, D3, U = 1, 2, 3, 4  # links of the broker R, and with 100 added the numbers of the neighbours behind them
LINKS = (D1, D2, D3, U)


def subscription(text: str) -> Subscribe:
    wanted = Filter.parse(text)
    return Subscribe(wanted.digest, wanted)


S1, S2, S3, S4 = (subscription(f"x = {number}") for number in range(1, 5))


class CrashingBroker:
    """The broker R of four neighbours, with its disk."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int, bytes], LinkRecord] = {}
        self.lives = count(1)
        self.refuses = False
        self.start()

    def start(self) -> None:
        """Start, or start again with what is on disk."""
        remembered = Remembered(links=tuple(self.rows.values()))
        self.broker = Broker(9, next(self.lives), Combination("identity", crash_log="recover"), remembered)

    def says(self, link: int, *said: Message) -> list[tuple[int, Message]]:
        """What R sends, once its writes are answered."""
        return self.carried_out(self.taken(link, *said))

    def taken(self, link: int, *said: Message) -> list[Effect]:
        """The effects of what a neighbour says; a crash now is before the write."""
        return self.broker.handle_batch([Received(link, each, 0.0) for each in said], 0.0)

    def written(self, effects: list[Effect]) -> list[Effect]:
        """Write to the disk; what was to follow. A crash now is after the write."""
        following = []
        for each in effects:
            if isinstance(each, Persist):
                records = [record for record in each.records if isinstance(record, LinkRecord)]
                if self.refuses:
                    following += self.broker.handle_batch([NotPersisted(each.token, "full")], 0.0)
                    continue
                for record in records:
                    write_row(self.rows, record)
                following += self.broker.handle_batch([Persisted(each.token)], 0.0)
            else:
                following.append(each)
        return following

    def carried_out(self, effects: list[Effect]) -> list[tuple[int, Message]]:
        while any(isinstance(each, Persist) for each in effects):
            effects = self.written(effects)
        return [(link, each.message) for each in effects if isinstance(each, Send) for link in each.links]

    def comes_up(self, link: int, resume: Resume) -> list[tuple[int, Message]]:
        sent = self.carried_out(self.broker.handle_batch([LinkUp(link, 100 + link, 9)], 0.0))
        return [*sent, *self.says(link, Begin(), resume)]

    def session(self, link: int) -> tuple[int, int, list[int]]:
        """The numbers of the last updates received and sent, and of those in the buffer."""
        [found] = [each for each in self.broker.sessions if each.neighbour == 100 + link]
        return found.received, found.sent, list(found.unacknowledged)

    def stream(self, link: int) -> int:
        [found] = [each for each in self.broker.sessions if each.neighbour == 100 + link]
        return found.sent_stream


def linked() -> CrashingBroker:
    """R with four neighbours that have nothing to tell, and have heard that R has nothing."""
    r = CrashingBroker()
    for link in LINKS:
        r.comes_up(link, Resume(0, 0))
        r.says(link, Update(7, 1, ()), Stored(r.stream(link), 1))
    return r


def first_step(r: CrashingBroker) -> None:
    sent = r.says(D1, Update(7, 2, (S1,)))
    assert (D1, Stored(7, 2)) in sent
    assert (U, Update(r.stream(U), 2, (S1,))) in sent
    for link in (D2, D3, U):
        assert not r.says(link, Stored(r.stream(link), 2))
    assert r.session(U) == (1, 2, [])


def resumed(r: CrashingBroker, at: dict[int, int]) -> dict[int, list[Message]]:
    """All links come up; the neighbours say which of R's updates they have. What R sends them."""
    sent: dict[int, list[Message]] = {link: [] for link in LINKS}
    for link in LINKS:
        for to, message in r.comes_up(link, Resume(r.stream(link), at[link])):
            sent[to].append(message)
    return sent


def test_a_crash_after_the_write_makes_the_repetition_a_duplicate() -> None:
    """Vector CR-1, with numbers from 2 on: the first update of each stream says that there is nothing."""
    r = linked()
    first_step(r)
    effects = r.taken(D1, Update(7, 2 + 1, (S2,)))
    assert not [each for each in effects if isinstance(each, Send)], "nothing leaves before it is written"
    r.written(effects)  # and R crashes before anything leaves
    r.start()
    assert r.session(D1)[:2] == (3, 1)
    assert r.session(U) == (1, 3, [3]), "what follows from the update is in the buffer"
    sent = resumed(r, {D1: 1, D2: 2, D3: 2, U: 2})
    assert Resume(7, 3) in sent[D1]
    assert sent[U][-1] == Update(r.stream(U), 3, (S2,))
    assert r.says(D1, Update(7, 3, (S2,))) == [(D1, Stored(7, 3))], "a duplicate is acknowledged, and no more"
    r.says(D2, Update(7, 2, (S3,)))
    r.says(D3, Update(7, 2, (S4,)))
    for link in LINKS:
        r.says(link, Stored(r.stream(link), 99))
    assert [r.session(link)[0] for link in (D1, D2, D3)] == [3, 2, 2]
    assert r.session(U) == (1, 5, [])
    known = {key for column in r.broker.tables.remote_subscriptions.values() for key in column}
    assert known == {each.key for each in (S1, S2, S3, S4)}


def test_a_crash_before_the_write_makes_the_repetition_the_first() -> None:
    """Vector CR-2."""
    r = linked()
    first_step(r)
    r.taken(D1, Update(7, 3, (S2,)))  # R crashes before it is written
    r.start()
    assert r.session(D1)[0] == 2
    sent = resumed(r, {D1: 1, D2: 2, D3: 2, U: 2})
    assert Resume(7, 2) in sent[D1]
    assert (U, Update(r.stream(U), 3, (S2,))) in r.says(D1, Update(7, 3, (S2,)))


def test_a_broker_that_crashed_beside_one_that_is_away_repeats_its_buffer_before_anything_newer() -> None:
    """Vector CR-3, from the side of D: it crashes while its neighbour is away, with two updates in its buffer."""
    d = linked()
    for number, each in enumerate((S1, S2), start=2):
        d.says(D1, Update(7, number, (each,)))
    assert d.session(U) == (1, 3, [2, 3])
    d.start()
    assert not d.carried_out(d.broker.handle_batch([], 0.0)), "its neighbour is away, and nothing is sent into the void"
    for link in (D1, D2, D3):
        d.comes_up(link, Resume(d.stream(link), 3 if link != D1 else 1))
    d.says(D1, Update(7, 4, (S3,)))
    sent = [message for to, message in d.comes_up(U, Resume(d.stream(U), 1)) if to == U]
    stream = d.stream(U)
    assert sent[2:] == [Update(stream, 2, (S1,)), Update(stream, 3, (S2,)), Update(stream, 4, (S3,))]


def test_an_update_before_its_turn_is_not_applied_and_those_before_it_are_asked_for() -> None:
    r = linked()
    assert r.says(D1, Update(7, 5, (S1,)), Update(7, 6, (S2,))) == [(D1, Resume(7, 1))]
    assert r.session(D1)[0] == 1
    sent = r.says(D2, Resume(r.stream(D2), 0))
    assert sent == [(D2, Update(r.stream(D2), 1, ()))], "what is in no buffer is told anew"


def test_a_session_does_not_end_while_its_link_is_coming_up() -> None:
    """What was said to be here must still be here when the neighbour goes on from there."""
    r = linked()
    first_step(r)
    r.carried_out(r.broker.handle_batch([LinkDown(D1)], 0.0))
    effects = r.broker.handle_batch([LinkUp(D1, 100 + D1, 9)], 0.0)
    assert [each.message for each in effects if isinstance(each, Send)] == [Begin(), Resume(7, 2)]
    r.carried_out(r.broker.handle_batch([TimerFired(f"{SESSION_TIMER}{100 + D1}")], 0.0))
    r.says(D1, Begin(), Resume(r.stream(D1), 1), Update(7, 3, (S2,)))
    assert r.session(D1)[0] == 3


def test_a_neighbour_that_has_more_than_was_ever_sent_is_told_anew() -> None:
    """As after a disk was brought back from an old copy."""
    r = linked()
    first_step(r)
    r.start()
    before = r.stream(U)
    sent = [message for to, message in r.comes_up(U, Resume(before, 50)) if to == U]
    assert r.stream(U) > before
    assert sent[-1] == Update(r.stream(U), 1, (S1,))


def test_a_neighbour_that_lacks_an_update_which_is_in_no_buffer_is_told_anew() -> None:
    r = linked()
    first_step(r)
    r.says(D1, Update(7, 3, (S2,)))  # whose write also removes what was acknowledged
    r.start()
    before = r.stream(U)
    sent = [message for to, message in r.comes_up(U, Resume(before, 1)) if to == U]
    assert r.stream(U) > before
    assert sent[-1] == Update(r.stream(U), 1, tuple(sorted((S1, S2), key=lambda each: each.key)))


def test_a_stream_that_begins_anew_replaces_all_that_was_told() -> None:
    r = linked()
    r.says(D1, Update(7, 2, (S1, S2)))
    r.says(D1, Update(8, 1, (S2, S3)))
    assert set(r.broker.tables.remote_subscriptions[D1]) == {S2.key, S3.key}
    r.start()
    [column] = [each for each in r.broker.tables.remote_subscriptions.values() if each]
    assert set(column) == {S2.key, S3.key}


def test_rows_that_cannot_be_read_are_told_anew_and_do_not_keep_a_broker_from_starting() -> None:
    r = linked()
    first_step(r)
    [place] = [each for each, row in r.rows.items() if row.neighbour == 100 + D1 and each[2] == S1.key and row.data]
    r.rows[place] = LinkRecord(*place, b"\xc1 no message")
    r.start()
    assert [each.neighbour for each in r.broker.sessions] == [100 + D2, 100 + D3, 100 + U]
    sent = r.comes_up(D1, Resume(1, 1))
    assert (D1, Resume(0, 0)) in sent
    r.says(D1, Update(8, 1, (S1,)))
    assert set(r.broker.tables.remote_subscriptions[D1]) == {S1.key}


def test_a_disk_that_refuses_stops_no_message_and_the_next_write_has_all_rows() -> None:
    r = linked()
    r.refuses = True
    assert (U, Update(r.stream(U), 2, (S1,))) in r.says(D1, Update(7, 2, (S1,)))
    r.refuses = False
    r.says(D1, Update(7, 3, (S2,)))
    r.start()
    assert r.session(D1)[0] == 3
    assert r.session(U) == (1, 3, [2, 3])


def test_long_tables_travel_in_several_updates() -> None:
    r = CrashingBroker()
    r.comes_up(D1, Resume(0, 0))
    many = tuple(subscription(f"x = {number} AND name = '{'a' * 500}'") for number in range(200))
    r.says(D1, Update(7, 1, many))
    sent = [message for _, message in r.comes_up(U, Resume(0, 0)) if isinstance(message, Update)]
    assert len(sent) > 5
    assert [each.number for each in sent] == list(range(1, len(sent) + 1))
    assert {change.key for each in sent for change in each.changes} == {each.key for each in many}


SOURCES = (D1, D2, D3)
ALL = (S1, S2, S3, S4)


class PrefixModel:
    """What the neighbours have said to R, and which prefix of it R must have, whatever crashes."""

    def __init__(self) -> None:
        self.r = linked()
        self.said: dict[int, list[Subscribe | Unsubscribe]] = {link: [] for link in SOURCES}
        self.told = 1  # the last update to U that U has taken
        self.is_u_up = True
        self.in_flight = 0  # updates to U that were under way when it was lost

    def toggle(self, link: int, wanted: Subscribe) -> Update:
        """The next update of a neighbour: it wants what it did not want, or no longer what it wanted."""
        is_wanted = wanted.key in self.column(link, len(self.said[link]))
        self.said[link].append(Unsubscribe(wanted.key) if is_wanted else wanted)
        return Update(7, len(self.said[link]) + 1, (self.said[link][-1],))

    def column(self, link: int, upto: int) -> set[bytes]:
        """The filters that a neighbour wants after a prefix of its updates."""
        keys: set[bytes] = set()
        for change in self.said[link][:upto]:
            (keys.add if isinstance(change, Subscribe) else keys.discard)(change.key)
        return keys

    def say(self, link: int, wanted: Subscribe, crash: str) -> None:
        update = self.toggle(link, wanted)
        before = self.r.session(link)[0]
        if crash == "none":
            self.take(self.r.says(link, update))
            assert self.r.session(link)[0] == before + 1, "each update is applied once, and counted by one"
            self.take(self.r.says(link, update))
            assert self.r.session(link)[0] == before + 1, "its repetition is not applied"
        else:
            effects = self.r.taken(link, update)
            if crash == "after the write":
                self.r.written(effects)
            self.restart({link: before if crash == "before the write" else before + 1})

    def restart(self, expected: dict[int, int]) -> None:
        received = {link: self.r.session(link)[0] for link in SOURCES} | expected
        self.r.start()
        assert {link: self.r.session(link)[0] for link in SOURCES} == received
        # What was acknowledged is removed from the disk with the next write, and may be here again.
        self.in_flight = len(self.r.session(U)[2])
        self.check()
        for link in SOURCES:
            stream = self.r.stream(link)
            self.r.comes_up(link, Resume(stream, self.r.session(link)[1]))
            for number in range(self.r.session(link)[0] + 1, len(self.said[link]) + 2):
                self.take(self.r.says(link, Update(7, number, (self.said[link][number - 2],))))
        if self.is_u_up:
            self.up()

    def down(self) -> None:
        if self.is_u_up:
            self.is_u_up = False
            self.r.carried_out(self.r.broker.handle_batch([LinkDown(U)], 0.0))
            self.in_flight = len(self.r.session(U)[2])

    def up(self) -> None:
        self.is_u_up = True
        self.take(self.r.comes_up(U, Resume(self.r.stream(U), self.told)))

    def take(self, sent: list[tuple[int, Message]]) -> None:
        """U takes what reaches it, in order; its acknowledgements are another step."""
        for link, message in sent:
            if link == U and isinstance(message, Update) and self.is_u_up:
                assert message.number <= self.told + 1, "U never sees a gap"
                self.told = max(self.told, message.number)

    def check(self) -> None:
        """The state of R is that after a prefix of each of its neighbours' updates."""
        columns = {each.neighbour - 100: each.interface for each in self.r.broker.sessions}
        for link in SOURCES:
            known = self.r.broker.tables.remote_subscriptions.get(columns[link], {})
            assert set(known) == self.column(link, self.r.session(link)[0] - 1)
        if not self.is_u_up:
            assert len(self.r.session(U)[2]) <= self.in_flight, "nothing is buffered for a neighbour that is away"


steps = st.one_of(
    st.tuples(
        st.just("say"),
        st.sampled_from(SOURCES),
        st.sampled_from(ALL),
        st.sampled_from(("none", "before the write", "after the write")),
    ),
    st.tuples(st.sampled_from(("crash", "down", "up", "acknowledge"))),
)


@given(st.lists(steps, max_size=12))
def test_the_database_is_a_prefix_of_every_link_and_each_update_is_applied_once(taken: list[tuple[str, ...]]) -> None:
    """Properties L-P2, L-P3 and L-P7, whatever crashes between two steps and however long the upstream one is away."""
    model = PrefixModel()
    for step in taken:
        match step:
            case ("say", link, wanted, crash):
                model.say(link, wanted, crash)  # type: ignore[arg-type]
            case ("crash",):
                model.restart({})
            case ("down",):
                model.down()
            case ("up",) if not model.is_u_up:
                model.up()
            case ("acknowledge",) if model.is_u_up:
                model.r.says(U, Stored(model.r.stream(U), model.told))
                assert not model.r.session(U)[2], "what is acknowledged is no longer kept"
        model.check()
    if not model.is_u_up:
        model.up()
    wanted = set().union(*(model.column(link, len(model.said[link])) for link in SOURCES))
    [session] = [each for each in model.r.broker.sessions if each.neighbour == 100 + U]
    assert set(session.told_subscriptions) == wanted
    assert model.told == session.sent
