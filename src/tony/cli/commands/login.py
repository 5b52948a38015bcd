"""`tony login`."""

from __future__ import annotations

import os
import sys

import click

from tony.cli.options import home, json_option
from tony.cli.output import print_json, say
from tony.cli.portal_option import portal_option
from tony.cli.terminal_text import is_terminal
from tony.dataclass import replace
from tony.errors import UserError
from tony.model.layout import Home

#: Names the portal in the environment.
VARIABLE = "TONY_PORTAL"


@click.command("login")
@portal_option
@click.option("--without-tls", is_flag=True, help="The token may travel so that whoever is on the way can read it.")
@click.option("--forget", is_flag=True, help="Log out: the token is not kept any longer.")
@json_option("Print who we are there as JSON.")
def command(portal: str | None, without_tls: bool, forget: bool, as_json: bool) -> None:
    """Log in to a portal with a token, and keep that for `--portal`.

    The portal's owner makes tokens: `tony portal token --user NAME`. It is asked for, or read from standard input.
    Without --portal it is the one that TONY_PORTAL names, or the one where you are logged in already.
    """
    from tony.jobs.portal_client import KeptToken, PortalClient, address_of, is_private, keep_token

    place = home()
    address = address_of(portal or _usual(place))
    if forget:
        keep_token(place, None, address)
        say(f"no token is kept for {address}", to=sys.stderr)
        return
    if not (is_private(address) or without_tls):
        raise UserError(
            f"{address} is not https: others could read your token on its way. "
            "If nobody listens there, say so: --without-tls"
        )
    made = KeptToken(portal=address, user="", token=_token(), without_tls=without_tls)
    there = PortalClient(address, made)
    try:
        me = there.me()
    finally:
        there.close()
    user = str(me.get("user", ""))
    keep_token(place, replace(made, user=user), address)
    if as_json:
        print_json({"portal": address, "user": user, "admin": bool(me.get("admin"))})
    else:
        say(f"logged in to {address} as {user}")


def _usual(place: Home) -> str:
    from tony.jobs.portal_client import kept_tokens

    named = os.environ.get(VARIABLE, "")
    known = [each.portal for each in kept_tokens(place)]
    if named or len(known) == 1:
        return named or known[0]
    raise UserError(f"which portal? Name it: tony login --portal URL, or set {VARIABLE}")


def _token() -> str:
    if is_terminal(sys.stdin):
        text = str(click.prompt("token", hide_input=True, err=True))
    else:
        text = sys.stdin.readline(1000)
    text = text.strip()
    if not text.isascii() or not text.isprintable() or not 1 <= len(text) <= 200:
        raise UserError("that is no token: one begins with tony_, and stands on one line.")
    return text
