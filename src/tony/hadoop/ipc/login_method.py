"""The user and authentication method of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tony.hadoop.sasl.quality_of_protection import Protection
from tony.hadoop.tokens.token import HadoopToken


class LoginMethod(Enum):
    """The authentication method. The values in capitals are Hadoop's names on the wire."""

    #: We say who we are and are believed.
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
    def simple(user: str, real_user: str | None = None) -> LoginIdentity:
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
