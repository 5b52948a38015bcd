"""How somebody whose browser runs on another machine comes to a port of this one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from tony.jobs.whoami import user_name


def has_display(environment: Mapping[str, str]) -> bool:
    """Whether somebody probably sits in front of this machine's own screen."""
    screen = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return bool(screen) and not environment.get("SSH_CONNECTION", "").split()


def reached_by(place: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What to do on the machine where the browser is, if it probably is not this one; nothing otherwise.

    Args:
        place: `127.0.0.1:8888`.
    """
    login = environment.get("SSH_CONNECTION", "").split()
    if has_display(environment):
        return []
    port = place.rpartition(":")[2]
    # Through which port somebody has come here says through which one they can come again.
    through = f"-p {login[3]} " if len(login) == 4 and login[3] != "22" else ""
    return [f"from another machine: ssh -N -L {port}:{place} {through}{user_name()}@{socket.getfqdn()}"]
