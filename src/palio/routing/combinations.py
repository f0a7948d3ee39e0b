"""Combinations of propagation, forwarding and options: which are legal, and the reason for each refusal.

| propagation | content | reuse always | reuse partial | prefix, optimiser's | prefix, local | Bloom |
|---|---|---|---|---|---|---|
| flooding | yes | | | | | |
| simple, identity | yes | yes | yes | yes | yes | yes |
| covering, merging | yes | | yes | yes | | |
| with advertisements | yes | as its row | as its row | yes | | as its row |

Reuse `never` is content forwarding under another name, and goes wherever that goes (Shen §3.3).

An option of unknown name is refused: it would be ignored without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final

from palio.errors import IllegalCombination, InvalidArgument

OPTION_KINDS: Final[dict[str, str]] = {
    **dict.fromkeys("delay jitter loss duplication reordering bandwidth disk drift skew".split(), "a number"),
    **dict.fromkeys("slack threshold interval patience rate".split(), "a number"),
    **dict.fromkeys(("epsilon", "completeness", "heartbeat"), "a number"),
    **dict.fromkeys("queue spill window n m k satisfied height parents budget".split(), "a whole number"),
    **dict.fromkeys(("optimiser", "root"), "true, false or the number of a broker"),
    **dict.fromkeys("mode tree key graph index domains curve matcher digests structure".split(), "a text"),
    **dict.fromkeys("session circles stamps hierarchy sealed".split(), "true or false"),
}
SIMULATION_OPTIONS: Final = frozenset(
    "delay jitter loss duplication reordering bandwidth disk drift skew stamps session".split()
)
_FRACTIONS: Final = "loss duplication reordering drift epsilon".split()  # from 0 to below 1
_MINIMUM: Final[dict[str, int]] = {
    **dict.fromkeys("delay jitter disk skew slack threshold interval patience queue height optimiser root".split(), 0),
    **dict.fromkeys("n spill window satisfied parents budget".split(), 1),
}
_TYPES_OF_KIND: Final[dict[str, tuple[type, ...]]] = {
    "a number": (int, float),
    "a whole number": (int,),
    "a text": (str, int),  # digits on a command line are read as a number
    "true or false": (bool, int),
    "true, false or the number of a broker": (bool, int),
}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options, and values that an option cannot have."""
    for name, value in options.items():
        kind = OPTION_KINDS.get(name)
        if kind is None:
            close = get_close_matches(str(name), OPTION_KINDS, 1)
            known = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(OPTION_KINDS))}"
            raise InvalidArgument(f"there is no option {name!r} of a network; {known}")
        if value is None and name == "bandwidth":  # without a bound
            continue
        # By `type`, not `isinstance`: a boolean is an integer to Python, and no number here.
        if type(value) not in _TYPES_OF_KIND[kind] or (type(value) is float and not isfinite(value)):
            raise InvalidArgument(f"{name} is {kind}, not {value!r}")
        if name in _FRACTIONS and not 0 <= value < 1:
            raise InvalidArgument(f"{name} is a share from 0 to below 1, not {value!r}")
        if name in _MINIMUM and value < _MINIMUM[name]:
            raise InvalidArgument(f"{name} is {kind} from {_MINIMUM[name]} on, not {value!r}")
        if name in ("completeness", "heartbeat") and value <= 0:
            raise InvalidArgument(f"{name} is the seconds between watermarks, above 0, not {value!r}")
        if name == "slack" and value > 1:
            raise InvalidArgument(f"slack is a share from 0 to 1, not {value!r}")


PROPAGATIONS: Final = ("flooding", "simple", "identity", "covering", "merging")
FORWARDINGS: Final = ("content", "reuse", "prefix", "bloom")
UPKEEPS: Final = ("hard",)
REUSE_MODES: Final = ("never", "always", "partial")
PREFIX_TREES: Final = ("local", "optimiser")

_STRUCTURES: Final[dict[str, tuple[str, ...]]] = {
    "graph": ("flat", "lazy", "dense", "forest", "poset"),
    "index": ("adaptive", "linear", "columnar", "kdtree", "curve"),
    "curve": ("z", "gray", "hilbert"),
    "matcher": ("columnar", "counting", "kdtree"),
    "digests": ("index", "sbsposet"),
    "structure": ("table", "sbstree", "counting", "skiptree"),
}
_COVERING_OPTIONS: Final = ("graph", "parents", "index", "domains", "curve", "epsilon", "budget")
STRUCTURE_OPTIONS: Final = frozenset((*_STRUCTURES, *_COVERING_OPTIONS))  # of one broker; neighbours may have others
_SUPPRESSING: Final = ("covering", "merging")  # not every filter reaches every broker
_LOSSY: Final = ("loss", "duplication", "reordering")


@dataclass(frozen=True, slots=True)
class Combination:
    """One choice for each axis, and the options. The constructor refuses illegal ones.

    The options that matter here: `mode` of reuse (never, always, partial), `tree` of prefix (local, optimiser),
    `session` and the faults of links, for which hard upkeep needs it, and `circles`.
    """

    propagation: str = "simple"
    forwarding: str = "content"
    advertisements: bool = False
    upkeep: str = "hard"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options(self.options)
        _one_of("propagation", self.propagation, PROPAGATIONS)
        _one_of("forwarding", self.forwarding, FORWARDINGS)
        _one_of("upkeep", self.upkeep, UPKEEPS)
        _one_of("mode of reuse", self.mode, REUSE_MODES)
        _one_of("tree of prefix", self.tree, PREFIX_TREES)
        self._check_structures()
        reason = self._refusal()
        if reason is not None:
            raise IllegalCombination(str(self), reason)

    @property
    def mode(self) -> str:
        return str(self.options.get("mode", "partial"))

    @property
    def tree(self) -> str:
        """The origin of the routing tree of prefix forwarding; local by default, where that is legal."""
        local = self.propagation not in _SUPPRESSING and not self.advertisements
        return str(self.options.get("tree", "local" if local else "optimiser"))

    @property
    def has_optimiser(self) -> bool:
        """Whether an optimiser makes the routing tree for all brokers."""
        return self.forwarding == "prefix" and self.tree == "optimiser"

    @property
    def is_hierarchical(self) -> bool:
        """Whether filters go only towards the root of a hierarchy, and every event goes there."""
        return bool(self.options.get("hierarchy", False))

    @property
    def is_sealed(self) -> bool:
        """Whether only edge brokers can read events."""
        return bool(self.options.get("sealed", False))

    @property
    def is_faulty(self) -> bool:
        """Whether links lose, duplicate or reorder frames."""
        return any(self.options.get(fault) for fault in _LOSSY)

    @property
    def has_session(self) -> bool:
        """Whether link sessions retransmit: where links are faulty, or the option says so."""
        return bool(self.options.get("session", self.is_faulty))

    @property
    def has_circles(self) -> bool:
        """Whether there may be more than one way between brokers, so that they must agree on a spanning tree."""
        return bool(self.options.get("circles", False))

    def _check_structures(self) -> None:
        """Refuse structures that are unknown, or that no part of the broker would use."""
        for option, known in _STRUCTURES.items():
            if option in self.options:
                _one_of(option, str(self.options[option]), known)
        for options, is_used, user in (
            (_COVERING_OPTIONS, self.propagation in _SUPPRESSING, "covering and merging propagation"),
            (("digests", "structure"), self.forwarding == "bloom", "bloom forwarding"),
        ):
            unused = [option for option in options if option in self.options]
            if unused and not is_used:
                raise IllegalCombination(f"{self} with {unused[0]}", f"{unused[0]} is an option of {user}")

    def _refusal(self) -> str | None:
        if self.is_faulty and not self.has_session:
            return "a change is announced only once, and a faulty link may lose it for ever; it needs the session"
        if "heartbeat" in self.options and "completeness" not in self.options:
            return "heartbeats are watermarks of completeness, which is not on"
        if self.is_hierarchical:
            if "completeness" in self.options:
                return "while brokers elect a root, none knows whether a neighbour sends it all events"
            if self.propagation == "flooding":
                return "with flooding no filter travels, so that a hierarchy changes nothing"
            if self.advertisements:
                return "with advertisements filters go towards publishers, in a hierarchy towards the root"
            if self.forwarding != "content":
                return "in a hierarchy a broker knows only the filters below it, so that it cannot write a header"
        if self.is_sealed and self.propagation != "flooding":
            reads = "inner brokers would have to match content, and cannot read it"
            if self.forwarding == "reuse" and self.mode == "partial":
                return f"a partial list of keys leaves links without one, for which {reads}; take always reuse"
            if self.forwarding == "content" or (self.forwarding == "reuse" and self.mode == "never"):
                return f"without headers {reads}; take prefix, bloom, or always reuse forwarding"
        if self.forwarding == "content" or (self.forwarding == "reuse" and self.mode == "never"):
            return None
        if self.propagation == "flooding":
            return "with flooding no broker knows the interest of the others, so that it cannot write a header"
        if self.propagation in _SUPPRESSING:
            return self._refusal_by_suppression()
        if self.advertisements and self.forwarding == "prefix" and self.tree == "local":
            return (
                "with advertisements brokers know different filters, so that trees that each builds from its own "
                "differ; take the optimiser's tree"
            )
        return None

    def _refusal_by_suppression(self) -> str | None:
        spread = f"with {self.propagation} not every filter reaches every broker"
        match self.forwarding:
            case "reuse" if self.mode == "always":
                return f"{spread}, so the list of the first broker cannot name all that match; take partial reuse"
            case "prefix" if self.tree == "local":
                return f"{spread}, so that trees that each builds from its own differ; take the optimiser's tree"
            case "bloom":
                return f"{spread}, so the digest of the first broker lacks bits of filters that it does not know"
        return None

    def __str__(self) -> str:
        forwarding = self.forwarding
        if forwarding == "reuse":
            forwarding = f"{self.mode} reuse"
        elif forwarding == "prefix":
            forwarding = "prefix with a local tree" if self.tree == "local" else "prefix with the optimiser's tree"
        advertised = ", with advertisements" if self.advertisements else ""
        directed = ", in a hierarchy" if self.is_hierarchical else ""
        sealed = ", with sealed events" if self.is_sealed else ""
        return f"{self.propagation} propagation and {forwarding} forwarding{advertised}{directed}{sealed}"


def legal_combinations() -> Iterator[Combination]:
    """Every legal combination, in the order of the table."""
    for propagation in PROPAGATIONS:
        for advertisements in (False, True):
            for forwarding, options in _FORWARDING_OPTIONS:
                try:
                    yield Combination(propagation, forwarding, advertisements, options=options)
                except IllegalCombination:
                    continue
    for propagation in PROPAGATIONS[1:]:
        yield Combination(propagation, options={"hierarchy": True})


_FORWARDING_OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("content", {}),
    *(("reuse", {"mode": mode}) for mode in REUSE_MODES),
    *(("prefix", {"tree": tree}) for tree in PREFIX_TREES),
    ("bloom", {}),
)


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidArgument(f"there is no {what} {given!r}; known are {', '.join(known)}")
