"""The Kerberos principals that the settings allow for a daemon."""

from __future__ import annotations

import socket

from tony.hadoop.ipc.login_method import LoginIdentity


def expected_principals(login: LoginIdentity, host: str) -> tuple[str, ...]:
    """Return globs of the principals that the settings allow for a daemon on this host. May query the DNS.

    Args:
        host: host of the daemon; it and its full name replace `_HOST`.
    """
    found: list[str] = []
    if login.server_principal:
        hosts = _names(host) if "_HOST" in login.server_principal else (host,)
        found += [login.server_principal.replace("_HOST", each) for each in hosts]
    if login.server_pattern:
        found.append(login.server_pattern)
    return tuple(dict.fromkeys(found))


def _names(host: str) -> tuple[str, ...]:
    """Return the host as the settings name it, and its full name: principals are made with full names."""
    if not _is_number(host):
        return tuple(dict.fromkeys((host.lower(), _full_name(host))))
    try:
        return (socket.gethostbyaddr(host)[0].lower(),)
    except OSError:
        return (host,)


def _full_name(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except OSError:
        return host.lower()
    return (found[0][3] or host).lower()


def _is_number(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
