"""Blocking work in threads next to the event loop, bounded for each kind of work and for each user.

A server works for several users, and reads files and calls servers that other users chose. Each kind of work has a
`Lane`: threads that no other kind can take. One user gets only a few of a lane's threads, so that work which hangs
delays that user alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tony.errors import OverloadedError

P = ParamSpec("P")
T = TypeVar("T")

#: The user that the current task works for; None: the program itself.
_USER: contextvars.ContextVar[str | None] = contextvars.ContextVar("user", default=None)
#: Maximum threads of one lane of one loop: they wait for disks and other processes, which a few of them saturate.
_THREADS_OF_PROGRAM = 8
_THREADS_OF_USERS = 16
#: Maximum threads of one user.
_THREADS_OF_ONE_USER = 2
#: Timeout of a user's request in the lane of `to_thread`.
_TIMEOUT_SECONDS = 30.0
#: Seconds for which a thread of a lane waits for another one that does the same work: a waiting request occupies one of
#: its user's two threads.
_LOCK_TIMEOUT_SECONDS = 2.0


def set_user(name: str | None) -> None:
    """Set the user that the current task works for; tasks that it creates inherit that."""
    _USER.set(name)


@contextmanager
def act_for(name: str | None) -> Iterator[None]:
    """Like `set_user`, as long as the context lasts."""
    before = _USER.set(name)
    try:
        yield
    finally:
        _USER.reset(before)


def get_current_user() -> str | None:
    """Return the user that the current task works for; None: the program itself."""
    return _USER.get()


class _LoopSlots:
    """The slots of one loop."""

    def __init__(self, of_program: int, of_users: int) -> None:
        self.program = asyncio.Semaphore(of_program)
        self.users = asyncio.Semaphore(of_users)
        self.by_user: dict[str, _UserSlots] = {}


class _UserSlots:
    """The slots of one user.

    Attributes:
        known: how many hold a slot or wait for one; at zero the user is forgotten.
        late: how many hold a slot although their request has timed out.
    """

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.known = 0
        self.late = 0


class Slots:
    """A bounded number of slots. Work for users has its own, of which one user gets a part.

    Args:
        of_program: for work of the program itself.
        of_users: for work for users, all together.
        of_one_user: of these, for one user.
    """

    def __init__(self, of_program: int, of_users: int, of_one_user: int) -> None:
        self._of_program, self._of_users, self.of_one_user = of_program, of_users, of_one_user
        self._loop_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSlots] = WeakKeyDictionary()

    async def acquire(self) -> Slot:
        """Wait for a slot of the current user."""
        loop = asyncio.get_running_loop()
        loop_slots = self._loop_slots.setdefault(loop, _LoopSlots(self._of_program, self._of_users))
        user = _USER.get()
        if user is None:
            await loop_slots.program.acquire()
            return Slot(loop_slots)
        user_slots = loop_slots.by_user.setdefault(user, _UserSlots(self.of_one_user))
        user_slots.known += 1
        slot = Slot(loop_slots, user, user_slots)
        try:
            await user_slots.semaphore.acquire()
            slot.has_own = True
            await loop_slots.users.acquire()
            slot.has_shared = True
        except BaseException:
            slot.release()
            raise
        return slot

    def count_late(self) -> int:
        """Return how many slots of the current user are held by work that timed out and still runs."""
        loop_slots = self._loop_slots.get(asyncio.get_running_loop())
        user_slots = loop_slots.by_user.get(_USER.get() or "") if loop_slots else None
        return user_slots.late if user_slots else 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a slot of the current user as long as the context lasts."""
        slot = await self.acquire()
        try:
            yield
        finally:
            slot.release()


class Slot:
    """One slot, until `release`."""

    def __init__(self, loop_slots: _LoopSlots, user: str = "", user_slots: _UserSlots | None = None) -> None:
        self._loop_slots, self._user, self._user_slots = loop_slots, user, user_slots
        self.has_own = self.has_shared = False
        self._late = False

    def mark_late(self) -> None:
        """Note that the work in it has timed out."""
        if self._user_slots is not None and not self._late:
            self._late = True
            self._user_slots.late += 1

    def release(self) -> None:
        """Release the slot. Call it in the loop's thread."""
        if self._user_slots is None:
            self._loop_slots.program.release()
            return
        if self.has_shared:
            self._loop_slots.users.release()
        if self.has_own:
            self._user_slots.semaphore.release()
        self._user_slots.late -= self._late
        self._user_slots.known -= 1
        if not self._user_slots.known:
            del self._loop_slots.by_user[self._user]


class Lane:
    """Threads for one kind of work.

    Args:
        what: the result, for messages: `"the list of jobs"`.
        timeout: seconds that a user's request waits, for a thread and its work together.
    """

    def __init__(self, what: str, timeout: float) -> None:
        self._what = what
        self.timeout = timeout
        self._slots = Slots(_THREADS_OF_PROGRAM, _THREADS_OF_USERS, _THREADS_OF_ONE_USER)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work in a thread, like `asyncio.to_thread`.

        Where no thread can be started, it runs in the loop. Each call uses a new thread: a pool's threads stay, its
        shutdown needs one more, and work is run twice if the pool could not start a thread. One that takes too long
        is abandoned; it keeps its slot until it ends.

        Raises:
            OverloadedError: it takes too long, for a user.
        """
        return await self.run_for(self.timeout, work, *args, **kwargs)

    async def run_for(self, timeout: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `run`, with another timeout."""
        slots = self._slots
        if slots.count_late() >= slots.of_one_user:
            raise OverloadedError(
                f"{slots.of_one_user} of your earlier requests are still waiting for {self._what}; no more are started "
                "until one of them ends"
            )
        slot: Slot | None = None
        try:
            async with asyncio.timeout(None if _USER.get() is None else timeout) as limit:
                slot = await slots.acquire()
                run = partial(contextvars.copy_context().run, work, *args, **kwargs)
                return await _run_in_slot(slot, run)
        except TimeoutError:
            if not limit.expired():
                raise
            if slot is None:
                why = "your other requests for it are not finished yet, or this server has too many of them"
            else:
                slot.mark_late()
                why = "its storage does not answer, or it is very large"
            raise OverloadedError(f"{self._what} could not be read within {timeout:.0f} s: {why}") from None


async def _run_in_slot(slot: Slot, run: Callable[[], T]) -> T:
    """Run the work; the slot is released when it ends, even if this coroutine is cancelled before."""
    try:
        # A user's work may hang: the program does not wait for it when it exits.
        done = start_in_thread(run, daemon=_USER.get() is not None)
    except RuntimeError:
        try:
            return run()
        finally:
            slot.release()
    done.add_done_callback(lambda _: slot.release())
    return await asyncio.shield(done)


def start_in_thread(work: Callable[[], T], *, daemon: bool) -> asyncio.Future[T]:
    """Start work in a new thread; the future gets its result.

    Args:
        daemon: the process does not wait for the thread when it exits.

    Raises:
        RuntimeError: no thread can be started.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    done.add_done_callback(lambda future: future.cancelled() or future.exception())  # or an abandoned one is logged

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def report() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as caught:  # raised in the waiting coroutine
            error = caught
        call_on_loop(loop, settle, result, error)

    threading.Thread(target=report, name="worker", daemon=daemon).start()
    return done


def call_on_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function on an event loop from a thread, unless the loop has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(partial(call, *args, **kwargs))


@contextmanager
def lock_held(lock: threading.Lock, what: str) -> Iterator[None]:
    """Hold a lock that another user's request may hold for long.

    Args:
        what: what is being done with it, for messages: `"the record of x is being copied"`.

    Raises:
        OverloadedError: another thread holds it for too long.
    """
    if not lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
        raise OverloadedError(f"{what} for another request. Try again in a moment.")
    try:
        yield
    finally:
        lock.release()


#: For work without a lane of its own.
USUAL = Lane("the job's record", _TIMEOUT_SECONDS)
#: Job directories on this machine outside the user's state directory: their owners can make it slow.
OTHERS = Lane("the directory of another user's job", 30.0)
#: Logins, groups and the job index: local files of the portal, so that a list never waits for a job directory.
LISTS = Lane("the list of jobs", 15.0)
#: File systems and servers that a history or a job names.
STORES = Lane("a file system on other machines", 30.0)


async def to_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `Lane.run`, in the default lane."""
    return await USUAL.run(work, *args, **kwargs)
