"""Ports for daemons that keep them over restarts."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from pathlib import Path

from tony.errors import InfraError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Below, ports belong to well-known services; above are none of automatic assignment unless the system says otherwise.
_LOWEST, _HIGHEST = 10240, 32767


def choose(names: Iterable[str]) -> dict[str, int]:
    """A free port for each name.

    None of them is one that the kernel assigns by itself, so that a daemon which was killed finds its own free again.
    Between choosing and starting somebody may take one: whoever starts has to be ready to choose again.

    Raises:
        InfraError: too few are free.
    """
    candidates = list(range(_LOWEST, _first_automatic()))
    random.shuffle(candidates)
    free = (port for port in candidates if _is_free(port))
    try:
        return {name: next(free) for name in names}
    except StopIteration:
        raise InfraError(f"too few ports from {_LOWEST} to {_first_automatic() - 1} are free for a cluster") from None


def _first_automatic() -> int:
    try:
        first = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _HIGHEST + 1
    return first if first > _LOWEST + 1000 else _HIGHEST + 1


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
