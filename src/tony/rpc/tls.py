"""TLS over any pipe of bytes, small enough for 10,000 connections in one process.

asyncio's own TLS keeps 288 KB per connection in its buffers. Here the TLS engine reads and writes two memory buffers
that never hold more than one piece. Both sides show a certificate of the job's own authority and check the other's
*name in it*, which says what it is (`tony-am`, `tony-executor`), not where: containers run on any host.

This module is imported only once TLS is used: an executor on a Unix socket does without its memory.
"""

from __future__ import annotations

import hmac
import os
import ssl
from collections.abc import Iterator
from functools import lru_cache, partial

from tony.errors import ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.hello import AM_NAME, token_bytes
from tony.protocol.launch import AmCredentials

#: Bytes given to the engine at a time. Its memory buffers grow to the largest piece and never shrink; a whole TLS
#: record (16 KiB) at a time would cost each connection three times as much, smaller pieces cost processor time.
PIECE = 4096


@lru_cache(maxsize=2)
def client_context(credentials: AmCredentials) -> ssl.SSLContext:
    """What whoever connects needs; made once (3 ms), used again at each reconnect.

    Raises:
        ValueError: credentials without certificates.
    """
    context = _context(credentials, ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([handshake_tag(credentials.token)])
    return context


def handshake_tag(token: str) -> str:
    """Return what a peer that knows the token says in the clear part of its first message, as an application protocol.

    The side that listens can recognize the job's peers by it before it spends any cryptography on them. It proves
    nothing: it can be overheard and repeated. It tells nothing of the token either.
    """
    return hmac.new(token_bytes(token), b"tony TLS handshake", "sha256").hexdigest()


def server_context(credentials: AmCredentials) -> ssl.SSLContext:
    """What every connection of one who listens shares.

    Raises:
        ValueError: credentials without certificates.
    """
    context = _context(credentials, ssl.PROTOCOL_TLS_SERVER)
    # Tickets would let a peer resume; ours never does, and each costs memory and a message.
    context.num_tickets = 0
    return context


def _context(credentials: AmCredentials, protocol: int) -> ssl.SSLContext:
    if credentials.ca is None or credentials.certificate is None or credentials.key is None:
        raise ValueError("these credentials have no certificates: the job was submitted without TLS")
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=credentials.ca)
    # OpenSSL's Python door reads keys from files only; this one never touches a disk and has no name.
    memory = os.memfd_create("pair")
    try:
        with open(memory, "w", encoding="ascii", closefd=False) as file:
            file.write(credentials.certificate + credentials.key)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context


class TlsPipe:
    """One connection's TLS: bytes in, bytes out, no socket."""

    __slots__ = ("_incoming", "_made", "_outgoing", "_secured", "_wrap")

    def __init__(self, context: ssl.SSLContext, *, listens: bool, partner: str = AM_NAME) -> None:
        """Makes one end.

        Args:
            listens: False for the end that connects.
            partner: the name that the one who is connected to must prove, before anything is said to it. The end that
                listens knows only after the hello which name to ask for: see `peer_is`.
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
        """Made late: a connection on which nothing arrives costs little."""
        if self._made is None:
            self._made = self._wrap()
        return self._made

    @property
    def secured(self) -> bool:
        """Whether the handshake is done, with a certificate of this job's authority at the other end."""
        return self._secured

    def peer_is(self, name: str) -> bool:
        """Whether the other side's certificate carries a name."""
        certificate = self._engine.getpeercert() or {}
        return ("DNS", name) in certificate.get("subjectAltName", ())

    def start(self) -> bytes:
        """Begins the handshake; answers what to send. The end that listens has nothing to send yet."""
        if not self._wrap.keywords["server_side"]:
            self._handshake()
        return self._outgoing.read()

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """Takes what came; yields what it means, as it gets it. Send `outgoing()` whenever it pauses.

        Yields `b""` once, when the handshake is done, and again when the other side says that it is at the end.

        Raises:
            ProtocolError: `tls`. What is in `outgoing()` then tells the other side.
        """
        for start in range(0, len(data), PIECE):
            self._incoming.write(data[start : start + PIECE])
            if not self._secured:
                if not self._handshake():
                    continue
                yield b""
            yield from self._read()

    def outgoing(self) -> bytes:
        """What to send now, from handshake or engine."""
        return self._outgoing.read()

    def write(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Encrypts; yields pieces to send."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._engine.write(view[start : start + PIECE])
            yield self._outgoing.read()

    def close(self) -> bytes:
        """Says that this side is at the end; answers what to send."""
        try:
            self._engine.unwrap()
        except (ssl.SSLError, ValueError):
            pass  # it waits for the other side's word, or there never was a handshake: what must go out is out
        return self._outgoing.read()

    def _handshake(self) -> bool:
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise _tls_error(error) from None
        self._secured = True
        return True

    def _read(self) -> Iterator[bytes]:
        # Asked only as long as there is something: an engine that has nothing says so with an exception, which costs
        # as much as a heartbeat.
        while self._incoming.pending or self._engine.pending():
            try:
                data = self._engine.read(4 * PIECE)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                raise _tls_error(error) from None
            yield data
            if not data:
                return


def _tls_error(error: ssl.SSLError) -> ProtocolError:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the other side's certificate is not one of this job: {error.verify_message}"
    else:
        text = f"no TLS of this job: {(error.reason or 'broken').lower().replace('_', ' ')}"
    return ProtocolError(Code.TLS, text)
