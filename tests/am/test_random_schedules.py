"""Whole jobs on the fake scheduler, with real log, server and wire, and faults at random moments.

What the machine guarantees is watched from beside it; the log must tell all of it. A schedule is a number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.am.in_process_job import InProcessJob, play
from tests.core.log_explanations import unexplained
from tests.core.random_jobs import random_job
from tests.core.specs import COLLISION, FAILED, OK, SEGV
from tests.support.guarantees import Guarantees
from tests.support.random_schedules import play_block
from tests.support.waiting import wait_until
from tony.core import events as ev
from tony.core.actions import Action
from tony.core.report_builder import ReportContext, build_report
from tony.model.actor import Actor
from tony.model.job_spec import JobSpec, Timeouts
from tony.testing.container_faults import (
    ContainerExitsBeforeRegistering,
    Fault,
    LostAnswer,
    LostContainer,
    RefusedContainer,
    SlowContainer,
)

FAULTS: tuple[Callable[[int], Fault], ...] = (
    lambda n: SlowContainer(container=n, delay=0.01),
    lambda n: RefusedContainer(container=n),
    lambda n: LostContainer(container=n, delay=0.01),
    lambda n: ContainerExitsBeforeRegistering(container=n),
    lambda n: LostAnswer(container=n),
)


class Watched:
    """Stands between a master and its machine: sees each event when it is handled, and what is requested."""

    def __init__(self, job: InProcessJob) -> None:
        self.handled: list[tuple[ev.Event, float]] = []
        self._handle = job.master.app.handle
        self._guarantees = Guarantees(job.master.app)
        job.master.app.handle = self.handle  # type: ignore[method-assign]

    def handle(self, event: ev.Event, now: float) -> list[Action]:
        actions = self._handle(event, now)
        self.handled.append((event, now))
        self._guarantees.handled(event, now, actions)
        return actions


def a_job(chance: Random) -> JobSpec:
    """A random job whose limits of time do not slow the test down."""
    spec = random_job(chance)
    roles = {name: replace(role, timeout_after=None, stop_grace=0.0) for name, role in spec.roles.items()}
    return replace(spec, roles=roles, timeouts=Timeouts(), backoff=0.01)


def ask_again(job: InProcessJob) -> None:
    """The source repeats what it was last told to have: answers that were lost come now."""
    words = [line.split() for line in job.source.log if line.startswith("demand ")]
    told = {role: int(total) for _, role, total in words}
    for role, total in told.items():
        job.source.set_demand(role, total)


async def trouble(job: InProcessJob, chance: Random) -> None:
    """Random things happen to executors; then what runs succeeds, until the job has ended."""
    for _ in range(chance.randrange(30)):
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        living = [(name, each) for name, each in job.executors.items() if not each.ended]
        if not living:
            continue
        container, executor = chance.choice(living)
        match chance.randrange(12):
            case 0:
                await executor.die()
            case 1:
                job.source.end(container, "its node burned", blameless=True)
            case 2 | 3:
                executor.break_connection()
            case 4 | 5:
                executor.exit(chance.choice((FAILED, SEGV, COLLISION, OK)))
            case 6 if chance.random() < 0.2:
                job.master.feed(ev.KillRequested(actor=Actor("ann"), now=chance.random() < 0.5))
            case 7:
                ask_again(job)
            case _ if executor.runs:
                executor.exit(OK)
    while not job.master.app.state.job.ended:
        for executor in list(job.executors.values()):
            if executor.runs:
                executor.exit(OK)
        ask_again(job)
        await asyncio.sleep(0.005)


def check(folder: Path, seed: int) -> None:
    """Plays one schedule and looks at all that is left of it."""
    chance = Random(seed)
    spec = a_job(chance)
    numbers = chance.sample(range(1, 9), chance.randrange(5))
    faults = tuple(chance.choice(FAULTS)(number) for number in numbers)
    watched: list[Watched] = []

    async def meanwhile(job: InProcessJob) -> None:
        watched.append(Watched(job))
        await wait_until(lambda: job.master.app.state.session > 0 or job.master.app.state.job.ended)
        await trouble(job, chance)

    job, finish = play(folder, spec, lambda part, message: None, faults=faults, meanwhile=meanwhile)
    entries = job.entries()
    fed = [(entry.event, entry.at) for entry in entries]
    assert fed[: len(watched[0].handled)] == watched[0].handled
    assert all(isinstance(event, ev.Snapshot) for event, _ in fed[len(watched[0].handled) :])
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    again = job.replayed()
    assert (again.mismatch, again.app.compute_digest()) == (None, job.master.app.compute_digest())
    assert again.checked >= 1
    around = ReportContext(folder="/jobs/1", user="ann", submitted=1000.0, live={})
    assert build_report(again.app, 1e6, around) == build_report(job.master.app, 1e6, around)
    assert unexplained(finish, [event for event, _ in fed], job.master.app.state) == []
    heard_of = {event.container for event, _ in fed if isinstance(event, ev.Granted)}
    assert heard_of & set(job.source.containers) == set()  # what was granted after the end the source ends by itself


@pytest.mark.parametrize("block", range(4))
def test_whole_jobs_survive_random_trouble(block: int, tmp_path: Path) -> None:
    """The job ends with its true reason, its log holds each event once and replays, and no container is left."""
    play_block(range(block * 10, (block + 1) * 10), tmp_path, check)


@pytest.mark.long
@pytest.mark.parametrize("block", range(1, 31))
def test_hundreds_of_whole_jobs(block: int, tmp_path: Path) -> None:
    """As above, so often that the rare coincidences come as well."""
    play_block(range(block * 100, (block + 1) * 100), tmp_path, check)
