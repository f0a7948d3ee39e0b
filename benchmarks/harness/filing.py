"""Relational layout of subscriptions, with which a join finds few candidates.

A row per subscription, its conditions side by side from the most selective to the least: the rarest equality
first, then the other equalities, then ranges by width. A join on the first condition gives candidates, and a
join per further condition thins them out. This is several times quicker than the textbook plan (one row per
condition, join, count the hits of each subscription), which touches every condition an event satisfies.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.tasks import Rules


def wide_table(rules: Rules, subscriptions: int) -> tuple[pa.Table, int]:
    """The table, and how many conditions the longest subscription has.

    Columns are `sub` and, for each position k, attribute `a{k}`, word `w{k}`, ends `l{k}` and `h{k}`.
    An attribute is null where a subscription has no such condition, a word where it is a range.
    """
    position = _positions(rules)
    positions = int(position.max()) + 1
    words = pa.array(rules.words, pa.string())
    names = pa.array(rules.names, pa.string())
    columns: dict[str, pa.Array] = {"sub": pa.array(np.arange(subscriptions, dtype=np.int32))}
    for k in range(positions):
        here = np.flatnonzero(position == k)
        rows = rules.subscription[here]
        attribute = np.full(subscriptions, -1, np.int32)
        word = np.full(subscriptions, -1, np.int32)
        low, high = np.zeros(subscriptions, rules.low.dtype), np.zeros(subscriptions, rules.low.dtype)
        attribute[rows], word[rows] = rules.attribute[here], rules.word[here]
        low[rows], high[rows] = rules.low[here], rules.high[here]
        columns[f"a{k}"] = names.take(pa.array(attribute, mask=attribute < 0))
        columns[f"w{k}"] = words.take(pa.array(word, mask=word < 0))
        columns[f"l{k}"] = pa.array(low, mask=word >= 0)
        columns[f"h{k}"] = pa.array(high, mask=word >= 0)
    return pa.table(columns), positions


def _positions(rules: Rules) -> NDArray[np.int64]:
    """The place of each condition in its subscription, most selective first."""
    is_word = rules.word >= 0
    key = rules.attribute.astype(np.int64) * (len(rules.words) + 1) + rules.word
    frequency = np.bincount(key[is_word], minlength=int(key.max()) + 1)
    width = np.minimum(rules.high - rules.low, 1e9)
    cost = np.where(is_word, frequency[key], 1e9 + width)
    order = np.lexsort((cost, rules.subscription))
    ordered = rules.subscription[order]
    place = np.arange(len(order))
    starts = np.maximum.accumulate(np.where(np.r_[True, ordered[1:] != ordered[:-1]], place, 0))
    position = np.empty(len(order), np.int64)
    position[order] = place - starts
    return position
