"""Plain-Python twin of the kernels: their specification, and inputs to compare both with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.layout import FAIL, MATCH
from palio.matching.columnar.postings import Conjunctions

Interval = tuple[int, int, int]  # axis, low, high
Node = Interval | tuple[str, list["Node"]]


@dataclass
class Row:
    """One conjunction: intervals, those on one axis side by side, and a tree that must hold as well."""

    number: int
    intervals: list[Interval] = field(default_factory=list)
    tree: Node | None = None
    give_access: bool = True


def wants(row: Row, event: Mapping[int, int]) -> bool:
    """Whether a row matches an event, given as the slot of each axis it has."""
    axes = {axis for axis, _, _ in row.intervals}
    if not all(any(holds(each, event) for each in row.intervals if each[0] == axis) for axis in axes):
        return False
    return row.tree is None or tree_holds(row.tree, event)


def holds(interval: Interval, event: Mapping[int, int]) -> bool:
    axis, low, high = interval
    return low <= event.get(axis, 0) <= high


def tree_holds(node: Node, event: Mapping[int, int]) -> bool:
    if isinstance(node[0], int):
        return holds(node, event)  # type: ignore[arg-type]
    quantifier = all if node[0] == "and" else any
    return quantifier(tree_holds(child, event) for child in node[1])  # type: ignore[union-attr]


def matching(rows: list[Row], event: Mapping[int, int]) -> list[int]:
    """The numbers of all rows that match, each once."""
    return sorted({row.number for row in rows if wants(row, event)})


def compile_tree(node: Node) -> list[tuple[int, int, int, int, int]]:
    """Jumps for a tree, laid out from its end: the targets of a row are known when it is written."""
    code: list[list[int]] = []

    def emit(node: Node, yes: int, no: int) -> int:
        if isinstance(node[0], int):
            code.append([*node, yes, no])  # type: ignore[list-item]
            return len(code) - 1
        for child in reversed(node[1]):  # type: ignore[arg-type]
            if node[0] == "and":
                yes = emit(child, yes, no)
            else:
                no = emit(child, yes, no)
        return yes if node[0] == "and" else no

    emit(node, MATCH, FAIL)
    last = len(code) - 1
    return [
        (axis, low, high, last - yes if yes >= 0 else yes, last - no if no >= 0 else no)
        for axis, low, high, yes, no in reversed(code)
    ]


def access_of(node: Node, choose: random.Random) -> list[Interval]:
    """Intervals of which every event that satisfies a tree meets one."""
    if isinstance(node[0], int):
        return [node]  # type: ignore[list-item]
    children: list[Node] = node[1]  # type: ignore[assignment]
    if node[0] == "and":
        return access_of(choose.choice(children), choose)
    return [interval for child in children for interval in access_of(child, choose)]


def flat(rows: list[Row], choose: random.Random) -> Conjunctions:
    """Rows as the arrays that postings are built from."""
    programs = [[] if row.tree is None else compile_tree(row.tree) for row in rows]
    access = [[] if row.tree is None or not row.give_access else access_of(row.tree, choose) for row in rows]
    axis, low, high = columns([each for row in rows for each in row.intervals])
    access_axis, access_low, access_high = columns([each for row in access for each in row])
    return Conjunctions(
        np.array([row.number for row in rows], np.int32),
        starts([len(row.intervals) for row in rows]),
        axis,
        low,
        high,
        access_start=starts([len(each) for each in access]),
        access_axis=access_axis,
        access_lo=access_low,
        access_hi=access_high,
        program_start=starts([len(each) for each in programs]),
        program=np.array([row for program in programs for row in program], np.int32).reshape(-1, 5),
    )


def columns(intervals: list[Interval]) -> npt.NDArray[np.int32]:
    return np.array(intervals, np.int32).reshape(-1, 3).T


def starts(lengths: list[int]) -> npt.NDArray[np.int64]:
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=result[1:])
    return result


def code(axis: int, slot: int) -> int:
    return axis << 32 | slot


class Inputs:
    """Random axes, rows and events, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.choice([1, 2, 3, 6, 6, 40])
        self.sizes = [self.random.choice([2, 9, 9, 14, 60, 60, 700, 5_000, 200_000]) for _ in range(count)]

    def interval(self, axis: int) -> Interval:
        size = self.sizes[axis]
        kind = self.random.random()
        low = self.random.randrange(1, size)
        if kind < 0.4:
            return axis, low, low
        if kind < 0.6:
            return axis, low, min(size - 1, low + self.random.randrange(1, 30))
        if kind < 0.8:
            return (axis, low, size - 1) if self.random.random() < 0.5 else (axis, 1, low)
        if kind < 0.9:
            return axis, low, self.random.randrange(low, size)
        if kind < 0.96:
            return axis, 0, self.random.choice([0, 1])
        return axis, low, low - 1  # empty

    def union(self, axis: int) -> list[Interval]:
        many = self.random.choice([1, 1, 1, 1, 2, 3, 30])
        return [self.interval(axis) for _ in range(many)]

    def axes(self, most: int) -> list[int]:
        many = self.random.randrange(0, most + 1)
        return self.random.sample(range(len(self.sizes)), min(many, len(self.sizes)))

    def tree(self, depth: int) -> Node:
        if depth == 0 or self.random.random() < 0.3:
            return self.interval(self.random.randrange(len(self.sizes)))
        children = [self.tree(depth - 1) for _ in range(self.random.randrange(1, 4))]
        return self.random.choice(["and", "or"]), children

    def rows(self, count: int) -> list[Row]:
        rows = []
        number = 0
        for _ in range(count):
            # A number is sometimes given again: a disjunction as several rows.
            number += self.random.choice([0, 1, 1, 1, 1, 3])
            intervals = [each for axis in self.axes(5) for each in self.union(axis)]
            tree = self.tree(3) if self.random.random() < 0.2 else None
            rows.append(Row(number, intervals, tree, self.random.random() < 0.8))
        return rows

    def event(self) -> dict[int, int]:
        present = self.random.sample(range(len(self.sizes)), self.random.randrange(len(self.sizes) + 1))
        return {axis: self.random.randrange(1, self.sizes[axis]) for axis in present}

    def event_for(self, row: Row) -> dict[int, int]:
        """An event that meets the intervals of a row, more often than chance would."""
        event = self.event()
        for axis in {axis for axis, _, _ in row.intervals}:
            of_axis = [each for each in row.intervals if each[0] == axis and 0 < each[1] <= each[2]]
            if of_axis:
                _, low, high = self.random.choice(of_axis)
                event[axis] = self.random.choice([low, high, self.random.randint(low, high)])
        return event

    def events(self, rows: list[Row], count: int) -> list[dict[int, int]]:
        return [
            self.event_for(self.random.choice(rows)) if rows and self.random.random() < 0.8 else self.event()
            for _ in range(count)
        ]
