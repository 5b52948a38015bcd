"""The user and authentication method of a connection."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import Enum

from tony.hadoop.sasl.digest_layers import Protection
from tony.hadoop.tokens.token import HadoopToken


class LoginMethod(Enum):
    """The authentication method. The values in capitals are Hadoop's names on the wire."""

    #: The client names its user, unverified.
    SIMPLE = "simple"
    #: A token of the cluster's, proved with DIGEST-MD5.
    TOKEN = "token"
    #: A ticket, proved through GSSAPI.
    KERBEROS = "kerberos"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginIdentity:
    """The credentials of a connection; create one with `simple`, `with_token` or `kerberos`.

    Attributes:
        method: how the user is known.
        user: for SIMPLE: the name. For KERBEROS: the one to act for, None for oneself.
        real_user: for SIMPLE: the authenticated user, if not `user` (impersonation must be allowed by the cluster).
        token: for TOKEN.
        server_principal: for KERBEROS: expected principal, `rm/_HOST@EXAMPLE.COM` (`_HOST`: the host connected to).
        server_pattern: for KERBEROS: a glob of further accepted principals (`...principal.pattern`).
        protections: SASL protection levels in order of preference; empty: the daemon's first offer.
        fallback_to_simple: whether a daemon that wants no proof is believed
            (`ipc.client.fallback-to-simple-auth-allowed`).
    """

    method: LoginMethod
    user: str | None = None
    real_user: str | None = None
    token: HadoopToken | None = None
    server_principal: str | None = None
    server_pattern: str | None = None
    protections: tuple[Protection, ...] = ()
    fallback_to_simple: bool = False

    @staticmethod
    def from_user(user: str, real_user: str | None = None) -> LoginIdentity:
        """Return a login by user name, for clusters whose `hadoop.security.authentication` is simple."""
        return LoginIdentity(method=LoginMethod.SIMPLE, user=user, real_user=real_user)

    @staticmethod
    def with_token(
        token: HadoopToken,
        *,
        protections: tuple[Protection, ...] = (),
        fallback_to_simple: bool = False,
        user: str | None = None,
    ) -> LoginIdentity:
        """Return a login by token. The ResourceManager's scheduler and all NodeManagers require one on every cluster.

        Args:
            user: the name to give where `fallback_to_simple` comes true.
        """
        return LoginIdentity(
            method=LoginMethod.TOKEN,
            token=token,
            protections=protections,
            fallback_to_simple=fallback_to_simple,
            user=user,
        )

    @staticmethod
    def kerberos(
        server_principal: str | None = None,
        *,
        server_pattern: str | None = None,
        protections: tuple[Protection, ...] = (),
        fallback_to_simple: bool = False,
        user: str | None = None,
    ) -> LoginIdentity:
        """Return a Kerberos login: the ticket in the credential cache (KRB5CCNAME), or a keytab (KRB5_CLIENT_KTNAME).

        Args:
            server_principal: of the daemon, from the settings; or `server_pattern`. One of them is needed: without
                it any principal could impersonate the daemon.
            user: on whose behalf, if not one's own (impersonation must be allowed by the cluster).
        """
        return LoginIdentity(
            method=LoginMethod.KERBEROS,
            server_principal=server_principal,
            server_pattern=server_pattern,
            protections=protections,
            fallback_to_simple=fallback_to_simple,
            user=user,
        )


def expand_principals(login: LoginIdentity, host: str) -> tuple[str, ...]:
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
        return tuple(dict.fromkeys((host.lower(), _find_full_name(host))))
    try:
        return (socket.gethostbyaddr(host)[0].lower(),)
    except OSError:
        return (host,)


def _find_full_name(host: str) -> str:
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
