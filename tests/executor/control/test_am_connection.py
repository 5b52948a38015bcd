"""Keeping in touch: reconnecting, beating, giving up. Connections and time are the test's."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.support.waiting import wait_until
from tony.errors import ConnectionFailedError, ProtocolError
from tony.executor.control.am_connection import AmConnection
from tony.executor.control.lease import Lease
from tony.executor.control.session_protocol import SessionProtocol
from tony.model.ids import TaskId
from tony.protocol.executor_messages import (
    Ack,
    Attach,
    Heartbeat,
    Prepare,
    ProgramStarted,
    Ready,
    ReleaseExecutor,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import SetLogLevel


class Clock:
    """Time that continues only when the test says so, or the loop has waited."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


class Line:
    """One connection: what comes is in `script` (an error is raised, None is the end), what is sent is kept.

    A callable in the script is called; it may wait.
    """

    def __init__(self, script: Sequence[object], error: Exception | None = None) -> None:
        self.script = list(script)
        self.sent: list[Message] = []
        self.closed = False
        self.error = error
        self.is_full = False

    def send(self, message: Message) -> None:
        self.sent.append(message)

    async def receive(self) -> Message | None:
        step = self.script.pop(0) if self.script else None
        while callable(step):
            await step()
            step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        assert step is None or isinstance(step, Message)
        return step

    def close(self) -> None:
        self.closed = True


GONE = ConnectionFailedError("no listener there", no_listener=True)
UNKNOWN = ConnectionFailedError("no route")


class World:
    """A link, and the connections it will get one after the other; then nothing listens."""

    def __init__(self, *lines: Line | Exception, length: float = 0.0, patience: float = 5.0) -> None:
        self.clock = Clock()
        self.lines = list(lines)
        self.tries = 0
        self.actions: list[Message] = []
        attach = Attach(task=TaskId("worker", 0), container="c", incarnation="i", highest_attempt=1, pid=1, host="h")
        self.dialog = SessionProtocol(attach, 1)
        self.lease = Lease(length, patience, self.clock.monotonic())
        self.link = AmConnection(
            self.dialog, self.lease, self.connect, self.clock, lambda: Heartbeat(), self.actions.append
        )

    async def connect(self, timeout: float) -> Line:
        self.tries += 1
        found = self.lines.pop(0) if self.lines else GONE
        if isinstance(found, Exception):
            raise found
        return found


def welcome(attempt: int = 1, interval: float = 60.0) -> Welcome:
    return Welcome(attempt=attempt, heartbeat_interval=interval, acked=0)


async def test_a_lease_of_zero_ends_with_the_connection() -> None:
    """By default a program does not outlive its AM."""
    world = World()
    assert await world.link.keep() == "no listener there"
    assert world.tries == 1


async def test_the_lease_holds_while_the_am_may_return() -> None:
    """Within the lease it reconnects, and the new AM finds the same executor."""
    line = Line([welcome(attempt=2), None])
    world = World(GONE, GONE, GONE, line, length=0.5, patience=0.5)
    world.dialog.report_ready(1, "h:1")
    assert await world.link.keep() == "no listener there"
    assert world.tries > 4
    attach, ready = line.sent
    assert isinstance(attach, Attach)
    assert ready == Ready(n=1, session=1, address="h:1")
    assert line.closed
    assert world.dialog.highest_attempt == 2


async def test_unknown_trouble_is_borne_for_the_connect_timeout() -> None:
    """A network that is cut is no proof of anything: patience, though the lease is zero."""
    world = World(*[UNKNOWN] * 3, Line([welcome(), None]), length=0.0, patience=20.0)
    assert await world.link.keep() == "no listener there"
    assert world.tries == 5


@pytest.mark.parametrize("code", ["token", "version", "stale", "bad-message"])
async def test_an_executor_refused_at_the_start_exits(code: str) -> None:
    """Nothing runs yet, and trying again would be of no use: at the hello and after it."""
    at_hello = World(ProtocolError(code, "go away"), length=60.0)
    assert await at_hello.link.keep() == "go away"
    after = World(Line([ProtocolError(code, "go away")]), length=60.0)
    assert await after.link.keep() == "the application master refused the executor: go away"
    assert at_hello.link.is_rejected
    assert after.link.is_rejected


async def test_an_executor_refused_as_stale_exits_at_once() -> None:
    """Whatever is left of the lease: another one may have its place."""
    world = World(Line([welcome(), None]), Line([ProtocolError("stale", "another has it")]), length=600.0)
    assert await world.link.keep() == "the application master refused the executor: another has it"
    assert world.link.is_rejected


@pytest.mark.parametrize("code", ["superseded", "busy", "token", "bad-message", "version"])
async def test_other_refusals_end_nothing_that_runs(code: str) -> None:
    """An older application master has no authority, and any process may listen at the address of a dead one."""
    refused = ProtocolError(code, "not you")
    last = Line([welcome(attempt=2), ProtocolError("stale", "enough")])
    world = World(Line([welcome(), None]), refused, Line([refused]), refused, last, length=600.0)
    assert await world.link.keep() == "the application master refused the executor: enough"
    assert world.tries == 5
    assert world.dialog.highest_attempt == 2


async def test_busy_means_come_back() -> None:
    """An application master with too much to do is there."""
    world = World(ProtocolError("busy", "later"), ProtocolError("busy", "later"), patience=60.0)
    await world.link.keep()
    assert world.tries == 3


async def test_older_master_is_left() -> None:
    """An executor that has obeyed attempt 2 does not talk to attempt 1, and looks for a later one."""
    old = Line([welcome(attempt=1), ReleaseExecutor()])
    world = World(Line([welcome(attempt=2), None]), old)
    assert await world.link.keep() == "no listener there"
    assert world.tries == 3
    assert world.actions == []
    assert old.closed


async def test_commands_of_an_older_session_are_refused_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    old = [StopProgram(session=n, grace=1.0) for n in (1, 2, 1, 2)]
    line = Line([welcome(), Prepare(session=3), *old, Prepare(session=3)])
    world = World(line)
    await world.link.keep()
    assert world.dialog.refused == 5
    said = [r.getMessage() for r in caplog.records if "ignored" in r.getMessage()]
    assert said == [f"ignored stop-program of session {n}: the current one is 3" for n in (1, 2)]


async def test_reports_flow_while_connected() -> None:
    """Each once per connection, at once; actions go to who performs them."""

    async def report() -> None:
        world.dialog.report_started(1, 1, 42)
        world.link.flush()
        world.link.flush()

    line = Line([welcome(), report, ReleaseExecutor(grace=2.0), None])
    world = World(line)
    world.link.flush()  # without a connection: nothing happens
    await world.link.keep()
    assert [Attach, ProgramStarted] == [type(message) for message in line.sent]
    assert world.actions == [ReleaseExecutor(grace=2.0)]


async def test_heartbeats_have_the_interval_of_the_welcome() -> None:
    """None before the Welcome."""

    async def some_beats() -> None:
        await wait_until(lambda: sum(isinstance(message, Heartbeat) for message in line.sent) >= 3)

    line = Line([welcome(interval=0.01), some_beats, None])
    await World(line).link.keep()
    assert isinstance(line.sent[0], Attach)


async def test_silence_after_attach_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that accepts the connection and never answers is not our application master."""
    monkeypatch.setattr("tony.executor.control.am_connection._ANSWER_TIMEOUT_SECONDS", 0.05)

    async def for_ever() -> None:
        await asyncio.sleep(600)

    world = World(Line([for_ever]), patience=60.0)
    await world.link.keep()
    assert world.tries == 2


# --- the lease --------------------------------------------------------------------------------------------------------


def pass_by(world: World, seconds: float) -> Callable[[], Coroutine[Any, Any, None]]:
    """A step of a script: so much time goes by on the executor's clock."""

    async def later() -> None:
        world.clock.ahead += seconds

    return later


def until(true: Callable[[], object]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A step of a script: waits for something."""

    async def wait() -> None:
        await wait_until(true)

    return wait


def asking(line: Line) -> list[Heartbeat]:
    """The heartbeats that are to be answered."""
    return [each for each in line.sent if isinstance(each, Heartbeat) and each.asks]


class Answer(Line):
    """A connection whose other end answers the heartbeats that ask, and says nothing else until the end."""

    async def receive(self) -> Message | None:
        if self.script:
            return await super().receive()
        await until(lambda: asking(self))()
        beat = asking(self)[-1]
        self.sent.clear()
        return Ack(n=0, heard=beat.mono)


@pytest.mark.parametrize("last", [None, Ack(n=0), SetLogLevel(level="info"), Ack(n=0, heard=-1e9)])
async def test_only_an_answer_renews_the_lease(last: object) -> None:
    """That something comes is no proof that we are heard, and neither is a connection that ends in good order."""
    world = World(length=50.0)
    world.lines = [Line([welcome(), pass_by(world, 100.0), last])]
    assert await world.link.keep() in ("the connection was closed", "no listener there")
    assert world.tries == 1


async def test_a_lease_runs_from_the_time_of_the_request() -> None:
    """Not from when the answer came: the application master counts from when it got the request."""
    world = World(length=60.0)
    began = world.clock.monotonic()
    world.clock.ahead = 50.0
    line = Line([welcome()])
    line.script += [Ack(n=0, heard=began + 20.0), pass_by(world, 25.0), None]
    world.lines = [line]
    world.lease = world.link._lease = Lease(60.0, 5.0, began)
    keeping = asyncio.ensure_future(world.link.keep())
    await until(lambda: world.tries > 1)()
    left = world.lease.compute_time_left(world.clock.monotonic(), no_listener=True)
    assert 30.0 < left < 36.0  # welcomed at 50, it is 75 now
    keeping.cancel()


async def test_an_answer_is_requested_in_time() -> None:
    """Whatever the heartbeat interval is, and however long the AM sends nothing by itself."""
    world = World(length=0.5, patience=0.5)
    line = Answer([welcome(interval=600.0)])
    world.lines = [line]
    keeping = asyncio.ensure_future(world.link.keep())
    await asyncio.sleep(1.5)  # three terms
    assert not keeping.done()
    assert world.tries == 1
    keeping.cancel()


async def test_a_connection_without_answers_ends_with_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """What we send may be lost although what we are sent arrives."""
    monkeypatch.setattr("tony.executor.control.am_connection.EXPIRY_GRACE_SECONDS", 0.05)
    world = World(length=0.3, patience=0.3)
    line = Line([welcome(interval=0.01), *[SetLogLevel(level="info")] * 5, until(lambda: False)])
    world.lines = [line]
    assert await world.link.keep() == "no answer for 0 s"
    assert line.closed
    assert asking(line)


async def test_a_laptop_may_sleep() -> None:
    """Its clock continues meanwhile. The application master, which slept as well, answers when it wakes up."""
    world = World(length=60.0)
    line = Answer([welcome(interval=0.01), pass_by(world, 3600.0), Ack(n=0)])
    world.lines = [line]
    keeping = asyncio.ensure_future(world.link.keep())
    await until(
        lambda: world.lease.compute_time_left(world.clock.monotonic(), no_listener=True) > 50.0 and not line.script
    )()
    assert not keeping.done()
    keeping.cancel()


async def test_a_start_message_older_than_the_lease_is_not_executed() -> None:
    """It is requested again on a new connection, on which all messages are sent once more."""
    start = StartProgram(attempt=1, session=1, try_=1, version=1, shared=None)
    world = World(length=60.0)
    world.dialog.report_ready(1, "h:1")
    second = Line([welcome(), start, until(lambda: False)])
    world.lines = [Answer([welcome(interval=0.01), pass_by(world, 3600.0), start]), second]
    keeping = asyncio.ensure_future(world.link.keep())
    await until(lambda: world.actions)()
    assert world.tries == 2
    assert [action for action in world.actions if isinstance(action, StartProgram)] == [start]
    keeping.cancel()


@pytest.mark.parametrize("rate", [0.95, 1.05])
async def test_clocks_run_at_different_rates(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease of ours has ended before the application master, whose clock is 5 % faster or slower, takes it to be."""
    monkeypatch.setattr("tony.executor.control.am_connection.EXPIRY_GRACE_SECONDS", 0.0)
    world = World(length=1.0, patience=0.0)
    monkeypatch.setattr(world.clock, "monotonic", lambda: rate * asyncio.get_running_loop().time())
    world.lease = world.link._lease = Lease(1.0, 0.0, world.clock.monotonic())
    world.lines = [Line([welcome(interval=0.01), None])]
    began = asyncio.get_running_loop().time()
    await world.link.keep()
    assert asyncio.get_running_loop().time() - began < 1.0 * 1.06 + 1.0  # a busy machine; see the page


# --- reattach requests ------------------------------------------------------------------------------------------------


async def test_a_summons_ends_the_waiting() -> None:
    """Also one after many failed attempts, and while a connection to an address that does not answer is being made."""

    async def hang(timeout: float) -> Line:
        await asyncio.sleep(600)
        raise AssertionError

    world = World(*[GONE] * 30, length=600.0)
    monkey, world.link._connect = world.link._connect, hang
    keeping = asyncio.ensure_future(world.link.keep())
    await asyncio.sleep(0.01)
    world.link._connect = monkey
    world.link.on_reattach_request(2, moved=True)
    await until(lambda: world.tries > 6)()
    world.lines = [Line([welcome(attempt=2), ProtocolError("stale", "enough")])]
    world.link.on_reattach_request(2, moved=False)
    world.link.on_reattach_request(2, moved=False)
    assert await keeping == "the application master refused the executor: enough"


async def test_a_summons_takes_us_from_the_older_one_and_from_no_other() -> None:
    """Who calls twice, or calls although we are there, disturbs nothing."""
    first, second = Line([welcome(), until(lambda: False)]), Line([welcome(attempt=2), until(lambda: False)])
    world = World(first, second, length=600.0)
    keeping = asyncio.ensure_future(world.link.keep())
    await until(lambda: world.dialog.peer_attempt == 1)()
    world.dialog.accept_reattach(2)
    world.link.on_reattach_request(2, moved=True)
    await until(lambda: world.dialog.peer_attempt == 2)()
    assert first.closed
    for _ in range(3):
        world.link.on_reattach_request(2, moved=False)
        await asyncio.sleep(0.001)
    assert not second.closed
    assert world.tries == 2
    keeping.cancel()
