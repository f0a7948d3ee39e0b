"""Where in a pattern one is, and saying that something there is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from palio.errors import ParseError
from palio.events.names import quote_segment
from palio.languages.eventbridge.document import Value

_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Place:
    """A path into a pattern, `detail.state[0].numeric`, and the text it is in."""

    text: str
    path: str = ""

    def inside(self, name: str) -> Place:
        """The member of an object."""
        step = quote_segment(name)
        return Place(self.text, f"{self.path}.{step}" if self.path else step)

    def item(self, index: int) -> Place:
        """An element of an array."""
        return Place(self.text, f"{self.path}[{index}]")

    def refuse(self, value: Value, reason: str, hint: str | None = None) -> ParseError:
        """The error that says what is wrong with a value here."""
        path = self.path if len(self.path) <= _LONGEST else f"…{self.path[-_LONGEST:]}"
        return ParseError(self.text, value.position, f"{path}: {reason}" if path else reason, hint)
