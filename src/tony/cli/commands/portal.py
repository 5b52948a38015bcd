"""`tony portal`."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from tony import clock
from tony.cli.help import CommandGroup, FittingContext
from tony.cli.options import Count, home, json_option
from tony.cli.output import print_json, say, say_all, warn
from tony.cli.terminal_text import clock_time, columns_of, safe, table
from tony.errors import UserError

#: What pages are made with; they come with the extra `web`.
_NEEDED = ("starlette", "jinja2", "uvicorn")
_DAY = 86400.0


@click.group("portal", cls=CommandGroup, invoke_without_command=True)
@click.option("--port", type=Count(0, 65535), default=0, help="Port [default: any free port].")
@click.option(
    "--history",
    "histories",
    metavar="LOCATION",
    multiple=True,
    help="Where jobs are: a folder, hdfs://..., s3://...; several times for several. Your own, if nothing is said.",
)
@click.option("--address", default="127.0.0.1", help="Listen there, not on this machine alone. Needs one of the next.")
@click.option("--certificate", type=click.Path(path_type=Path), help="Speak https: a PEM file.")
@click.option("--private-key", type=click.Path(path_type=Path), help="The certificate's key, a PEM file.")
@click.option("--trust-proxy", "trusted", metavar="ADDRESS", multiple=True, help="A proxy that speaks https.")
@click.option("--without-tls", is_flag=True, help="Allow tokens over plain HTTP (insecure).")
@click.option("--user-header", metavar="NAME", default="", help="In which header a trusted proxy says who somebody is.")
@click.option(
    "--origin", "origins", metavar="URL", multiple=True, help="How browsers call it: https://jobs.example.org."
)
@click.option("--proxy-user", "proxy_users", metavar="USER", multiple=True, help="As whom a proxy here runs.")
@click.option("--name", "names", metavar="HOST", multiple=True, help="Another name of this machine.")
@click.option("--admin", "admins", metavar="WHO", multiple=True, help="A user or @group who may see and change all.")
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

    Prints its address, and serves until Ctrl-C. Your own connections on this machine need no login; all others need a
    token, or a proxy that knows them.
    """
    if ctx.invoked_subcommand is not None:
        return
    _check_packages()
    from tony.portal.listen_options import ListenOptions
    from tony.portal.server import run

    entrance = ListenOptions(
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
        say(f"jobs are shown at {address}   (Ctrl-C ends it)")
        sys.stdout.flush()  # whoever started it from a program waits for this line

    asyncio.run(run(home(), entrance, announce, histories, warn))


@command.command("token")
@click.option("--user", metavar="NAME", help="Make one for this user.")
@click.option("--days", type=Count(1), default=90, show_default=True, help="For how long.")
@click.option("--for-ever", is_flag=True, help="Without an end.")
@click.option("--note", default="", help="What it is for.")
@click.option("--revoke", metavar="WHICH", help="Take back the token of this name, or all of a user.")
@json_option("Print what was made, taken back, or is there as JSON.")
def token(user: str | None, days: int, for_ever: bool, note: str, revoke: str | None, as_json: bool) -> None:
    """Make a token by which a user of the portal logs in; list them, or take them back.

    It is printed once, and kept nowhere. Whoever has it is that user: hand it over as you would a password. Its user
    runs `tony login`, or writes it into the portal's page.
    """
    _check_packages()
    if user is not None and revoke is not None:
        raise click.UsageError("--user makes a token, --revoke takes one back: say one of them.")
    from tony.portal.tokens import TokenFile

    tokens = TokenFile(home().portal)
    if revoke is not None:
        gone = tokens.revoke(revoke)
        if not gone:
            raise UserError(f"there is no token, and no user with one, called {revoke!r}; see: tony portal token")
        if as_json:
            print_json([{"name": entry.name, "user": entry.user} for entry in gone])
        else:
            say(f"taken back: {', '.join(f'{entry.name} of {entry.user}' for entry in gone)}")
    elif user is not None:
        text, entry = tokens.make(user, None if for_ever else days * _DAY, note)
        if as_json:
            print_json({"token": text, "name": entry.name, "user": user, "until": entry.until})
        else:
            warn(f"a token for {user}; it is shown this once. Log in with it: tony login")
            say(text)
    else:
        entries = tokens.entries()
        if as_json:
            print_json(
                [{"name": e.name, "user": e.user, "made": e.made, "until": e.until, "note": e.note} for e in entries]
            )
            return
        now = clock.wall()
        rows = [
            (
                entry.name,
                safe(entry.user),
                clock_time(entry.made),
                "-" if entry.until is None else "over" if entry.until < now else clock_time(entry.until),
                safe(entry.note),
            )
            for entry in entries
        ]
        if rows:
            say_all(table([("NAME", "USER", "MADE", "UNTIL", "NOTE"), *rows], columns_of()))
        else:
            say("there are no tokens; make one: tony portal token --user NAME")


token.context_class = FittingContext


def _check_packages() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"pages need {', '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed: "
            "run `pip install 'tony-jobs[web]'`."
        )
