"""`palio serve`: a broker, with an embedded store; nothing else is needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.errors import InvalidArgument
from palio.routing.combinations import FORWARDINGS, PROPAGATIONS

if TYPE_CHECKING:
    from palio.network.server import Server
    from palio.network.settings import Settings

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--listen", multiple=True, metavar="URL", help="Where; may be repeated.  [default: palio://127.0.0.1:7420]"
)
@click.option("--connect", multiple=True, metavar="URL", help="Link to another broker; may be repeated.")
@click.option("--public", metavar="URL", help="Where clients of other brokers reach this one, if not where it listens.")
@click.option("--data", metavar="DIRECTORY", default="palio-data", show_default=True,
              help="Where to keep what must outlive the broker; `none` keeps nothing.")  # fmt: skip
@click.option("--relaxed", is_flag=True, help="A loss of power may take the last confirmed events; faster.")
@click.option("--config", type=_FILE, metavar="FILE", help="Settings, as TOML; options here go before them.")
@click.option("--propagation", type=click.Choice(PROPAGATIONS), help="How subscriptions spread.  [default: identity]")
@click.option("--forwarding", type=click.Choice(FORWARDINGS), help="How events move.  [default: content]")
@click.option("--advertisements", is_flag=True, help="Publishers advertise, and subscriptions go only towards them.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the strategies.")
@click.option("--http", metavar="PLACE", help="Where HTTP is spoken, HOST:PORT; `off` is nowhere.  "
              "[default: 127.0.0.1:7480, if it is free]")  # fmt: skip
@click.option("--origin", "origins", multiple=True, metavar="URL", help="Web pages of this origin may use the broker.")
@click.option("--sinks", multiple=True, metavar="NETWORK",
              help="Push to sinks in this network too, such as 10.1.0.0/16; others must be public.")  # fmt: skip
@click.option("--tls", nargs=2, type=_FILE, metavar="CERTIFICATE KEY", help="What palio+tls:// listens with.")
@click.option("--authority", type=_FILE, metavar="FILE", help="Whose certificates to trust, of clients and brokers.")
@click.option(
    "--token",
    envvar="PALIO_TOKEN",
    metavar="TOKEN",
    help="Says to other brokers who this one is; also read from PALIO_TOKEN.",
)
@click.option("--keys", nargs=2, multiple=True, metavar="UDP TLS",
              help="Keys for palio+udp://… are had at palio+tls://….  [default: the same host and port]")  # fmt: skip
@click.option("--stamps", is_flag=True, help="Tell subscribers when events passed which links.")
@click.option("--insecure", is_flag=True, help="Listen to strangers without TLS and tokens.")
@click.option("--json", "as_json", is_flag=True, help="Log as JSON, on a line each, and say where it listens as JSON.")
def serve(config: Path | None, as_json: bool, **given: Any) -> None:
    """Run a broker, until Ctrl-C or SIGTERM.

    It listens on this machine only, until it is told otherwise; to be reached from elsewhere it wants TLS and tokens.
    Brokers that are linked are one network: all of them make the same choices of strategies, or refuse each other.

    \b
    Examples:
      palio serve
      palio serve --listen palio://127.0.0.1:7421 --connect palio://127.0.0.1:7420 --data ./second
      palio serve --listen palio+tls://0.0.0.0:7420 --tls broker.pem broker.key
      palio serve --data none --propagation covering --json
    """
    from palio.network.logs import log_to
    from palio.network.running import serve as run

    settings = _settings(config, given)
    log_to(as_json=as_json)
    # The first time on a machine it is compiled, which takes some seconds.
    run(settings, _print_json if as_json else _print_banner, partial(terminal.status, "Loading compiled code"))


def _settings(config: Path | None, given: dict[str, Any]) -> Settings:
    from palio.network.gateway.settings import HttpSettings
    from palio.network.settings import Settings, read_table

    changes: dict[str, Any] = {"data": given["data"]}
    settings = Settings(http=HttpSettings(is_optional=True)).with_changes(changes)
    if config is not None:
        settings = settings.with_changes(read_table(config))
        ctx = click.get_current_context()
        if ctx.get_parameter_source("data") is click.core.ParameterSource.DEFAULT:
            changes = {}
    changes |= {
        name: given[name]
        for name in ("listen", "connect", "public", "propagation", "forwarding", "token")
        if given[name]
    }
    changes |= {name: True for name in ("advertisements", "stamps", "insecure") if given[name]}
    if given["relaxed"]:
        changes["safety"] = "relaxed"
    if given["options"]:
        changes["options"] = dict(_option(each) for each in given["options"])
    if given["tls"]:
        certificate, key = given["tls"]
        changes["tls"] = {"certificate": certificate, "key": key, "client_authority": given["authority"]}
    if given["authority"]:
        changes["trust"] = {"authority": given["authority"]}
    if given["keys"]:
        changes["keys"] = {"at": dict(given["keys"])}
    if given["http"]:
        changes["http"] = given["http"]
    settings = settings.with_changes(changes)
    more = {name: given[name] for name in ("origins", "sinks") if given[name]}
    return settings.with_changes({"http": more}) if more else settings


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument(f"an option is NAME=VALUE, not {text!r}")
    for read in (int, float):
        try:
            return name, read(value)
        except ValueError:
            continue
    return name, {"true": True, "false": False}.get(value, value)


def _print_json(server: Server) -> None:
    said = {"addresses": [str(each) for each in server.addresses], "node": server.node}
    if server.gateway is not None:
        said["http"] = server.gateway.url
    terminal.print_json(said, at_once=True)


def _print_banner(server: Server) -> None:
    from palio import __version__

    settings = server.settings
    console = terminal.results()
    console.print(f"palio {__version__}, broker {server.node}", style="title")
    rows = [("listens at", str(each)) for each in server.addresses]
    if server.gateway is not None:
        rows.append(("speaks HTTP at", server.gateway.url))
    rows += [("links to", str(each)) for each in settings.connect]
    rows.append(("keeps its data in", str(settings.data) if settings.data else "memory, until it ends"))
    if settings.data and settings.safety == "relaxed":
        rows.append(("relaxed", "a loss of power may take the last confirmed events"))
    if not server.door.is_open:
        rows.append(("lets in", "those who have a token"))
    console.print(terminal.facts(rows))
    at = _connect_option(server)
    console.print(
        f'Try: palio subscribe "price > 100"{at}   and   palio publish \'{{"price": 120}}\'{at}',
        style="quiet",
        soft_wrap=True,
    )
    console.file.flush()


def _connect_option(server: Server) -> str:
    """What the other commands must be told, where a client can reach this broker otherwise than by default."""
    from palio.network.addresses import Address

    clients = [each for each in server.addresses if each.scheme != "palio+udp"]
    if not clients or Address("127.0.0.1") in clients:
        return ""
    return f" --connect {clients[0]}"
