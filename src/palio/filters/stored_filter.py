"""Filters that are read from a store by their text, and parsed only when something asks for more than that.

A broker with a hundred thousand durable subscriptions needs the text and the digest of each to start: the matcher
indexes texts in bulk, and tables are keyed by digests. Parsing them all would take longer than the rest of the start
together. So a store keeps the digest beside the text, and the parser's version beside both: a text that another
version wrote is parsed at once (`palio.network.store`), since its canonical form may have changed.
"""

from __future__ import annotations

from typing import Any, Final

from palio.filters.filter import Filter

_PARSED: Final = ("_holds", "_fails", "_written")


class StoredFilter(Filter):
    """A filter of a known digest, parsed at first use of its tree.

    >>> wanted = Filter.parse("price > 100")
    >>> stored = StoredFilter.of_text(str(wanted), wanted.timezone, wanted.digest)
    >>> stored == wanted
    True
    """

    @classmethod
    def of_text(cls, text: str, timezone: str, digest: bytes) -> StoredFilter:
        """A filter from its canonical text, which the caller knows to be readable, and to have this digest."""
        made = object.__new__(cls)
        # Where the cached properties of a filter keep their values.
        vars(made).update(_text=text, timezone=timezone, digest=digest)
        return made

    # Python asks this only for attributes that are not there: once for each filter that is parsed at all.
    def __getattr__(self, name: str) -> Any:
        if name not in _PARSED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        parsed = Filter.parse(self._text, timezone=self.timezone)
        self._holds, self._fails, self._written = parsed._holds, parsed._fails, parsed._written
        return vars(self)[name]
