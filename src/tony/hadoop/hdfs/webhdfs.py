"""Files in HDFS over HTTP, with the standard library: WebHDFS at the NameNodes, or HttpFS.

Metadata comes from a NameNode over a persistent connection; data goes to and comes from a DataNode that the NameNode
names. The client blocks and is thread-safe. With several NameNodes it finds the active one and follows it.

Writing is two steps: the NameNode names a DataNode, and the bytes go there. When `create` or `append` returns, the file
is closed, its length is known to the NameNode, and every reader sees every byte.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from tony.hadoop.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionLostError,
    FileMissingError,
    HadoopError,
    InvalidTokenError,
    IpcProtocolError,
    RetriableError,
    SafeModeError,
    StandbyError,
)
from tony.hadoop.hdfs.download_stream import Download
from tony.hadoop.hdfs.file_system import FileStatus, SpaceUsage
from tony.hadoop.hdfs.http import Content, HttpOptions, HttpPool, HttpResponse, measure_content, read_pieces
from tony.hadoop.hdfs.webhdfs_messages import (
    LoginSource,
    Place,
    WebLogin,
    build_refusal,
    check_path,
    parse_answer,
    parse_base_url,
    parse_file_status,
    parse_listing,
    parse_remaining,
    parse_usage,
    read_redirect,
    require_field,
)
from tony.retry import Backoff

_Result = TypeVar("_Result")
#: DataNodes to leave out; the class below has a method named `list`.
Hosts = list[str]

#: HttpFS sends a request that has no data to itself, WebHDFS to a DataNode; gateways add one more.
_MAX_REDIRECTS = 3
#: DataNodes tried for one file, if they refuse connections: the NameNode names a dead one for ten minutes.
_MAX_DATANODES = 4
#: Default of the maximum number of names in a folder.
MAX_NAMES = 100_000
#: Between two rounds through the NameNodes.
_BACKOFF = Backoff(first=0.1, most=2.0)
_REDIRECTS = (301, 302, 303, 307, 308)
#: NameNodes of a file system -> which of them answered last in this process: new clients ask it first.
_answered: dict[tuple[Place, ...], int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """How a WebHDFS client behaves.

    Attributes:
        http: time-outs of a connection.
        timeout: seconds to look for an active NameNode, of several, or to wait for one that asks to retry. A single
            NameNode that refuses connections is an error at once.
        hangs: seconds of silence after which another NameNode is tried, if there are several.
    """

    http: HttpOptions = field(default_factory=HttpOptions)
    timeout: float = 20.0
    hangs: float = 15.0


class WebHdfs:
    """A client of one file system.

    Args:
        namenodes: base URLs, `http://host:9870`, in any order; `https` where the cluster's policy says so; an HttpFS
            server, or a gateway with a path before `/webhdfs`, works too.
        login: identity, or a function that returns it.
        options: timeouts.
        known_as: name of the file system and where that comes from, for the error that no NameNode answers.

    Raises:
        ValueError: no NameNode, or no URL.
    """

    def __init__(
        self,
        namenodes: Sequence[str],
        login: WebLogin | LoginSource,
        options: WebOptions | None = None,
        *,
        known_as: str = "",
    ) -> None:
        if not namenodes:
            raise ValueError("WebHDFS needs the address of a NameNode")
        self._options = options or WebOptions()
        self._namenodes = tuple(parse_base_url(url) for url in namenodes)
        self._login = login if isinstance(login, WebLogin) else None
        self._login_source = (lambda _: login) if isinstance(login, WebLogin) else login
        self._known_as = known_as
        self._pool = HttpPool(self._options.http)
        self._active = _answered.get(self._namenodes, 0)
        self._timeout = min(self._options.http.timeout, self._options.hangs if len(namenodes) > 1 else math.inf)

    # Metadata

    def get_status(self, path: str) -> FileStatus:
        """Return the status of a file or folder.

        Raises:
            FileMissingError: there is none.
        """
        answer = self._request_metadata("GET", path, "GETFILESTATUS")
        return parse_file_status(require_field(answer, "FileStatus", path), path)

    def find(self, path: str) -> FileStatus | None:
        """Return the status of a file or folder, or None if it does not exist."""
        try:
            return self.get_status(path)
        except FileMissingError:
            return None

    def list(self, path: str, most: int = MAX_NAMES) -> tuple[FileStatus, ...]:
        """Return a folder's entries sorted by name; for a file its own entry, with an empty name.

        Raises:
            FileMissingError: there is none.
            IpcProtocolError: more than `most`.
        """
        found: list[FileStatus] = []
        after: dict[str, str] = {}
        more = True
        while more:
            part, more = parse_listing(self._request_metadata("GET", path, "LISTSTATUS_BATCH", after), path)
            found.extend(part)
            if len(found) > most:
                raise IpcProtocolError(f"{path}: more than {most} entries in one folder")
            if more and not part:
                raise IpcProtocolError(f"{path}: the NameNode announces more entries, but lists none")
            after = {"startAfter": found[-1].name} if found else {}
        return tuple(found)

    def make_directories(self, path: str, permission: int | None = None) -> None:
        """Create a folder and its parents; do nothing if it exists.

        Args:
            permission: mode bits of every new folder, before the server's umask; None for its default, 0o755.

        Raises:
            FileExistsAlreadyError: a file of that name exists.
        """
        bits = {} if permission is None else {"permission": f"{permission:o}"}
        if require_field(self._request_metadata("PUT", path, "MKDIRS", bits), "boolean", path) is not True:
            raise IpcProtocolError(f"{path}: the NameNode did not create the folder and gave no reason")

    def rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or folder atomically.

        Args:
            source: what to move.
            target: its new path; its parent must exist.
            overwrite: replace a file, or an empty folder, at the target.

        Raises:
            FileMissingError: the source, or the parent of the target, does not exist.
            FileExistsAlreadyError: the target exists.
        """
        options = {"renameoptions": "OVERWRITE" if overwrite else "NONE"}
        self._request_metadata("PUT", source, "RENAME", {"destination": check_path(target), **options}, repeat=False)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or folder; return True if it existed.

        Args:
            recursive: also remove a folder that is not empty.
        """
        answer = self._request_metadata("DELETE", path, "DELETE", {"recursive": str(recursive).lower()}, repeat=False)
        return require_field(answer, "boolean", path) is True

    def set_times(self, path: str, *, modified_ms: int | None = None, accessed_ms: int | None = None) -> None:
        """Set times, in milliseconds since 1970; None leaves one unchanged.

        Raises:
            FileMissingError: there is none.
        """
        times = {"modificationtime": modified_ms, "accesstime": accessed_ms}
        self._request_metadata(
            "PUT", path, "SETTIMES", {key: str(-1 if ms is None else ms) for key, ms in times.items()}
        )

    # Space

    def get_usage(self, path: str) -> SpaceUsage:
        """Return the usage and quotas of a folder.

        Raises:
            FileMissingError: there is none.
        """
        answer = require_field(self._request_metadata("GET", path, "GETQUOTAUSAGE"), "QuotaUsage", path)
        return parse_usage(answer, path)

    def get_remaining(self) -> int:
        """Return the bytes free on all DataNodes, all replicas counted. Older NameNodes do not report it."""
        return parse_remaining(require_field(self._request_metadata("GET", "/", "GETSTATUS"), "FsStatus", "/"), "/")

    # Content

    def create(
        self,
        path: str,
        content: Content,
        *,
        permission: int | None = None,
        overwrite: bool = False,
        on_piece: Callable[[], object] = lambda: None,
    ) -> None:
        """Write a file, creating its parent folders; on return it is complete and visible to all readers.

        Args:
            content: its bytes; those of a file are sent in pieces.
            permission: mode bits, before the server's umask; None for its default, 0o644.
            overwrite: replace an existing file.
            on_piece: called before each piece is sent; may raise an error, which ends that.

        Raises:
            FileExistsAlreadyError: the file exists, and `overwrite` is False.
            QuotaExceededError, NoSpaceError, SafeModeError: the file system is full, or takes no changes.
            ConnectionLostError, CallTimeoutError: the outcome is unknown; the file may exist, even in part.
        """
        bits = {} if permission is None else {"permission": f"{permission:o}"}
        self._send("PUT", path, "CREATE", {**bits, "overwrite": str(overwrite).lower()}, content, on_piece)

    def append(self, path: str, content: Content) -> None:
        """Append to a file; on return the bytes are visible to all readers.

        Raises:
            FileMissingError: there is none.
            BeingWrittenError: another writer has it open.
            ConnectionLostError, CallTimeoutError: it is unknown how much was written.
        """
        self._send("POST", path, "APPEND", {}, content)

    def open(self, path: str, offset: int = 0, length: int | None = None) -> Download:
        """Read a file, or a part of it, as a stream; nothing if the offset is past its end.

        Args:
            offset: of the first byte.
            length: maximum number of bytes; None for all.

        Raises:
            FileMissingError: there is none.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError("offset and length are not negative")
        return Download(lambda at, left, excluded: self._open(path, at, left, excluded), offset, length)

    def read(self, path: str, offset: int = 0, length: int | None = None, *, most: int = 64 * 2**20) -> bytes:
        """Return the content of a small file, or a part of it.

        Args:
            offset: of the first byte.
            length: maximum number of bytes; None for all.
            most: maximum number of bytes, so that a large file does not fill memory.

        Raises:
            FileMissingError: there is none.
            IpcProtocolError: more than `most` bytes.
        """
        with self.open(path, offset, length) as stream:
            parts = []
            left = most
            while part := stream.read(min(left + 1, 2**20)):
                left -= len(part)
                if left < 0:
                    raise IpcProtocolError(f"{path} is larger than {most} bytes; read it as a stream")
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """End idle connections; the client can still be used."""
        self._pool.close()

    def __enter__(self) -> WebHdfs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Requests

    def _request_metadata(
        self, method: str, path: str, operation: str, query: dict[str, str] | None = None, *, repeat: bool = True
    ) -> dict[str, Any]:
        """Ask the active NameNode something that it answers itself; HttpFS and gateways redirect first."""

        def ask(base: Place) -> dict[str, Any]:
            place = self._build_target(base, path, operation, query or {})
            answer = self._follow(method, place, f"{operation} {path}", self._timeout)
            return parse_answer(answer.read_body(), f"{base[0]} {operation} {path}")

        return self._retry_login(ask, repeat=repeat)

    def _send(
        self,
        method: str,
        path: str,
        operation: str,
        query: dict[str, str],
        content: Content,
        on_piece: Callable[[], object] = lambda: None,
    ) -> None:
        """Ask the active NameNode for a DataNode, and send it the bytes."""
        length = measure_content(content)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(length)}
        what = f"{operation} {path}"
        excluded: Hosts = []
        while True:
            place = self._ask_place(method, path, operation, query, excluded)
            if isinstance(place, HttpResponse):
                place.read_body()
                raise IpcProtocolError(f"{what}: the server names no DataNode to send the bytes to")
            try:
                body = read_pieces(content, length, on_piece)
                answer = self._request(method, place, what, body=body, headers=headers)
            except ConnectError:
                # Nothing was sent, so another DataNode may have it.
                if len(excluded) + 1 >= _MAX_DATANODES:
                    raise
                excluded.append(place[0].host)
                continue
            if not isinstance(answer, HttpResponse):
                raise IpcProtocolError(f"{place[0]} {what}: the DataNode redirects instead of taking the bytes")
            answer.read_body()
            return

    def _open(self, path: str, offset: int, length: int | None, excluded: Hosts) -> tuple[HttpResponse, str]:
        """Open a file at an offset: return the response that carries the bytes, and the DataNode's name.

        A DataNode that refuses connections is excluded, and the NameNode names another one.
        """
        query = {"offset": str(offset)} if length is None else {"offset": str(offset), "length": str(length)}
        while True:
            place = self._ask_place("GET", path, "OPEN", query, excluded)
            if isinstance(place, HttpResponse):
                return place, ""
            host = place[0].host
            try:
                return self._follow("GET", place, f"OPEN {path}"), host
            except ConnectError:
                if host in excluded or len(excluded) + 1 >= _MAX_DATANODES:
                    raise
                excluded.append(host)

    def _ask_place(
        self, method: str, path: str, operation: str, query: dict[str, str], excluded: Hosts
    ) -> Place | HttpResponse:
        """Return the URL to which the active NameNode redirects the request, or (HttpFS) the response itself."""
        every = {**query, "excludedatanodes": ",".join(excluded)} if excluded else query
        return self._retry_login(
            lambda base: self._request(
                method,
                self._build_target(base, path, operation, every),
                f"{operation} {path}",
                timeout=self._timeout,
            )
        )

    def _follow(self, method: str, place: Place, what: str, timeout: float | None = None) -> HttpResponse:
        """Send a request, and follow redirects to the response."""
        for _ in range(_MAX_REDIRECTS + 1):
            found = self._request(method, place, what, timeout=timeout)
            if isinstance(found, HttpResponse):
                return found
            place = found
        raise IpcProtocolError(f"{what}: more than {_MAX_REDIRECTS} redirects")

    def _request(
        self,
        method: str,
        place: Place,
        what: str,
        *,
        body: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpResponse | Place:
        """Send a request once; return its response, or where it is redirected to; raise the server's refusal."""
        origin, target = place
        answer = self._pool.request(method, origin, target, body=body, headers=headers, timeout=timeout)
        if answer.status in _REDIRECTS:
            return read_redirect(answer, origin, f"{origin} {what}")
        if answer.status >= 300:
            raise build_refusal(answer.status, answer.read_body(), f"{origin} {what}")
        return answer

    def _build_target(self, base: Place, path: str, operation: str, query: dict[str, str]) -> Place:
        origin, prefix = base
        if self._login is None:
            self._login = self._login_source(None)
        every = {"op": operation, **query, **self._login.build_query()}
        return origin, f"{prefix}/webhdfs/v1{quote(check_path(path))}?{urlencode(every)}"

    def _retry_login(self, ask: Callable[[Place], _Result], *, repeat: bool = True) -> _Result:
        """Ask the active NameNode. If it refuses the token, which has expired then, retry with another one, if any."""
        used = self._login
        try:
            return self._on_active(ask, repeat=repeat)
        except InvalidTokenError:
            refused = used or self._login
            another = self._login_source(refused)
            if another == refused:
                raise
            self._login = another
            return self._on_active(ask, repeat=repeat)

    def _on_active(self, ask: Callable[[Place], _Result], *, repeat: bool = True) -> _Result:
        """Send a request to the NameNode that was active last, then to the others in turn, until one accepts it.

        Args:
            repeat: a request that may have been carried out may be sent again.
        """
        deadline = time.monotonic() + self._options.timeout
        pauses = iter(_BACKOFF)
        last = self._active
        while True:
            for step in range(len(self._namenodes)):
                number = (last + step) % len(self._namenodes)
                try:
                    result = ask(self._namenodes[number])
                except HadoopError as error:
                    if not self._may_ask_on(error, repeat):
                        raise self._add_file_system_name(error) from error
                    failed = error
                else:
                    self._active = _answered[self._namenodes] = number
                    return result
            pause = next(pauses)
            if time.monotonic() + pause > deadline:
                raise self._add_file_system_name(failed) from failed
            time.sleep(pause)

    def _add_file_system_name(self, error: HadoopError) -> HadoopError:
        """Add the file system and the source of its address to the error of an unreachable NameNode."""
        if not self._known_as:
            return error
        text = (
            f"HDFS does not respond: {error}\n{self._known_as}. Wait until its NameNode runs, or correct the "
            "address (web interface: dfs.namenode.http-address)."
        )
        if isinstance(error, ConnectError):
            return ConnectError(text, error.failure)
        return CallTimeoutError(text) if isinstance(error, CallTimeoutError) else error

    def _may_ask_on(self, error: HadoopError, repeat: bool) -> bool:
        """Return True if another NameNode, or the same one later, may succeed."""
        if isinstance(error, SafeModeError):
            return False
        if isinstance(error, RetriableError):
            return True
        several = len(self._namenodes) > 1
        if isinstance(error, StandbyError | ConnectError):
            return several
        return several and repeat and isinstance(error, ConnectionLostError | CallTimeoutError)
