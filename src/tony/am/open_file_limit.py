"""The limit of open files: the connection of each executor is an open file of the AM."""

from __future__ import annotations

import socket

from tony.errors import InfraError
from tony.frameworks.ranks import roles_together
from tony.linux.resource_limits import allow_open_files
from tony.model.job_spec import JobSpec

#: Open files that the AM needs itself: log, sockets, modules being imported. Its scheduler may need more.
AM_OPEN_FILES = 40
#: For clients, and for executors that reconnect before their old connections are known to be dead.
_SPARE_CONNECTIONS = 200
#: Maximum number of tunnels of a job, and open files for each: its client's connection and its executor's.
_MAX_TUNNELS = 256
_FILES_PER_TUNNEL = 2


def allow_connections(spec: JobSpec) -> None:
    """Raise the limit of open files to what the job needs.

    Raises:
        InfraError: it cannot be raised enough for the tasks that must all be connected before any of them starts.
    """
    groups = [*roles_together(spec), {name: spec.effective_roles[name] for name in spec.setup_roles}]
    together = max(sum(role.instances for role in roles.values()) for roles in groups)
    needed = AM_OPEN_FILES + together
    limit = allow_open_files(AM_OPEN_FILES + len(spec.task_ids) + _SPARE_CONNECTIONS)
    if limit < needed:
        raise InfraError(
            f"{together} tasks start together, and each keeps a connection to the application master: that needs "
            f"{needed} open files, and a process on {socket.gethostname()} may open {limit} (RLIMIT_NOFILE, "
            "ulimit -Hn). Raise the limit, or request fewer tasks."
        )


def raise_tunnel_limit(tasks: int) -> int:
    """Return how many tunnels may be open besides the connections of `tasks` executors, raising the limit.

    Call it only when a tunnel is requested: child processes inherit the limit.
    """
    others = AM_OPEN_FILES + tasks + _SPARE_CONNECTIONS
    limit = allow_open_files(others + _FILES_PER_TUNNEL * _MAX_TUNNELS)
    return min(max(limit - others, 0) // _FILES_PER_TUNNEL, _MAX_TUNNELS)
