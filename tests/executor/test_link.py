"""Keeping in touch: reconnecting, beating, giving up. Connections and time are the test's."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tony.errors import ConnectionFailed, ProtocolError
from tony.executor.dialog import Dialog, EndExecutor, Wish
from tony.executor.lease import Lease
from tony.executor.link import Link
from tony.protocol import messages as msg


class Clock:
    """Time that goes on only when the test says so, or the loop has waited."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    def wall(self) -> float:
        return 0.0


class Line:
    """One connection: what comes is in `script` (an error is raised, None is the end), what is sent is kept.

    A callable in the script is called; it may wait.
    """

    def __init__(self, script: Sequence[object], error: Exception | None = None) -> None:
        self.script = list(script)
        self.sent: list[msg.Message] = []
        self.closed = False
        self.error = error

    def send(self, message: msg.Message) -> None:
        self.sent.append(message)

    async def receive(self) -> msg.Message | None:
        step = self.script.pop(0) if self.script else None
        while callable(step):
            await step()
            step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        assert step is None or isinstance(step, msg.Message)
        return step

    def close(self) -> None:
        self.closed = True


GONE = ConnectionFailed("nobody listens there", gone=True)
UNKNOWN = ConnectionFailed("no route")


class World:
    """A link, and the connections it will get one after the other; then nobody is there."""

    def __init__(self, *lines: Line | Exception, length: float = 0.0, patience: float = 5.0) -> None:
        self.clock = Clock()
        self.lines = list(lines)
        self.tries = 0
        self.wishes: list[Wish] = []
        attach = msg.Attach(task="worker:0", container="c", incarnation="i", highest_attempt=1, pid=1, host="h")
        self.dialog = Dialog(attach, 1)
        self.lease = Lease(length, patience, self.clock.monotonic())
        self.link = Link(self.dialog, self.lease, self.connect, self.clock, lambda: msg.Heartbeat(), self.wishes.append)

    async def connect(self, timeout: float) -> Line:
        self.tries += 1
        found = self.lines.pop(0) if self.lines else GONE
        if isinstance(found, Exception):
            raise found
        return found


def welcome(attempt: int = 1, interval: float = 60.0) -> msg.Welcome:
    return msg.Welcome(attempt=attempt, heartbeat_interval=interval, acked=0)


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(bounded())


def test_nobody_there_ends_a_lease_of_zero_at_once() -> None:
    """By default a program does not outlive its application master."""

    async def scenario() -> None:
        world = World()
        assert await world.link.keep() == "nobody listens there"
        assert world.tries == 1

    play(scenario)


def test_lease_holds_while_somebody_may_come_back() -> None:
    """Within the lease it tries again, and the new application master finds the same executor."""

    async def scenario() -> None:
        line = Line([welcome(attempt=2), None])
        world = World(GONE, GONE, GONE, line, length=0.5, patience=0.5)
        world.dialog.ready(1, "h:1")
        assert await world.link.keep() == "nobody listens there"
        assert world.tries > 4
        attach, ready = line.sent
        assert isinstance(attach, msg.Attach)
        assert ready == msg.Ready(n=1, session=1, address="h:1")
        assert line.closed
        assert world.dialog.highest_attempt == 2

    play(scenario)


def test_unknown_trouble_is_borne_for_the_connect_timeout() -> None:
    """A network that is cut is no proof of anything: patience, though the lease is zero."""

    async def scenario() -> None:
        world = World(*[UNKNOWN] * 3, Line([welcome(), None]), length=0.0, patience=20.0)
        assert await world.link.keep() == "nobody listens there"
        assert world.tries == 5

    play(scenario)


@pytest.mark.parametrize("code", ["token", "version", "stale", "bad-message"])
def test_refusal_is_as_good_as_nobody_there(code: str) -> None:
    """Trying again would be of no use, at the hello and after it."""

    async def scenario() -> None:
        at_hello = World(ProtocolError(code, "go away"), patience=60.0)
        assert await at_hello.link.keep() == "go away"
        after = World(Line([ProtocolError(code, "go away")]), patience=60.0)
        assert await after.link.keep() == "the application master refused us: go away"

    play(scenario)


def test_busy_means_come_back() -> None:
    """An application master with too much to do is there."""

    async def scenario() -> None:
        world = World(ProtocolError("busy", "later"), ProtocolError("busy", "later"), patience=60.0)
        await world.link.keep()
        assert world.tries == 3

    play(scenario)


def test_older_master_is_left() -> None:
    """An executor that has obeyed attempt 2 does not talk to attempt 1."""

    async def scenario() -> None:
        old = Line([welcome(attempt=1), msg.ReleaseExecutor()])
        world = World(Line([welcome(attempt=2), None]), old)
        why = await world.link.keep()
        assert "older application master" in why
        assert world.wishes == []
        assert old.closed

    play(scenario)


def test_reports_flow_while_connected() -> None:
    """Each once per connection, at once; wishes go to who performs them."""

    async def scenario() -> None:
        async def report() -> None:
            world.dialog.started(1, 1, 42)
            world.link.flush()
            world.link.flush()

        line = Line([welcome(), report, msg.ReleaseExecutor(grace=2.0), None])
        world = World(line)
        world.link.flush()  # without a connection: nothing happens
        await world.link.keep()
        assert [msg.Attach, msg.ProgramStarted] == [type(message) for message in line.sent]
        assert world.wishes == [EndExecutor(grace=2.0)]

    play(scenario)


def test_heart_beats_at_the_interval_it_was_told() -> None:
    """Only after the Welcome, again and again."""

    async def scenario() -> None:
        async def some_beats() -> None:
            while sum(isinstance(message, msg.Heartbeat) for message in line.sent) < 3:
                await asyncio.sleep(0.001)

        line = Line([welcome(interval=0.01), some_beats, None])
        await World(line).link.keep()
        assert isinstance(line.sent[0], msg.Attach)

    play(scenario)


def test_silence_after_attach_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who takes connections and says nothing is not our application master."""
    monkeypatch.setattr("tony.executor.link._ANSWER", 0.05)

    async def scenario() -> None:
        async def for_ever() -> None:
            await asyncio.sleep(600)

        world = World(Line([for_ever]), patience=60.0)
        await world.link.keep()
        assert world.tries == 2

    play(scenario)


@pytest.mark.parametrize(("error", "renewed"), [(None, True), (ConnectionFailed("timed out"), False)])
def test_orderly_end_is_contact_and_a_broken_connection_is_not(error: Exception | None, renewed: bool) -> None:
    """The lease begins when the application master was last known to be there."""

    async def scenario() -> None:
        async def later() -> None:
            world.clock.ahead += 100.0

        world = World(Line([welcome(), later, None], error), length=50.0)
        world.lease.renew(world.clock.monotonic())
        keeping = asyncio.ensure_future(world.link.keep())
        done, _ = await asyncio.wait([keeping], timeout=2.0)
        assert bool(done) is not renewed
        keeping.cancel()

    play(scenario)
