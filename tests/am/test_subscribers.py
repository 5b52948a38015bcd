"""Clients that watch: told of changes together, of the end for certain, and never waited for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import cast

import pytest

from tests.support.waiting import wait_until
from tony.am.subscribers import Subscribers
from tony.model.job_report import JobReport
from tony.model.states import JobState
from tony.protocol.client_messages import Report
from tony.protocol.framing import MAX_FROM_AM, Decoder
from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection


class FakeConnection:
    """A client's connection that keeps what is sent to it.

    Attributes:
        backlog: bytes that it has not read.
        stuck: it never reads again.
    """

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.backlog = 0
        self.stuck = False

    def send(self, message: Message) -> None:
        assert isinstance(message, Report)
        self.reports.append(message)

    def send_frame(self, frame: bytes) -> None:
        """Takes a frame that was made before."""
        decoder = Decoder(MAX_FROM_AM)
        decoder.feed(frame)
        message = decoder.decode_next()
        assert message is not None
        self.send(message)

    async def drain(self) -> None:
        while self.stuck:
            await asyncio.sleep(3600)

    @property
    def me(self) -> RpcConnection:
        """As what the watchers take it for."""
        return cast(RpcConnection, self)


class Counted:
    """Makes reports that are told apart by their session, and takes so many seconds of the processor for each."""

    def __init__(self, cost: float = 0.0) -> None:
        self.made = 0
        self.waiting = ""
        self._cost = cost

    def __call__(self) -> JobReport:
        self.made += 1
        until_then = time.thread_time() + self._cost
        while time.thread_time() < until_then:
            pass
        return replace(report(self.made), waiting=self.waiting)


def report(session: int) -> JobReport:
    return JobReport(
        job="j",
        name="job",
        state=JobState.RUNNING,
        session=session,
        attempt=1,
        exit_code=None,
        folder="/f",
        am=None,
        tasks=(),
        failure=None,
    )


async def test_the_first_report_is_immediate_and_changes_are_batched() -> None:
    """A hundred changes within the gathering time are one report."""
    counted, client = Counted(), FakeConnection()
    watchers = Subscribers(counted)
    watchers.add(client.me)
    assert [r.report.session for r in client.reports] == [1]
    for _ in range(100):
        watchers.on_change()
    await wait_until(lambda: len(client.reports) == 2)
    assert [r.final for r in client.reports] == [False, False]
    assert counted.made == 2
    watchers.remove(client.me)
    watchers.on_change()
    await asyncio.sleep(0.03)
    assert counted.made == 2


async def test_without_watchers_no_report_is_made() -> None:
    """With ten thousand tasks a report costs too much to build it without a subscriber."""
    counted = Counted()
    Subscribers(counted).on_change()
    await asyncio.sleep(0.03)
    assert counted.made == 0


async def test_costly_reports_come_seldom() -> None:
    """A report may take a small part of our time only, however often something changes."""
    counted, client = Counted(cost=0.02), FakeConnection()
    watchers = Subscribers(counted)
    watchers.add(client.me)
    began = time.monotonic()
    while len(client.reports) < 3:
        watchers.on_change()
        await asyncio.sleep(0.005)
    assert time.monotonic() - began >= 0.3


async def test_a_client_that_does_not_read_gets_no_more_until_it_has() -> None:
    """A stuck client does not fill our memory, and misses nothing in the end."""
    client, other = FakeConnection(), FakeConnection()
    watchers = Subscribers(Counted())
    watchers.add(client.me)
    watchers.add(other.me)
    client.backlog = 10 << 20
    watchers.on_change()
    await wait_until(lambda: len(other.reports) == 2)
    assert len(client.reports) == 1
    client.backlog = 0
    await wait_until(lambda: len(client.reports) == 2)
    assert client.reports[-1].report.session >= 3


async def test_no_report_is_built_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of ten thousand tasks is expensive to build."""
    monkeypatch.setattr("tony.am.subscribers._LATE", 0.005)
    counted, client = Counted(), FakeConnection()
    watchers = Subscribers(counted)
    watchers.add(client.me)
    client.backlog = 10 << 20
    watchers.on_change()
    await asyncio.sleep(0.1)
    assert counted.made == 1
    client.backlog = 0
    await wait_until(lambda: len(client.reports) == 2)


async def test_the_longest_pause_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a report takes, something is heard of a job that changes."""
    monkeypatch.setattr("tony.am.subscribers._MAX_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("tony.am.subscribers._PAUSE_PER_COST", 10_000.0)
    client = FakeConnection()
    watchers = Subscribers(Counted(cost=0.01))
    watchers.add(client.me)
    async with asyncio.timeout(30):
        while len(client.reports) < 4:
            watchers.on_change()
            await asyncio.sleep(0.005)


async def test_the_last_report_is_marked_and_waited_for_not_too_long() -> None:
    """A reading client gets it; one that does not read does not delay the end."""
    client, stuck = FakeConnection(), FakeConnection()
    stuck.stuck = True
    watchers = Subscribers(Counted())
    watchers.add(client.me)
    watchers.add(stuck.me)
    watchers.on_change()
    async with asyncio.timeout(30):
        await watchers.finish(report(99), timeout=0.05)
    assert [(r.report.session, r.final) for r in client.reports] == [(1, False), (99, True)]
    assert stuck.reports[-1].final


async def test_only_subscribers_that_asked_get_the_time() -> None:
    """While the job waits for resources every subscriber gets the time."""
    counted, plain, live = Counted(), FakeConnection(), FakeConnection()
    watchers = Subscribers(counted)
    watchers.add(plain.me)
    watchers.on_time_passed()
    await asyncio.sleep(0.03)
    assert counted.made == 1
    watchers.add(live.me, ages=True)
    watchers.on_time_passed()
    await wait_until(lambda: len(live.reports) == 2)
    assert len(plain.reports) == 1
    watchers.on_time_passed()
    watchers.on_change()
    await wait_until(lambda: len(plain.reports) == 2 and len(live.reports) == 3)
    counted.waiting = "for memory"
    watchers.on_change()
    await wait_until(lambda: len(plain.reports) == 3)
    watchers.on_time_passed()
    await wait_until(lambda: len(plain.reports) == 4)
    assert len(live.reports) == 5


async def test_reports_are_sent_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although nothing has changed: only a report shows for how long programs have been silent."""
    plain = FakeConnection()
    watchers = Subscribers(Counted())
    watchers.add(plain.me)
    monkeypatch.setattr("tony.am.subscribers._MAX_REPORT_AGE_SECONDS", 0.0)
    watchers.on_time_passed()
    await wait_until(lambda: len(plain.reports) == 2)


async def test_transient_changes_are_sent_at_once() -> None:
    """Once, and not again with the report that was due."""
    counted, client = Counted(), FakeConnection()
    watchers = Subscribers(counted)
    watchers.send_now()
    assert (len(watchers), counted.made) == (0, 0)
    watchers.add(client.me)
    watchers.on_change()
    watchers.send_now()
    assert (len(watchers), len(client.reports)) == (1, 2)
    await asyncio.sleep(0.03)
    assert len(client.reports) == 2
    watchers.on_change()
    await wait_until(lambda: len(client.reports) == 3)
    watchers.on_change()
    watchers.remove(client.me)
    watchers.send_now()
    watchers.add(client.me)
    watchers.on_change()
    await wait_until(lambda: len(client.reports) == 5)
