"""How many files a process may have open at one time; a connection is one of them."""

from __future__ import annotations

import resource


def allow_open_files(wanted: int) -> int:
    """Raises this process's limit to `wanted` open files, as far as it may be raised; answers the limit then.

    Not beyond what is wanted, because children inherit it, and there are programs that walk over all numbers up to it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
