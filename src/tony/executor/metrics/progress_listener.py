"""Receives and checks what a program reports with `tony.progress` and `tony.checkpoint` (`tony.python_hooks`).

It arrives as datagrams at a socket file that other users cannot reach, so they cannot fill its short queue. Datagrams
may be invalid and of any number: they are read at most a few times a second, and invalid ones are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tony import clock
from tony.model.metric_definitions import MAX_PROGRAM_SERIES, NAME, OF_PROGRAMS
from tony.rpc.sockets import shorten_path

#: Bytes of a datagram; the kernel cuts a longer one, which is then refused.
_MAX_DATAGRAM_BYTES = 4096
#: Datagrams read at a time.
_BATCH_SIZE = 64
#: Seconds between two batches.
_PAUSE_SECONDS = 0.05
#: Checkpoints that may wait to be reported.
_MAX_CHECKPOINTS = 256
#: Maximum age and duration of a checkpoint, in seconds.
_MAX_AGE_SECONDS = 7 * 86400.0
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Advance:
    """The progress of a program.

    Attributes:
        metrics: the program's own metrics, by their full names: `user.loss`.
    """

    step: float | None = None
    total: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def merge_with(self, later: Advance) -> Advance:
        """Merge with a later report, which takes precedence."""
        metrics = {**self.metrics, **later.metrics}
        return Advance(
            self.step if later.step is None else later.step,
            self.total if later.total is None else later.total,
            dict(list(metrics.items())[-MAX_PROGRAM_SERIES:]),
        )

    def to_values(self) -> dict[str, float]:
        """Return the values by the names of `model/metric_definitions.py`."""
        counts = {"step": self.step, "total": self.total}
        return {**{name: value for name, value in counts.items() if value is not None}, **self.metrics}


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """A checkpoint that was written, at time `at` of `tony.clock.monotonic`, within `took` seconds."""

    step: int
    at: float
    took: float


def parse(data: bytes, now: float) -> Advance | CheckpointReport | None:
    """Parse one datagram; return None if it is invalid.

    Args:
        now: `tony.clock.monotonic`.
    """
    kind, *parts = data.decode("utf-8", "replace").split("\t")
    try:
        if kind == "p" and len(parts) >= 2:
            return _advance(parts)
        if kind == "c" and len(parts) == 3:
            step, at, took = map(parse_number, parts)
            if step >= 0 and now - _MAX_AGE_SECONDS <= at and 0 <= took <= _MAX_AGE_SECONDS:
                return CheckpointReport(int(step), min(at, now), took)
    except ValueError:
        return None
    return None


def _advance(parts: list[str]) -> Advance:
    step, total = parse_number(parts[0]), parse_number(parts[1]) if parts[1] else None
    if step < 0 or (total is not None and total < 0):
        raise ValueError("counts start at 0")
    metrics = {}
    for part in parts[2:]:
        name, _, value = part.rpartition("=")
        with contextlib.suppress(ValueError):
            metrics[qualify_name(name)] = parse_number(value)
        if len(metrics) == MAX_PROGRAM_SERIES:
            break
    return Advance(step, total, metrics)


def qualify_name(name: str) -> str:
    """Return the full name of a metric that a program reports.

    Raises:
        ValueError: the name is invalid.
    """
    if not NAME.fullmatch(name) or not NAME.fullmatch(full := OF_PROGRAMS + name):
        raise ValueError(f"{name!r:.80} is not a valid metric name")
    return full


def parse_number(text: str) -> float:
    """Parse a finite number of reasonable size.

    Raises:
        ValueError: it is not one.
    """
    value = float(text)
    if not math.isfinite(value) or abs(value) > 1e300:
        raise ValueError("not a finite number")
    return value


class ProgressListener:
    """Receives the progress of one task attempt. Lives on the event loop.

    Attributes:
        path: the socket's path, as in `TONY_PROGRESS`.
        refused: number of invalid datagrams.
        first: the first reported step and its time (`tony.clock.monotonic`); None before that.
        stepped: time of the newest step.
        reports: reports of steps.
    """

    def __init__(self, trusts: Callable[[int, int], bool], folder: Path, public_folder: Path) -> None:
        """Create the socket.

        Args:
            trusts: returns True if a process (pid, uid) belongs to the program.
            folder: where the socket's file goes, unless this is root.
            public_folder: a new folder, searchable by every user, for the socket of root.

        Raises:
            OSError: the socket cannot be created.
        """
        self._trusts = trusts
        self._files = contextlib.ExitStack()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            is_root = os.geteuid() == 0
            bound = _bind_for_all_programs(self._socket, public_folder) if is_root else _bind(self._socket, folder)
            self.path = self._files.enter_context(bound)
        except OSError:
            self._socket.close()
            raise
        self._pause_timer: asyncio.TimerHandle | None = None
        self._advance: Advance | None = None
        self._saved: deque[CheckpointReport] = deque(maxlen=_MAX_CHECKPOINTS)
        self.refused = 0
        self.first: tuple[float, float] | None = None
        self.stepped = 0.0
        self.reports = 0

    def begin(self) -> None:
        """Start reading; the program runs."""
        self._pause_timer = None
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._socket, self._read)

    def advance(self) -> Advance | None:
        """Return the progress reported since the last call, merged."""
        self.take()
        found, self._advance = self._advance, None
        return found

    def take_checkpoints(self) -> list[CheckpointReport]:
        """Return checkpoints since the last call, oldest first."""
        self.take()
        found = list(self._saved)
        self._saved.clear()
        return found

    def close(self) -> None:
        """Read what is there, and close the socket. May be called twice."""
        if self._pause_timer:
            self._pause_timer.cancel()
        if self._socket.fileno() >= 0:
            self.take()
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._files.close()

    def _read(self) -> None:
        """Read a batch, then pause."""
        loop = asyncio.get_running_loop()
        self.take()
        loop.remove_reader(self._socket)
        self._pause_timer = loop.call_later(_PAUSE_SECONDS, self.begin)

    def take(self) -> None:
        if self._socket.fileno() < 0:
            return
        now = clock.monotonic()
        for _ in range(_BATCH_SIZE):
            try:
                data, about, flags, _ = self._socket.recvmsg(_MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except OSError:
                return
            report = parse(data, now) if self._is_ours(about) and not flags & socket.MSG_TRUNC else None
            match report:
                case Advance(step=step):
                    if step is not None:
                        self.first, self.stepped = self.first or (step, now), now
                        self.reports += 1
                    self._advance = report if self._advance is None else self._advance.merge_with(report)
                case CheckpointReport():
                    self._saved.append(report)
                case None:
                    self.refused += 1

    def _is_ours(self, about: list[tuple[int, int, bytes]]) -> bool:
        for level, kind, data in about:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) == _CREDENTIALS.size:
                pid, uid, _ = _CREDENTIALS.unpack(data)
                return self._trusts(pid, uid)
        return False


@contextlib.contextmanager
def _bind(listener: socket.socket, folder: Path) -> Iterator[str]:
    """Bind a socket to a new file that only its owner may write to; yield its path, and remove it afterwards."""
    path = folder / f"progress-{os.urandom(12).hex()}"
    os.fchmod(listener.fileno(), 0o600)  # the file gets the mode of its socket
    with shorten_path(str(path)) as short:
        listener.bind(short)
    try:
        yield str(path)
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def _bind_for_all_programs(listener: socket.socket, outer: Path) -> Iterator[str]:
    """Bind a socket of root, whose programs may run as any user; yield its path, and remove it afterwards.

    So the file's mode cannot keep other users out. Its path does: the inner folder has a name that cannot be guessed,
    and that neither a listing of the outer one nor `/proc/net/unix` shows.
    """
    inner = outer / os.urandom(12).hex()
    path = inner / "socket"
    with contextlib.ExitStack() as removing:
        for folder in (outer, inner):
            folder.mkdir(mode=0o700)
            removing.callback(_remove_folder, folder)
            folder.chmod(0o711)
        descriptor = os.open(inner, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        finally:
            os.close(descriptor)
        removing.callback(path.unlink, missing_ok=True)
        path.chmod(0o666)
        yield str(path)


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


class TrustedSenders:
    """Decides which processes may report progress.

    Those of the same user and, for root, which may run programs as any user, also those with the program's marker.

    Args:
        marker: `TONY_TASK=...` as in the program's environment.
    """

    def __init__(self, marker: str, has_marker: Callable[[int, bytes], bool]) -> None:
        self._marker = marker.encode()
        self._has_marker = has_marker
        self._known: dict[int, bool] = {}

    def __call__(self, pid: int, uid: int) -> bool:
        """Return True if a process may report."""
        own = os.geteuid()
        if uid == own or own != 0:
            return uid == own
        if len(self._known) > 1000:
            self._known.clear()
        if pid not in self._known:
            self._known[pid] = self._has_marker(pid, self._marker)
        return self._known[pid]
