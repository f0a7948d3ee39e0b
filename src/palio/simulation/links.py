"""What does a simulated link do to what it carries? It delays, and may lose, double, reorder, and have little room."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from palio.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class LinkModel:
    """How a link behaves, the same in both directions."""

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
        for name in ("loss", "duplication", "reordering"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is a share from 0 to below 1, not {getattr(self, name)!r}")
        if self.delay < 0 or self.jitter < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise InvalidArgument("delay and jitter are not negative, and bandwidth is positive")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> LinkModel:
        """From the options of a network, of which it takes its own."""
        return cls(**{each.name: options[each.name] for each in fields(cls) if each.name in options})


class Direction:
    """One direction of a link: when what is put on it arrives."""

    __slots__ = ("_last", "busy_until", "waiting")

    def __init__(self) -> None:
        self._last = 0.0
        self.busy_until = 0.0
        self.waiting: tuple[deque[Any], deque[Any]] | None = None  # control and events, where bandwidth is bounded

    def arrivals(self, model: LinkModel, now: float, random: Random) -> list[float]:
        """The times at which something that is sent now arrives: none, one or several."""
        if model.loss and random.random() < model.loss:
            return []
        times = [self._arrival(model, now, random)]
        if model.duplication and random.random() < model.duplication:
            times.append(self._arrival(model, now, random))
        return times

    def _arrival(self, model: LinkModel, now: float, random: Random) -> float:
        time = now + model.delay
        if model.jitter:
            time += random.random() * model.jitter
        if model.reordering and random.random() < model.reordering:
            return time + random.random() * 2 * (model.delay + model.jitter)
        self._last = time = max(time, self._last)
        return time
