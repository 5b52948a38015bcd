"""`tony portal` and `tony portal token`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from tony import clock
from tony.cli.click_base import CommandGroup
from tony.cli.options import Count, home, json_option
from tony.cli.portal_packages import check_portal_packages
from tony.cli.terminal.output import print_json, say, say_all, warn
from tony.cli.terminal.terminal_text import find_columns, format_clock_time, format_table
from tony.control_characters import escape
from tony.errors import UserError

_DAY_SECONDS = 86400.0


@click.group("portal", cls=CommandGroup, invoke_without_command=True)
@click.option("--port", type=Count(0, 65535), default=0, help="Port [default: any free port].")
@click.option(
    "--history",
    "histories",
    metavar="LOCATION",
    multiple=True,
    help="History to show: a folder, hdfs://..., s3://..., kubernetes://CONTEXT/NAMESPACE; may be repeated "
    "[default: your own].",
)
@click.option(
    "--address",
    default="127.0.0.1",
    help="Address to listen on; a non-local address requires --certificate, --trust-proxy or --without-tls "
    "[default: 127.0.0.1].",
)
@click.option("--certificate", type=click.Path(path_type=Path), help="TLS certificate, a PEM file.")
@click.option("--private-key", type=click.Path(path_type=Path), help="Private key of the certificate, a PEM file.")
@click.option("--trust-proxy", "trusted", metavar="ADDRESS", multiple=True, help="Trust this TLS-terminating proxy.")
@click.option("--without-tls", is_flag=True, help="Allow tokens over plain HTTP (insecure).")
@click.option("--user-header", metavar="NAME", default="", help="Header in which a trusted proxy sends the user name.")
@click.option(
    "--origin", "origins", metavar="URL", multiple=True, help="Public URL of the portal: https://jobs.example.org."
)
@click.option(
    "--proxy-user", "proxy_users", metavar="USER", multiple=True, help="User that a proxy on this machine runs as."
)
@click.option("--name", "names", metavar="HOST", multiple=True, help="Additional host name of this machine.")
@click.option(
    "--admin", "admins", metavar="WHO", multiple=True, help="User or @group that may see and change all jobs."
)
@click.pass_context
def command(
    ctx: click.Context,
    port: int,
    histories: tuple[str, ...],
    address: str,
    certificate: Path | None,
    private_key: Path | None,
    trusted: tuple[str, ...],
    without_tls: bool,
    user_header: str,
    origins: tuple[str, ...],
    proxy_users: tuple[str, ...],
    names: tuple[str, ...],
    admins: tuple[str, ...],
) -> None:
    """Serve web pages of running and finished jobs.

    Prints its address and serves until Ctrl-C. Your own connections from this machine need no login; all others need a
    token, or a trusted proxy that authenticates them.
    """
    if ctx.invoked_subcommand is not None:
        return
    check_portal_packages()
    from tony.portal.access.listen_options import ListenOptions  # late: the portal's packages are optional
    from tony.portal.server import run

    options = ListenOptions(
        host=address,
        port=port,
        names=names,
        admins=admins,
        trusted=trusted,
        user_header=user_header,
        proxy_users=proxy_users,
        origins=origins,
        certificate=certificate,
        private_key=private_key,
        without_tls=without_tls,
    )

    def announce(address: str) -> None:
        say(f"Portal running at {address}   (Ctrl-C to stop)")
        sys.stdout.flush()  # a program that started the portal waits for this line

    asyncio.run(run(home(), options, announce, histories, warn))


@command.command("token")
@click.option("--user", metavar="NAME", help="Create a token for this user.")
@click.option("--days", type=Count(1), default=90, show_default=True, help="Validity in days.")
@click.option("--no-expiry", is_flag=True, help="Create a token that never expires.")
@click.option("--note", default="", help="Note shown in the list of tokens.")
@click.option("--revoke", metavar="WHICH", help="Revoke the token of this name, or all tokens of this user.")
@json_option("Print the created, revoked or listed tokens as JSON.")
def token(user: str | None, days: int, no_expiry: bool, note: str, revoke: str | None, as_json: bool) -> None:
    """Create, list and revoke the tokens with which users log in to the portal.

    A new token is printed once and not stored. It gives its holder all rights of the user: treat it like a password.
    The user runs `tony login`, or enters the token on the portal's login page.
    """
    check_portal_packages()
    if user is not None and revoke is not None:
        raise click.UsageError("--user creates a token, --revoke revokes one: use only one of them")
    from tony.portal.access.login_credentials import TokenFile  # late: the portal's packages are optional

    tokens = TokenFile(home().portal)
    if revoke is not None:
        revoked = tokens.revoke(revoke)
        if not revoked:
            raise UserError(f"there is no token, and no user with a token, called {revoke!r}; see: tony portal token")
        if as_json:
            print_json([{"name": entry.name, "user": entry.user} for entry in revoked])
        else:
            say(f"Revoked: {', '.join(f'{entry.name} of {entry.user}' for entry in revoked)}")
    elif user is not None:
        text, entry = tokens.make(user, None if no_expiry else days * _DAY_SECONDS, note)
        if as_json:
            print_json({"token": text, "name": entry.name, "user": user, "until": entry.until})
        else:
            warn(f"token for {user}, shown only this once. Log in with: tony login")
            say(text)
    else:
        entries = tokens.list_entries()
        if as_json:
            print_json(
                [{"name": e.name, "user": e.user, "made": e.made, "until": e.until, "note": e.note} for e in entries]
            )
            return
        now = clock.wall()
        rows = [
            (
                entry.name,
                escape(entry.user),
                format_clock_time(entry.made),
                "-" if entry.until is None else "expired" if entry.until < now else format_clock_time(entry.until),
                escape(entry.note),
            )
            for entry in entries
        ]
        if rows:
            say_all(format_table([("NAME", "USER", "MADE", "UNTIL", "NOTE"), *rows], find_columns()))
        else:
            say("there are no tokens; create one: tony portal token --user NAME")
