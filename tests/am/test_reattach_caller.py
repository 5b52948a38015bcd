"""Calling the executors of an earlier AM attempt: all of them, repeatedly, not all at once, and not for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.waiting import wait_until
from tony.am import reattach_caller
from tony.am.reattach_caller import MAX_PARALLEL, ReattachCaller, call_executors
from tony.client.credential_creation import make_credentials
from tony.errors import ProtocolError
from tony.model.ids import TaskId
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Summon
from tony.protocol.hello import PeerKind
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Done
from tony.rpc import RpcConnection, RpcServer
from tony.rpc.am_address import is_callable

JOB = make_credentials(tls=True)
HERE = "tls:10.0.0.7:4711"
LIAR, GONE = TaskId("liar", 0), TaskId("gone", 0)


class Listener:
    """Where an executor can be called; it does what the test says."""

    def __init__(
        self, answer: Callable[[RpcConnection, Message], None] = lambda peer, message: peer.send(Done())
    ) -> None:
        self.heard: list[Message] = []
        self._answer = answer
        self._server = RpcServer(JOB.executors, self, guests=frozenset({PeerKind.MASTER}))

    async def open(self, address: str = "tls:127.0.0.1:0") -> str:
        return await self._server.listen(address)

    async def close(self) -> None:
        await self._server.close()

    def on_connected(self, connection: RpcConnection) -> None:
        pass

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        self.heard.append(message)
        self._answer(connection, message)

    def on_closed(self, connection: RpcConnection, reason: str) -> None:
        pass


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(bounded())


def refuse(code: Code) -> Callable[[RpcConnection, Message], None]:
    return lambda peer, message: peer.refuse(code, "no")


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("tls:h:1", True),
        ("tls:[fe80::1]:1", True),
        ("", False),
        ("tls:h:0", False),
        ("unix:/x", False),
        ("tls:h\x1b[2J:1", False),
        (f"tls:{'h' * 300}:1", False),
    ],
)
def test_only_valid_addresses_can_be_called(address: str, good: bool) -> None:
    """Addresses sent by executors become part of the event log, and of a socket's address."""
    assert is_callable(address) is good


async def test_one_call() -> None:
    """It says who calls, and from where; the answer is the word of the other side, or that there is none."""
    good, deaf, old = Listener(), Listener(refuse(Code.BAD_MESSAGE)), Listener(refuse(Code.SUPERSEDED))
    gone = Listener()
    addresses = [await listener.open() for listener in (good, deaf, old, gone)]
    await gone.close()
    assert await call_executors(addresses[0], JOB.am, 2, HERE)
    assert good.heard == [Summon(attempt=2, address=HERE)]
    assert not await call_executors(addresses[1], JOB.am, 2, HERE)
    with pytest.raises(ProtocolError) as caught:
        await call_executors(addresses[2], JOB.am, 2, HERE)
    assert caught.value.code == Code.SUPERSEDED
    assert not await call_executors(addresses[3], JOB.am, 2, HERE)
    assert not await call_executors("no address", JOB.am, 2, HERE)
    for listener in (good, deaf, old):
        await listener.close()


async def test_a_silent_executor_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen, or behind a network that drops everything."""
    monkeypatch.setattr(reattach_caller, "CALL_TIMEOUT_SECONDS", 0.2)
    silent = Listener(lambda peer, message: None)
    assert not await call_executors(await silent.open(), JOB.am, 2, HERE)
    assert silent.heard
    await silent.close()


async def test_all_come_in_the_end() -> None:
    """Also one that listens late; an attached executor is not called."""
    calls = ReattachCaller(JOB.am, 2, HERE, timeout=20.0)

    def comes(who: str) -> Callable[[RpcConnection, Message], None]:
        def answer(peer: RpcConnection, message: Message) -> None:
            peer.send(Done())
            calls.on_attached(TaskId(who, 0))

        return answer

    listeners = {name: Listener(comes(name)) for name in "abcd"}
    addresses = {name: await listener.open() for name, listener in listeners.items()}
    await listeners["d"].close()
    done = asyncio.ensure_future(calls.call_all({TaskId(name, 0): where for name, where in addresses.items()}))
    await wait_until(lambda: all(listeners[name].heard for name in "abc"))
    late = Listener(comes("d"))
    await late.open(addresses["d"])
    calls.on_attached(TaskId("unknown", 0))
    assert await done == frozenset()
    assert [len(listener.heard) for listener in (*listeners.values(), late)] == [1, 1, 1, 0, 1]
    for listener in (*listeners.values(), late):
        await listener.close()


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says that it comes, and does not, is called again; in the end the caller is told who is missing."""
    monkeypatch.setattr(reattach_caller, "_CONNECT_SECONDS", 0.05)
    liar = Listener()
    calls = ReattachCaller(JOB.am, 2, HERE, timeout=1.0)
    gone = Listener()
    nowhere = await gone.open()
    await gone.close()
    assert await calls.call_all({LIAR: await liar.open(), GONE: nowhere}) == {LIAR, GONE}
    assert len(liar.heard) > 1
    assert not calls.superseded
    await liar.close()


async def test_a_superseded_attempt_stops_calling() -> None:
    """An executor answers that it has obeyed a later AM attempt."""
    wise = Listener(refuse(Code.SUPERSEDED))
    calls = ReattachCaller(JOB.am, 2, HERE, timeout=20.0)
    assert await calls.call_all({LIAR: await wise.open()}) == {LIAR}
    assert calls.superseded
    await wise.close()


def test_ten_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few at a time, each once where that was enough; those on a dead node do not delay the others for long."""
    at_once = most = 0
    called: Counter[int] = Counter()

    async def scenario() -> None:
        calls = ReattachCaller(JOB.am, 2, HERE, timeout=25.0)

        async def call(address: str, *rest: object) -> bool:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            who = int(address)
            called[who] += 1
            is_dead = who % 1000 == 0 and called[who] == 1
            await asyncio.sleep(0.5 if is_dead else 0)
            at_once -= 1
            if not is_dead:
                calls.on_attached(TaskId("worker", who))
            return not is_dead

        monkeypatch.setattr(reattach_caller, "call_executors", call)
        assert await calls.call_all({TaskId("worker", who): str(who) for who in range(10_000)}) == frozenset()

    play(scenario)
    assert most == MAX_PARALLEL
    assert Counter(called.values()) == {1: 9990, 2: 10}


async def test_the_first_attempt_calls_no_executors() -> None:
    calls = ReattachCaller(JOB.am, 1, HERE, timeout=20.0)
    assert await calls.call_all({}) == frozenset()
