"""The ledger, between processes and between users: claims, the queue, deaths, and what other users leave in it."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedulers.local.claims.claim_process import build_claim
from tests.support.waiting import wait_until
from tony.linux import inotify
from tony.schedulers.local.claims.claim_policy import MAX_BYTES, Claim, decide, encode
from tony.schedulers.local.claims.ledger import HeldClaim, LedgerBusyError, ResourceLedger, create_claim
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.resource_claim import ResourceClaim

CLAIMER = Path(__file__).with_name("claim_process.py")
#: The safety re-check comes after five seconds: what comes sooner was an event of the kernel.
PROMPT = 4.0
OTHER_USER = 54321


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ResourceLedger]:
    made = ResourceLedger(tmp_path)
    yield made
    made.close()


class Claimer:
    """A process in line, as one of several."""

    def __init__(self, folder: Path, memory: int, gpus: int = 0, machine: tuple[int, int] = (100, 4)) -> None:
        arguments = [str(folder), str(memory), str(gpus), *map(str, machine)]
        self.process = subprocess.Popen(
            [sys.executable, str(CLAIMER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def next(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def until(self, beginning: str) -> str:
        while line := self.next():
            if line.startswith(beginning):
                return line
        raise AssertionError("it ended")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def claimer(tmp_path: Path) -> Iterator[Callable[..., Claimer]]:
    made: list[Claimer] = []

    def make(*arguments: int, **more: tuple[int, int]) -> Claimer:
        made.append(Claimer(tmp_path, *arguments, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.wait()
        for stream in (each.process.stdin, each.process.stdout):
            assert stream
            stream.close()


def posted(ledger: ResourceLedger, memory: int = 1, devices: tuple[str, ...] | None = ()) -> HeldClaim:
    claim = create_claim(job="job", job_name="name", memory=memory, gpus=len(devices or ()))
    with ledger.lock():
        return ledger.post(replace(claim, devices=devices))


def living(ledger: ResourceLedger) -> list[Claim]:
    with ledger.lock():
        return ledger.list_claims()


# --- claims ---------------------------------------------------------------------------------------------------------


def test_claim_is_seen_with_its_owner(ledger: ResourceLedger) -> None:
    """What one writes the others read; whose it is the file system says."""
    held = posted(ledger, 5, ("a",))
    (seen,) = living(ledger)
    assert replace(seen, user="") == held.claim
    assert seen.user
    held.withdraw()
    held.withdraw()
    assert living(ledger) == []


def test_claim_dies_with_its_holder(ledger: ResourceLedger, tmp_path: Path) -> None:
    """A file whose lock is gone is no claim, and is removed."""
    held = posted(ledger)
    os.close(held.descriptor)
    assert living(ledger) == []
    assert list(tmp_path.iterdir()) == []


def test_an_inherited_claim_outlives_its_holder(ledger: ResourceLedger) -> None:
    """As long as a process that inherited its file runs."""
    held = posted(ledger)
    heir = subprocess.Popen(["sleep", "600"], pass_fds=[held.descriptor])
    os.close(held.descriptor)
    assert len(living(ledger)) == 1
    heir.kill()
    heir.wait()
    assert living(ledger) == []


def test_programs_do_not_inherit_it(ledger: ResourceLedger) -> None:
    """Python closes what is not passed on: a claim never hangs on a program that a user's program left."""
    held = posted(ledger)
    heir = subprocess.Popen(["sleep", "600"])
    os.close(held.descriptor)
    assert living(ledger) == []
    heir.kill()
    heir.wait()


def test_draft_of_a_dead_writer_is_removed(ledger: ResourceLedger, tmp_path: Path) -> None:
    """A writer killed in the middle leaves nothing for ever."""
    (tmp_path / "1-2-3.draft").write_text("{")
    assert living(ledger) == []
    assert list(tmp_path.iterdir()) == []


def test_updated_claim_shrinks(ledger: ResourceLedger) -> None:
    """No rest of a longer content stays behind a shorter one."""
    held = posted(ledger, 1, ("a", "b"))
    held.update(replace(held.claim, gpus=0, devices=()))
    assert living(ledger)[0].devices == ()


def test_refresh_notices_a_removed_file(ledger: ResourceLedger) -> None:
    """A cleaner of temporary files may have removed it."""
    held = posted(ledger)
    os.utime(held.path, (0, 0))
    assert held.refresh()
    assert held.path.stat().st_mtime > 0
    held.path.unlink()
    assert not held.refresh()


def test_withdrawal_spares_a_file_that_is_not_ours(ledger: ResourceLedger) -> None:
    """Under our name may be another file by now."""
    held = posted(ledger)
    held.path.unlink()
    held.path.write_text("another process's")
    held.withdraw()
    assert held.path.exists()


# --- the lock -------------------------------------------------------------------------------------------------------


def test_one_decides_at_a_time(ledger: ResourceLedger, tmp_path: Path) -> None:
    """While one holds the ledger locked another cannot."""
    other = ResourceLedger(tmp_path)
    with ledger.lock(), pytest.raises(LedgerBusyError), other.lock():
        pass
    with other.lock():
        pass
    other.close()


@pytest.mark.slow
async def test_a_locked_ledger_is_reported_and_waited_for(tmp_path: Path) -> None:
    """The process that holds the lock is named; after its release the claim is granted."""
    said: list[str] = []
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    claim = build_claim(tmp_path, 1, 0, Machine(memory=1))
    waiting = asyncio.ensure_future(claim.acquire(said.append))
    async with asyncio.timeout(30):
        await wait_until(lambda: said)
        os.close(folder)
        await waiting
    claim.close()
    assert f"is locked by process {os.getpid()}" in said[0]


# --- the line -------------------------------------------------------------------------------------------------------


def test_killed_holder_makes_room_at_once(claimer: Callable[..., Claimer]) -> None:
    """The next in line hears of a SIGKILL from the kernel, not from a clock."""
    first = claimer(100)
    first.until("granted")
    second = claimer(100)
    second.until("waiting")
    began = time.monotonic()
    first.kill()
    second.until("granted")
    assert time.monotonic() - began < PROMPT


def test_killed_waiter_leaves_the_line(claimer: Callable[..., Claimer]) -> None:
    """No claim waits behind one whose process died."""
    first = claimer(60)
    first.until("granted")
    second = claimer(60)
    second.until("waiting")
    third = claimer(40)
    third.until("waiting")
    began = time.monotonic()
    second.process.send_signal(signal.SIGKILL)
    third.until("granted")
    assert time.monotonic() - began < PROMPT


@pytest.mark.parametrize("deaf", [False, True])
async def test_all_of_a_line_get_their_turn(
    tmp_path: Path, ledger: ResourceLedger, deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of arrival, also without inotify."""
    if deaf:
        monkeypatch.setattr(inotify, "POLL_SECONDS", 0.01)
        monkeypatch.setattr(inotify, "Inotify", refuse)
    holder = posted(ledger, 100)
    order: list[int] = []

    async def take_turn(number: int, claim: ResourceClaim) -> None:
        await claim.acquire(lambda reason: None)
        order.append(number)
        await asyncio.sleep(0)
        claim.close()

    claims = [build_claim(tmp_path, 60, 0, Machine(memory=100)) for _ in range(6)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number, claim in enumerate(claims):
            group.create_task(take_turn(number, claim))
        await wait_until(lambda: len(os.listdir(tmp_path)) >= 7)
        holder.withdraw()
    assert order == list(range(6))


def refuse(*arguments: object) -> None:
    """As the kernel does when a user has too many watches."""
    raise OSError(28, "No space left on device")


def test_a_removed_claim_is_queued_again(ledger: ResourceLedger, tmp_path: Path) -> None:
    """With the next check: a cleaner of temporary files does not know what waits."""
    holder = posted(ledger, 100)
    before = set(os.listdir(tmp_path))

    async def scenario() -> None:
        claim = build_claim(tmp_path, 60, 0, Machine(memory=100))
        waiting = asyncio.ensure_future(claim.acquire(lambda reason: None))
        async with asyncio.timeout(60):
            while not (mine := [path for path in others() if path.suffix == ".claim"]):
                await asyncio.sleep(0.001)
            mine[0].unlink()
            await wait_until(lambda: mine[0].exists())
            holder.withdraw()
            await waiting
        claim.close()

    def others() -> list[Path]:
        return [path for path in tmp_path.iterdir() if path.name not in before]

    asyncio.run(scenario())


def test_crowd(claimer: Callable[..., Claimer], tmp_path: Path) -> None:
    """Many at once: all get it in the end, and nothing is left."""
    crowd = [claimer(40) for _ in range(8)]
    for each in crowd:
        assert each.process.stdin
        each.process.stdin.close()  # so it gives back as soon as it has it
    assert [each.process.wait(timeout=60) for each in crowd] == [0] * 8
    assert list(tmp_path.iterdir()) == []


async def test_cancelled_waiter_takes_its_claim_back(ledger: ResourceLedger, tmp_path: Path) -> None:
    held = posted(ledger, 1)
    claim = build_claim(tmp_path, 1, 0, Machine(memory=1))
    waiting = asyncio.ensure_future(claim.acquire(lambda reason: None))
    await wait_until(lambda: len(os.listdir(tmp_path)) >= 2)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert [each.ticket for each in living(ledger)] == [held.claim.ticket]
    held.withdraw()
    claim.close()


# --- other users ------------------------------------------------------------------------------------------------------


def test_strange_content_counts_for_nothing(ledger: ResourceLedger, tmp_path: Path) -> None:
    """Links, pipes, folders, floods, garbage: none is a claim, none blocks a claim, none is opened twice."""
    held = posted(ledger, 7)
    good = held.path.read_bytes()
    (tmp_path / "target").write_bytes(good)
    (tmp_path / "link.claim").symlink_to(tmp_path / "target")
    (tmp_path / "loop.claim").symlink_to(tmp_path / "loop.claim")
    os.mkfifo(tmp_path / "pipe.claim")
    (tmp_path / "folder.claim").mkdir()
    os.link(held.path, tmp_path / "copy.claim")
    (tmp_path / ("n" * 240 + ".claim")).write_text("long")
    locked = [locked_file(tmp_path / f"{i}.claim", content) for i, content in enumerate(hostile(held.claim))]
    assert [each.ticket for each in living(ledger)] == [held.claim.ticket]
    for descriptor in locked:
        os.close(descriptor)
    held.withdraw()


def hostile(claim: Claim) -> list[bytes]:
    huge = json.dumps({"ticket": "1", "memory": 1, "gpus": 0, "devices": [], "more": "x" * MAX_BYTES}).encode()
    negative = encode(replace(claim, ticket="2", memory=-1))
    another = encode(replace(claim, ticket="other"))
    return [b"", huge, negative, another, b"\xff" * 100, b"[" * 10_000]


def locked_file(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@contextmanager
def another_user(act: Callable[[Path], str]) -> Iterator[tuple[ResourceLedger, int, str]]:
    """A ledger of two users, the process of the other one, which does something in it, and what that says."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    with tempfile.TemporaryDirectory() as name, closing(ResourceLedger(Path(name))) as ledger:
        ledger.path.chmod(0o1777)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgid(OTHER_USER)
                os.setuid(OTHER_USER)
                os.write(writing, act(ledger.path).encode())
                os.close(writing)
                signal.pause()
            finally:
                os._exit(1)
        os.close(writing)
        try:
            with os.fdopen(reading) as told:
                yield ledger, child, told.read()
        finally:
            end(child)


def end(child: int) -> None:
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_users() -> None:
    """Another user's claim counts, is his by the file system's word, and his leftovers are left to him."""

    def take_the_first_gpu(folder: Path) -> str:
        os.umask(0o777)  # the strictest that there is
        claim = build_claim(folder, 1, 1, Machine(memory=1, gpus=("a", "b")), "theirs")
        return str(asyncio.run(claim.acquire(lambda reason: None)).devices)

    with another_user(take_the_first_gpu) as (mine, child, said):
        assert said == "('a',)"
        (seen,) = living(mine)
        assert (seen.user, seen.devices) == (f"user {OTHER_USER}", ("a",))
        end(child)
        assert living(mine) == []
        # Even root leaves it to its owner, who removes it when he looks next.
        assert [path.stat().st_uid for path in mine.path.iterdir()] == [OTHER_USER]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_another_user_cannot_stop_all_jobs() -> None:
    """A claim over the machine's size does not count. A lock does; its holder is named, with what can be done."""

    def claim_all_and_lock(folder: Path) -> str:
        hog = Claim(ticket="0-1-a", job="x", job_name="hog", memory=1 << 60, gpus=0, devices=())
        locked_file(folder / f"{hog.ticket}.claim", encode(hog))
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX)
        return "ready"

    async def wait_for_notice(ledger: ResourceLedger) -> None:
        claim = build_claim(ledger.path, 1, 0, Machine(memory=1))
        waiting = asyncio.ensure_future(claim.acquire(notices.append))
        await wait_until(lambda: notices)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        claim.close()

    notices: list[str] = []
    with another_user(claim_all_and_lock) as (mine, child, said):
        assert said == "ready"
        (other,) = mine.list_claims()
        assert (other.memory, other.is_trusted) == (1 << 60, False)
        wanted = create_claim(job="job", job_name="name", memory=1, gpus=0)
        assert isinstance(decide(wanted, [other], Machine(memory=1)), Claim)
        asyncio.run(wait_for_notice(mine))
    owner = f"process {child} of user {OTHER_USER}"
    assert f"is locked by {owner}; if it never unlocks it, set scheduler.local.ledger to" in notices[0]
