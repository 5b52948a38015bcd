"""A later application master: what it takes over, and what it never does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.in_process_job import FakeJournal, InProcessJob, play, succeed
from tests.support.fake_executor import OK, FakeExecutor
from tests.support.waiting import wait_until
from tony.core.events import AttemptStarted, Started
from tony.model.job_spec import JobSpec, Role
from tony.model.states import JobState, TaskState

WORKERS = JobSpec(command="x", roles={"worker": Role(instances=3)}, heartbeat_interval=0.05, heartbeat_timeout=20.0)


def _all_run(job: InProcessJob) -> bool:
    return len(job.executors) == 3 and all(executor.runs for executor in job.executors.values())


def _known(job: InProcessJob) -> bool:
    tasks = job.master.app.state.tasks.values()
    return all(task.state is TaskState.RUNNING and task.started for task in tasks)


@pytest.mark.parametrize("tls", [False, True], ids=["unix", "tls"])
def test_running_programs_are_kept(tmp_path: Path, tls: bool) -> None:
    """No program is started again; there is one log, and its clock is monotonic."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: _all_run(job) and _known(job))
        await job.die()
        await wait_until(lambda: bool(job.address))
        for executor in job.executors.values():  # they do not listen: told as if they did
            executor.part = replace(executor.part, am_address=job.address)
        await wait_until(lambda: job.master.executors.connected_count == 3)
        await wait_until(lambda: all(executor.attempt == 2 for executor in job.executors.values()))
        assert all(executor.runs for executor in job.executors.values())
        for executor in job.executors.values():
            executor.exit(OK)

    job, finish = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile, tls=tls)
    assert (finish.state, job.master.app.state.session) == (JobState.SUCCEEDED, 1)
    entries = job.entries()
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sorted(entry.at for entry in entries) == [entry.at for entry in entries]
    assert [entry.event.attempt for entry in entries if isinstance(entry.event, AttemptStarted)] == [1, 2]
    assert sum(isinstance(entry.event, Started) for entry in entries) == 3
    assert job.replayed().mismatch is None


def test_exits_between_am_attempts_are_noticed(tmp_path: Path) -> None:
    """Unacknowledged exits are kept by the executors; a removed container is noticed as well."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: _all_run(job) and _known(job))
        first, second, third = job.executors.values()
        for executor in (first, second, third):
            executor.break_connection()
            executor.exit(OK)
        await job.die()
        await wait_until(lambda: job.master.app.state.job.ended)

    job, finish = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile)
    assert finish.state is JobState.SUCCEEDED
    assert job.replayed().mismatch is None


def test_a_container_that_did_not_outlive_its_master_is_replaced(tmp_path: Path) -> None:
    """The loss does not count against `max_restarts`: the session restarts, in the containers that are left."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: _all_run(job) and _known(job))
        lost = next(iter(job.executors))
        kept = set(job.executors) - {lost}
        job.sees_ends = False
        await job.executors[lost].die()
        job.source.containers.pop(lost, None)
        await job.die()
        job.sees_ends = True
        await wait_until(lambda: job.master.app.state.session == 2 and _known(job))
        assert kept < set(job.source.containers)
        for executor in job.executors.values():
            executor.exit(OK)

    job, finish = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile)
    assert (finish.state, job.master.app.state.restarts_charged) == (JobState.SUCCEEDED, 0)
    assert job.replayed().mismatch is None


@pytest.fixture
def host() -> Iterator[socket.socket]:
    """Where executors say that they can be called; who calls is never answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def _forget_one(job: InProcessJob) -> tuple[str, FakeExecutor]:
    """The scheduler forgets a container in which a program runs, and will see no end; who listens is out of reach."""
    await wait_until(lambda: _all_run(job) and _known(job))
    forgotten, executor = next(iter(job.executors.items()))
    job.sees_ends = False
    executor.away = True
    executor.break_connection()
    job.source.containers.pop(forgotten)
    return forgotten, executor


def _play_forgotten(folder: Path, host: socket.socket, meanwhile: Callable[[InProcessJob], Awaitable[None]]) -> None:
    """A job whose executors can be called at `host`: it succeeds, in a second session that nothing speaks against."""

    def prepare(job: InProcessJob) -> None:
        job.listens = f"tls:127.0.0.1:{host.getsockname()[1]}"

    async def and_then(job: InProcessJob) -> None:
        await meanwhile(job)
        await wait_until(lambda: job.master.app.state.session == 2 and _known(job))
        job.sees_ends = True
        for each in job.executors.values():
            each.exit(OK)

    job, finish = play(folder, WORKERS, succeed, meanwhile=and_then, prepare=prepare)
    assert finish.state is JobState.SUCCEEDED
    assert job.replayed().mismatch is None


async def _waits_for(job: InProcessJob, container: str) -> None:
    """The job is to begin anew, and cannot as long as a program may run in there."""
    state = job.master.app.state
    await wait_until(lambda: state.containers[container].is_end_unconfirmed and state.living == 1)
    assert (state.job, state.session) == (JobState.RESTARTING, 1)


def test_that_a_scheduler_forgot_a_container_is_no_proof(tmp_path: Path, host: socket.socket) -> None:
    """Its program counts as living unless its host says that its executor is gone: no other takes its place."""

    async def meanwhile(job: InProcessJob) -> None:
        forgotten, executor = await _forget_one(job)
        await job.die()
        await _waits_for(job, forgotten)
        assert executor.runs
        executor.away = False

    _play_forgotten(tmp_path, host, meanwhile)


def test_a_refused_connection_confirms_a_loss(tmp_path: Path, host: socket.socket) -> None:
    """Nothing listens at the address of the forgotten container's executor any longer: it is lost, and replaced."""

    async def meanwhile(job: InProcessJob) -> None:
        _, executor = await _forget_one(job)
        host.close()
        await executor.die()
        await job.die()

    _play_forgotten(tmp_path, host, meanwhile)


def test_a_late_exit_confirmation_ends_the_wait(tmp_path: Path, host: socket.socket) -> None:
    """The AM waits for a program whose exit is unconfirmed and asks its host again until it can tell."""

    async def meanwhile(job: InProcessJob) -> None:
        forgotten, executor = await _forget_one(job)
        await job.die()
        await _waits_for(job, forgotten)
        await executor.die()
        host.close()

    _play_forgotten(tmp_path, host, meanwhile)


def test_an_executor_that_knows_of_a_lost_try_is_not_kept(tmp_path: Path) -> None:
    """It was asked to start something that no log knows of: it ends, and the session continues without it uncharged."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: _all_run(job) and _known(job))
        executor = next(iter(job.executors.values()))
        executor.last_try = 2
        executor.break_connection()
        await wait_until(lambda: executor.ended)
        for each in job.executors.values():
            each.exit(OK)

    job, _ = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile)
    assert job.master.app.state.roles["worker"].tasks[0].state is not TaskState.SUCCEEDED


def test_killed_again_and_again(tmp_path: Path) -> None:
    """Five masters for one job; each takes over from all before it."""

    async def meanwhile(job: InProcessJob) -> None:
        for attempt in range(2, 6):
            await wait_until(lambda: _all_run(job) and _known(job))
            await job.die()
            await wait_until(lambda: job.master.executors.connected_count == 3)
            assert job.attempt == attempt
        for executor in job.executors.values():
            executor.exit(OK)

    job, finish = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile)
    assert finish.state is JobState.SUCCEEDED
    assert sum(isinstance(entry.event, Started) for entry in job.entries()) == 3


def test_nothing_is_seen_before_its_cause_is_in_safety(tmp_path: Path) -> None:
    """Neither is a program started nor a report acknowledged; the machine continues, and the order is kept."""
    journal = FakeJournal()

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: journal.urgent > 0)  # the executors are to be launched
        assert not job.executors
        journal.safe(journal.wanted)
        await wait_until(lambda: all(task.address for task in job.master.app.state.tasks.values()))
        await wait_until(lambda: len(job.executors) == 3)
        assert not any(executor.runs for executor in job.executors.values())
        journal.safe(journal.wanted)
        await wait_until(lambda: _all_run(job))
        for executor in job.executors.values():
            executor.exit(OK)
        while not job.master.app.state.job.ended:
            journal.safe(journal.wanted)
            await asyncio.sleep(0.005)
        journal.safe(journal.wanted)

    _, finish = play(tmp_path, WORKERS, succeed, meanwhile=meanwhile, journal=journal)
    assert finish.state is JobState.SUCCEEDED
