"""Hadoop's tokens: what is in one, the files that they come in, and which one fits where.

A token file, as `HADOOP_TOKEN_FILE_LOCATION` names it and a container's launch context holds it, is "HDTS", a version
byte, and then

    version 0   number of tokens, each: text alias, blob identifier, blob password, text kind, text service;
                number of secrets, each: text alias, blob secret
    version 1   one delimited protobuf

Java writes version 0 by default and reads both; Hadoop 2 reads only 0. So tony writes 0 and reads both.

Numbers of version 0 are `Writable`s, not protobuf's varints: a first byte from -112 to 127 is the number itself. A
lower one gives the count of bytes that follow, big-endian: from -113 to -120 one to eight bytes of a number >= 0, from
-121 to -128 the same of a complemented negative number. Texts (UTF-8) and blobs follow their length in bytes.
"""

from __future__ import annotations

import os
import socket
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tony.address import Address
from tony.control_characters import escape_line
from tony.errors import InfraError
from tony.hadoop.wire.proto import MalformedMessageError, decode, read_delimited
from tony.hadoop.wire.rpc import Credentials, Token

#: Maximum bytes of a token file. A token has some hundred bytes, and a user some ten tokens.
MAX_SIZE = 16 << 20
_MAGIC = b"HDTS"
_WRITABLE = 0
_PROTOBUF = 1
#: The application master's, for the ResourceManager's scheduler.
AM_RM = "YARN_AM_RM_TOKEN"
#: The application master's, for one NodeManager.
NODE_MANAGER = "NMToken"
#: Inside a container that was granted; no login is made with it.
CONTAINER = "ContainerToken"
#: A user's, for the ResourceManager.
RM_DELEGATION = "RM_DELEGATION_TOKEN"
#: A user's, for HDFS.
HDFS_DELEGATION = "HDFS_DELEGATION_TOKEN"
#: A user's, for the application master.
CLIENT_TO_AM = "YARN_CLIENT_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredentials:
    """Tokens and secrets of a user or of an application.

    Attributes:
        tokens: by alias, which is the service for HDFS's and often empty for YARN's.
        secrets: by alias.
    """

    tokens: Mapping[str, Token] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def tokens_by_kind(self, kind: str) -> tuple[Token, ...]:
        """Return the tokens of one kind."""
        return tuple(token for token in self.tokens.values() if token.kind == kind)

    def to_reduced(self, *kinds: str) -> TokenCredentials:
        """Return the same without the tokens of some kinds: a task must not have its application master's."""
        left = {alias: token for alias, token in self.tokens.items() if token.kind not in kinds}
        return TokenCredentials(tokens=left, secrets=self.secrets)

    def to_extended(self, *tokens: Token) -> TokenCredentials:
        """Return the same with more tokens, each under its service as alias, as Java's localizer looks for it."""
        more = {**self.tokens, **{token.service: token for token in tokens}}
        return TokenCredentials(tokens=more, secrets=self.secrets)


def to_bytes(credentials: TokenCredentials) -> bytes:
    """Encode as version 0, which every Hadoop reads."""
    parts = [_MAGIC, bytes((_WRITABLE,)), write_number(len(credentials.tokens))]
    for alias, token in credentials.tokens.items():
        parts += [write_text(alias), encode_token(token)]
    parts.append(write_number(len(credentials.secrets)))
    for alias, secret in credentials.secrets.items():
        parts += [write_text(alias), write_blob(secret)]
    return b"".join(parts)


def from_bytes(data: bytes) -> TokenCredentials:
    """Read either version.

    Raises:
        MalformedWritableError: no token file, or a damaged one.
    """
    if len(data) > MAX_SIZE:
        raise MalformedWritableError(f"a token file of {len(data)} bytes; {MAX_SIZE} are the most that is read")
    if data[:4] != _MAGIC or len(data) < 5:
        raise MalformedWritableError("this is no token file: it does not begin with HDTS")
    if data[4] == _WRITABLE:
        return _from_writable(WritableReader(data, 5))
    if data[4] == _PROTOBUF:
        return _from_protobuf(data)
    raise MalformedWritableError(f"a token file of version {data[4]}; 0 and 1 are known")


def read_file(path: Path) -> TokenCredentials:
    """Read a token file.

    Raises:
        MalformedWritableError: no token file; names it.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_SIZE + 1)
    try:
        return from_bytes(data)
    except MalformedWritableError as error:
        raise MalformedWritableError(f"{escape_line(str(path))}: {error}") from error


def write_file(path: Path, credentials: TokenCredentials) -> None:
    """Write a token file that its owner alone may read; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(to_bytes(credentials))
        os.replace(temporary_path, path)
    except BaseException:
        temporary_path.unlink(missing_ok=True)
        raise


def encode_token(token: Token) -> bytes:
    """Encode one token as in files of version 0 and URL strings."""
    return b"".join(map(write_blob, (token.identifier, token.password, token.kind.encode(), token.service.encode())))


def read_token(reader: WritableReader) -> Token:
    """Read one token of that form.

    Raises:
        MalformedWritableError: it is none.
    """
    return Token(
        identifier=reader.read_blob(), password=reader.read_blob(), kind=reader.read_text(), service=reader.read_text()
    )


def _from_writable(reader: WritableReader) -> TokenCredentials:
    tokens: dict[str, Token] = {}
    for _ in range(_read_count(reader)):
        alias = reader.read_text()
        tokens[alias] = read_token(reader)
    secrets: dict[str, bytes] = {}
    for _ in range(_read_count(reader)):
        alias = reader.read_text()
        secrets[alias] = reader.read_blob()
    return TokenCredentials(tokens=tokens, secrets=secrets)


def _read_count(reader: WritableReader) -> int:
    count = reader.read_number()
    if not 0 <= count <= reader.left:  # each entry takes a byte at the very least
        raise MalformedWritableError(f"{count} entries are announced, and {reader.left} bytes are left")
    return count


def _from_protobuf(data: bytes) -> TokenCredentials:
    try:
        message = decode(Credentials, read_delimited(data, 5)[0])
    except MalformedMessageError as error:
        raise MalformedWritableError(f"a damaged token file: {error}") from error
    tokens = {entry.alias: entry.token for entry in message.tokens if entry.token is not None}
    secrets = {entry.alias: entry.secret for entry in message.secrets if entry.secret is not None}
    return TokenCredentials(tokens=tokens, secrets=secrets)


def read_hdfs_owner(token: Token) -> str:
    """Return the owner of an HDFS delegation token.

    Raises:
        MalformedWritableError: its identifier cannot be read.
    """
    reader = WritableReader(token.identifier)
    version = reader.take(1)[0]
    if version:
        raise MalformedWritableError(f"the identifier of an HDFS token has version {version}; 0 is known")
    return reader.read_text()


def find_service(address: Address, *, use_ip: bool = True) -> str:
    """Return the service of a token for one daemon. With `use_ip` it may ask the DNS, and so block.

    Args:
        use_ip: `hadoop.security.token.service.use_ip`.
    """
    host = address.host.lower()
    if use_ip:
        try:
            found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
            host = str(found[0][4][0])
        except OSError:
            pass  # Java, too, takes the name then
    return f"{host}:{address.port}"


def select(credentials: TokenCredentials, kind: str, service: str | None = None) -> Token | None:
    """Return the token of a kind for a service, as Java's selectors choose it.

    For ResourceManagers the service is one of the list in the token; for all others it is the token's, exactly; the
    application master's has none, and fits.

    Args:
        service: of the daemon; None where any will do.
    """
    found = credentials.tokens_by_kind(kind)
    if service is None:
        return found[0] if found else None
    exact = next((token for token in found if token.service == service), None)
    if exact is not None:
        return exact
    if kind in (AM_RM, RM_DELEGATION):
        return next((token for token in found if not token.service or service in token.service.split(",")), None)
    return None


def to_url_string(token: Token) -> str:
    """Return the text for WebHDFS's `delegation=` and for YARN's REST, as Java's `encodeToUrlString`."""
    return urlsafe_b64encode(encode_token(token)).decode().rstrip("=")


class MalformedWritableError(InfraError):
    """Bytes that are not what they claim to be."""


class WritableReader:
    """Reads from bytes, and never beyond them."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self.offset = offset

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self.offset

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes.

        Raises:
            MalformedWritableError: there are fewer.
        """
        if not 0 <= size <= self.left:
            raise MalformedWritableError(f"{size} bytes are announced at {self.offset}, and {self.left} are left")
        self.offset += size
        return self._data[self.offset - size : self.offset]

    def read_number(self) -> int:
        """Return a number of variable length."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        size = -112 - first if first >= -120 else -120 - first
        value = int.from_bytes(self.take(size), "big")
        if value >> 63:
            raise MalformedWritableError(f"a number at {self.offset - size} that is longer than 64 bits")
        return value if first >= -120 else ~value

    def read_blob(self) -> bytes:
        """Return bytes behind their length."""
        return self.take(self.read_number())

    def read_text(self) -> str:
        """Read a string."""
        data = self.read_blob()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MalformedWritableError(f"a text before {self.offset} that is not UTF-8") from None


def write_number(value: int) -> bytes:
    """Return a number of variable length.

    Raises:
        ValueError: more than 64 bits.
    """
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit 64 bits")
    positive = value if value >= 0 else ~value
    body = positive.to_bytes((positive.bit_length() + 7) // 8, "big")
    first = (-112 if value >= 0 else -120) - len(body)
    return first.to_bytes(1, "big", signed=True) + body


def write_blob(data: bytes) -> bytes:
    """Return bytes behind their length."""
    return write_number(len(data)) + data


def write_text(value: str) -> bytes:
    """Return a text behind its length."""
    return write_blob(value.encode())
