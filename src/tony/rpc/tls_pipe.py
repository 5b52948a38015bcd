"""TLS over any pipe of bytes, small enough for 10,000 connections in one process.

asyncio's own TLS keeps 288 KB per connection in its buffers. Here the TLS engine reads and writes two memory buffers
that never hold more than one piece. Both sides show a certificate of the job's own authority and check the other's
*name in it*, which is its role (`tony-am`, `tony-executor`), not its host: containers run anywhere.

Import this module only where TLS is used: an executor on a Unix socket saves its memory.
"""

from __future__ import annotations

import hmac
import os
import ssl
from collections.abc import Iterator
from functools import lru_cache, partial

from tony.errors import ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.hello import AM_NAME, decode_token
from tony.protocol.launch import AmCredentials

#: Bytes given to the engine at a time. Its memory buffers grow to the largest piece and never shrink; a whole TLS
#: record (16 KiB) at a time would cost each connection three times as much, smaller pieces cost processor time.
PIECE = 4096


@lru_cache(maxsize=2)
def create_client_context(credentials: AmCredentials) -> ssl.SSLContext:
    """Return the context of the connecting side; made once (3 ms), reused at each reconnect.

    Raises:
        ValueError: credentials without certificates.
    """
    context = _create_context(credentials, ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([build_handshake_tag(credentials.token)])
    return context


def build_handshake_tag(token: str) -> str:
    """Return the application protocol that a peer that knows the token sends in the clear part of its first message.

    The listening side recognises the job's peers by it before it spends CPU time on cryptography. It proves nothing: it
    can be overheard and repeated. It reveals nothing of the token either.
    """
    return hmac.new(decode_token(token), b"tony TLS handshake", "sha256").hexdigest()


def create_server_context(credentials: AmCredentials) -> ssl.SSLContext:
    """Return the context of all connections of a listening side.

    Raises:
        ValueError: credentials without certificates.
    """
    context = _create_context(credentials, ssl.PROTOCOL_TLS_SERVER)
    # Peers never resume a session, and each ticket costs memory and a message.
    context.num_tickets = 0
    return context


def _create_context(credentials: AmCredentials, protocol: int) -> ssl.SSLContext:
    if credentials.ca is None or credentials.certificate is None or credentials.key is None:
        raise ValueError("these credentials have no certificates: the job was submitted without TLS")
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=credentials.ca)
    # Python's ssl reads keys from files only; this one is in memory and has no name.
    memory = os.memfd_create("pair")
    try:
        with open(memory, "w", encoding="ascii", closefd=False) as file:
            file.write(credentials.certificate + credentials.key)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context


class TlsPipe:
    """TLS of one connection: bytes in, bytes out, no socket."""

    __slots__ = ("_incoming", "_made", "_outgoing", "_secured", "_wrap")

    def __init__(self, context: ssl.SSLContext, *, listens: bool, partner: str = AM_NAME) -> None:
        """Args:
        listens: False for the connecting side.
        partner: the name that the listening side must prove before anything is sent to it. The listening side knows
            only after the hello which name to expect: see `is_peer`.
        """
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._wrap = partial(
            context.wrap_bio,
            self._incoming,
            self._outgoing,
            server_side=listens,
            server_hostname=None if listens else partner,
        )
        self._made: ssl.SSLObject | None = None
        self._secured = False

    @property
    def _engine(self) -> ssl.SSLObject:
        """The TLS engine, created late: a connection on which nothing arrives costs little."""
        if self._made is None:
            self._made = self._wrap()
        return self._made

    @property
    def secured(self) -> bool:
        """True if the handshake is done, with a certificate of this job's authority at the other end."""
        return self._secured

    def is_peer(self, name: str) -> bool:
        """Return True if the other side's certificate has that name."""
        certificate = self._engine.getpeercert() or {}
        return ("DNS", name) in certificate.get("subjectAltName", ())

    def start(self) -> bytes:
        """Begin the handshake; return what to send. The listening side has nothing to send yet."""
        if not self._wrap.keywords["server_side"]:
            self._advance_handshake()
        return self._outgoing.read()

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """Decrypt received bytes and yield the plain data. Send `outgoing()` after each item.

        Yields `b""` once when the handshake is done, and again at the end of the other side's data.

        Raises:
            ProtocolError: `tls`. `outgoing()` then holds the alert for the other side.
        """
        for start in range(0, len(data), PIECE):
            self._incoming.write(data[start : start + PIECE])
            if not self._secured:
                if not self._advance_handshake():
                    continue
                yield b""
            yield from self._read()

    def take_outgoing(self) -> bytes:
        """Return what to send now."""
        return self._outgoing.read()

    def write(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Encrypt; yield pieces to send."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._engine.write(view[start : start + PIECE])
            yield self._outgoing.read()

    def close(self) -> bytes:
        """End this side's data; return what to send."""
        try:
            self._engine.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it waits for the other side's alert, or there was no handshake: everything to send has been written
        return self._outgoing.read()

    def _advance_handshake(self) -> bool:
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise _convert_tls_error(error) from None
        self._secured = True
        return True

    def _read(self) -> Iterator[bytes]:
        # Read only while there is data: an engine without any raises an exception, which costs as much as a heartbeat.
        while self._incoming.pending or self._engine.pending():
            try:
                data = self._engine.read(4 * PIECE)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                raise _convert_tls_error(error) from None
            yield data
            if not data:
                return


def _convert_tls_error(error: ssl.SSLError) -> ProtocolError:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the other side's certificate is not one of this job: {error.verify_message}"
    else:
        text = f"the TLS handshake failed: {(error.reason or 'broken').lower().replace('_', ' ')}"
    return ProtocolError(Code.TLS, text)
