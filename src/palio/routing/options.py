"""Which options does a network have, and what may each be? A name that nobody knows would be ignored without a word."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final

from palio.errors import InvalidArgument

KINDS_OF_OPTIONS: Final[dict[str, str]] = {
    **dict.fromkeys("delay jitter loss duplication reordering bandwidth disk drift skew".split(), "a number"),
    **dict.fromkeys("slack threshold patience rate".split(), "a number"),
    **dict.fromkeys("queue spill window n m k satisfied height optimiser".split(), "a whole number"),
    **dict.fromkeys("mode tree key".split(), "a text"),
    **dict.fromkeys("session circles stamps".split(), "true or false"),
}
OF_SIMULATIONS: Final = frozenset(
    "delay jitter loss duplication reordering bandwidth disk drift skew stamps session optimiser".split()
)
_SHARES: Final = "loss duplication reordering drift".split()  # from 0 to below 1
_LOWEST: Final[dict[str, int]] = {
    **dict.fromkeys("delay jitter disk skew slack threshold patience queue height optimiser".split(), 0),
    **dict.fromkeys("n spill window satisfied".split(), 1),
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "a number": (int, float),
    "a whole number": (int,),
    "a text": (str, int),  # digits on a command line are read as a number
    "true or false": (bool, int),
}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse an option that there is not, or a value that it cannot have."""
    for name, value in options.items():
        kind = KINDS_OF_OPTIONS.get(name)
        if kind is None:
            close = get_close_matches(str(name), KINDS_OF_OPTIONS, 1)
            known = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(KINDS_OF_OPTIONS))}"
            raise InvalidArgument(f"there is no option {name!r} of a network; {known}")
        if value is None and name == "bandwidth":
            continue
        if type(value) not in _TYPES[kind] or (type(value) is float and not isfinite(value)):
            raise InvalidArgument(f"{name} is {kind}, not {value!r}")
        if name in _SHARES and not 0 <= value < 1:
            raise InvalidArgument(f"{name} is a share from 0 to below 1, not {value!r}")
        if name in _LOWEST and value < _LOWEST[name]:
            raise InvalidArgument(f"{name} is {kind} from {_LOWEST[name]} on, not {value!r}")
        if name == "slack" and value > 1:
            raise InvalidArgument(f"slack is a share from 0 to 1, not {value!r}")
