"""Tests of `tony.hadoop.failover`: who is asked, how often, how long, and with which call id."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace as with_fields
from itertools import pairwise
from typing import Any

import pytest

from tests.hadoop.ipc.echo import ALICE, ECHO, PROTOCOL, TOKEN, WHO, Said, daemon
from tests.support.hadoop.faults import (
    DelayResponse,
    DropResponse,
    FaultMoment,
    HoldResponse,
    Refuse,
    Silence,
    retriable,
    standby,
)
from tests.support.hadoop.ipc_server import Auth, FakeIpcServer
from tests.support.waiting import wait_until
from tony.address import Address
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import ServiceAddress
from tony.hadoop.errors import (
    AccessControlError,
    CallTimeoutError,
    ConnectError,
    ConnectFailure,
    ConnectionLostError,
    LoginError,
    SafeModeError,
    SaslError,
    StandbyError,
)
from tony.hadoop.failover import (
    DaemonsUnavailableError,
    FailoverProxy,
    Policy,
    build_connection_options,
    build_resource_manager_policy,
)
from tony.hadoop.ipc.connection import IpcConnection
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.ipc.tcp_connection import ConnectionOptions

#: Pauses that a test does not feel.
QUICK = Policy(give_up_after=20.0, shortest=0.01, longest=0.02)
HI = Said(text="hi")
_JAVA = "org.apache.hadoop."


def proxy(*servers: FakeIpcServer, policy: Policy = QUICK, login: LoginIdentity = ALICE, **given: Any) -> FailoverProxy:
    """A proxy of these daemons, by the names of d0, d1..."""
    daemons = [
        ServiceAddress(id=f"d{n}", address=server.address, source=f"key.d{n}") for n, server in enumerate(servers)
    ]
    return FailoverProxy(name="EchoService", daemons=daemons, login=login, protocol=PROTOCOL, policy=policy, **given)


@asynccontextmanager
async def pair(**given: Any) -> AsyncIterator[tuple[FakeIpcServer, FakeIpcServer, FailoverProxy]]:
    """Two daemons that run, and a proxy of both."""
    async with daemon() as one, daemon() as two, proxy(one, two, **given) as both:
        yield one, two, both


async def test_one_connection_serves_all_calls() -> None:
    async with daemon() as server, proxy(server) as only:
        answers = await asyncio.gather(*(only.call(ECHO, Said(number=n)) for n in range(50)))
        assert list(range(50)) == [answer.number for answer in answers]
        assert HI == await only.call(ECHO, HI)
        assert 1 == server.connections


async def test_a_standby_sends_us_to_the_other_one_and_back() -> None:
    """Who answered is asked first the next time; the call keeps its id and counts its repetitions."""
    async with pair() as (one, two, both):
        one.order(standby(), times=2)
        assert HI == await both.call(ECHO, HI)
        assert "d1" == both.active.id
        (first,), (second,) = one.calls, two.calls
        assert (first.call_id, first.client_id, 0) == (second.call_id, second.client_id, first.retry_count)
        assert 1 == second.retry_count
        await both.call(ECHO, HI)
        assert (1, 2) == (len(one.calls), len(two.calls))
        two.order(standby())
        assert HI == await both.call(ECHO, HI)  # d0 says standby once more, then d1 again
        assert ("d1", 2) == (both.active.id, len(one.calls))


async def test_a_daemon_that_is_down_is_passed_over() -> None:
    """A standby ResourceManager does not even listen."""
    async with pair() as (one, two, both):
        await one.stop()
        assert HI == await both.call(ECHO, HI)
        assert ("d1", 1) == (both.active.id, len(two.calls))


async def test_many_calls_move_on_together() -> None:
    """Fifty calls that meet a standby make one new connection, not fifty."""
    async with pair() as (one, two, both):
        one.order(standby(), times=50)
        await asyncio.gather(*(both.call(ECHO, Said(number=n)) for n in range(50)))
        assert (1, 1, 50) == (one.connections, two.connections, len(two.calls))


async def test_both_standby_is_waited_for() -> None:
    """Rounds with pauses, until one has become active."""
    async with pair() as (one, two, both):
        one.order(standby(), times=3)
        two.order(standby(), times=3)
        assert HI == await both.call(ECHO, HI)
        assert [6] == [call.retry_count for call in one.calls[3:]]


async def test_a_daemon_that_starts_again_is_found() -> None:
    """Killed in the middle of a call, away for a while, back on the same port."""
    async with daemon() as server, proxy(server) as only:
        await only.call(ECHO, HI)
        hold = HoldResponse(executed=False)
        server.order(hold)
        call = asyncio.create_task(only.call(ECHO, HI))
        await hold.is_held.wait()
        await server.stop()
        await wait_until(lambda: only._failures)
        await server.start()
        assert HI == await call
        assert 1 < server.calls[-1].retry_count


async def test_an_idle_connection_that_broke_is_made_again_at_once() -> None:
    """With the same daemon, and without a pause."""
    async with pair(policy=Policy(give_up_after=5.0, shortest=60.0, longest=60.0)) as (one, two, both):
        for _ in range(3):
            await both.call(ECHO, HI)
            one.drop_all()
            while both._connection is not None and both._connection.is_open:
                await asyncio.sleep(0)
        await both.call(ECHO, HI)
        assert ("d0", 0) == (both.active.id, two.connections)


async def test_calls_that_may_have_run_are_repeated_only_if_idempotent() -> None:
    async with pair(options=ConnectionOptions(call_timeout=0.2)) as (one, two, both):
        for fault, error in ((DropResponse(executed=True), ConnectionLostError), (Silence(), CallTimeoutError)):
            for server in (one, two):
                server.forgive()
                server.order(fault, method=WHO.name)
                server.order(fault, method=ECHO.name)
            with pytest.raises(error):
                await both.call(WHO, HI)
            assert HI == await both.call(ECHO, HI)


async def test_a_daemon_that_hangs() -> None:
    """Who has not answered yet is not waited for if there is another; who has may take his time."""
    async with pair(policy=with_fields(QUICK, first_answer=0.2)) as (one, two, both):
        one.order(Silence(), times=6)
        answers = await asyncio.gather(*(both.call(ECHO, Said(number=n)) for n in range(6)))
        assert list(range(6)) == [answer.number for answer in answers]
        assert ("d1", 1) == (both.active.id, two.connections)
        two.order(DelayResponse(seconds=0.5))
        assert HI == await both.call(ECHO, HI)
    async with daemon() as server, proxy(server, policy=with_fields(QUICK, first_answer=0.1)) as only:
        server.order(DelayResponse(seconds=0.3))
        assert HI == await only.call(ECHO, HI)
        assert 1 == len(server.calls)


async def test_silence_counts_from_the_question_on() -> None:
    """One that hangs, and is alone, is not asked again when its silence was longer than the patience."""
    policy, options = with_fields(QUICK, give_up_after=1.0), ConnectionOptions(call_timeout=1.2)
    async with daemon() as server, proxy(server, policy=policy, options=options) as only:
        server.order(Silence(), times=2)
        with pytest.raises(DaemonsUnavailableError, match=r"EchoService.* for [1-9][\d.]* s"):
            await only.call(ECHO, HI)
        assert 1 == len(server.calls)


async def test_a_call_that_times_out_leaves_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed when the last of its calls is through."""
    async with daemon() as server, proxy(server) as only:
        hold = HoldResponse()
        server.order(hold)
        patient = asyncio.create_task(only.call(ECHO, Said(number=1)))
        await hold.is_held.wait()
        server.order(Silence())
        monkeypatch.setattr(only, "_choose_timeout", lambda method: 0.1)
        assert HI == await only.call(ECHO, HI)
        assert (2, 1) == (server.connections, len(only._retired))
        hold.release()
        assert 1 == (await patient).number
        assert not only._retired


async def test_a_retriable_call_is_repeated_on_its_connection() -> None:
    """After a pause."""
    async with pair() as (one, two, both):
        one.order(retriable(), times=3)
        assert HI == await both.call(ECHO, HI)
        assert ([0, 1, 2, 3], 1, 0) == ([call.retry_count for call in one.calls], one.connections, two.connections)


async def test_safe_mode_is_the_callers_unless_it_will_end_by_itself() -> None:
    """A NameNode of a pair that is starting up says so in other words."""
    async with daemon() as server, proxy(server) as only:
        server.order(Refuse(class_name=f"{_JAVA}hdfs.server.namenode.SafeModeException"))
        with pytest.raises(SafeModeError):
            await only.call(ECHO, HI)
        server.order(retriable(f"{_JAVA}hdfs.server.namenode.SafeModeException: Cannot create"), times=2)
        assert HI == await only.call(ECHO, HI)


async def test_other_errors_are_the_callers() -> None:
    """No other daemon is called, and later calls are not delayed."""
    async with pair(policy=Policy(give_up_after=5.0, shortest=60.0, longest=60.0)) as (one, two, both):
        for fatal in (False, True):
            one.order(Refuse(class_name=f"{_JAVA}security.AccessControlException", fatal=fatal))
            with pytest.raises(AccessControlError):
                await both.call(ECHO, HI)
            assert HI == await both.call(ECHO, HI)
        assert 0 == two.connections


async def test_a_login_that_fails_is_tried_a_few_times() -> None:
    """It may be the moment; but three times are no accident."""
    server = daemon(auths=(Auth.TOKEN,), tokens={TOKEN.identifier: b"another"})
    async with server, proxy(server, login=LoginIdentity(token=TOKEN)) as only:
        with pytest.raises(SaslError, match="Mismatched response"):
            await only.call(ECHO, HI)
        assert 3 == server.connections
        server.tokens = {TOKEN.identifier: TOKEN.password}
        server.order(DropResponse(), at=FaultMoment.LOGIN)
        assert HI.text != (await only.call(WHO, HI)).text  # nothing was sent yet: any call may try again
        server.order(DropResponse(), at=FaultMoment.LOGIN, times=3)
        server.drop_all()
        with pytest.raises(LoginError):
            await only.call(ECHO, HI)


async def test_it_is_given_up_in_the_end_with_all_that_was_tried() -> None:
    """Each daemon with its last failure and where its address was set; without patience after one round."""
    async with pair() as (one, two, both):
        await one.stop()
        two.order(standby(), times=1000)
        both.policy = with_fields(QUICK, give_up_after=0.0)
        with pytest.raises(DaemonsUnavailableError) as caught:
            await both.call(ECHO, HI)
        service, first, second = str(caught.value).splitlines()
        assert "EchoService" in service
        assert all(fact in first for fact in ("d0", str(one.address), "key.d0"))
        assert all(fact in second for fact in ("d1", str(two.address), "StandbyException", "key.d1"))
        assert [("d0", ConnectError), ("d1", StandbyError)] == [(d.id, type(e)) for d, e in caught.value.failures]
        loop = asyncio.get_running_loop()
        before = loop.time()
        both.policy = with_fields(QUICK, give_up_after=0.3)
        with pytest.raises(DaemonsUnavailableError):
            await both.call(ECHO, HI)
        assert 0.3 <= loop.time() - before < 15


async def test_pauses_lie_between_rounds_not_within() -> None:
    async with pair(policy=Policy(give_up_after=0.5, shortest=0.2, longest=0.3)) as (one, two, both):
        await one.stop()
        await two.stop()
        tried: list[float] = []
        events: list[str] = []
        pause = both._pause

        async def refused(address: Address, *_: object, **__: object) -> IpcConnection:
            tried.append(asyncio.get_running_loop().time())
            events.append("try")
            raise ConnectError(f"cannot connect to {address}", ConnectFailure.REFUSED)

        def drawn() -> float:
            events.append("pause")
            return pause()

        both._connector = refused
        both._pause = drawn  # type: ignore[method-assign]
        with pytest.raises(DaemonsUnavailableError):
            await both.call(ECHO, HI)
        assert events[2::3] == ["pause"] * len(events[2::3]) != []
        assert events.count("try") == len(tried) == len(events) - len(events[2::3])
        gaps = [later - earlier for earlier, later in pairwise(tried)]
        assert all(gap >= 0.19 for gap in gaps[1::2])


async def test_unknown_hosts_are_an_error_until_they_were_known() -> None:
    """No 15 minutes of retries for a misspelled name; a DNS that fails for a moment is retried."""
    places: list[ConnectFailure | None] = []
    async with daemon() as server, proxy(server) as only:
        connector = only._connector

        async def named(address: Address, login: LoginIdentity, **how: Any) -> IpcConnection:
            if (failure := places.pop(0)) is not None:
                raise ConnectError(f"cannot connect to {address}", failure)
            return await connector(address, login, **how)

        only._connector = named
        places[:] = [ConnectFailure.UNKNOWN_HOST]
        with pytest.raises(DaemonsUnavailableError):
            await only.call(ECHO, HI)
        places[:] = [ConnectFailure.TIMED_OUT, None, ConnectFailure.UNKNOWN_HOST, ConnectFailure.UNKNOWN_HOST, None]
        assert HI == await only.call(ECHO, HI)
        server.drop_all()
        assert HI == await only.call(ECHO, HI)
        assert [] == places


async def test_a_new_login_takes_a_new_connection() -> None:
    """Calls on their way end on the old one."""
    async with daemon() as server, proxy(server) as only:
        hold = HoldResponse()
        server.order(hold)
        call = asyncio.create_task(only.call(WHO, HI))
        await hold.is_held.wait()
        await only.login_as(LoginIdentity(user="bob"))
        assert "bob None None" == (await only.call(WHO, HI)).text
        hold.release()
        assert "alice None None" == (await call).text
        await only.login_as(lambda daemon: LoginIdentity(user=f"for-{daemon.id}"))
        assert "for-d0 None None" == (await only.call(WHO, HI)).text


async def test_a_cancelled_caller_does_not_stop_the_others() -> None:
    """The one that connects for all may be cancelled."""
    async with daemon() as server, proxy(server) as only:
        connector, first = only._connector, asyncio.Event()

        async def slow(address: Address, login: LoginIdentity, **how: Any) -> IpcConnection:
            if not first.is_set():
                first.set()
                await asyncio.sleep(3600)
            return await connector(address, login, **how)

        only._connector = slow
        leader = asyncio.create_task(only.call(ECHO, HI))
        await first.wait()
        others = [asyncio.create_task(only.call(ECHO, HI)) for _ in range(3)]
        await asyncio.sleep(0)
        leader.cancel()
        assert [HI] * 3 == await asyncio.gather(*others)


async def test_a_closed_proxy_stays_closed() -> None:
    """Calls on their way fail, and new ones are refused."""
    async with daemon() as server:
        only = proxy(server)
        server.order(Silence())
        call = asyncio.create_task(only.call(ECHO, HI))
        await server.wait_called(ECHO.name)
        await only.close()
        await only.close()
        with pytest.raises(ConnectionLostError):
            await call
        with pytest.raises(ConnectionLostError, match="closed"):
            await only.call(ECHO, HI)


def test_policies_and_options_come_from_the_configuration() -> None:
    assert Policy(give_up_after=900.0, shortest=1.0, longest=2.0) == build_resource_manager_policy(Configuration.load())
    given = {
        "yarn.resourcemanager.connect.max-wait.ms": "-1",
        "yarn.client.failover-sleep-base-ms": "500",
        "yarn.client.failover-sleep-max-ms": "4000",
        "ipc.client.rpc-timeout.ms": "0",
        "ipc.client.connect.timeout": "3s",
    }
    settings = Configuration.load(given=given)
    assert Policy(give_up_after=math.inf, shortest=0.5, longest=4.0) == build_resource_manager_policy(settings)
    assert ConnectionOptions() == build_connection_options(Configuration.load())
    assert ConnectionOptions(call_timeout=None, connect_timeout=3.0) == build_connection_options(settings)
