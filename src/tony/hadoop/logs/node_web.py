"""Logs of a container at the NodeManager that runs it (or ran it, while its application lives), over HTTP.

The REST interface (`/ws/v1/node/containers/{id}/logs`) returns the exact bytes of a file after a header of a few
lines with the file's length at that moment. It cannot start at an offset, but it can return the last N bytes, which
together with the length is enough: request enough, and skip the bytes already known. The HTML pages
(`/node/containerlogs/...`) accept offsets, but replace bytes that are not UTF-8 and escape the rest.

To follow a growing file, call `open` repeatedly at the offset reached so far.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

from tony.control_characters import escape_line
from tony.hadoop.errors import HadoopError
from tony.hadoop.hdfs.http import HttpOptions, HttpOrigin, HttpPool, HttpResponse, split_url

#: Bytes of the end requested before the length is known, and beyond the need later, as a file may grow meanwhile.
_SLACK = 64 * 2**10
#: Of the lines before the content: container, type, a line of `=`, name, time, length.
_MAX_HEAD_BYTES = 16 * 2**10
_CONTENT = b"LogContents:\n"
#: Tries to catch the beginning of a file that grows by more than the slack between two requests.
_MAX_TRIES = 6
#: Log files of one container.
_MAX_FILES = 10_000


class NodeWebError(HadoopError):
    """A NodeManager's pages cannot be reached or read.

    Attributes:
        is_missing: True if the node answered that it does not, or no longer, have the container or the file.
    """

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        self.is_missing = is_missing
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLog:
    """One log file of a container at its node.

    Attributes:
        name: such as `stdout`.
        length: bytes at the moment.
    """

    name: str
    length: int


class LogStream:
    """The bytes of a log file from an offset to the length that it had when it was opened.

    Attributes:
        position: offset of the next byte.
        length: of the file when it was opened; less than the position if it was cut short meanwhile.
    """

    def __init__(self, answer: HttpResponse, ahead: bytes, position: int, length: int) -> None:
        self._answer = answer
        self._ahead = ahead
        self.position = position
        self.length = length

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, at least one until the end; all that is left for a negative `size`.

        Raises:
            NodeWebError: the node ended its answer too early.
            ConnectionLostError, CallTimeoutError: the connection broke.
        """
        if size < 0:
            return self._read_rest()
        size = min(size, self.length - self.position)
        if size <= 0:
            return b""
        if self._ahead:
            part, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            part = self._answer.read(size)
        if not part:
            self.close()
            raise NodeWebError(f"the node ended its answer {self.length - self.position} bytes too early")
        self.position += len(part)
        return part

    def _read_rest(self) -> bytes:
        parts = []
        while part := self.read(2**20):
            parts.append(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip bytes, at most those that are left."""
        while size > 0 and (part := self.read(min(size, 2**16))):
            size -= len(part)

    def close(self) -> None:
        """End the request. May be called twice."""
        self._answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NodeWeb:
    """The web interface of one NodeManager. Blocking; safe from several threads.

    Args:
        url: `http://host:port`, from a node's or container's report.
        user: user name to send, on clusters with simple authentication; empty to send none.
        options: time-outs, and https.

    Raises:
        ValueError: no URL.
    """

    def __init__(self, url: str, user: str = "", options: HttpOptions | None = None) -> None:
        self._origin: HttpOrigin = split_url(url)[0]
        self._user = user
        self._pool = HttpPool(options or HttpOptions())

    def list_files(self, container: str) -> tuple[NodeLog, ...]:
        """Return the log files of a container, by name.

        Raises:
            NodeWebError: the node does not have the container (`is_missing`), or refuses, or is no NodeManager.
            ConnectError, ConnectionLostError, CallTimeoutError: the node cannot be reached.
        """
        answer = self._get(f"/ws/v1/node/containers/{quote(container, safe='')}/logs", {}, accept="application/json")
        where = f"{self._origin}, logs of {container}"
        try:
            value = json.loads(answer.read_body())
        except (ValueError, RecursionError) as error:
            raise NodeWebError(f"{where}: the answer is no JSON") from error
        found = {
            log.name: log
            for info in _list_objects(value, "containerLogsInfo", where)
            for log in _parse_local(info, where)
        }
        if len(found) > _MAX_FILES:
            raise NodeWebError(f"{where}: more than {_MAX_FILES} files")
        return tuple(sorted(found.values(), key=lambda log: log.name))

    def open(self, container: str, name: str, offset: int = 0) -> LogStream:
        """Return the bytes of a log file from an offset on; empty if there are none behind it.

        Raises:
            NodeWebError: the node does not have the container or the file (`is_missing`), or refuses.
            ConnectError, ConnectionLostError, CallTimeoutError: the node cannot be reached.
        """
        if offset < 0:
            raise ValueError("an offset is not negative")
        tail_bytes = None if offset == 0 else _SLACK
        slack = _SLACK
        for _ in range(_MAX_TRIES):
            stream = self._stream(container, name, tail_bytes)
            if stream.position <= offset:
                stream.skip(offset - stream.position)
                return stream
            slack *= 4
            tail_bytes = stream.length - offset + slack
            stream.close()
        raise NodeWebError(f"{self._origin}: {name} of {container} grows faster than it can be read")

    def close(self) -> None:
        """End idle connections."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(self, container: str, name: str, last: int | None) -> LogStream:
        """Open the last bytes of a log, or all, after its head."""
        path = f"/ws/v1/node/containers/{quote(container, safe='')}/logs/{quote(name, safe='')}"
        answer = self._get(path, {} if last is None else {"size": str(-last)}, accept="text/plain")
        where = f"{self._origin}, {name} of {container}"
        try:
            head, ahead = _read_head(answer.read, where)
            length = _parse_length(head, where)
        except HadoopError:
            answer.close()
            raise
        start = 0 if last is None else max(0, length - last)
        return LogStream(answer, ahead, start, length)

    def _get(self, path: str, query: dict[str, str], *, accept: str) -> HttpResponse:
        every = {**query, "user.name": self._user} if self._user else query
        target = f"{path}?{urlencode(every)}" if every else path
        answer = self._pool.request("GET", self._origin, target, headers={"Accept": accept})
        if answer.status == 200:
            return answer
        text = answer.read_body()[:4000].decode("utf-8", "replace")
        if 300 <= answer.status < 400:
            raise NodeWebError(f"{self._origin} no longer has the logs; it redirects to a log server", is_missing=True)
        if answer.status == 401:
            raise NodeWebError(f"{self._origin} wants a Kerberos login for its pages (401); we log in by RPC alone")
        words = escape_line(text.rpartition("Exception:")[2].partition('"')[0]) or "no words"
        is_missing = answer.status == 404 or "NotFoundException" in text
        raise NodeWebError(f"{self._origin} refused the request ({answer.status}): {words}", is_missing=is_missing)


def _read_head(read: Callable[[int], bytes], where: str) -> tuple[bytes, bytes]:
    """Return the lines before the content, and what of the content came with them."""
    data = b""
    while _CONTENT not in data:
        part = read(_MAX_HEAD_BYTES)
        data += part
        if not part or len(data) > 2 * _MAX_HEAD_BYTES:
            raise NodeWebError(f"{where}: the answer does not begin as a NodeManager's does (Hadoop 2.9 and newer)")
    head, _, ahead = data.partition(_CONTENT)
    return head, ahead


def _parse_length(head: bytes, where: str) -> int:
    for line in head.splitlines():
        name, _, value = line.partition(b":")
        if name == b"LogLength" and value.isdigit() and len(value) < 20:
            return int(value)
    raise NodeWebError(f"{where}: the answer does not say how long the file is")


def _list_objects(value: Any, key: str, where: str) -> list[dict[str, Any]]:
    """Return the objects under a key: Java's JSON writes a list of one as the one itself, depending on the version."""
    found = value.get(key, []) if isinstance(value, dict) else None
    each = [found] if isinstance(found, dict) else found
    if not isinstance(each, list) or not all(isinstance(one, dict) for one in each):
        raise NodeWebError(f"{where}: the answer is no list of logs")
    return each


def _parse_local(info: dict[str, Any], where: str) -> list[NodeLog]:
    """Return the files that are at the node; those that were aggregated already are somewhere else."""
    if info.get("logAggregationType", "LOCAL") != "LOCAL":
        return []
    found = []
    for one in _list_objects(info, "containerLogInfo", where):
        name, size = one.get("fileName"), str(one.get("fileSize", ""))
        if not isinstance(name, str) or not (size.isascii() and size.isdigit() and len(size) < 20):
            raise NodeWebError(f"{where}: the answer is no list of logs")
        found.append(NodeLog(name=name, length=int(size)))
    return found
