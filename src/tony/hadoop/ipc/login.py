"""The login of a connection: the credentials, and the SASL negotiation, without I/O.

client  NEGOTIATE
server  NEGOTIATE with its methods (TOKEN already with its challenge), or SUCCESS if it requires no authentication
client  INITIATE with one of these, unchanged except for the challenge, and the first token
server  CHALLENGE, answered by the client's RESPONSE, as often as the mechanism needs
server  SUCCESS, with the last token for DIGEST-MD5
client  the connection context; everything from here on is wrapped if a protection was agreed on
"""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tony.address import Address
from tony.control_characters import escape_line
from tony.hadoop.errors import IpcProtocolError, LoginError
from tony.hadoop.ipc.frames import build_context_frame, build_sasl_frame
from tony.hadoop.sasl.digest import DigestClient
from tony.hadoop.sasl.digest_layers import Protection, SaslExchangeError, SecurityLayer
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import RpcSasl, SaslAuth, SaslState, Token

if TYPE_CHECKING:  # it loads ctypes, which only Kerberos needs
    from tony.hadoop.sasl.gssapi import GssapiClient

#: Steps of the longest conversation that makes sense; Kerberos needs four.
_MAX_STEPS = 12


class LoginMethod(Enum):
    """The authentication method by its name on the wire; the value is the SASL mechanism."""

    #: The client names its user, unverified.
    SIMPLE = ""
    #: A token of the cluster's, proved with DIGEST-MD5. Schedulers and NodeManagers require one on every cluster.
    TOKEN = "DIGEST-MD5"
    #: The ticket in the credential cache (KRB5CCNAME) or a keytab (KRB5_CLIENT_KTNAME), proved through GSSAPI.
    KERBEROS = "GSSAPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginIdentity:
    """The credentials of a connection: a token, the principal of the daemon (Kerberos), or only a user name (SIMPLE).

    Attributes:
        user: with SIMPLE, the user's name; with Kerberos, the user to impersonate, or None; with a token, the name for
            a daemon that requires no authentication (`fallback_to_simple`).
        real_user: for SIMPLE: the authenticated user, if not `user` (impersonation must be allowed by the cluster).
        token: identifies the user.
        server_principal: principal that the daemon must have, `rm/_HOST@EXAMPLE.COM` (`_HOST`: the host connected to).
        server_pattern: a glob of further accepted principals (`...principal.pattern`).
        protections: SASL protection levels in order of preference; empty: the daemon's first offer.
        fallback_to_simple: accept a daemon that requires no authentication
            (`ipc.client.fallback-to-simple-auth-allowed`).
    """

    user: str | None = None
    real_user: str | None = None
    token: Token | None = None
    server_principal: str | None = None
    server_pattern: str | None = None
    protections: tuple[Protection, ...] = ()
    fallback_to_simple: bool = False

    @property
    def method(self) -> LoginMethod:
        """The authentication method. Kerberos needs a principal: without one any daemon would be accepted."""
        if self.token is not None:
            return LoginMethod.TOKEN
        return LoginMethod.KERBEROS if self.server_principal or self.server_pattern else LoginMethod.SIMPLE


class Negotiation:
    """One login over one connection.

    `begin` returns the first message, `receive` takes one of the daemon's and returns the reply (b"" for none),
    until `done`. With Kerberos `receive` may ask the KDC and the DNS: call it in a thread.

    Attributes:
        done: whether the connection context comes next.
        layer: what wraps the traffic from then on; None where nothing does.
    """

    def __init__(self, login: LoginIdentity, address: Address) -> None:
        self._login = login
        self._address = address
        self._digest: DigestClient | None = None
        self._gssapi: GssapiClient | None = None
        self._steps = 0
        self._is_closed = False
        self._is_simple = self.done = login.method is LoginMethod.SIMPLE
        self.layer: SecurityLayer | None = None

    def begin(self) -> bytes:
        """Return the first message, which requests the daemon's authentication methods."""
        return build_sasl_frame(RpcSasl(state=SaslState.NEGOTIATE))

    def receive(self, message: RpcSasl) -> bytes:
        """Return the reply to a message of the daemon.

        Raises:
            LoginError: no common authentication method, or the daemon is not the expected one.
            IpcProtocolError: a message that is not expected at this point.
        """
        self._steps += 1
        try:
            if self.done:
                raise IpcProtocolError("the daemon continues a login that is complete")
            if self._steps > _MAX_STEPS:
                raise IpcProtocolError(f"the login is not complete after {_MAX_STEPS} messages of the daemon")
            return self._build_next(message)
        except IpcProtocolError as error:
            raise IpcProtocolError(f"cannot log in at {self._address}: {error}") from error
        except SaslExchangeError as error:
            raise LoginError(f"cannot log in at {self._address}: {error}") from error

    def build_context(self, protocol: str) -> bytes:
        """Return the connection-context frame, with the user of the calls."""
        login = self._login
        if self._is_simple:
            return build_context_frame(protocol, login.user or _find_os_user(), login.real_user)
        # A token or a ticket identifies the user, unless the client impersonates another.
        return build_context_frame(protocol, login.user if login.method is LoginMethod.KERBEROS else None)

    def close(self) -> None:
        """Release what the Kerberos library holds; the layer cannot be used afterwards."""
        self._is_closed = True
        if self._gssapi is not None:
            self._gssapi.close()

    @property
    def begun(self) -> bool:
        """Return True once credentials were sent."""
        return self._digest is not None or self._gssapi is not None

    def _build_next(self, message: RpcSasl) -> bytes:
        if message.state is SaslState.NEGOTIATE:
            if self.begun:
                raise SaslExchangeError("the daemon refused the authentication method that it had offered")
            return self._initiate(message.auths)
        if message.state is SaslState.SUCCESS:
            self._finish(message.token)
            return b""
        if message.state is SaslState.CHALLENGE and self._gssapi is not None and message.token is not None:
            reply = self._gssapi.step(message.token)
            return build_sasl_frame(RpcSasl(state=SaslState.RESPONSE, token=reply))
        raise IpcProtocolError(f"unexpected {message.state.name} from the daemon")

    def _initiate(self, auths: tuple[SaslAuth, ...]) -> bytes:
        method = self._login.method
        for auth in auths:
            if (auth.method, auth.mechanism) == (method.name, method.value):
                first = self._build_first_digest if method is LoginMethod.TOKEN else self._build_first_gssapi
                return self._build_initiation(auth, first(auth))
        simple = next((auth for auth in auths if auth.method == LoginMethod.SIMPLE.name), None)
        if simple is not None and self._login.fallback_to_simple:
            self._is_simple = self.done = True
            return self._build_initiation(simple, None)
        raise SaslExchangeError(_explain_no_method(method, auths))

    @staticmethod
    def _build_initiation(auth: SaslAuth, token: bytes | None) -> bytes:
        return build_sasl_frame(RpcSasl(state=SaslState.INITIATE, token=token, auths=(replace(auth, challenge=None),)))

    def _build_first_digest(self, auth: SaslAuth) -> bytes:
        token = self._login.token
        assert token is not None
        uri = f"{auth.protocol or ''}/{auth.server_id or ''}"
        self._digest = DigestClient(token.identifier, token.password, uri=uri, preferred=self._login.protections)
        return self._digest.answer(auth.challenge or b"")

    def _build_first_gssapi(self, auth: SaslAuth) -> bytes:
        service, host = auth.protocol or "", auth.server_id or ""
        if not (service and host and f"{service}{host}".isprintable() and len(service) + len(host) < 1000):
            raise SaslExchangeError("the daemon does not name its principal")
        from tony.hadoop.sasl.gssapi import GssapiClient, matches  # late: only secure clusters need it

        expected = self._list_principals()
        if not matches(f"{service}/{host}", expected):
            raise SaslExchangeError(
                f"the daemon claims to be {escape_line(service)}/{escape_line(host)}, but {' or '.join(expected)} "
                "is expected. Check the principal in the settings."
            )
        self._gssapi = GssapiClient(service, host, expected=expected, preferred=self._login.protections)
        if self._is_closed:  # while the DNS was asked
            self._gssapi.close()
        return self._gssapi.step(b"")

    def _list_principals(self) -> tuple[str, ...]:
        """Return globs of the principals that the daemon may have. May query the DNS."""
        found = []
        principal, host = self._login.server_principal, self._address.host
        if principal and "_HOST" in principal:
            found += [principal.replace("_HOST", name) for name in _find_names(host)]
        elif principal:
            found.append(principal)
        if self._login.server_pattern:
            found.append(self._login.server_pattern)
        return tuple(found)

    def _finish(self, token: bytes | None) -> None:
        if self._digest is not None:
            self._digest.confirm(token or b"")
            self.layer = self._digest.create_layer()
        elif self._gssapi is not None:
            if token or not self._gssapi.complete:
                raise SaslExchangeError("the daemon ended the login before it authenticated itself")
            self.layer = self._gssapi.create_layer()
        elif self._login.fallback_to_simple:
            self._is_simple = True
        else:
            raise SaslExchangeError(
                f"the daemon requires no authentication, but {self._login.method.name} was to be used. It may be the "
                "wrong daemon, or an impostor. If that is intended, set ipc.client.fallback-to-simple-auth-allowed to "
                "true."
            )
        self.done = True


def _explain_no_method(method: LoginMethod, auths: tuple[SaslAuth, ...]) -> str:
    for auth in auths:
        if auth.method == method.name:
            return f"unsupported SASL mechanism {escape_line(auth.mechanism, 60)} for {method.name}"
    offered_names = ", ".join(escape_line(auth.method, 40) for auth in auths[:8]) or "nothing"
    advice = (
        "Only a token that this daemon knows can be used"
        if method is LoginMethod.TOKEN
        else "Set hadoop.security.authentication to simple if the cluster is not secure"
    )
    return f"the daemon accepts {offered_names}, but the login method is {method.name}. {advice}."


def _find_names(host: str) -> tuple[str, ...]:
    """Return a host and its full name in the DNS, in small letters: principals are made with full names.

    Of a number only the name that the DNS has for it; the number itself if there is none.
    """
    try:
        if _is_number(host):
            return (socket.gethostbyaddr(host)[0].lower(),)
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except OSError:
        return (host.lower(),)
    return tuple(dict.fromkeys((host.lower(), (found[0][3] or host).lower())))


def _is_number(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


def _find_os_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container whose user id has no name
        return str(os.geteuid())
