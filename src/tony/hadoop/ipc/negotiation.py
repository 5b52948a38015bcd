"""The SASL negotiation and authentication, without I/O.

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
from collections.abc import Callable
from typing import TYPE_CHECKING

from tony.address import Address
from tony.hadoop.ipc.errors import IpcProtocolError, LoginError
from tony.hadoop.ipc.frames import build_context_frame, build_sasl_frame
from tony.hadoop.ipc.login_identity import LoginIdentity, LoginMethod, expand_principals
from tony.hadoop.remote_text import escape_line
from tony.hadoop.sasl.digest import DigestClient
from tony.hadoop.sasl.digest_layers import SaslExchangeError, SecurityLayer
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import RpcSasl, SaslAuth, SaslState

if TYPE_CHECKING:  # ctypes is loaded only where Kerberos is spoken
    from tony.hadoop.sasl.gssapi import GssapiClient

#: Steps of the longest conversation that makes sense; Kerberos needs four.
_MAX_STEPS = 12
#: What each method must be done with: nothing else is understood.
_MECHANISMS = {"TOKEN": "DIGEST-MD5", "KERBEROS": "GSSAPI", "SIMPLE": ""}


class Negotiation:
    """One login over one connection.

    `begin` returns the first message, `receive` takes one of the daemon's and returns the reply (b"" for none),
    until `done`. With Kerberos `receive` may ask the KDC and the DNS: call it in a thread.

    Attributes:
        done: whether the connection context comes next.
        layer: what wraps the traffic from then on; None where nothing does.
    """

    def __init__(
        self,
        login: LoginIdentity,
        address: Address,
        principals: Callable[[LoginIdentity, str], tuple[str, ...]] = expand_principals,
    ) -> None:
        self._login = login
        self._address = address
        self._principals = principals
        self._digest: DigestClient | None = None
        self._gssapi: GssapiClient | None = None
        self._steps = 0
        self._is_closed = False
        self._is_simple = login.method is LoginMethod.SIMPLE
        self.done = self._is_simple
        self.layer: SecurityLayer | None = None

    def begin(self) -> bytes:
        """Query what the daemon takes."""
        return build_sasl_frame(RpcSasl(state=SaslState.NEGOTIATE))

    def receive(self, message: RpcSasl) -> bytes:
        """Return the answer to a step of the daemon's.

        Raises:
            LoginError: no way that both sides have, or the other side is not who it must be.
            ProtocolError: out of turn.
        """
        self._steps += 1
        if self.done:
            raise IpcProtocolError(self._format_place("the daemon continues a login that is complete"))
        if self._steps > _MAX_STEPS:
            raise IpcProtocolError(
                self._format_place(f"the login is not complete after {_MAX_STEPS} messages of the daemon")
            )
        try:
            return self._build_next(message)
        except SaslExchangeError as error:
            raise LoginError(self._format_place(str(error))) from error

    def build_context(self, protocol: str) -> bytes:
        """Return the connection-context frame, with the user of the calls."""
        login = self._login
        if self._is_simple:
            user = login.user or _find_os_user()
            return build_context_frame(protocol, user, login.real_user if login.method is LoginMethod.SIMPLE else None)
        # A token or a ticket identifies the user, unless the client impersonates another.
        return build_context_frame(protocol, login.user if login.method is LoginMethod.KERBEROS else None)

    def close(self) -> None:
        """Return back what the Kerberos library holds; the layer is of no use after it."""
        self._is_closed = True
        if self._gssapi is not None:
            self._gssapi.close()

    @property
    def begun(self) -> bool:
        """Return True once credentials were sent."""
        return self._digest is not None or self._gssapi is not None

    def _build_next(self, message: RpcSasl) -> bytes:
        begun = self.begun
        if message.state is SaslState.NEGOTIATE and not begun:
            return self._initiate(message.auths)
        if message.state is SaslState.NEGOTIATE:
            raise LoginError(self._format_place("the daemon refused the authentication method that it had offered"))
        if message.state is SaslState.SUCCESS:
            self._finish(message.token, begun)
            return b""
        if message.state is SaslState.CHALLENGE and self._gssapi is not None and message.token is not None:
            reply = self._gssapi.step(message.token)
            return build_sasl_frame(RpcSasl(state=SaslState.RESPONSE, token=reply))
        raise IpcProtocolError(self._format_place(f"unexpected {message.state.name} from the daemon"))

    def _initiate(self, auths: tuple[SaslAuth, ...]) -> bytes:
        method = self._login.method.name
        for auth in auths:
            if auth.method == method and auth.mechanism == _MECHANISMS[method]:
                token = self._build_first_digest(auth) if method == "TOKEN" else self._build_first_gssapi(auth)
                return self._build_initiation(auth, token)
        simple = next((auth for auth in auths if auth.method == "SIMPLE"), None)
        if simple is not None and self._login.fallback_to_simple:
            self._is_simple = self.done = True
            return self._build_initiation(simple, None)
        raise LoginError(self._format_place(self._explain_no_method(auths)))

    @staticmethod
    def _build_initiation(auth: SaslAuth, token: bytes | None) -> bytes:
        return build_sasl_frame(RpcSasl(state=SaslState.INITIATE, token=token, auths=(replace(auth, challenge=None),)))

    def _build_first_digest(self, auth: SaslAuth) -> bytes:
        token = self._login.token
        if token is None:
            raise LoginError(self._format_place("login by token, but there is no token"))
        uri = f"{auth.protocol or ''}/{auth.server_id or ''}"
        self._digest = DigestClient(token.identifier, token.password, uri=uri, preferred=self._login.protections)
        return self._digest.answer(auth.challenge or b"")

    def _build_first_gssapi(self, auth: SaslAuth) -> bytes:
        service, host = auth.protocol or "", auth.server_id or ""
        if not (service and host and f"{service}{host}".isprintable() and len(service) + len(host) < 1000):
            raise LoginError(self._format_place("the daemon does not name its principal"))
        expected = self._principals(self._login, self._address.host)
        if not expected:
            raise LoginError(
                self._format_place(
                    "no principal of the daemon is set, so any principal could impersonate it. Set "
                    "yarn.resourcemanager.principal or dfs.namenode.kerberos.principal as the cluster does."
                )
            )
        from tony.hadoop.sasl.gssapi import GssapiClient, matches

        if not matches(f"{service}/{host}", expected):
            raise LoginError(
                self._format_place(
                    f"the daemon claims to be {escape_line(service)}/{escape_line(host)}, but "
                    f"{' or '.join(expected)} is expected. Check the principal in the settings."
                )
            )
        self._gssapi = GssapiClient(service, host, expected=expected, preferred=self._login.protections)
        if self._is_closed:  # while the DNS was asked
            self._gssapi.close()
        return self._gssapi.step(b"")

    def _finish(self, token: bytes | None, begun: bool) -> None:
        if not begun:
            if not self._login.fallback_to_simple:
                raise LoginError(
                    self._format_place(
                        f"the daemon requires no authentication, but {self._login.method.value} was to be used. "
                        "It may be the wrong daemon, or an impostor. If that is intended, set "
                        "ipc.client.fallback-to-simple-auth-allowed to true."
                    )
                )
            self._is_simple = True
        elif self._digest is not None:
            self._digest.confirm(token or b"")
            self.layer = self._digest.create_layer()
        elif self._gssapi is not None:
            if token or not self._gssapi.complete:
                raise LoginError(self._format_place("the daemon ended the login before it authenticated itself"))
            self.layer = self._gssapi.create_layer()
        self.done = True

    def _explain_no_method(self, auths: tuple[SaslAuth, ...]) -> str:
        method = self._login.method.name
        for auth in auths:
            if auth.method == method:
                return f"unsupported SASL mechanism {escape_line(auth.mechanism, 60)} for {method}"
        offered_names = ", ".join(escape_line(auth.method, 40) for auth in auths[:8]) or "nothing"
        advice = {
            "TOKEN": "Only a token that this daemon knows can be used",
            "KERBEROS": "Set hadoop.security.authentication to simple if the cluster is not secure",
            "SIMPLE": "Set hadoop.security.authentication to kerberos if the cluster is secure",
        }[method]
        return f"the daemon accepts {offered_names}, but the login method is {method}. {advice}."

    def _format_place(self, text: str) -> str:
        return f"cannot log in at {self._address}: {text}"


def _find_os_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container whose user id has no name
        return str(os.geteuid())
