"""Whether this machine has a screen for a browser, and the ssh command for users of one that has none."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from tony.jobs.state_dir import get_user_name


def has_display(environment: Mapping[str, str]) -> bool:
    """Return True if a browser can probably be opened on this machine's own screen."""
    screen = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return bool(screen) and not environment.get("SSH_CONNECTION", "").split()


def format_ssh_hint(place: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the ssh command that forwards the port to the browser's machine; empty if this one has a display.

    Args:
        place: `127.0.0.1:8888`.
    """
    login = environment.get("SSH_CONNECTION", "").split()
    if has_display(environment):
        return []
    port = place.rpartition(":")[2]
    # The port of the present ssh connection is the one to connect to again.
    ssh_port = f"-p {login[3]} " if len(login) == 4 and login[3] != "22" else ""
    return [f"from another machine: ssh -N -L {port}:{place} {ssh_port}{get_user_name()}@{_host_name()}"]


def _host_name() -> str:
    """Return the name of this machine for other ones; some resolvers know the full name `localhost` only."""
    full = socket.getfqdn()
    return socket.gethostname() if full.startswith("localhost") else full
