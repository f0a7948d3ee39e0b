"""Kernel of reuse forwarding: the lowest filter numbers that each event matches."""

from __future__ import annotations

from palio.matching.columnar.native import compiled, i32_at, i64_at, put_i32, put_i64


@compiled
def lowest_of_rows(rows: int, numbers: int, count: int, limit: int, ends: int, lowest: int, last: int) -> None:
    """For each row in [0, last) its `limit` lowest numbers, ascending; `rows` are ascending, `numbers` in any order.

    Writes where the numbers of each row end to `ends`, and the numbers to `lowest`, `limit` places for each row.
    """
    at = 0
    for row in range(last):
        base = row * limit
        made = 0
        while at < count and i64_at(rows, at) == row:
            number = i32_at(numbers, at)
            at += 1
            # Insertion sort into the places of the row: `limit` is small, and most numbers fail the first comparison.
            if made == limit:
                if number > i32_at(lowest, base + made - 1):
                    continue
                made -= 1
            place = base + made
            while place > base and i32_at(lowest, place - 1) > number:
                put_i32(lowest, place, i32_at(lowest, place - 1))
                place -= 1
            put_i32(lowest, place, number)
            made += 1
        put_i64(ends, row, base + made)
