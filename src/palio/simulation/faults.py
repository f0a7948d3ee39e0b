"""Faults of a simulated network: rates to draw them by, and the schedule that is drawn.

`Faults` says how often what goes wrong; its seed decides the rest. A `FaultSchedule` is plain data: it can be printed,
stored as JSON, replayed on another network of the same size, and shrunk (`shrinking`). A fault has a time in virtual
seconds since the network was made and, where it ends by itself, the seconds that it lasts. It is one unit for
shrinking: a crash without its restart, or a cut without its mending, would be another fault.

A crash may come after any number of further effects of its broker, so that it falls between any two of them. The
distribution is deliberately simple: independent Poisson processes by broker and by link. Correlated failures are what
`partitions` are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from math import isfinite
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from palio.errors import InvalidArgument
from palio.simulation.topologies import Topology

_MAX_FAULTS: Final = 100_000
_MAX_EFFECTS_BEFORE_CRASH: Final = 24
_TIME_DIGITS: Final = 6  # a printed schedule stays readable, and replays exactly


class Crash(Struct, frozen=True, kw_only=True, tag="crash"):
    """A broker crashes, after it has carried out some more effects, and restarts with its disk some seconds later."""

    time: float
    broker: int
    after: int = 0
    seconds: float


class LinkCut(Struct, frozen=True, kw_only=True, tag="cut"):
    """A link breaks for some seconds."""

    time: float
    link: tuple[int, int]
    seconds: float


class Partition(Struct, frozen=True, kw_only=True, tag="partition"):
    """All links between some brokers and the others break for some seconds."""

    time: float
    brokers: tuple[int, ...]
    seconds: float


class SlowBroker(Struct, frozen=True, kw_only=True, tag="slow"):
    """A broker takes `delay` seconds for each batch of inputs, for some seconds."""

    time: float
    broker: int
    delay: float
    seconds: float


class DiskFull(Struct, frozen=True, kw_only=True, tag="disk full"):
    """The disk of a broker takes nothing more for some seconds; clients repeat refused requests when it does again."""

    time: float
    broker: int
    seconds: float


class ClockJump(Struct, frozen=True, kw_only=True, tag="clock jump"):
    """The wall clock of a broker jumps by some seconds, forth or back. The clock of its timers does not."""

    time: float
    broker: int
    by: float


Fault: TypeAlias = Crash | LinkCut | Partition | SlowBroker | DiskFull | ClockJump


class FaultSchedule(Struct, frozen=True, kw_only=True):
    """Faults in the order of their times, and the shares of frames that links lose, duplicate and reorder meanwhile."""

    faults: tuple[Fault, ...] = ()
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    drift: float = 0.0

    def options(self) -> dict[str, float]:
        """The options of a simulation that it sets."""
        return {name: share for name in _LINK_AND_CLOCK_OPTIONS if (share := getattr(self, name))}

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> FaultSchedule:
        """A schedule that was stored."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"this is no schedule of faults as `to_json` writes it: {error}") from error

    def test_source(self, name: str, call: str) -> str:
        """The source of a test: it makes this schedule, and calls an expression in which it is `FAULTS`."""
        kinds = {type(each).__name__ for each in self.faults} | {type(self).__name__}
        imports = f"from palio.simulation import {', '.join(sorted(kinds))}\n\n\n"
        return f"{imports}def test_{name}() -> None:\n    FAULTS = {_indented(str(self))}\n    {call}\n"

    def __str__(self) -> str:
        lines = [f"{name}={getattr(self, name)!r}," for name in _LINK_AND_CLOCK_OPTIONS if getattr(self, name)]
        if self.faults:
            lines += ["faults=(", *(f"    {each!r}," for each in self.faults), "),"]
        inner = "".join(f"\n    {line}" for line in lines)
        return f"FaultSchedule({inner}\n)" if inner else "FaultSchedule()"


_LINK_AND_CLOCK_OPTIONS: Final = ("loss", "duplication", "reordering", "drift")


def _rate() -> Any:
    return field(default=0.0, metadata={"below": None})


def _share() -> Any:
    return field(default=0.0, metadata={"below": 1.0})


def _seconds(default: float) -> Any:
    return field(default=default, metadata={"below": None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often what goes wrong, in the mean, for the first `seconds` of a network.

    >>> schedule = Faults(seed=7, crashes=0.1, seconds=2.0).schedule(Topology(9, ()))
    >>> [each.broker for each in schedule.faults]
    [3, 8, 4, 1]
    """

    seed: int = 0
    crashes: float = _rate()
    """Crashes of each broker in a second."""
    cuts: float = _rate()
    """Cuts of each link in a second."""
    partitions: float = _rate()
    """Partitions of the network in a second."""
    slow: float = _rate()
    """Times in a second that each broker becomes slow."""
    disk_full: float = _rate()
    """Times in a second that the disk of each broker is full."""
    clock_jumps: float = _rate()
    """Jumps of each wall clock in a second."""
    loss: float = _share()
    """The share of frames that is lost."""
    duplication: float = _share()
    """The share of frames that arrives twice."""
    reordering: float = _share()
    """The share of frames that is overtaken."""
    drift: float = _share()
    """The most by which clocks go fast or slow, as a share."""
    seconds: float = _seconds(10.0)
    """The virtual time in which faults begin."""
    outage: float = _seconds(1.0)
    """The seconds that a fault lasts, in the mean."""
    slowness: float = _seconds(0.05)
    """The most seconds that a slow broker takes for a batch."""
    jump: float = _seconds(60.0)
    """The most seconds by which a wall clock jumps."""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int):
            raise InvalidArgument(f"a seed is a whole number, not {self.seed!r:.80}")
        for each in fields(self):
            if each.name != "seed":
                _check(each.name, getattr(self, each.name), each.metadata["below"])

    def schedule(self, topology: Topology) -> FaultSchedule:
        """Draw the faults of a network."""
        random = Random(self.seed)
        drawn: list[Fault] = []
        for process in self._processes(topology):
            for each in process(random):
                drawn.append(each)
                if len(drawn) > _MAX_FAULTS:
                    raise InvalidArgument(f"these rates give more than {_MAX_FAULTS:,} faults; take lower ones")
        drawn.sort(key=lambda each: each.time)
        shares = {name: getattr(self, name) for name in _LINK_AND_CLOCK_OPTIONS}
        return FaultSchedule(faults=tuple(drawn), **shares)

    def _processes(self, topology: Topology) -> Iterator[Callable[[Random], Iterator[Fault]]]:
        brokers, links = topology.brokers, [(a, b) for a, b, _ in topology.links]

        def crashes(random: Random) -> Iterator[Fault]:
            for time, broker in self._moments(random, self.crashes, range(brokers)):
                after = random.choice((0, random.randint(1, _MAX_EFFECTS_BEFORE_CRASH)))
                yield Crash(time=time, broker=broker, after=after, seconds=self._outage(random))

        def cuts(random: Random) -> Iterator[Fault]:
            for time, link in self._moments(random, self.cuts, links):
                yield LinkCut(time=time, link=link, seconds=self._outage(random))

        def partitions(random: Random) -> Iterator[Fault]:
            for time, _ in self._moments(random, self.partitions if brokers > 1 else 0.0, [None]):
                group = tuple(sorted(random.sample(range(brokers), random.randint(1, brokers - 1))))
                yield Partition(time=time, brokers=group, seconds=self._outage(random))

        def slow(random: Random) -> Iterator[Fault]:
            for time, broker in self._moments(random, self.slow, range(brokers)):
                delay = _rounded(random.uniform(0, self.slowness))
                yield SlowBroker(time=time, broker=broker, delay=delay, seconds=self._outage(random))

        def full(random: Random) -> Iterator[Fault]:
            for time, broker in self._moments(random, self.disk_full, range(brokers)):
                yield DiskFull(time=time, broker=broker, seconds=self._outage(random))

        def jumps(random: Random) -> Iterator[Fault]:
            for time, broker in self._moments(random, self.clock_jumps, range(brokers)):
                yield ClockJump(time=time, broker=broker, by=_rounded(random.uniform(-self.jump, self.jump)))

        yield from (crashes, cuts, partitions, slow, full, jumps)

    def _moments(self, random: Random, rate: float, targets: Any) -> Iterator[tuple[float, Any]]:
        """The moments of a Poisson process for each of some targets."""
        if not rate:
            return
        for target in targets:
            time = random.expovariate(rate)
            while time < self.seconds:
                yield _rounded(time), target
                time += random.expovariate(rate)

    def _outage(self, random: Random) -> float:
        return _rounded(random.expovariate(1 / self.outage)) if self.outage else 0.0


def scheduled(given: Faults | FaultSchedule, topology: Topology) -> FaultSchedule:
    """The schedule of a network: drawn, or given and checked against its topology."""
    if isinstance(given, Faults):
        return given.schedule(topology)
    if not isinstance(given, FaultSchedule):
        raise InvalidArgument(f"faults are Faults(seed=…) or a FaultSchedule, not {type(given).__name__}")
    links = {frozenset((a, b)) for a, b, _ in topology.links}
    for each in given.faults:
        brokers = each.brokers if isinstance(each, Partition) else (getattr(each, "broker", 0),)
        wrong = [broker for broker in brokers if broker not in range(topology.brokers)]
        if wrong:
            raise InvalidArgument(f"there is no broker {wrong[0]} in this network, which {each} needs")
        if isinstance(each, LinkCut) and frozenset(each.link) not in links:
            raise InvalidArgument(f"there is no link {each.link} in this network, which {each} needs")
        for name in ("time", "seconds", "delay"):
            _check(name, getattr(each, name, 0.0), None)
    return given


def _check(name: str, value: Any, below: float | None) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not number or value < 0 or (below is not None and value >= below):
        wanted = "a number from 0 on" if below is None else f"a share from 0 to below {below:g}"
        raise InvalidArgument(f"{name} of faults is {wanted}, not {value!r:.80}")


def _rounded(seconds: float) -> float:
    return round(seconds, _TIME_DIGITS)


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")
