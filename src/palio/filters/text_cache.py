"""Cache of results by the texts that they are made of, bounded by characters.

A parsed condition takes about a hundred bytes for each character of its text, 12 MB for one of 120,000 characters. A
cache that counts entries would keep thousands of them: one client that sends long conditions could fill the memory of
a broker. Short texts, nearly all there are, are counted; long ones share a budget of characters.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, update_wrapper
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

MAX_SHORT_CHARACTERS: Final = 512
MAX_SHORT_TEXTS: Final = 4_096
MAX_LONG_CHARACTERS: Final = 1 << 20  # of all long texts of one function: about 100 MB of conditions


class TextCache(Generic[P, R]):
    """A function of texts, which remembers what it returned, the least recently used forgotten first.

    It takes positional arguments, and does not remember errors. Safe to use from many threads.

    >>> first_word = TextCache(lambda text: text.split()[0])
    >>> first_word("to be or not"), first_word("to be or not")
    ('to', 'to')
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = cast(Callable[..., R], function)
        self._short = lru_cache(MAX_SHORT_TEXTS)(self._function)
        self._long: OrderedDict[Hashable, tuple[R, int]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()
        update_wrapper(self, function)

    def __call__(self, *arguments: P.args, **none: P.kwargs) -> R:
        length = sum([len(each) for each in arguments if type(each) is str])
        if length <= MAX_SHORT_CHARACTERS:
            return self._short(*cast(tuple[Any, ...], arguments))
        with self._lock:
            found = self._long.get(arguments)
            if found is not None:
                self._long.move_to_end(arguments)
                return found[0]
        made = self._function(*arguments)
        if length <= MAX_LONG_CHARACTERS:
            self._keep(arguments, made, length)
        return made

    def _keep(self, arguments: Hashable, made: R, length: int) -> None:
        with self._lock:
            # Made outside the lock, perhaps by two threads at once; the first one counts.
            if arguments not in self._long:
                self._long[arguments] = made, length
                self._characters += length
            while self._characters > MAX_LONG_CHARACTERS:
                self._characters -= self._long.popitem(last=False)[1][1]

    def cache_clear(self) -> None:
        """Forget everything."""
        self._short.cache_clear()
        with self._lock:
            self._long.clear()
            self._characters = 0
