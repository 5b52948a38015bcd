"""The application master with real log, server and wire, and fake containers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.in_process_job import FakeJournal, InProcessJob, play
from tests.core.specs import FAILED, OK, roles, workers
from tests.support.waiting import wait_until
from tony.core.events import ContainerEnded, EndConfirmation, KillRequested
from tony.errors import AttemptSupersededError
from tony.model.actor import Actor
from tony.model.job_spec import Role
from tony.model.program_exit import ExitStatus
from tony.model.states import TaskState
from tony.protocol.client_messages import KillJob, Report, Watch
from tony.protocol.executor_messages import Prepare, StartProgram
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, TaskPart
from tony.protocol.shared_messages import Done, SetLogLevel
from tony.rpc.client_connection import connect


def runs_on(part: TaskPart, message: StartProgram) -> ExitStatus | None:
    """A program that runs until it is stopped."""
    return None


@pytest.mark.parametrize("tls", [False, True])
def test_a_job_runs_to_its_end(tmp_path: Path, tls: bool) -> None:
    """Grants, launches, registers, starts, ends; over a Unix socket and over TLS."""
    job, finish = play(tmp_path, workers(3), tls=tls)
    assert (finish.exit_code, finish.failure) == (0, None)
    assert {t.state for t in job.report().tasks} == {TaskState.SUCCEEDED}
    assert job.source.containers == {}


def test_a_restart_keeps_executors(tmp_path: Path) -> None:
    """Session 2 runs in the executors of session 1."""
    job, finish = play(
        tmp_path, workers(3, max_restarts=1), lambda part, message: FAILED if message.session == 1 else OK
    )
    assert (finish.exit_code, len(job.executors)) == (0, 3)
    for executor in job.executors.values():
        assert executor.connections == 1
        assert [m.session for m in executor.received if isinstance(m, Prepare)] == [2]


def test_a_lost_connection_and_container_need_no_report(tmp_path: Path) -> None:
    """The executor is known to be dead: the next session begins at once."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        (container, executor), *_ = job.executors.items()
        job.sees_ends = False
        await executor.die()
        await wait_until(lambda: job.master.executors.connected_count == 0)
        job.source.end(container, "its executor was killed by SIGKILL")
        job.sees_ends = True
        await wait_until(lambda: any(e.runs for e in job.executors.values() if e is not executor))
        for other in job.executors.values():
            other.exit(OK)

    job, finish = play(tmp_path, workers(1, max_restarts=1), runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0
    events = [e.event for e in job.entries()]
    cause, silent = "its executor was killed by SIGKILL", EndConfirmation.SILENT
    assert ContainerEnded(container="c-1", cause=cause, confirmation=silent) in events
    assert "deadline" not in [event.kind for event in events]


def test_a_deadline_that_was_cancelled_is_no_event(tmp_path: Path) -> None:
    """The gang is complete: the cancelled deadline for a smaller gang does not fire later."""
    wait = 0.3

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: sum(bool(e.runs) for e in job.executors.values()) == 2)
        over = time.monotonic() + wait + 0.1
        await wait_until(lambda: time.monotonic() > over)
        for executor in job.executors.values():
            executor.exit(OK)

    role = Role(instances=2, min_instances=1)
    spec = replace(roles(worker=role), gang_wait=wait, gang_patience=None)
    job, finish = play(tmp_path, spec, runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0
    kinds = [entry.event.kind for entry in job.entries()]
    assert "deadline" not in kinds[kinds.index("gang-size") :]


def test_an_executor_without_a_container_is_disconnected(tmp_path: Path) -> None:
    """Its last report is still accepted."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        (container, executor), *_ = job.executors.items()
        job.source.end(container, "its node is gone")
        await wait_until(lambda: len(job.executors) == 2 and job.report().state.value == "running")
        await wait_until(lambda: executor.ended)
        for living in job.executors.values():
            living.exit(OK)

    spec = workers(1, max_restarts=1, heartbeat_interval=0.05)
    _, finish = play(tmp_path, spec, runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 0


def test_an_actors_name_cannot_forge_a_log_line(tmp_path: Path) -> None:
    """Only printable characters, and a bounded number."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: len(job.executors) == 1 and job.report().state.value == "running")
        connection = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        connection.send(KillJob(actor="ann\n2026-01-01 INFO \x1b[31mall is well" + "x" * 1000))
        assert isinstance(await connection.receive(), Done)

    _, finish = play(tmp_path, workers(1), runs_on, meanwhile=meanwhile)
    assert finish.failure
    assert finish.failure.reason.startswith("killed by ann2026-01-01 INFO [31mall is wellxxx")
    assert len(finish.failure.reason) == 210


def test_a_broken_heart_beat_check_ends_the_job(tmp_path: Path) -> None:
    """What runs beside the loop is watched as well: its bug is a verdict, not silence."""

    async def meanwhile(job: InProcessJob) -> None:
        def boom() -> None:
            raise RuntimeError("nope")

        job.master.executors.check = boom  # type: ignore[method-assign]

    with pytest.raises(RuntimeError, match="nope"):
        play(tmp_path, workers(1, heartbeat_interval=0.05), runs_on, meanwhile=meanwhile)


def test_an_action_that_fails_once_its_cause_is_durable_ends_the_attempt(tmp_path: Path) -> None:
    """It is performed in a callback of the journal, whose error would otherwise only be logged."""
    journal = FakeJournal()

    async def meanwhile(job: InProcessJob) -> None:
        def boom(*_: object) -> None:
            raise RuntimeError("nope")

        job.master.executors.send_frame = boom  # type: ignore[method-assign,assignment]
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                journal.safe(journal.wanted)
                await asyncio.sleep(0.005)

    with pytest.raises(RuntimeError, match="nope"):
        play(tmp_path, workers(1), runs_on, meanwhile=meanwhile, journal=journal)


def test_an_attempt_whose_log_was_taken_over_ends(tmp_path: Path) -> None:
    """What it waits for will never be durable, not even the end of the job."""
    journal = FakeJournal()

    async def meanwhile(job: InProcessJob) -> None:
        job.master.feed(KillRequested(actor=Actor("ann"), now=True))
        await wait_until(lambda: job.master.app.state.job.ended)
        journal.taken_over.set()

    with pytest.raises(AttemptSupersededError):
        play(tmp_path, workers(1), runs_on, meanwhile=meanwhile, journal=journal)


def test_after_the_end_no_task_starts(tmp_path: Path) -> None:
    """Messages and signals still arrive while the attempt ends."""
    job, _ = play(tmp_path, workers(1))
    work = asyncio.sleep(0)
    job.master.start_task(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_clients_watch_and_kill(tmp_path: Path) -> None:
    """A watcher hears of every change and last of the end; a kill ends the job as killed."""
    states: list[str] = []

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: len(job.executors) == 1 and job.report().state.value == "running")
        connection = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        connection.send(Watch())
        connection.send(KillJob(actor="ann"))
        while (message := await connection.receive()) is not None:
            if isinstance(message, Report):
                states.append(message.report.state.value)
                if message.report.state.ended:
                    break

    _, finish = play(tmp_path, workers(1), runs_on, meanwhile=meanwhile)
    assert finish.exit_code == 4
    assert states[0] == "running"


def test_watchers_see_how_a_session_ended_however_quickly_the_next_begins(tmp_path: Path) -> None:
    """The task that failed is told as failed before it begins anew."""
    seen: list[tuple[str, int, list[str]]] = []

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: job.address != "" and job.report().state.value != "submitted")
        connection = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        connection.send(Watch())
        message = await connection.receive()
        assert isinstance(message, Report)
        while (message := await connection.receive()) is not None:
            assert isinstance(message, Report)
            told = message.report
            seen.append((told.state.value, told.session, [task.state.value for task in told.tasks]))

    def run_in_session(job: InProcessJob, session: int) -> bool:
        executors = job.executors.values()
        return job.report().session == session and bool(executors) and all(each.runs for each in executors)

    async def fail_later(job: InProcessJob) -> None:
        watching = asyncio.ensure_future(meanwhile(job))
        await wait_until(lambda: run_in_session(job, 1) and len(job.master.subscribers) == 1)
        for executor in list(job.executors.values()):
            executor.exit(FAILED)
        await wait_until(lambda: run_in_session(job, 2))
        for executor in job.executors.values():
            executor.exit(OK)
        await watching

    _, finish = play(tmp_path, workers(1, max_restarts=1), runs_on, meanwhile=fail_later)
    assert finish.exit_code == 0
    assert ("restarting", 1, ["failed"]) in seen


def test_container_setup_is_shown_in_the_status(tmp_path: Path) -> None:
    """Copying files, or unpacking an environment, may take minutes: the executor does not hang."""
    notes: list[str] = []

    async def meanwhile(job: InProcessJob) -> None:
        launch = job.source.launch

        async def slow(container: str, task: TaskPart, credentials: AmCredentials) -> None:
            await wait_until(lambda: job.report().tasks[0].state.value == "starting")
            notes.append(job.report().tasks[0].note)
            await launch(container, task, credentials)

        job.source.launch = slow  # type: ignore[method-assign]

    job, _ = play(tmp_path, workers(1), meanwhile=meanwhile)
    assert notes == ["preparing the container: copying its files"]
    assert job.report().tasks[0].note == "exit code 0"


def test_the_log_level_reaches_every_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's word goes to those that are connected, and to one that comes back."""
    levels: list[str] = []
    monkeypatch.setattr(logging.getLogger("tony"), "setLevel", levels.append)

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: len(job.executors) == 2 and job.report().state.value == "running")
        connection = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        connection.send(SetLogLevel(level="warning"))
        assert await connection.receive() == Done()
        first = next(iter(job.executors.values()))
        first.break_connection()
        await wait_until(lambda: first.connections == 2)
        for executor in job.executors.values():
            executor.exit(OK)

    job, _ = play(tmp_path, workers(2), runs_on, meanwhile=meanwhile)
    told = [sum(isinstance(m, SetLogLevel) for m in e.received) for e in job.executors.values()]
    assert levels == ["WARNING"]
    assert sorted(told) == [1, 2]


def test_a_silent_executor_is_noticed(tmp_path: Path) -> None:
    """No heartbeat for the time-out: the container is ended, the job fails as infrastructure."""
    spec = workers(1, heartbeat_interval=0.05, heartbeat_timeout=0.2)
    _, finish = play(tmp_path, spec, runs_on)
    assert finish.failure
    assert (finish.exit_code, finish.failure.cause) == (3, "silent")
