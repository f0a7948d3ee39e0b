"""`palio serve`: a broker with an embedded store."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from palio.cli import terminal
from palio.cli.common_options import options_epilog, parse_option, strategy_options, upkeep_options
from palio.routing.combinations import FORWARDINGS, PROPAGATIONS
from palio.routing.strategies import SimulationOptions

if TYPE_CHECKING:
    from palio.network.logging_setup import LogSettings
    from palio.network.server.process import Server
    from palio.network.server.settings import Settings

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PLACES: Final = ("listen", "connect", "public")
_AXES: Final = ("propagation", "forwarding", "tables", "crash_log", "paths")


@click.command(epilog=options_epilog(SimulationOptions))
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Address to listen at; may be repeated.  [default: palio://127.0.0.1:7420]",
)
@click.option("--connect", multiple=True, metavar="URL", help="Link to another broker; may be repeated.")
@click.option(
    "--public", metavar="URL", help="Address for clients of other brokers, if it is not where this one listens."
)
@click.option("--data", metavar="DIRECTORY", default="palio-data", show_default=True,
              help="Data directory; `none` keeps everything in memory.")  # fmt: skip
@click.option("--relaxed", is_flag=True, help="A power failure may lose the last confirmed events; faster.")
@click.option("--config", type=_FILE, metavar="FILE", help="Settings in TOML; options override them.")
@click.option("--propagation", type=click.Choice(PROPAGATIONS), help="How subscriptions spread.  [default: identity]")
@click.option("--forwarding", type=click.Choice(FORWARDINGS), help="How events move.  [default: content]")
@click.option("--advertisements", is_flag=True, help="Publishers advertise, and subscriptions go only towards them.")
@upkeep_options(tables=None, crash_log=None, paths=None)
@strategy_options("index=kdtree, mode=always or trees=publisher")
@click.option("--http", metavar="PLACE", help="HTTP address, HOST:PORT; `off` disables HTTP.  "
              "[default: 127.0.0.1:7480, if it is free]")  # fmt: skip
@click.option("--origin", "origins", multiple=True, metavar="URL", help="Web pages of this origin may use the broker.")
@click.option("--sinks", multiple=True, metavar="NETWORK",
              help="Push to sinks in this network too, such as 10.1.0.0/16; others must be public.")  # fmt: skip
@click.option(
    "--tls", nargs=2, type=_FILE, metavar="CERTIFICATE KEY", help="Server certificate and key for palio+tls://."
)
@click.option("--authority", type=_FILE, metavar="FILE", help="Certificate authority of clients and brokers.")
@click.option(
    "--token",
    envvar="PALIO_TOKEN",
    metavar="TOKEN",
    help="Token that authenticates this broker to others; also read from PALIO_TOKEN.",
)
@click.option("--keys", nargs=2, multiple=True, metavar="UDP TLS",
              help="Key exchange of palio+udp://… is at palio+tls://….  [default: same host and port]")  # fmt: skip
@click.option("--sealing-keys", type=_FILE, metavar="FILE",
              help="Keys of sealed events, at edge brokers; inner brokers have --option sealed=true.")  # fmt: skip
@click.option("--stamps", is_flag=True, help="Record for subscribers when events passed which links.")
@click.option(
    "--timeliness", is_flag=True, help="Bound how old events are when they arrive, without synchronised clocks."
)
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS and tokens.")
@click.option("--log-level", "log_levels", multiple=True, metavar="LEVEL",
              help="debug, info, warning or error; MODULE=LEVEL, such as links=debug, is of one module; "
                   "may be repeated.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Log and announce addresses as JSON, on a line each.")
@click.option("--print-config", is_flag=True, help="Print the settings in effect as a file, and end.")
def serve(config: Path | None, print_config: bool, **given: Any) -> None:
    """Run a broker, until Ctrl-C or SIGTERM. SIGHUP reloads settings, certificates and tokens.

    By default it listens on this machine only; elsewhere it requires TLS and tokens. Linked brokers are one
    network: all of them must have the same strategies, or they refuse each other.

    \b
    Examples:
      palio serve
      palio serve --listen palio://127.0.0.1:7421 --connect palio://127.0.0.1:7420 --data ./second
      palio serve --listen palio+tls://0.0.0.0:7420 --tls broker.pem broker.key
      palio serve --data none --propagation covering --json
      palio serve --config palio.toml --log-level warning --log-level links=debug
    """
    from palio.network.fast_start import fast_start
    from palio.network.logging_setup import configure_logging

    if click.get_current_context().get_parameter_source("data") is ParameterSource.DEFAULT:
        given["data"] = None  # a default is no option: the settings file wins over it
    read_settings = partial(read_given, config, given)
    settings = read_settings()
    if print_config:
        from palio.network.server.settings_file import write_settings

        click.echo(write_settings(settings), nl=False)
        return
    configure_logging(settings.log)
    with fast_start():
        from palio.network.server.process import serve as run

        # The first time on a machine it is compiled, which takes some seconds.
        started = print_addresses if settings.log.json else _print_banner
        run(read_settings, started, partial(terminal.status, "Loading compiled code"))


def read_given(config: Path | None, given: dict[str, Any]) -> Settings:
    """The settings of the file, and over them those of the options."""
    from palio.network.data_directory import DEFAULT_PATH
    from palio.network.gateway.settings import HttpSettings
    from palio.network.server.settings import Settings
    from palio.network.server.settings_file import read_settings

    settings = Settings(http=HttpSettings(is_optional=True), data=DEFAULT_PATH)
    if config is not None:
        settings = read_settings(config, settings)
    changes: dict[str, Any] = {} if given["data"] is None else {"data": given["data"]}
    changes |= {
        name: given[name]
        for name in (
            "listen",
            "connect",
            "public",
            "propagation",
            "forwarding",
            "tables",
            "crash_log",
            "paths",
            "token",
            "sealing_keys",
        )
        if given[name]
    }
    changes |= {name: True for name in ("advertisements", "stamps", "insecure") if given[name]}
    if given["log_levels"] or given["as_json"]:
        changes["log"] = _log_changes(settings.log, given["log_levels"], given["as_json"])
    if given["relaxed"]:
        changes["safety"] = "relaxed"
    options = {"timeliness": True} if given["timeliness"] else {}
    options |= dict(map(parse_option, given["options"]))
    if options:
        changes["options"] = options
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


def _log_changes(before: LogSettings, levels: tuple[str, ...], as_json: bool) -> dict[str, Any]:
    """The settings of the log that options name: LEVEL, MODULE=LEVEL and `--json`."""
    changes: dict[str, Any] = {"json": True} if as_json else {}
    modules = dict(before.modules)
    for each in levels:
        module, equals, level = each.partition("=")
        if equals:
            modules[module] = level
        else:
            changes["level"] = each
    return {**changes, "modules": modules}


def print_addresses(server: Server) -> None:
    answer = {"addresses": [str(each) for each in server.addresses], "node": server.node}
    if server.gateway is not None:
        answer["http"] = server.gateway.url
    terminal.print_json(answer, at_once=True)


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
    if not server.authenticator.is_open:
        rows.append(("lets in", "clients with a token"))
    console.print(terminal.facts(rows))
    at = _connect_option(server)
    console.print(
        f'Try: palio subscribe "price > 100"{at}   and   palio publish \'{{"price": 120}}\'{at}',
        style="quiet",
        soft_wrap=True,
    )
    console.file.flush()


def _connect_option(server: Server) -> str:
    """The option that other commands need to reach this broker, if it does not listen at the default address."""
    from palio.network.addresses import Address

    clients = [each for each in server.addresses if each.scheme != "palio+udp"]
    if not clients or Address("127.0.0.1") in clients:
        return ""
    return f" --connect {clients[0]}"
