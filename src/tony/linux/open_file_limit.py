"""The limit of open files of a process; each connection is one."""

from __future__ import annotations

import resource


def allow_open_files(wanted: int) -> int:
    """Raise this process's limit to `wanted` open files, as far as permitted; return the resulting limit.

    Not beyond that, because children inherit it, and some programs loop over all possible descriptors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
