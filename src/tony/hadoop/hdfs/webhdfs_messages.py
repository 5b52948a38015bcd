"""The parts of WebHDFS's requests (address, path, identity) and its JSON responses, validated."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tony.control_characters import escape_line
from tony.hadoop.errors import (
    AccessControlError,
    HadoopError,
    IpcProtocolError,
    LoginError,
    NoSpaceError,
    build_remote_error,
)
from tony.hadoop.hdfs.file_system import FileKind, FileStatus, SpaceUsage
from tony.hadoop.hdfs.http import HttpOrigin, HttpResponse, split_url

#: A server, and the path with query there.
Place = tuple[HttpOrigin, str]

_MAX_LOCATION_CHARACTERS = 16 << 10
#: Start of a message about an exception while the NameNode determined the user.
_NO_USER = "Failed to obtain user group information:"
#: HDFS has no class of its own for these: a plain IOException, and its words.
_NO_SPACE = (
    "could only be written to 0 of",
    "could only be replicated to 0 nodes",
    "No space left on device",
    "Failed to find datanode",  # as WebHDFS says it before it takes any byte
)
_KINDS = {"FILE": FileKind.FILE, "DIRECTORY": FileKind.DIRECTORY, "SYMLINK": FileKind.SYMLINK}


def parse_base_url(url: str) -> Place:
    """Parse a NameNode's base URL into its origin and the path before `/webhdfs`."""
    try:
        origin, target = split_url(url)
    except ValueError as error:
        raise ValueError(f"{url!r:.200} {error}; write http://host:9870") from None
    prefix = target.rstrip("/").removesuffix("/webhdfs/v1")
    if "?" in prefix or "#" in url:
        raise ValueError(f"{url!r:.200} has a query; write http://host:9870")
    return origin, prefix


def read_redirect(answer: HttpResponse, before: HttpOrigin, where: str) -> Place:
    """Return where a response redirects to: http or https, and never from https to http, for a token may be in it."""
    location = answer.find_header("Location") or ""
    answer.read_body()
    try:
        if len(location) > _MAX_LOCATION_CHARACTERS:
            raise ValueError("is too long")
        origin, target = split_url(location)
    except ValueError as error:
        raise IpcProtocolError(f"{where}: the server redirects to an address that {error}") from None
    if before.scheme == "https" and origin.scheme != "https":
        raise IpcProtocolError(f"{where}: refusing a redirect from https to {origin}: it would expose the token")
    return origin, target


def check_path(path: str) -> str:
    """Return a path as HDFS takes it.

    Raises:
        ValueError: it is relative, or has parts that are none.
    """
    parts = path.split("/")
    if not path.startswith("/") or any(part in (".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"{path!r:.200} is not an absolute path in HDFS")
    return path if path == "/" else path.rstrip("/") or "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLogin:
    """The identity for requests.

    Attributes:
        user: the name, which a cluster without security does not verify; not sent with a token.
        token: a delegation token as URL-safe text, which identifies the user. Secret.
        act_for: another user to act for, if the cluster allows `user` to.
    """

    user: str = ""
    token: str = field(default="", repr=False)
    act_for: str = ""

    def build_query(self) -> dict[str, str]:
        """Return the parameters of every request."""
        who = {"delegation": self.token} if self.token else {"user.name": self.user} if self.user else {}
        return {**who, "doas": self.act_for} if self.act_for else who


#: Returns the login: called with None when it is first needed, and with the old login when its token was refused;
#: returns the same one if there is no other. May block.
LoginSource = Callable[[WebLogin | None], WebLogin]


def parse_answer(data: bytes, where: str) -> dict[str, Any]:
    """Return the object that an answer is; empty for an empty answer.

    Raises:
        IpcProtocolError: no JSON object.
    """
    if not data:
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise IpcProtocolError(
            f"{where}: response is not JSON: {escape_line(data[:200].decode('latin-1'))!r}"
        ) from error
    if not isinstance(value, dict):
        raise IpcProtocolError(f"{where}: the response is not a JSON object")
    return value


def require_field(value: dict[str, Any], key: str, where: str) -> Any:
    """Return a part of an answer that must be there.

    Raises:
        IpcProtocolError: it is not.
    """
    if key not in value:
        raise IpcProtocolError(f"{where}: the response has no {key!r}")
    return value[key]


def parse_file_status(value: Any, where: str) -> FileStatus:
    """Return a `FileStatus` as the NameNode writes it.

    Raises:
        IpcProtocolError: a field is missing, or is something else.
    """
    if not isinstance(value, dict):
        raise IpcProtocolError(f"{where}: the response has no valid file status")
    kind = _KINDS.get(str(value.get("type")))
    permission = str(value.get("permission", "0"))
    if kind is None or len(permission) > 6 or any(digit not in "01234567" for digit in permission):
        raise IpcProtocolError(f"{where}: the response has an unknown file type")
    return FileStatus(
        name=_require_text(value, "pathSuffix", where),
        kind=kind,
        length=_require_number(value, "length", where),
        modified_ms=_require_number(value, "modificationTime", where),
        accessed_ms=_require_number(value, "accessTime", where),
        owner=_require_text(value, "owner", where),
        group=_require_text(value, "group", where),
        permission=int(permission or "0", 8),
        encrypted=value.get("encBit") is True,
    )


def parse_listing(answer: dict[str, Any], where: str) -> tuple[list[FileStatus], bool]:
    """Return one part of a listing, and True if more follows.

    Raises:
        IpcProtocolError: not a listing.
    """
    listing = _require_mapping(require_field(answer, "DirectoryListing", where), where)
    partial = _require_mapping(require_field(listing, "partialListing", where), where)
    statuses = _require_mapping(require_field(partial, "FileStatuses", where), where)
    found = require_field(statuses, "FileStatus", where)
    if not isinstance(found, list):
        raise IpcProtocolError(f"{where}: the response has no valid list")
    return [parse_file_status(each, where) for each in found], _require_number(listing, "remainingEntries", where) > 0


def parse_usage(value: Any, where: str) -> SpaceUsage:
    """Return a `QuotaUsage`.

    Raises:
        IpcProtocolError: not one.
    """
    fields = _require_mapping(value, where)
    return SpaceUsage(
        names=_require_number(fields, "fileAndDirectoryCount", where),
        most_names=_limit(fields, "quota", where),
        space=_require_number(fields, "spaceConsumed", where),
        most_space=_limit(fields, "spaceQuota", where),
    )


def parse_remaining(value: Any, where: str) -> int:
    """Return bytes left, of an `FsStatus`.

    Raises:
        IpcProtocolError: not one.
    """
    return _require_number(_require_mapping(value, where), "remaining", where)


def build_refusal(status: int, data: bytes, where: str) -> HadoopError:
    """Return the error for an unsuccessful response."""
    try:
        fields = parse_answer(data, where).get("RemoteException")
    except IpcProtocolError:
        fields = None
    if isinstance(fields, dict) and (fields.get("javaClassName") or fields.get("exception")):
        name = str(fields.get("javaClassName") or fields["exception"])
        name, message = _unwrap_exception(name, str(fields.get("message") or ""))
        if any(words in message[:2000] for words in _NO_SPACE):
            return NoSpaceError(name, message, where=where)
        return build_remote_error(name, message, where=where)
    if status == 401:
        return LoginError(
            f"{where}: the server requires authentication (401). A secure cluster needs a delegation token here."
        )
    if status == 403:
        return AccessControlError("", escape_line(_strip_html(data)) or "forbidden (403)", where=where)
    return IpcProtocolError(f"{where}: HTTP status {status}: {escape_line(_strip_html(data), 200) or 'no message'}")


def _unwrap_exception(class_name: str, message: str) -> tuple[str, str]:
    """Return the exception in a SecurityException: over HTTP it wraps a refused token, and a standby NameNode."""
    if not message.startswith(_NO_USER):
        return class_name, message
    inner, _, text = message.removeprefix(_NO_USER).strip().partition(": ")
    if text.startswith("StandbyException") or inner.endswith("StandbyException"):
        return "org.apache.hadoop.ipc.StandbyException", text
    return inner, text


def _strip_html(data: bytes) -> str:
    """Return the text of an HTML error page."""
    text = data[:4000].decode("utf-8", "replace")
    words, is_in_tag = [], False
    for char in text:
        is_in_tag = char == "<" or (is_in_tag and char != ">")
        words.append(" " if is_in_tag or char == ">" else char)
    return "".join(words)


def _require_mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise IpcProtocolError(f"{where}: the response has no valid object")
    return value


def _require_text(value: dict[str, Any], key: str, where: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise IpcProtocolError(f"{where}: {key} of a file is not text")
    return found


def _require_number(value: dict[str, Any], key: str, where: str) -> int:
    found = value.get(key, 0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise IpcProtocolError(f"{where}: {key} is not a number")
    return found


def _limit(value: dict[str, Any], key: str, where: str) -> int | None:
    return None if value.get(key, -1) == -1 else _require_number(value, key, where)
