"""Strategies of a broker with their options: a frozen dataclass for each propagation, forwarding and upkeep.

`Covering(graph="poset")` and `Reuse(mode="always")` say what they are and take only their own options, with types that
a checker sees. On a command line and in a file of settings options are names with values; `Combination` makes the
dataclasses of them. Either way a value that an option cannot have is refused with what would be right. An option that
none of the chosen strategies has is refused with those that have it: it would be ignored without a word otherwise.

`BrokerOptions` and `SimulationOptions` are those that go with every strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from typing import Any, ClassVar, Final, Literal, TypeVar

from palio.errors import InvalidArgument

_NUMBER: Final = "a number"
_WHOLE: Final = "a whole number"
_TEXT: Final = "a text"
_TRUTH: Final = "true or false"
_BROKER: Final = "true, false or the number of a broker"
_TYPES_OF_KIND: Final[dict[str, tuple[type, ...]]] = {
    _NUMBER: (int, float),
    _WHOLE: (int,),
    _TEXT: (str, int),  # digits on a command line are read as a number
    _TRUTH: (bool, int),
    _BROKER: (bool, int),
}


def _option(
    default: Any,
    kind: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    above: float | None = None,
    is_local: bool = False,
) -> Any:
    """A field of options. One that `is_local` may differ from broker to broker; others are constants of a network."""
    metadata = {
        "kind": kind,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "below": below,
        "above": above,
        "is_local": is_local,
    }
    return field(default=default, metadata=metadata)


def _share(default: float) -> Any:
    return _option(default, _NUMBER, minimum=0, below=1, is_local=True)


def _at_least(minimum: float, default: float, *, is_local: bool = False) -> Any:
    return _option(default, _NUMBER, minimum=minimum, is_local=is_local)


def _count(minimum: int, default: int | None, *, is_local: bool = False) -> Any:
    return _option(default, _WHOLE, minimum=minimum, is_local=is_local)


def _one_of(default: str | None, *choices: str, is_local: bool = False) -> Any:
    return _option(default, _TEXT, choices=choices, is_local=is_local)


def check_option(option: Field[Any], value: Any) -> None:
    """`InvalidArgument` for a value that an option cannot have."""
    name, (kind, choices, minimum, maximum, below, above, _) = option.name, option.metadata.values()
    if value is None and option.default is None:
        return
    # By `type`, not `isinstance`: a boolean is an integer to Python, and no number here.
    if type(value) not in _TYPES_OF_KIND[kind] or (type(value) is float and not isfinite(value)):
        raise InvalidArgument(f"{name} is {kind}, not {value!r}")
    if type(value) is str and not value.isascii() and value != value.encode("utf-8", "ignore").decode():
        raise InvalidArgument(f"{name} is a text that can be written as UTF-8, not {value!r:.80}")
    if choices and str(value) not in choices:
        raise InvalidArgument(f"there is no {name} {value!r}; known are {', '.join(choices)}")
    if below is not None and not (minimum or 0) <= value < below:
        raise InvalidArgument(f"{name} is a share from 0 to below 1, not {value!r}")
    if above is not None and value <= above:
        raise InvalidArgument(f"{name} is {kind} above {above}, not {value!r}")
    if minimum is not None and value < minimum:
        raise InvalidArgument(f"{name} is {kind} from {minimum} on, not {value!r}")
    if maximum is not None and value > maximum:
        raise InvalidArgument(f"{name} is a share from {minimum} to {maximum}, not {value!r}")


class Options:
    """Options whose values were checked."""

    __slots__ = ()

    name: ClassVar[str] = ""
    role: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for option in fields(self):  # type: ignore[arg-type]
            check_option(option, getattr(self, option.name))

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        every = fields(self)  # type: ignore[arg-type]
        return {each.name: getattr(self, each.name) for each in every if getattr(self, each.name) != each.default}


_Kind = TypeVar("_Kind", bound=Options)


# Propagation: how subscriptions spread.


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation(Options):
    """How subscriptions spread."""

    role: ClassVar[str] = "propagation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooding(Propagation):
    """No neighbour is sent any filter, and every event goes everywhere."""

    name: ClassVar[str] = "flooding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple(Propagation):
    """A neighbour is sent every subscription."""

    name: ClassVar[str] = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Propagation):
    """A neighbour is sent every distinct filter."""

    name: ClassVar[str] = "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering(Propagation):
    """A neighbour is sent the filters that no other one covers."""

    name: ClassVar[str] = "covering"

    graph: Literal["flat", "lazy", "dense", "forest", "poset"] = _one_of(
        "flat", "flat", "lazy", "dense", "forest", "poset", is_local=True
    )
    parents: int | None = _count(1, None, is_local=True)
    index: Literal["adaptive", "linear", "columnar", "counting", "kdtree", "curve"] | None = _one_of(
        None, "adaptive", "linear", "columnar", "counting", "kdtree", "curve", is_local=True
    )
    domains: str | None = _option(None, _TEXT, is_local=True)
    curve: Literal["z", "gray", "hilbert"] | None = _one_of(None, "z", "gray", "hilbert", is_local=True)
    epsilon: float | None = _option(None, _NUMBER, minimum=0, below=1, is_local=True)
    budget: int | None = _count(1, None, is_local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging(Covering):
    """A neighbour is sent mergers of the filters that no other one covers."""

    name: ClassVar[str] = "merging"

    slack: float = _option(0.0, _NUMBER, minimum=0, maximum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class XRoute(Propagation):
    """A neighbour is sent the filters that no other one covers: their difference, or counts of registrations."""

    name: ClassVar[str] = "xroute"

    router: Literal["difference", "counters"] = _one_of("difference", "difference", "counters")


# Forwarding: how events move.


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingChoice(Options):
    """How events move; every forwarding matches events for a broker's own clients."""

    role: ClassVar[str] = "forwarding"

    matcher: Literal["columnar", "counting", "kdtree"] = _one_of(
        "columnar", "columnar", "counting", "kdtree", is_local=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content(ForwardingChoice):
    """Every broker examines content."""

    name: ClassVar[str] = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(ForwardingChoice):
    """Headers with the keys of filters that match."""

    name: ClassVar[str] = "reuse"

    mode: Literal["never", "always", "partial"] = _one_of("partial", "never", "always", "partial")
    n: int = _count(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix(ForwardingChoice):
    """Headers with a part of a routing tree."""

    name: ClassVar[str] = "prefix"

    tree: Literal["local", "optimiser"] | None = _one_of(None, "local", "optimiser")
    height: int = _count(0, 0)
    patience: float = _at_least(0, 1.0)  # events for each filter
    optimiser: bool | int | None = _option(None, _BROKER, minimum=0, is_local=True)
    threshold: float = _at_least(0, 0.3)  # the lower of the two that Jerzak §9.1.1 tries
    interval: float = _at_least(0, 30.0)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bloom(ForwardingChoice):
    """Headers with a digest."""

    name: ClassVar[str] = "bloom"

    m: int | None = _option(None, _WHOLE)
    k: int | None = _option(None, _WHOLE)
    key: str = _option("", _TEXT)
    rate: float | None = _option(None, _NUMBER)
    satisfied: int | None = _count(1, None)
    digests: Literal["index", "sbsposet"] = _one_of("index", "index", "sbsposet", is_local=True)
    structure: Literal["table", "sbstree", "counting", "skiptree"] = _one_of(
        "table", "table", "sbstree", "counting", "skiptree", is_local=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(ForwardingChoice):
    """Headers with a list of brokers."""

    name: ClassVar[str] = "group"


# Upkeep: how state stays true, on three axes of their own.


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep(Options):
    """How tables of subscriptions stay true."""

    role: ClassVar[str] = "tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hard(TableUpkeep):
    """An update is sent once, and holds until it is withdrawn."""

    name: ClassVar[str] = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases(TableUpkeep):
    """An entry holds for a time, and is forgotten unless its owner renews it; times are in seconds.

    `lease="time"` and `extension="none"` are there to compare with: they lose live entries where delays are long.
    """

    name: ClassVar[str] = "leases"

    validity: float = _option(90.0, _NUMBER, above=0)
    refresh: float = _option(30.0, _NUMBER, above=0)
    max_validity: float = _option(600.0, _NUMBER, above=0)
    extension: Literal["upper_bound", "uncertainty", "none"] = _one_of(
        "upper_bound", "upper_bound", "uncertainty", "none"
    )
    extension_messages: int = _count(2, 200)
    extension_seconds: float | None = _option(None, _NUMBER, above=0)
    lease: Literal["interval", "time"] = _one_of("interval", "interval", "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stabilising(TableUpkeep):
    """Tables are compared with those of the neighbours, and rebuilt, in every round: wrong ones become right."""

    name: ClassVar[str] = "stabilising"

    round_period: float = _option(30.0, _NUMBER, above=0, is_local=True)  # seconds, the longest time between two rounds
    false_equality: float = _option(1e-9, _NUMBER, minimum=1e-18, maximum=0.5, is_local=True)
    sketch_bits: int | None = _count(1, None, is_local=True)  # for each entry
    sketch_hashes: int | None = _count(1, None, is_local=True)
    rebuild_slice: int = _count(1, 500, is_local=True)  # entries that are rebuilt at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLog(Options):
    """What of routing survives a crash of its broker."""

    role: ClassVar[str] = "crash log"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCrashLog(CrashLog):
    """A restarted broker is told the interests of its neighbours anew."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover(CrashLog):
    """A restarted broker goes on with its routing tables, and neighbours keep its tables for some seconds."""

    name: ClassVar[str] = "recover"

    outage: float = _at_least(0, 60.0, is_local=True)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PathUpkeep(Options):
    """What happens to paths when a broker or a link fails."""

    role: ClassVar[str] = "paths"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRepair(PathUpkeep):
    """Brokers agree on another spanning tree."""

    name: ClassVar[str] = "tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover(PathUpkeep):
    """Brokers attach to a backup, and the tables of a lost neighbour are kept until others have moved.

    A lost parent is waited for `grace` seconds before its backup is taken.
    """

    name: ClassVar[str] = "failover"

    handover: float = _at_least(0, 2.0, is_local=True)  # seconds
    grace: float = _at_least(0, 0.0, is_local=True)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RedundantPaths(Failover):
    """Events travel by two ways, so that the loss of one broker or link loses none; tables move as with failover."""

    name: ClassVar[str] = "redundant"


# Options that go with every strategy.


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions(Options):
    """Options of a broker, whatever its strategies."""

    name: ClassVar[str] = "every broker"

    queue: int = _count(0, 10_000, is_local=True)
    queue_bytes: int = _count(0, 64 * 2**20, is_local=True)
    spill: int = _count(1, 10_000)
    spill_bytes: int = _count(1, 256 * 2**20, is_local=True)
    window: int = _count(1, 1_000)
    circles: bool = _option(False, _TRUTH)
    trees: Literal["shared", "publisher"] = _one_of("shared", "shared", "publisher")
    hierarchy: bool = _option(False, _TRUTH)
    root: bool | int | None = _option(None, _BROKER, minimum=0, is_local=True)
    completeness: float | None = _option(None, _NUMBER, above=0)
    heartbeat: float | None = _option(None, _NUMBER, above=0, is_local=True)
    sealed: bool = _option(False, _TRUTH)
    timeliness: bool = _option(False, _TRUTH)
    max_drift: float = _share(1e-4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions(Options):
    """Options of simulated links, disks and clocks."""

    name: ClassVar[str] = "simulated networks"

    delay: float = _at_least(0, 0.01, is_local=True)
    jitter: float = _at_least(0, 0.0, is_local=True)
    loss: float = _share(0.0)
    duplication: float = _share(0.0)
    reordering: float = _share(0.0)
    bandwidth: float | None = _option(None, _NUMBER, is_local=True)
    session: bool | None = _option(None, _TRUTH, is_local=True)
    disk: float = _at_least(0, 0.0, is_local=True)
    drift: float = _share(0.0)
    skew: float = _at_least(0, 0.0, is_local=True)
    stamps: bool = _option(False, _TRUTH, is_local=True)


PROPAGATION_TYPES: Final[dict[str, type[Propagation]]] = {
    each.name: each for each in (Flooding, Simple, Identity, Covering, Merging, XRoute)
}
FORWARDING_TYPES: Final[dict[str, type[ForwardingChoice]]] = {
    each.name: each for each in (Content, Reuse, Prefix, Bloom, Group)
}
TABLE_UPKEEP_TYPES: Final[dict[str, type[TableUpkeep]]] = {each.name: each for each in (Hard, Leases, Stabilising)}
CRASH_LOG_TYPES: Final[dict[str, type[CrashLog]]] = {each.name: each for each in (NoCrashLog, Recover)}
PATH_UPKEEP_TYPES: Final[dict[str, type[PathUpkeep]]] = {
    each.name: each for each in (TreeRepair, Failover, RedundantPaths)
}
OPTION_TYPES: Final[tuple[type[Options], ...]] = (
    *PROPAGATION_TYPES.values(),
    *FORWARDING_TYPES.values(),
    *TABLE_UPKEEP_TYPES.values(),
    *CRASH_LOG_TYPES.values(),
    *PATH_UPKEEP_TYPES.values(),
    BrokerOptions,
    SimulationOptions,
)
_FIELDS: Final[dict[str, Field[Any]]] = {
    each.name: each
    for kind in OPTION_TYPES
    for each in fields(kind)  # type: ignore[arg-type]
}
OPTION_NAMES: Final = frozenset(_FIELDS)
SIMULATION_OPTIONS: Final = frozenset(SimulationOptions.__dataclass_fields__)
LOCAL_OPTIONS: Final = frozenset(name for name, each in _FIELDS.items() if each.metadata["is_local"])


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options, and values that an option cannot have."""
    for name, value in options.items():
        known = _FIELDS.get(name)
        if known is None:
            close = get_close_matches(str(name), OPTION_NAMES, 1)
            what = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(OPTION_NAMES))}"
            raise InvalidArgument(f"there is no option {name!r} of a network; {what}")
        check_option(known, value)


def owners_of(name: str) -> str:
    """The strategies that have an option, in words."""
    owners = [kind for kind in OPTION_TYPES if name in kind.__dataclass_fields__]  # type: ignore[attr-defined]
    return f"{' and '.join(each.name for each in owners)} {owners[0].role}".strip()


def taken(kind: type[_Kind], options: Mapping[str, Any]) -> _Kind:
    """Options of one kind: those that it has among some given by name."""
    return kind(**{each.name: options[each.name] for each in fields(kind) if each.name in options})  # type: ignore[arg-type]


def name_and_options(strategy: str | Options) -> tuple[str, dict[str, Any]]:
    """A strategy as a command line has it: its name, and the options that differ from their defaults."""
    if isinstance(strategy, str):
        return strategy, {}
    if not isinstance(strategy, Options):
        raise InvalidArgument(f"a strategy is a name such as 'covering', or typed options, not {strategy!r:.80}")
    return strategy.name, strategy.given()


def options_help(kinds: Iterable[type[Options]]) -> list[str]:
    """A line for each kind of options: their names, with the values they may have or their defaults."""
    lines = []
    for kind in kinds:
        # Inherited ones are listed once, with the kind that has them first.
        base: Any = kind.__mro__[1]
        inherited = getattr(base, "__dataclass_fields__", {})
        shown = [_shown(each) for each in fields(kind) if each.name not in inherited]  # type: ignore[arg-type]
        if shown:
            also = f"those of {base.name}, " if base.name and inherited else ""
            lines.append(f"{kind.name or 'every'} {kind.role}".strip() + f": {also}{', '.join(shown)}")
    return lines


def _shown(option: Field[Any]) -> str:
    choices = option.metadata["choices"]
    if choices:
        return f"{option.name}={'|'.join(choices)}"
    return option.name if option.default in (None, "") else f"{option.name}={option.default}".lower()
