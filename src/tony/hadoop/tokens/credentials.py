"""Token files, as named by `HADOOP_TOKEN_FILE_LOCATION` and passed in a container's launch context.

    "HDTS", a version byte, and then
    version 0   number of tokens, each: text alias, blob identifier, blob password, text kind, text service;
                number of secrets, each: text alias, blob secret (see `writable`)
    version 1   one delimited protobuf

Java writes version 0 by default and reads both; Hadoop 2 reads only 0. So tony writes 0 and reads both.
"""

from __future__ import annotations

import os
import socket
from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tony.address import Address
from tony.hadoop.remote_text import escape_line
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.tokens.writable import MalformedWritableError, WritableReader, write_blob, write_number, write_text
from tony.hadoop.wire import rpc
from tony.hadoop.wire.proto import MalformedMessageError, decode, read_delimited

_MAGIC = b"HDTS"
_WRITABLE = 0
_PROTOBUF = 1
#: Maximum bytes of a token file. A token has some hundred bytes, and a user some ten tokens.
MAX_SIZE = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCredentials:
    """Tokens and secrets of a user or of an application.

    Attributes:
        tokens: by alias, which is the service for HDFS's and often empty for YARN's.
        secrets: by alias.
    """

    tokens: Mapping[str, HadoopToken] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def tokens_by_kind(self, kind: str) -> tuple[HadoopToken, ...]:
        """Return the tokens of one kind."""
        return tuple(token for token in self.tokens.values() if token.kind == kind)

    def to_reduced(self, *kinds: str) -> TokenCredentials:
        """Return the same without the tokens of some kinds: a task must not have its application master's."""
        left = {alias: token for alias, token in self.tokens.items() if token.kind not in kinds}
        return TokenCredentials(tokens=MappingProxyType(left), secrets=self.secrets)

    def to_extended(self, *tokens: HadoopToken) -> TokenCredentials:
        """Return the same with more tokens, each under its service as alias, as Java's localizer looks for it."""
        more = {**self.tokens, **{token.service: token for token in tokens}}
        return TokenCredentials(tokens=MappingProxyType(more), secrets=self.secrets)


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


def encode_token(token: HadoopToken) -> bytes:
    """Encode one token as in files of version 0 and URL strings."""
    return (
        write_blob(token.identifier) + write_blob(token.password) + write_text(token.kind) + write_text(token.service)
    )


def read_token(reader: WritableReader) -> HadoopToken:
    """Read one token of that form.

    Raises:
        MalformedWritableError: it is none.
    """
    return HadoopToken(
        identifier=reader.read_blob(), password=reader.read_blob(), kind=reader.read_text(), service=reader.read_text()
    )


def from_message(message: rpc.Token, *, service: str | None = None) -> HadoopToken:
    """Return a token out of a message; `service` if it is known better, for HDFS sends none."""
    return HadoopToken(
        identifier=message.identifier,
        password=message.password,
        kind=message.kind,
        service=message.service if service is None else service,
    )


def _from_writable(reader: WritableReader) -> TokenCredentials:
    tokens: dict[str, HadoopToken] = {}
    for _ in range(_read_count(reader)):
        alias = reader.read_text()
        tokens[alias] = read_token(reader)
    secrets: dict[str, bytes] = {}
    for _ in range(_read_count(reader)):
        alias = reader.read_text()
        secrets[alias] = reader.read_blob()
    return TokenCredentials(tokens=MappingProxyType(tokens), secrets=MappingProxyType(secrets))


def _read_count(reader: WritableReader) -> int:
    count = reader.read_number()
    if not 0 <= count <= reader.left:  # each entry takes a byte at the very least
        raise MalformedWritableError(f"{count} entries are announced, and {reader.left} bytes are left")
    return count


def _from_protobuf(data: bytes) -> TokenCredentials:
    try:
        message = decode(rpc.Credentials, read_delimited(data, 5)[0])
    except MalformedMessageError as error:
        raise MalformedWritableError(f"a damaged token file: {error}") from error
    tokens = {entry.alias: from_message(entry.token) for entry in message.tokens if entry.token is not None}
    secrets = {entry.alias: entry.secret for entry in message.secrets if entry.secret is not None}
    return TokenCredentials(tokens=MappingProxyType(tokens), secrets=MappingProxyType(secrets))


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


def select(credentials: TokenCredentials, kind: str, service: str | None = None) -> HadoopToken | None:
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
        return next((token for token in found if not token.service or service in _list_services(token)), None)
    return None


def _list_services(token: HadoopToken) -> tuple[str, ...]:
    return tuple(part.strip() for part in token.service.split(","))


def to_url_string(token: HadoopToken) -> str:
    """Return the text for WebHDFS's `delegation=` and for YARN's REST, as Java's `encodeToUrlString`."""
    encoded = b2a_base64(encode_token(token), newline=False).decode()
    return encoded.replace("+", "-").replace("/", "_").rstrip("=")
