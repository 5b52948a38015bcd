"""Room for the connections of all executors: each is an open file of the application master."""

from __future__ import annotations

import socket

from tony.errors import InfraError
from tony.frameworks.role_gangs import roles_together
from tony.linux.open_file_limit import allow_open_files
from tony.model.job_spec import JobSpec

#: What this program needs besides: log, sockets, modules being loaded; its scheduler may take more for its containers.
OWN = 40
#: Those who look on, and connections of executors that come back before the old ones are known to be dead.
_MORE = 200
#: Tunnels of one job at one time, at most, and what each of them takes: its client's connection and its executor's.
_TUNNELS, _OF_TUNNEL = 256, 2


def allow_connections(spec: JobSpec) -> None:
    """Raises our limit of open files to what the job takes.

    Raises:
        InfraError: it cannot be raised far enough for the tasks that must all be connected before any of them starts.
    """
    groups = [*roles_together(spec), {name: spec.effective_roles[name] for name in spec.setup_roles}]
    together = max(sum(role.instances for role in roles.values()) for roles in groups)
    needed = OWN + together
    limit = allow_open_files(OWN + len(spec.task_ids) + _MORE)
    if limit < needed:
        raise InfraError(
            f"{together} tasks start together, and each keeps a connection to the application master: that takes "
            f"{needed} open files, and a process on {socket.gethostname()} may have {limit} (RLIMIT_NOFILE, "
            "ulimit -Hn). Raise it, or ask for fewer tasks."
        )


def room_for_tunnels(tasks: int) -> int:
    """How many tunnels there may be at one time beside the connections of so many executors; raises our limit for them.

    Only once somebody wants one: our children inherit the limit.
    """
    others = OWN + tasks + _MORE
    limit = allow_open_files(others + _OF_TUNNEL * _TUNNELS)
    return min(max(limit - others, 0) // _OF_TUNNEL, _TUNNELS)
