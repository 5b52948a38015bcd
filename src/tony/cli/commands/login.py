"""`tony login`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import click

from tony.cli.open_job import portal_option
from tony.cli.options import home, json_option
from tony.cli.terminal.output import print_json, say
from tony.cli.terminal.terminal_text import is_terminal
from tony.errors import UserError
from tony.jobs.portal_client.client import PortalClient
from tony.jobs.portal_client.known_portals import KeptToken, is_private, keep_token, load_tokens, normalize_address
from tony.model.state_directory import Home

#: Environment variable with the address of the portal.
VARIABLE = "TONY_PORTAL"


@click.command("login")
@portal_option
@click.option("--without-tls", is_flag=True, help="Allow sending the token over plain HTTP (insecure).")
@click.option("--forget", is_flag=True, help="Log out: delete the stored token.")
@json_option("Print the portal's user as JSON.")
def command(portal: str | None, without_tls: bool, forget: bool, as_json: bool) -> None:
    """Log in to a portal with a token, and store the token for `--portal`.

    The owner of the portal creates tokens with `tony portal token --user NAME`. The token is prompted for, or read from
    standard input. Without --portal, logs in to the one in TONY_PORTAL, or the one with a stored token.
    """
    place = home()
    address = normalize_address(portal or _find_default_portal(place))
    if forget:
        keep_token(place, None, address)
        say(f"Logged out of {address}: no token is stored.", to=sys.stderr)
        return
    if not (is_private(address) or without_tls):
        raise UserError(
            f"{address} is not https: the token could be read on the network. "
            "Use --without-tls if the network is trusted."
        )
    made = KeptToken(portal=address, user="", token=_read_token(), without_tls=without_tls)
    portal_client = PortalClient(address, made)
    try:
        me = portal_client.fetch_user()
    finally:
        portal_client.close()
    user = str(me.get("user", ""))
    keep_token(place, replace(made, user=user), address)
    if as_json:
        print_json({"portal": address, "user": user, "admin": bool(me.get("admin"))})
    else:
        say(f"Logged in to {address} as {user}")


def _find_default_portal(place: Home) -> str:
    named = os.environ.get(VARIABLE, "")
    known = [token.portal for token in load_tokens(place)]
    if named or len(known) == 1:
        return named or known[0]
    raise UserError(f"no portal given. Use --portal URL or set {VARIABLE}.")


def _read_token() -> str:
    if is_terminal(sys.stdin):
        text = str(click.prompt("token", hide_input=True, err=True))
    else:
        text = sys.stdin.readline(1000)
    text = text.strip()
    if not text.isascii() or not text.isprintable() or not 1 <= len(text) <= 200:
        raise UserError("this is not a token: a token is one line that begins with tony_")
    return text
