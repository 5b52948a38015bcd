"""Free ports of the machine for daemons, outside the range from which the kernel gives ports to connections."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from pathlib import Path

from tony.errors import InfraError

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Below are ports of well-known services; above is Linux's default ephemeral range.
_LOWEST_PORT = 10240
_HIGHEST_PORT = 32767


def choose_ports(names: Iterable[str]) -> dict[str, int]:
    """Return a free port for each name.

    None is in the kernel's ephemeral range, so that a killed daemon finds its own port free again. Another process may
    take one before it is used: the caller has to be ready to choose again.

    Raises:
        InfraError: too few are free.
    """
    try:
        end = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):  # hidden in some containers
        end = 0
    if end < _LOWEST_PORT + 1000:
        end = _HIGHEST_PORT + 1
    candidates = list(range(_LOWEST_PORT, end))
    random.shuffle(candidates)
    free = (port for port in candidates if _is_free(port))
    try:
        return {name: next(free) for name in names}
    except StopIteration:
        raise InfraError(f"not enough free ports from {_LOWEST_PORT} to {end - 1} for a cluster") from None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
