"""`palio token`: principals of a broker, their tokens and their grants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import click

from palio.cli import terminal
from palio.cli.common_options import data_option, parse_seconds
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.network.security.authentication import Tokens, add_to_several
from palio.network.security.authorization import ROLES, Principal, Role, unrestricted

_MAX_PRINCIPAL_BYTES: Final = 1024 * 1024
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _grant_options(command: _Command) -> _Command:
    # Flags default to None, which means "not given": `change` leaves those as they are.
    for option in (
        click.option("--source", "sources", multiple=True,
                     help="Source that its events may name, with all below, beside its own name; `*` is any; may be "
                          "repeated."),
        click.option("--may-see-status", is_flag=True, default=None,
                     help="May read status, metrics, dead letters and what others subscribe to."),
        click.option("--may-block", is_flag=True, default=None,
                     help="May subscribe with overflow `block`, which holds publishers back."),
        click.option("--may-annotate", is_flag=True, default=None, help="May send events with a forwarding header."),
        click.option("--may-publish", metavar="CONDITION", help="Events it may publish; `true` is all."),
        click.option("--may-subscribe", metavar="CONDITION", help="Events it may subscribe to; `true` is all."),
    ):  # fmt: skip
        command = option(command)
    return command


def _brokers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--data` for one broker or `--for` for several, which the command gets as `directories`."""

    @wraps(command)
    def with_directories(directory: Path, brokers: str | None, **others: Any) -> Any:
        chosen = [directory] if brokers is None else [Path(each.strip()) for each in brokers.split(",")]
        if len(set(chosen)) < len(chosen) or Path() in chosen:
            raise InvalidArgument(f"--for names data directories, each once, separated by commas, not {brokers!r:.80}")
        return command(directories=chosen, **others)

    several = click.option("--for", "brokers", metavar="DIR,DIR",
                           help="Data directories of several brokers, instead of --data.")  # fmt: skip
    return data_option(several(with_directories))


@click.group()
def token() -> None:
    """Manage principals of a broker: tokens, and grants to subscribe and publish.

    A principal is a name with grants; a token authenticates it. A broker applies changes within seconds, also to
    existing subscriptions, waiting events and replays.

    \b
    Examples:
      palio token add desk-7 --may-subscribe "symbol = 'ACME'" --may-publish "price > 0"
      palio token add hub --role broker --may-subscribe "region = 'eu'" --may-publish true
      palio token list
      palio token change desk-7 --may-subscribe "symbol = 'ACME' AND price < 100"
      palio token remove desk-7
      palio token add desk-8 --may-publish true --for hub,leaf1
      palio token export desk-7 --data hub | ssh leaf2 palio token import - --data /var/lib/palio
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="client", show_default=True,
              help="A broker's grants are the filters of its link, out and in; an admin may do all.")  # fmt: skip
@_grant_options
@click.option("--certificate", "certificates", multiple=True, metavar="NAME",
              help="A name in a client certificate that also authenticates it; may be repeated.")  # fmt: skip
@click.option("--expires", metavar="IN", help="When the token ends: 90d, 12h, 30m.")
@_brokers_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def add(
    name: str,
    role: Role,
    may_subscribe: str | None,
    may_publish: str | None,
    may_annotate: bool | None,
    may_block: bool | None,
    may_see_status: bool | None,
    sources: tuple[str, ...],
    certificates: tuple[str, ...],
    expires: str | None,
    directories: list[Path],
    as_json: bool,
) -> None:
    """Make a principal and print its token. It is shown this once; the broker keeps a hash.

    With `--for` the principal is made for several brokers, all or none, and one token is for all of them. A broker on
    another machine has its data directory there: copy the entry of the principal by `export` and `import`.
    """
    start = unrestricted(name) if role == "admin" else Principal(name, role)
    granted = _with_grants(start, may_subscribe, may_publish, may_annotate, may_block, may_see_status, sources)
    made = add_to_several(directories, granted, certificates=certificates, expires=_parse_expiry(expires))
    if as_json:
        terminal.print_json({"name": name, "token": made})
    else:
        terminal.results().print(made, soft_wrap=True)


@token.command()
@click.argument("name")
@_grant_options
@_brokers_options
def change(
    name: str,
    may_subscribe: str | None,
    may_publish: str | None,
    may_annotate: bool | None,
    may_block: bool | None,
    may_see_status: bool | None,
    sources: tuple[str, ...],
    directories: list[Path],
) -> None:
    """Change grants of a principal; other grants and its token stay."""
    for tokens in _with_principal(directories, name):
        before = next(each.principal for each in tokens if each.principal.name == name)
        changed = _with_grants(before, may_subscribe, may_publish, may_annotate, may_block, may_see_status, sources)
        tokens.change(changed)


@token.command(name="list")
@data_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each principal, on a line each.")
def list_principals(directory: Path, as_json: bool) -> None:
    """List principals and their grants. Tokens cannot be listed: the broker keeps hashes only."""
    now = datetime.now(UTC)
    table = terminal.table("name", "role", "may subscribe", "may publish", "may also", "expires")
    for each in Tokens(directory):
        principal = each.principal
        also = [
            what
            for what, may in (
                ("annotate", principal.may_annotate),
                ("block", principal.may_block),
                ("see status", principal.may_see_status),
            )
            if may
        ] + [f"be {source}" for source in principal.sources]
        ends = (
            "" if each.expires is None else f"{each.expires:%Y-%m-%d %H:%M}Z{'' if each.is_valid(now) else ' (over)'}"
        )
        if as_json:
            terminal.print_json(
                {
                    "name": principal.name,
                    "role": principal.role,
                    "may_subscribe": str(principal.may_subscribe),
                    "may_publish": str(principal.may_publish),
                    "may_annotate": principal.may_annotate,
                    "may_block": principal.may_block,
                    "may_see_status": principal.may_see_status,
                    "sources": list(principal.sources),
                    "certificates": list(each.certificates),
                    "expires": None if each.expires is None else each.expires.isoformat(),
                }
            )
        else:
            table.add_row(
                principal.name,
                principal.role,
                str(principal.may_subscribe),
                str(principal.may_publish),
                ", ".join(also),
                ends,
            )
    if not as_json:
        terminal.results().print(table)


@token.command()
@click.argument("name")
@_brokers_options
def remove(name: str, directories: list[Path]) -> None:
    """Remove a principal. Its connections are closed, and its waiting events are discarded."""
    for tokens in _with_principal(directories, name):
        tokens.remove(name)


@token.command()
@click.argument("name")
@data_option
def export(name: str, directory: Path) -> None:
    """Print a principal with its grants and the hash of its token, for `import` at another broker."""
    click.echo(Tokens(directory).export_principal(name).decode())


@token.command(name="import")
@click.argument("file", type=click.File("rb"))
@_brokers_options
def import_principal(file: BinaryIO, directories: list[Path]) -> None:
    """Add a principal that `export` printed; its token is valid at this broker too. FILE may be `-`."""
    principal = file.read(_MAX_PRINCIPAL_BYTES + 1)
    if len(principal) > _MAX_PRINCIPAL_BYTES:
        raise InvalidArgument(f"a principal has at most {_MAX_PRINCIPAL_BYTES:,} bytes")
    for directory in directories:
        Tokens(directory).import_principal(principal)


def _with_principal(directories: list[Path], name: str) -> list[Tokens]:
    """The principals files of some brokers, all of which have a principal."""
    files = [Tokens(directory) for directory in directories]
    for directory, tokens in zip(directories, files, strict=True):
        if all(each.principal.name != name for each in tokens):
            raise InvalidArgument(f"there is no principal {name!r} in {directory}")
    return files


def _with_grants(
    start: Principal,
    may_subscribe: str | None,
    may_publish: str | None,
    may_annotate: bool | None,
    may_block: bool | None,
    may_see_status: bool | None,
    sources: tuple[str, ...],
) -> Principal:
    """A principal with the given grants changed."""
    named: dict[str, Any] = {
        "may_subscribe": None if may_subscribe is None else Filter.parse(may_subscribe),
        "may_publish": None if may_publish is None else Filter.parse(may_publish),
        "may_annotate": may_annotate,
        "may_block": may_block,
        "may_see_status": may_see_status,
        "sources": sources or None,
    }
    return dataclasses.replace(start, **{name: value for name, value in named.items() if value is not None})


def _parse_expiry(text: str | None) -> datetime | None:
    if text is None:
        return None
    return datetime.now(UTC) + timedelta(seconds=parse_seconds(text))
