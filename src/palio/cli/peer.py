"""`palio peer`: a node of a ring, or of a semantic overlay, that needs no brokers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.serve import print_addresses, read_given
from palio.errors import InvalidArgument

if TYPE_CHECKING:
    from palio.events import Event
    from palio.filters.filter import Filter
    from palio.network.addresses import Address
    from palio.network.peers.server import PeerServer, RingSettings
    from palio.network.server.settings import Settings
    from palio.peers.ring_description import RingDescription

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_SAMPLES: Final = click.Path(exists=True, path_type=Path)
# Known without loading the mappings, which the help of a command must not wait for; a test compares.
MAPPING_NAMES: Final = ("auto", "any-attribute", "attribute-split", "key-space-split", "selective-attribute")
OVERLAY_NAMES: Final = ("containment", "similarity")
_RING_OPTIONS: Final = ("replicas", "buffer", "collect", "shed-above")  # that all peers of a ring share
_DEFAULT_PORT: Final = 7421
_DEFAULT_PEERS: Final = 100
_DEFAULT_DATA: Final = "palio-peer"
_MAX_READ_SAMPLES: Final = 100_000  # of a file; an even draw of them describes the ring


@click.command()
@click.option("--listen", metavar="URL", default=f"palio://127.0.0.1:{_DEFAULT_PORT}", show_default=True,
              help="Address for clients and other peers; `palio://:PORT` is on this machine.")  # fmt: skip
@click.option("--join", "contacts", multiple=True, metavar="HOST:PORT",
              help="Join the ring of this peer; may be repeated.  [default: found a ring]")  # fmt: skip
@click.option("--mapping", type=click.Choice((*MAPPING_NAMES, *OVERLAY_NAMES)), default="auto", show_default=True,
              help="How subscriptions and events get their keys. `auto` takes that of the ring; who founds one chooses "
                   "by samples. `containment` and `similarity` have no keys: neighbours want the same.")  # fmt: skip
@click.option("--events", type=_SAMPLES, metavar="FILE",
              help="Sample of events, for a ring or an overlay that is founded.")  # fmt: skip
@click.option("--subscriptions", type=_SAMPLES, metavar="FILE",
              help="Sample of subscriptions, for a ring that is founded.")  # fmt: skip
@click.option("--peers", type=click.IntRange(1, 10**9),
              help="About how many peers a ring that is founded will have.  [default: 100]")  # fmt: skip
@click.option("--plan", type=_FILE, metavar="FILE",
              help="Found the ring that `palio spark ring` planned for an archive.")  # fmt: skip
@click.option("--replicas", type=click.IntRange(1, 64),
              help="Peers that store each subscription, of a ring that is founded; fewer crashes at once lose "
                   "nothing.  [default: 3]")  # fmt: skip
@click.option("--buffer", type=click.FloatRange(0, 3_600), metavar="SECONDS",
              help="On a ring that is founded: hold notifications back, and send them together.")  # fmt: skip
@click.option("--collect", is_flag=True,
              help="With --buffer: those of one subscription go by one of the peers that store it.")  # fmt: skip
@click.option("--shed-above", type=click.IntRange(1), metavar="EVENTS",
              help="Events in a second above which a peer of a ring that is founded leaves some to its neighbours.  "
                   "[default: never]")  # fmt: skip
@click.option("--virtual-nodes", type=click.IntRange(1, 256), default=1, show_default=True,
              help="Places of this peer on its ring: with twice as many it stores twice as much.")  # fmt: skip
@click.option("--public", metavar="URL", help="Address for other peers, if it is not where this one listens.")
@click.option("--data", metavar="DIRECTORY", default=_DEFAULT_DATA, show_default=True,
              help="Data directory; `none` keeps everything in memory.")  # fmt: skip
@click.option("--relaxed", is_flag=True, help="A power failure may lose the last events of durable subscriptions.")
@click.option("--config", type=_FILE, metavar="FILE", help="Settings in TOML, as of `palio serve`.")
@click.option("--http", metavar="PLACE", help="HTTP address, HOST:PORT; `off` disables HTTP.  [default: off]")
@click.option("--tls", nargs=2, type=_FILE, metavar="CERTIFICATE KEY", help="Certificate and key for palio+tls://.")
@click.option("--authority", type=_FILE, metavar="FILE", help="Certificate authority of clients and peers.")
@click.option("--token", envvar="PALIO_TOKEN", metavar="TOKEN",
              help="Token that authenticates this peer to others; also read from PALIO_TOKEN.")  # fmt: skip
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS and tokens.")
@click.option("--log-level", "log_levels", multiple=True, metavar="LEVEL",
              help="debug, info, warning or error; MODULE=LEVEL, such as peers=debug, is of one module.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Log and announce addresses as JSON, on a line each.")
def peer(config: Path | None, **given: Any) -> None:
    """Run a peer, until Ctrl-C or SIGTERM: a node of a ring on which subscriptions and events meet, or, with
    `--mapping containment` or `similarity`, one whose neighbours have close interests.

    Nobody configures a topology. Clients publish, subscribe and ask for the status of any peer as of a broker. A
    peer that ends in order hands over what it stores; of those that crash, fewer at once than --replicas lose nothing.

    \b
    Examples:
      palio peer
      palio peer --listen palio://:7422 --join 127.0.0.1:7421 --data ./second
      palio peer --mapping auto --events sample.jsonl --subscriptions wanted.csv --peers 500
      palio peer --plan ring.plan
      palio peer --mapping containment
      palio publish '{"price": 120}' --connect palio://127.0.0.1:7422
    """
    from palio.network.fast_start import fast_start
    from palio.network.logging_setup import configure_logging

    ring = _ring_settings(given)
    read_settings = partial(_settings, config, given)
    settings = read_settings()
    configure_logging(settings.log)
    with fast_start():
        from palio.network.peers.server import PeerServer
        from palio.network.server.process import serve as run

        started = print_addresses if settings.log.json else _print_banner
        preloading = partial(terminal.status, "Loading compiled code")
        run(read_settings, started, preloading, lambda settings: PeerServer(settings, ring))


def _settings(config: Path | None, given: dict[str, Any]) -> Settings:
    absent = dict.fromkeys(
        ("connect", "propagation", "forwarding", "tables", "crash_log", "paths", "sealing_keys", "advertisements",
         "stamps", "timeliness", "keys", "origins", "sinks")
    )  # fmt: skip
    listen = (str(_listening(given["listen"])),)
    changes = {**absent, **given, "listen": listen, "options": (), "http": given["http"] or "off"}
    return read_given(config, changes)


def _listening(text: str) -> Address:
    from palio.network.addresses import Address

    # Without a host: this machine. All of its addresses would need TLS and tokens, which nobody asked for.
    return Address.parse(text.replace("://:", "://127.0.0.1:", 1))


def _ring_settings(given: dict[str, Any]) -> RingSettings:
    from palio.network.addresses import Address
    from palio.network.peers.server import RingSettings

    scheme = _listening(given["listen"]).scheme
    contacts = tuple(Address.parse(each if "://" in each else f"{scheme}://{each}") for each in given["contacts"])
    samples = [given[name] for name in ("events", "subscriptions") if given[name] is not None]
    mapping = given["mapping"]
    if given["plan"] is not None:
        said = [name for name in ("events", "subscriptions", "peers") if given[name]]
        if contacts:
            raise InvalidArgument(
                "a plan describes a ring that is founded; a peer that joins one takes its description"
            )
        if mapping != "auto" or said:
            raise InvalidArgument(f"a plan has that already; leave --{said[0] if said else 'mapping'} out")
    if contacts and samples:
        raise InvalidArgument("samples describe a ring that is founded; a peer that joins one takes its description")
    if mapping in MAPPING_NAMES[2:] and not contacts and not samples:
        raise InvalidArgument(
            f"{mapping} needs samples, --events or --subscriptions or both; any-attribute does without"
        )
    wanted = None if mapping == "auto" else mapping
    said = [name for name in _RING_OPTIONS if given[name.replace("-", "_")]]
    if contacts and said:
        raise InvalidArgument(f"--{said[0]} is of a ring that is founded; a peer that joins one takes what that has")
    if mapping in OVERLAY_NAMES:
        said += ["subscriptions"] * bool(given["subscriptions"]) + ["virtual-nodes"] * (given["virtual_nodes"] > 1)
        if said:
            raise InvalidArgument(f"--{said[0]} is of a ring with keys; a {mapping} overlay stores nothing for others")
    if given["collect"] and not given["buffer"]:
        raise InvalidArgument("what is collected is held back on the way; give --buffer, the seconds of each step")
    if contacts:
        return RingSettings(contacts, mapping=wanted, virtual_nodes=given["virtual_nodes"])
    return RingSettings((), _describe(given), wanted, given["virtual_nodes"])


def _describe(given: dict[str, Any]) -> RingDescription:
    """The description of a ring that this peer founds."""
    from msgspec.structs import replace

    from palio.peers.ring_description import plan_ring

    if given["plan"] is None:
        wanted, sample = given["subscriptions"], given["events"]
        conditions = [] if wanted is None else list(islice(_conditions(wanted), _MAX_READ_SAMPLES))
        events = [] if sample is None else list(islice(_events(sample), _MAX_READ_SAMPLES))
        mapping = None if given["mapping"] == "auto" else given["mapping"]
        found = plan_ring(conditions, events, given["peers"] or _DEFAULT_PEERS, mapping=mapping)
    else:
        found = _read_plan(given["plan"])
    return replace(
        found,
        replicas=given["replicas"] or found.replicas,
        buffer=given["buffer"] or 0.0,
        collects=given["collect"],
        shed_above=given["shed_above"] or 0,
    )


def _read_plan(path: Path) -> RingDescription:
    from palio.errors import InputError, PalioError
    from palio.peers.ring_description import decode_description

    try:
        found: RingDescription = decode_description(path.read_bytes())
        found.key_space()
    except (OSError, PalioError) as error:
        raise InputError(str(path), f"this is no plan of `palio spark ring`: {error}") from None
    return found


def _conditions(path: Path) -> Iterator[Filter]:
    from palio.files import read_subscriptions
    from palio.filters.filter import Filter

    for line in read_subscriptions(path):
        yield Filter.parse(line.where, line.language or "sql", timezone=line.timezone or "UTC")


def _events(path: Path) -> Iterator[Event]:
    from palio.events.batches import batches_of
    from palio.files import read_events

    with read_events(path) as batches:
        for batch in batches:
            if isinstance(batch, list):
                yield from batch
            else:
                for each in batches_of(batch):
                    yield from each if isinstance(each, list) else each.events()


def _print_banner(server: PeerServer) -> None:
    from palio import __version__

    settings = server.settings
    console = terminal.results()
    console.print(f"palio {__version__}, peer {server.node}", style="title")
    rows = [("listens at", str(each)) for each in server.addresses]
    joins = ", ".join(map(str, server.ring_settings.join))
    description = server.ring_settings.description
    own = "mapping" if description.overlay is None else "overlay"
    rows.append(("ring", f"joins by {joins}" if joins else f"its own, {own} {description.mapping}"))
    rows.append(("keeps its data in", str(settings.data) if settings.data else "memory, until it ends"))
    console.print(terminal.facts(rows))
    at = f" --connect {server.addresses[0]}"
    console.print(f'Try: palio subscribe "price > 100"{at}', style="quiet", soft_wrap=True)
    console.file.flush()
