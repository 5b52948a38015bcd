"""A fake NameNode and DataNode that speak WebHDFS, with a file system in memory and fault injection.

    with FakeWebHdfs() as cluster:
        client = WebHdfs([cluster.url], WebLogin(user="alice"))
        cluster.fail_next("APPEND", Trouble.HANG_UP_AFTER_HALF)

The responses were recorded from HDFS 3.4.2.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tests.support.http_servers import LocalServer, QuietHandler

_ROOT = "/webhdfs/v1"
#: Entries of a partial listing; few, so that listings have several parts.
_PAGE = 3


class Trouble(Enum):
    """A fault of a request."""

    #: The NameNode is the standby one of a pair.
    STANDBY = "org.apache.hadoop.ipc.StandbyException: Operation category READ is not supported in state standby"
    SAFE_MODE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode."
    RETRIABLE = "org.apache.hadoop.ipc.RetriableException: NameNode still not started"
    QUOTA = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota of /q is exceeded"
    NO_SPACE = "java.io.IOException: File /f could only be written to 0 of the 1 minReplication nodes."
    BEING_WRITTEN = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException: owned by another client"
    #: The token has expired; over HTTP the exception differs.
    NO_TOKEN = (
        "java.lang.SecurityException: Failed to obtain user group information: org.apache.hadoop.security.token."
        "SecretManager$InvalidToken: token can't be found in cache"
    )
    FORBIDDEN = "org.apache.hadoop.security.AccessControlException: Permission denied"
    #: The DataNode closes the connection: before it reads any data, after it wrote half, after it wrote all.
    HANG_UP = "hang up"
    HANG_UP_AFTER_HALF = "hang up after half"
    HANG_UP_AFTER_ALL = "hang up after all"
    #: The NameNode redirects to a DataNode that does not listen.
    DEAD_DATANODE = "dead datanode"
    #: The NameNode redirects in a loop, or to a forbidden address.
    REDIRECT_FOREVER = "redirect forever"
    REDIRECT_ELSEWHERE = "redirect elsewhere"
    #: A response that is not WebHDFS.
    NONSENSE = "nonsense"
    NOT_FOUND_PAGE = "not found page"


@dataclass(slots=True, kw_only=True)
class FakeFile:
    """A file or directory in memory.

    Attributes:
        content: of a file; None for a directory.
        permission: mode bits.
        modified_ms: milliseconds since the epoch.
        accessed_ms: likewise.
        owner: user that created it.
        most_names: name quota of a directory, reported but not enforced; -1 for none.
        most_space: likewise, in bytes.
    """

    content: bytes | None = None
    permission: int = 0o755
    modified_ms: int = 1_700_000_000_123
    accessed_ms: int = 0
    owner: str = ""
    most_names: int = -1
    most_space: int = -1


class FakeWebHdfs:
    """A NameNode and a DataNode at one port.

    Attributes:
        files: path -> file or directory; tests may change it.
        requests: operation and path of every request to the NameNode.
        connections: number of connections accepted.
    """

    def __init__(self, files: dict[str, FakeFile] | None = None, *, certificate: Path | None = None) -> None:
        """Listen on loopback; with `certificate`, a PEM file of key and certificate, by https."""
        self.files: dict[str, FakeFile] = {"/": FakeFile()} if files is None else files
        self.requests: list[tuple[str, str]] = []
        self.queries: list[dict[str, str]] = []
        self.connections = 0
        self._troubles: dict[str, deque[Trouble]] = {}
        self._before: dict[str, Callable[[str], object]] = {}
        self.lock = threading.RLock()
        self._server = _Server(_Handler)
        self._server.cluster = self
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, True, do_handshake_on_connect=False)
            self._scheme = "https"

    @property
    def port(self) -> int:
        """The port of both daemons."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """The URL of the NameNode."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def fail_next(self, operation: str, *troubles: Trouble) -> None:
        """Inject faults into the next requests of an operation, one each."""
        with self.lock:
            self._troubles.setdefault(operation, deque()).extend(troubles)

    def troubles_over(self) -> None:
        """Remove the pending faults."""
        with self.lock:
            self._troubles.clear()

    def before(self, operation: str, act: Callable[[str], object]) -> None:
        """Call `act` with the path just before each request of an operation takes effect, as another client."""
        self._before[operation] = act

    def interrupt(self, operation: str, path: str) -> None:
        """Call the function set by `before`."""
        if operation in self._before:
            self._before[operation](path)

    def trouble(self, operation: str, *, at_datanode: bool) -> Trouble | None:
        """Take the next fault of a request, if there is one."""
        late = {Trouble.HANG_UP, Trouble.HANG_UP_AFTER_HALF, Trouble.HANG_UP_AFTER_ALL}
        with self.lock:
            waiting = self._troubles.get(operation)
            if not waiting or (waiting[0] in late) != at_datanode:
                return None
            return waiting.popleft()

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)


class _Server(LocalServer):
    cluster: FakeWebHdfs


class _RefusedError(Exception):
    def __init__(self, java: str, message: str, status: int = 403) -> None:
        self.java, self.message, self.status = java, message, status
        super().__init__(message)


def _missing(path: str) -> _RefusedError:
    return _RefusedError("java.io.FileNotFoundException", f"File does not exist: {path}", 404)


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 30
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.server.cluster.lock:
            self.server.cluster.connections += 1

    def do_GET(self) -> None:
        self._any()

    def do_PUT(self) -> None:
        self._any()

    def do_POST(self) -> None:
        self._any()

    def do_DELETE(self) -> None:
        self._any()

    def _any(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        operation = query.get("op", "")
        path = unquote(parts.path).removeprefix(_ROOT) or "/"
        try:
            if "datanode" in query:
                self._datanode(operation, path, query)
            else:
                self._namenode(operation, path, query)
        except _RefusedError as refused:
            self._refuse(refused)

    # The NameNode

    def _namenode(self, operation: str, path: str, query: dict[str, str]) -> None:
        cluster = self.server.cluster
        with cluster.lock:
            cluster.requests.append((operation, path))
            cluster.queries.append(query)
        trouble = cluster.trouble(operation, at_datanode=False)
        if trouble is not None:
            self._meet(trouble)
            return
        if operation in ("CREATE", "APPEND", "OPEN"):
            self._check(operation, path, query)
            self._send_on(cluster.url)
            return
        with cluster.lock:
            cluster.interrupt(operation, path)
            self._answer(_OPERATIONS[operation](cluster.files, path, query))

    def _meet(self, trouble: Trouble) -> None:
        if trouble is Trouble.NONSENSE:
            self._reply(200, b"<html>a page</html>")
        elif trouble is Trouble.NOT_FOUND_PAGE:
            self._reply(404, b"<html><body><h2>HTTP ERROR 404</h2></body></html>")
        elif trouble is Trouble.DEAD_DATANODE:
            self._send_on("http://127.0.0.1:1")
        elif trouble is Trouble.REDIRECT_FOREVER:
            self._reply(307, b"", {"Location": f"{self.server.cluster.url}{self.path}"})
            self.server.cluster.fail_next(dict(parse_qsl(urlsplit(self.path).query))["op"], trouble)
        elif trouble is Trouble.REDIRECT_ELSEWHERE:
            self._reply(307, b"", {"Location": "file:///etc/passwd"})
        else:
            java, _, message = trouble.value.partition(": ")
            raise _RefusedError(java, message)

    def _check(self, operation: str, path: str, query: dict[str, str]) -> None:
        """Raise the errors that the NameNode reports before it redirects to a DataNode."""
        found = self.server.cluster.files.get(path)
        if operation != "CREATE" and found is None:
            raise _missing(path)
        if operation == "OPEN" and found is not None and found.content is not None:
            offset = int(query.get("offset", "0"))
            if offset and offset >= len(found.content):
                raise _RefusedError(
                    "java.io.IOException", f"Offset={offset} out of the range [0, {len(found.content)})"
                )

    def _send_on(self, origin: str) -> None:
        parts = urlsplit(self.path)
        query = urlencode({**dict(parse_qsl(parts.query)), "datanode": "1"})
        self._reply(307, b"", {"Location": f"{origin}{parts.path}?{query}"})

    # The DataNode

    def _datanode(self, operation: str, path: str, query: dict[str, str]) -> None:
        cluster = self.server.cluster
        with cluster.lock:
            cluster.interrupt(operation, path)
        trouble = cluster.trouble(operation, at_datanode=True)
        if trouble is Trouble.HANG_UP:
            self._hang_up()
        elif operation == "OPEN":
            self._open(path, query, trouble)
        else:
            self._write(operation, path, query, trouble)

    def _open(self, path: str, query: dict[str, str], trouble: Trouble | None) -> None:
        content = self.server.cluster.files[path].content or b""
        offset = int(query.get("offset", "0"))
        content = content[offset : offset + int(query["length"])] if "length" in query else content[offset:]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content if trouble is None else content[: len(content) // 2])
        self._hang_up()

    def _write(self, operation: str, path: str, query: dict[str, str], trouble: Trouble | None) -> None:
        cluster, content = self.server.cluster, self._body()
        if trouble is Trouble.HANG_UP_AFTER_HALF:
            content = content[: len(content) // 2]
        with cluster.lock:
            before = cluster.files.get(path)
            if operation == "CREATE":
                if before is not None and query.get("overwrite") != "true":
                    raise _RefusedError("org.apache.hadoop.fs.FileAlreadyExistsException", f"{path} already exists")
                permission = int(query.get("permission", "644"), 8)
                made = FakeFile(content=content, permission=permission, owner=query.get("user.name", ""))
                cluster.files[path] = made
            elif before is None or before.content is None:
                raise _missing(path)
            else:
                before.content += content
        if trouble is not None:
            self._hang_up()
            return
        self._reply(201 if operation == "CREATE" else 200, b"", {"Connection": "close"})

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _hang_up(self) -> None:
        self.close_connection = True

    # Answers

    def _answer(self, value: dict[str, Any]) -> None:
        self._reply(200, json.dumps(value).encode())

    def _refuse(self, refused: _RefusedError) -> None:
        told = {
            "exception": refused.java.rpartition(".")[2],
            "javaClassName": refused.java,
            "message": refused.message,
        }
        self._reply(refused.status, json.dumps({"RemoteException": told}).encode())

    def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value if value.isascii() else quote(value))
            if (name, value) == ("Connection", "close"):
                self.close_connection = True
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _status(path: str, file: FakeFile, name: str) -> dict[str, Any]:
    is_file = file.content is not None
    return {
        "pathSuffix": name,
        "type": "FILE" if is_file else "DIRECTORY",
        "length": len(file.content or b""),
        "modificationTime": file.modified_ms,
        "accessTime": file.accessed_ms,
        "owner": file.owner,
        "group": "supergroup",
        "permission": f"{file.permission:o}",
        "replication": 1 if is_file else 0,
        "blockSize": 134_217_728 if is_file else 0,
    }


Files = dict[str, FakeFile]


def _get(files: Files, path: str, _: dict[str, str]) -> dict[str, Any]:
    if path not in files:
        raise _missing(path)
    return {"FileStatus": _status(path, files[path], "")}


def _list(files: Files, path: str, query: dict[str, str]) -> dict[str, Any]:
    if path not in files:
        raise _missing(path)
    base = path.rstrip("/") + "/"
    names = sorted(p[len(base) :] for p in files if p.startswith(base) and len(p) > len(base))
    names = [name for name in names if "/" not in name and name > query.get("startAfter", "")]
    part = [_status(base + name, files[base + name], name) for name in names[:_PAGE]]
    if files[path].content is not None:
        part, names = [_status(path, files[path], "")], []
    listing = {"FileStatuses": {"FileStatus": part}}
    return {"DirectoryListing": {"partialListing": listing, "remainingEntries": max(0, len(names) - _PAGE)}}


def _usage(files: Files, path: str, _: dict[str, str]) -> dict[str, Any]:
    if path not in files:
        raise _missing(path)
    below = [file for name, file in files.items() if name == path or name.startswith(path.rstrip("/") + "/")]
    told = {
        "fileAndDirectoryCount": len(below),
        "quota": files[path].most_names,
        "spaceConsumed": sum(len(file.content or b"") for file in below),
        "spaceQuota": files[path].most_space,
    }
    return {"QuotaUsage": told}


def _room(files: Files, _path: str, _query: dict[str, str]) -> dict[str, Any]:
    used = sum(len(file.content or b"") for file in files.values())
    return {"FsStatus": {"used": used, "remaining": 1 << 20, "capacity": (1 << 20) + used}}


def _mkdirs(files: Files, path: str, query: dict[str, str]) -> dict[str, Any]:
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        one = "/" + "/".join(parts[:count])
        there = files.setdefault(one, FakeFile(permission=int(query.get("permission", "755"), 8)))
        if there.content is not None:
            raise _RefusedError("org.apache.hadoop.fs.FileAlreadyExistsException", f"Path is not a directory: {one}")
    return {"boolean": True}


def _rename(files: Files, path: str, query: dict[str, str]) -> dict[str, Any]:
    target = query["destination"]
    if path not in files:
        raise _RefusedError("java.io.FileNotFoundException", f"rename source {path} is not found.", 404)
    if target in files and query.get("renameoptions") != "OVERWRITE":
        raise _RefusedError("org.apache.hadoop.fs.FileAlreadyExistsException", f"{target} already exists")
    files[target] = files.pop(path)
    return {}


def _delete(files: Files, path: str, query: dict[str, str]) -> dict[str, Any]:
    below = [one for one in files if one.startswith(path + "/")]
    if below and query.get("recursive") != "true":
        raise _RefusedError("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", f"`{path} is non empty'")
    for one in below:
        del files[one]
    return {"boolean": files.pop(path, None) is not None}


def _set_times(files: Files, path: str, query: dict[str, str]) -> dict[str, Any]:
    if path not in files:
        raise _missing(path)
    modified, accessed = int(query["modificationtime"]), int(query["accesstime"])
    files[path].modified_ms = files[path].modified_ms if modified == -1 else modified
    files[path].accessed_ms = files[path].accessed_ms if accessed == -1 else accessed
    return {}


_OPERATIONS: dict[str, Callable[[Files, str, dict[str, str]], dict[str, Any]]] = {
    "GETFILESTATUS": _get,
    "LISTSTATUS_BATCH": _list,
    "GETQUOTAUSAGE": _usage,
    "GETSTATUS": _room,
    "MKDIRS": _mkdirs,
    "RENAME": _rename,
    "DELETE": _delete,
    "SETTIMES": _set_times,
}
