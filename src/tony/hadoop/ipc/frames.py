"""The bytes of IPC version 9: the connection header, ids of calls, frames, and the splitting of a stream into frames.

    connection  "hrpc" 09 00 <auth: 00 or df>, then frames
    frame       4 bytes of length, then delimited protobuf messages:
      call      RpcRequestHeader, RequestHeader, the request
      context   RpcRequestHeader (call id -3), IpcConnectionContext
      sasl      RpcRequestHeader (call id -33), RpcSasl
      ping      RpcRequestHeader (call id -4)
      answer    RpcResponseHeader, then the response if the status is SUCCESS

No I/O.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count

from tony.control_characters import escape_line
from tony.hadoop.errors import IpcProtocolError
from tony.hadoop.wire.proto import MalformedMessageError, decode, encode_delimited, read_delimited
from tony.hadoop.wire.rpc import (
    CONNECTION_CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    IpcConnectionContext,
    Method,
    Request,
    RequestHeader,
    Response,
    RpcKind,
    RpcOperation,
    RpcRequestHeader,
    RpcResponseHeader,
    RpcSasl,
    UserInformation,
)

#: Maximum bytes of a request (`ipc.maximum.data.length`) and a response (`ipc.maximum.response.length`); defaults.
MAX_FRAME = 128 << 20
#: Opens a connection without authentication, and one with it.
PREAMBLE_SIMPLE = b"hrpc\x09\x00\x00"
PREAMBLE_SASL = b"hrpc\x09\x00\xdf"
#: From here a buffer that has been read half is not worth moving.
_COMPACT = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CallId:
    """The id of one call; a retry has the same id, so that servers with a retry cache recognize it.

    Attributes:
        client_id: 16 random bytes of this process.
        number: not used twice in this process.
        retry_count: how often the call was sent before.
    """

    client_id: bytes
    number: int
    retry_count: int = 0

    @staticmethod
    def from_new() -> CallId:
        """Return an unused call id."""
        return CallId(client_id=create_client_id(), number=next(_numbers) & 0x7FFFFFFF)

    def to_retry(self) -> CallId:
        """Return the id for a retry of the call."""
        return CallId(client_id=self.client_id, number=self.number, retry_count=self.retry_count + 1)


_numbers = count()
_client: tuple[int, bytes] = (0, b"")


def create_client_id() -> bytes:
    """Return the 16-byte client id of this process; a forked child has its own."""
    global _client
    pid = os.getpid()
    if _client[0] != pid:
        _client = (pid, os.urandom(16))
    return _client[1]


def build_frame(*messages: bytes) -> bytes:
    """Return a frame of messages that are already delimited."""
    size = sum(map(len, messages))
    return b"".join((size.to_bytes(4, "big"), *messages))


def call_frame(method: Method[Request, Response], request: Request, call: CallId) -> bytes:
    """Return a call.

    Raises:
        IpcProtocolError: longer than a server takes.
    """
    header = RequestHeader(method_name=method.name, protocol=method.protocol, protocol_version=1)
    frame = build_frame(
        _build_header(call.number, call.client_id, call.retry_count),
        encode_delimited(header),
        encode_delimited(request),
    )
    if len(frame) - 4 > MAX_FRAME:
        raise IpcProtocolError(
            f"request {method.name} has {len(frame)} bytes; Hadoop's limit is {MAX_FRAME} (ipc.maximum.data.length)"
        )
    return frame


def build_context_frame(protocol: str, user: str | None = None, real_user: str | None = None) -> bytes:
    """Return the frame with the user of a connection's calls.

    Args:
        user: of the calls; None if the authentication determines it.
        real_user: the authenticated user, if it differs.
    """
    context = IpcConnectionContext(user=UserInformation(effective_user=user, real_user=real_user), protocol=protocol)
    return build_frame(_build_header(CONNECTION_CONTEXT_CALL_ID, create_client_id()), encode_delimited(context))


def build_sasl_frame(message: RpcSasl) -> bytes:
    """Return a step of the authentication, or wrapped traffic after it."""
    return build_frame(_build_header(SASL_CALL_ID, b""), encode_delimited(message))


def ping_frame() -> bytes:
    """Return a ping frame: it gets no response, but a dead connection shows when it cannot be delivered."""
    return build_frame(_build_header(PING_CALL_ID, create_client_id()))


def _build_header(number: int, client: bytes, retry_count: int = -1) -> bytes:
    return encode_delimited(
        RpcRequestHeader(
            rpc_kind=RpcKind.PROTOCOL_BUFFER,
            rpc_op=RpcOperation.FINAL_PACKET,
            call_id=number,
            client_id=client,
            retry_count=retry_count,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcResponse:
    """One frame from the server.

    Attributes:
        header: whose answer it is, and how the call ended.
        frame: all of the frame.
        offset: where the response begins in it.
    """

    header: RpcResponseHeader
    frame: bytes
    offset: int

    def decode_sasl(self) -> RpcSasl:
        """Return the step of the authentication that it carries."""
        return _read(RpcSasl, self.frame, self.offset)

    def decode_response(self, cls: type[Response]) -> Response:
        """Decode the response of a successful call."""
        return _read(cls, self.frame, self.offset)


def read_answer(frame: bytes) -> RpcResponse:
    """Read the header of a frame.

    Raises:
        IpcProtocolError: it has none.
    """
    try:
        data, offset = read_delimited(frame, 0)
        return RpcResponse(header=decode(RpcResponseHeader, data), frame=frame, offset=offset)
    except MalformedMessageError as error:
        raise IpcProtocolError(f"an answer that cannot be read: {error}") from error


def _read(cls: type[Response], frame: bytes, offset: int) -> Response:
    try:
        data, _ = read_delimited(frame, offset)
        return decode(cls, data)
    except MalformedMessageError as error:
        raise IpcProtocolError(f"an answer that cannot be read: {error}") from error


class FrameReader:
    """Splits a stream of bytes into frames.

    Args:
        limit: maximum bytes of a frame; a longer one does not come from Hadoop.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._start = 0

    @property
    def waits(self) -> bool:
        """Return True if part of a frame is buffered."""
        return len(self._buffer) > self._start

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete now.

        Raises:
            IpcProtocolError: a frame too long, or an answer in another language.
        """
        self._buffer += data
        frames: list[bytes] = []
        while True:
            rest = len(self._buffer) - self._start
            if rest < 4:
                break
            size = int.from_bytes(self._buffer[self._start : self._start + 4], "big")
            if size > self._limit or size == 0:
                raise IpcProtocolError(self._describe_bad_size(size))
            if rest < 4 + size:
                break
            begin = self._start + 4
            self._start = begin + size
            frames.append(bytes(memoryview(self._buffer)[begin : self._start]))
        if self._start == len(self._buffer) or self._start > _COMPACT:
            del self._buffer[: self._start]
            self._start = 0
        return frames

    def _describe_bad_size(self, size: int) -> str:
        begin = bytes(self._buffer[self._start : self._start + 80])
        if begin.startswith(b"HTTP/"):
            return "it speaks HTTP: this is a web port, not a Hadoop RPC port"
        if begin[:1] in (b"\x15", b"\x16") and begin[1:2] == b"\x03":
            return "it speaks TLS: this is not a Hadoop RPC port"
        if size and any(begin) and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in begin):
            return f"it is not a Hadoop daemon; it sent: {escape_line(begin.decode('ascii'))}"
        return f"it announces a response of {size} bytes; the limit is {self._limit} (ipc.maximum.response.length)"
