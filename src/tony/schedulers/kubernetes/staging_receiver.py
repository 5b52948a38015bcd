"""Receives objects in a pod that has the claim mounted: `staging_receiver FOLDER`. Needs no other package.

It listens on the loopback address, where only port-forward arrives. Requests and answers are lines of JSON:

    {"digest": D, "size": N}   -> {"offset": M}, then the client sends N - M bytes, then -> {"stored": true}
    {"keep": [D, ...]}         -> {"removed": true}: other objects that were not received for long are removed
    an error                   -> {"error": TEXT, "may_repeat": whether another try can succeed}
    before an answer           -> {"checked": BYTES}, now and then: what it has of an object is being read

An object appears complete and verified, by a rename. What was received of it before a connection broke is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, cast

from tony.errors import StorageError
from tony.linux.disk_errors import explain_os_error, measure_free_bytes
from tony.linux.files import open_file
from tony.units import format_bytes

PORT = 7071
#: Seconds without a client, or without a byte from it, after which the receiver exits.
IDLE_SECONDS = 60.0
#: Seconds for which an object that no job uses, and an incomplete one, is kept after it was received.
KEEP_SECONDS = 7 * 86_400.0
#: Seconds after which a client that waits is told that an object is being read.
_CHECK_SECONDS = 10.0
MAX_LINE_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"\.[0-9a-f]{64}\.(?:[0-9a-f]+\.)?part|\.[0-9a-f]{64}\.[0-9a-f]+\.old")


class _RepeatableError(StorageError):
    """Another try can succeed."""


def main() -> int:
    """Receive objects until no client is connected for some time."""
    folder = Path(sys.argv[1])
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        serve(listener, folder)
    return 0


def serve(listener: socket.socket, folder: Path) -> None:
    """Serve one client after the other. Returns when there is none for `IDLE_SECONDS`."""
    listener.settimeout(IDLE_SECONDS)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return
        connection.settimeout(IDLE_SECONDS)
        with contextlib.suppress(OSError, EOFError, ValueError), connection, connection.makefile("rwb") as pair:
            stream = cast("IO[bytes]", pair)
            _answer(stream, {"ready": True})
            while line := stream.readline(MAX_LINE_BYTES):
                _carry_out(stream, json.loads(line), folder)


def _carry_out(stream: IO[bytes], request: dict[str, object], folder: Path) -> None:
    try:
        with explain_os_error(f"write {folder} as user {os.getuid()}", folder):
            folder.mkdir(parents=True, exist_ok=True)
        if "keep" in request:
            kept = request["keep"]
            assert isinstance(kept, list)
            remove_unused(folder, kept)
            _answer(stream, {"removed": True})
        else:
            receive(stream, folder, str(request["digest"]), int(str(request["size"])))
            _answer(stream, {"stored": True})
    except StorageError as error:
        _answer(stream, {"error": str(error), "may_repeat": isinstance(error, _RepeatableError)})


def _answer(stream: IO[bytes], answer: dict[str, object]) -> None:
    try:
        stream.write(json.dumps(answer).encode() + b"\n")
        stream.flush()
    except OSError as error:
        raise EOFError(str(error)) from error


def receive(stream: IO[bytes], folder: Path, digest: str, size: int) -> None:
    """Receive an object, or what is missing of it.

    Raises:
        StorageError: the volume refuses, or has too little space; or the content is not that of the digest.
        EOFError: the connection broke.
    """
    path = folder / digest
    if _is_whole(stream, path, digest, size):
        with contextlib.suppress(OSError):
            os.utime(path)
            _answer(stream, {"offset": size})
            return
    with _open_part(folder, digest) as (part, file):
        content = hashlib.sha256()
        if os.fstat(file.fileno()).st_size > size:
            file.truncate(0)
        offset = _check(stream, file, content)
        free = measure_free_bytes(folder)
        if size - offset > free:
            wants = f"{format_bytes(size - offset)} needed, {format_bytes(free)} free"
            raise StorageError(f"not enough space in the volume: {wants}")
        _answer(stream, {"offset": offset})
        with explain_os_error(f"write {path}", folder):
            _write(stream, file, size - offset, content)
            if content.hexdigest() != digest:
                file.truncate(0)
                raise _RepeatableError(f"what was received is not {digest}")
            os.fsync(file.fileno())
            os.utime(file.fileno())
            os.replace(part, path)


def _write(stream: IO[bytes], file: FileIO, left: int, content: hashlib._Hash) -> None:
    """Write what is received; of what the volume refuses, all is received before that is raised."""
    failure: OSError | None = None
    while left:
        data = _read(stream, min(_CHUNK_BYTES, left))
        left -= len(data)
        content.update(data)
        try:
            while data and failure is None:
                data = data[file.write(data) :]
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure


def _read(stream: IO[bytes], most: int) -> bytes:
    try:
        data = stream.read(most)
    except OSError as error:
        raise EOFError(str(error)) from error
    if not data:
        raise EOFError("the client is gone")
    return data


def _is_whole(stream: IO[bytes], path: Path, digest: str, size: int) -> bool:
    content = hashlib.sha256()
    try:
        with os.fdopen(open_file(path), "rb", buffering=0) as file:
            is_whole = os.fstat(file.fileno()).st_size == size == _check(stream, file, content)
    except OSError:
        return False
    return is_whole and content.hexdigest() == digest


def _check(stream: IO[bytes], file: FileIO, content: hashlib._Hash) -> int:
    """Add what is in a file to a digest, and return its length; meanwhile the client learns that this takes time."""
    reported_at = time.monotonic()
    while data := file.read(_CHUNK_BYTES):
        content.update(data)
        if time.monotonic() - reported_at > _CHECK_SECONDS:
            _answer(stream, {"checked": file.tell()})
            reported_at = time.monotonic()
    return file.tell()


@contextmanager
def _open_part(folder: Path, digest: str) -> Iterator[tuple[Path, FileIO]]:
    """Open the file for an incomplete object: one of its own if another receiver or user has the usual one."""
    part = folder / f".{digest}.part"
    with contextlib.ExitStack() as closing:
        try:
            file = closing.enter_context(_open(part))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file.fileno())
            is_own = stat.S_ISREG(status.st_mode) and os.path.samestat(os.stat(part), status)  # not renamed meanwhile
        except OSError:
            is_own = False
        if is_own:
            yield part, file
            return
        part = folder / f".{digest}.{os.urandom(4).hex()}.part"
        closing.callback(part.unlink, missing_ok=True)
        with explain_os_error(f"write {part} as user {os.getuid()}", folder):
            file = closing.enter_context(_open(part))
        yield part, file


def _open(path: Path) -> FileIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0)


def remove_unused(folder: Path, kept: Collection[str]) -> None:
    """Remove objects that were received long ago, but those that are to be kept.

    Args:
        kept: digests, or their first 40 characters.

    Another receiver may find an object complete at the same moment, and set its time: so it is renamed first.
    """
    prefixes = {each[:40] for each in kept}
    for entry in [*os.scandir(folder)]:
        is_object = bool(_DIGEST.fullmatch(entry.name))
        if (not is_object and not _PART.fullmatch(entry.name)) or entry.name[:40] in prefixes:
            continue
        with contextlib.suppress(OSError):
            if _is_old(entry.path):
                moved = folder / f".{entry.name}.{os.urandom(4).hex()}.old" if is_object else Path(entry.path)
                os.replace(entry.path, moved)
                if _is_old(str(moved)):
                    moved.unlink()
                else:
                    os.replace(moved, entry.path)


def _is_old(path: str) -> bool:
    return time.time() - os.stat(path).st_mtime > KEEP_SECONDS
