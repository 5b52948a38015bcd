"""What programs tell of their progress: parsed, bounded, and believed only of those whose word counts."""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tony import clock
from tony.executor.metrics.progress_listener import Advance, CheckpointReport, ProgressListener, TrustedSenders, parse
from tony.executor.program.progress_folder import build_path


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"p\t3.0\t10.0\tloss=0.5", Advance(3.0, 10.0, {"user.loss": 0.5})),
        (b"p\t3\t", Advance(3.0)),
        (b"p\t3\t\ta=1\tb=nan\t!=1\t=2\tc=inf\td=x\te=-2", Advance(3.0, None, {"user.a": 1.0, "user.e": -2.0})),
        (b"p\t3\t\t" + b"x" * 64 + b"=1", Advance(3.0)),
        (b"p\t-1\t", None),
        (b"p\tnan\t", None),
        (b"p\t1e400\t", None),
        (b"p\t1\t-5", None),
        (b"p\t1", None),
        (b"", None),
        (b"\xff\xfe\t1\t2", None),
        (b"c\t7\t999.0\t0.5", CheckpointReport(7, 999.0, 0.5)),
        (b"c\t7.9\t2000\t0.5", CheckpointReport(7, 1000.0, 0.5)),
        (b"c\t7\t-1e9\t0.5", None),
        (b"c\t7\t999\t-0.5", None),
        (b"c\t7\t999\t1e9", None),
        (b"c\t7\t999", None),
        (b"x\t7\t999\t1", None),
    ],
)
def test_valid_progress_messages_are_parsed(data: bytes, expected: Advance | CheckpointReport | None) -> None:
    """All others are ignored; a checkpoint of the future counts as written just now."""
    assert parse(data, now=1000.0) == expected


def test_a_program_has_only_so_many_series() -> None:
    advance = parse(b"p\t1\t" + b"".join(b"\tm%d=1" % number for number in range(500)), 0.0)
    assert isinstance(advance, Advance)
    assert len(advance.metrics) == 32


def test_later_words_complete_earlier_ones() -> None:
    """Of the same number the later one holds, and there are never more than one program's."""
    first = Advance(1.0, 10.0, {"user.a": 1.0, "user.b": 1.0})
    assert first.merge_with(Advance(2.0, None, {"user.a": 3.0})) == Advance(2.0, 10.0, {"user.a": 3.0, "user.b": 1.0})
    many = Advance(1.0, None, {f"user.m{number}": 1.0 for number in range(32)})
    assert len(many.merge_with(Advance(2.0, None, {"user.new": 1.0})).metrics) == 32
    assert many.merge_with(Advance(2.0, None, {"user.new": 1.0})).to_values()["user.new"] == 1.0


@contextlib.contextmanager
def listening(trusts: Callable[[int, int], bool]) -> Iterator[tuple[ProgressListener, socket.socket]]:
    """A socket that listens, and one that is connected with it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        progress = ProgressListener(trusts, Path(folder), build_path("TONY_TASK=x"))
        teller.setblocking(False)
        teller.connect(progress.path)
        try:
            yield progress, teller
        finally:
            progress.close()
            progress.close()
            assert not os.path.exists(progress.path)


def is_ours(pid: int, uid: int) -> bool:
    """Whether the sender is the test's own process."""
    return (pid, uid) == (os.getpid(), os.getuid())


async def test_the_newest_step_and_every_checkpoint_are_kept() -> None:
    with listening(is_ours) as (progress, teller):
        progress.begin()
        now = clock.monotonic()
        for step in range(3):
            teller.send(f"p\t{step}\t\tloss={step}".encode())
            teller.send(f"c\t{step}\t{now}\t0.25".encode())
        assert progress.advance() == Advance(2.0, None, {"user.loss": 2.0})
        assert [each.step for each in progress.take_checkpoints()] == [0, 1, 2]
        assert (progress.advance(), progress.take_checkpoints()) == (None, [])


async def test_a_flood_of_reports_is_throttled_and_bounded() -> None:
    """Excess reports are dropped; what is kept is bounded, and invalid reports are counted."""
    with listening(is_ours) as (progress, teller):
        progress.begin()
        sent = 0
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.3
        while loop.time() < end:
            try:
                teller.send(b"c\t1\t1\t1" if sent % 2 else b"nonsense")
                sent += 1
            except BlockingIOError:
                await asyncio.sleep(0)
        assert sent < 10_000
        assert len(progress.take_checkpoints()) <= 256
        assert progress.refused > 0


async def test_a_message_that_is_too_long_is_refused() -> None:
    """Once cut, it could mean something else."""
    with listening(is_ours) as (progress, teller):
        teller.send(b"p\t1\t\ta=" + b"1" * 5000)
        assert progress.advance() is None
        assert progress.refused == 1


async def test_reports_of_other_users_are_ignored() -> None:
    """The kernel's credentials of the sender decide."""
    with listening(lambda pid, uid: False) as (progress, teller):
        teller.send(b"p\t1\t")
        assert (progress.advance(), progress.refused) == (None, 1)


async def test_reports_between_samples_are_read() -> None:
    """The queue of the kernel is short; it is emptied in between."""
    with listening(is_ours) as (progress, teller):
        progress.begin()
        sent = 0

        def send() -> bool:
            nonlocal sent
            try:
                teller.send(f"c\t{sent}\t1\t1".encode())
            except BlockingIOError:
                return False
            sent += 1
            return sent == 40

        await wait_until(send)
        saved: list[CheckpointReport] = []

        def all_came() -> bool:
            saved.extend(progress.take_checkpoints())
            return len(saved) == 40

        await wait_until(all_came)


def test_root_accepts_other_users_programs_with_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another user only a process with the marker; without root, no other user."""
    asked = []

    def has_marker(pid: int, marker: bytes) -> bool:
        asked.append(pid)
        return pid == 7 and marker == b"TONY_TASK=x"

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    trusted = TrustedSenders("TONY_TASK=x", has_marker)
    assert [trusted(7, 1000), trusted(8, 1000), trusted(7, 1000), trusted(9, 0)] == [True, False, True, True]
    assert asked == [7, 8]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [TrustedSenders("TONY_TASK=x", has_marker)(7, uid) for uid in (0, 1000, 1001)] == [False, True, False]


# --- who can reach the socket -----------------------------------------------------------------------------------------

OTHER_USER = 12345
#: As OTHER_USER: sends to every address in the list, and prints the number of the error of each.
_FLOOD = f"""\
import os, socket, sys
os.setgroups([]); os.setgid({OTHER_USER}); os.setuid({OTHER_USER})
errors = []
for address in sys.argv[1:]:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        for _ in range(1000):
            sender.sendto(b"p\\t1\\t", address.replace("@", "\\0", 1) if address.startswith("@") else address)
        errors.append(0)
    except OSError as error:
        errors.append(error.errno)
print(*errors)
"""


def flood(*addresses: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _FLOOD, *addresses], capture_output=True, text=True, check=True, cwd="/"
    )
    return [int(word) for word in done.stdout.split()]


def visible_address(listener: socket.socket) -> str:
    """The address of a socket as the kernel shows it to all users."""
    rows = (line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text().splitlines())
    return next(row[7] for row in rows if row[6] == str(os.fstat(listener.fileno()).st_ino))


async def test_the_sockets_file_is_its_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lets only those send to it who may write to its file."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with listening(is_ours) as (progress, _):
        assert stat.S_IMODE(os.stat(progress.path).st_mode) == 0o600


@pytest.mark.parametrize("is_root", [False, True])
async def test_another_user_cannot_fill_the_queue(is_root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of a user nor that of root, whose file is writable for all: its path stays private."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
    with listening(is_ours) as (progress, teller):
        guess = f"{Path(progress.path).parent.parent}/socket" if is_root else progress.path
        assert not {0, errno.EAGAIN} & set(flood(visible_address(progress._socket), guess))
        teller.send(b"p\t7\t")
        assert (progress.advance(), progress.refused) == (Advance(7.0), 0)


async def test_a_program_of_root_that_is_another_user_can_report() -> None:
    """It knows the path from its environment."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with listening(is_ours) as (progress, _):
        assert flood(progress.path) == [errno.EAGAIN]  # until the queue is full
        assert progress.refused == 0
        progress.take()
        assert progress.refused > 0, "it was heard, and this test trusts only itself"
