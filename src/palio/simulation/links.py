"""Simulated links: delay, jitter, loss, duplication, reordering and bandwidth."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from math import inf
from random import Random

from palio.errors import InvalidArgument
from palio.routing.strategies import SimulationOptions


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The behaviour of a link, in both directions."""

    delay: float = 0.01
    """Seconds from one end to the other."""
    jitter: float = 0.0
    """Seconds of further delay at most, drawn anew each time; order is kept all the same."""
    loss: float = 0.0
    """The share that is lost."""
    duplication: float = 0.0
    """The share that arrives twice."""
    reordering: float = 0.0
    """The share that does not wait for what was sent before it, and takes up to three times as long."""
    bandwidth: float | None = None
    """Bytes a second; None is no bound."""

    def __post_init__(self) -> None:
        if not 0 <= self.delay < inf:
            raise InvalidArgument(f"a link has a delay of some seconds from 0 on, not {self.delay!r}")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise InvalidArgument(f"bandwidth is positive, not {self.bandwidth!r}")

    @property
    def keeps_time(self) -> bool:
        """Whether everything takes the delay, and nothing else happens to it."""
        return not (self.jitter or self.loss or self.duplication or self.reordering or self.bandwidth)

    @property
    def longest_delay(self) -> float:
        """The seconds that anything takes at most which is neither lost nor waits for bandwidth."""
        return (3 if self.reordering else 1) * (self.delay + self.jitter)

    @classmethod
    def of(cls, options: SimulationOptions) -> LinkModel:
        """From the options of a simulation, of which it takes its own."""
        return cls(**{each.name: getattr(options, each.name) for each in fields(cls)})


class Direction:
    """One direction of a link: where it leads, and when what is put on it arrives."""

    __slots__ = ("_last", "busy_until", "edge", "link", "pair", "sender", "to", "waiting")

    def __init__(self, edge: Edge, sender: int, to: int, link: int) -> None:
        self.edge = edge
        self.sender = sender
        self.to = to
        self.link = link  # the number that the receiver has for it
        self.pair = (min(sender, to), max(sender, to))
        self.clear()

    def clear(self) -> None:
        """Nothing is under way."""
        self._last = 0.0
        self.busy_until = 0.0
        self.waiting: tuple[deque[bytes], deque[bytes]] | None = None  # control, events: where bandwidth is bounded

    def arrival(self, now: float) -> float:
        """When something that is sent now arrives, on a link that keeps time."""
        self._last = time = max(now + self.edge.model.delay, self._last)
        return time

    def arrivals(self, now: float, random: Random) -> tuple[float, ...]:
        """The times at which something that is sent now arrives: none, one or several."""
        model = self.edge.model
        if model.loss and random.random() < model.loss:
            return ()
        time = self._arrival(model, now, random)
        if model.duplication and random.random() < model.duplication:
            return time, self._arrival(model, now, random)
        return (time,)

    def _arrival(self, model: LinkModel, now: float, random: Random) -> float:
        time = now + model.delay
        if model.jitter:
            time += random.random() * model.jitter
        # `_last` is not moved: what is sent later may overtake this one, and is not held back by it.
        if model.reordering and random.random() < model.reordering:
            return time + random.random() * 2 * (model.delay + model.jitter)
        self._last = time = max(time, self._last)
        return time


class Edge:
    """A link between two hosts. Its generation changes when it breaks, and what was under way is lost."""

    __slots__ = ("a", "b", "cut", "directions", "ends", "generation", "keeps_time", "model")

    def __init__(self, a: int, b: int, ends: tuple[int, int], model: LinkModel) -> None:
        self.a = a
        self.b = b
        self.ends = ends  # the numbers of the link at either end
        self.model = model
        self.keeps_time = model.keeps_time
        self.cut = False
        self.generation = 0
        self.directions = (Direction(self, a, b, ends[1]), Direction(self, b, a, ends[0]))

    def break_off(self) -> None:
        self.generation += 1
        for direction in self.directions:
            direction.clear()
