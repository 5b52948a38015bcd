"""Executors and followers that do not read what they are sent: nothing else waits for them, and the job ends."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from tests.am.in_process_job import InProcessJob, play
from tests.core.specs import OK, workers
from tests.support.waiting import wait_until
from tony.model.codec import Json
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.states import TaskState
from tony.protocol.client_messages import Watch
from tony.protocol.executor_messages import StartProgram
from tony.protocol.hello import PeerKind
from tony.rpc.client_connection import connect

#: Text that hardly gets shorter by compressing, and longer than what the kernel takes for one connection.
LONG = random.Random(7).randbytes(6 << 20).hex()


def runs_on(part: object, message: object) -> None:
    """A program that runs until it is stopped."""


def states(job: InProcessJob) -> list[str]:
    return [task.state.value for task in job.report().tasks]


def test_an_executor_that_does_not_read_its_spec_delays_no_others(tmp_path: Path) -> None:
    """They start and exit; it gets everything once it reads again."""

    async def meanwhile(job: InProcessJob) -> None:
        def long(spec: JobSpec, cluster: ClusterSpec) -> Json:
            return LONG

        job.master._starts._framework.build_shared = long  # type: ignore[method-assign]
        await wait_until(lambda: len(job.executors) == 3)
        deaf, *others = job.executors.values()
        await wait_until(lambda: deaf._connection is not None)
        assert deaf._connection is not None
        deaf._connection.pause_reading()
        await wait_until(lambda: all(executor.runs for executor in others))
        for executor in others:
            executor.exit(OK)
        await wait_until(lambda: states(job) == ["running", "succeeded", "succeeded"])
        assert not deaf.runs
        deaf._connection.resume_reading()
        await wait_until(lambda: deaf.runs)
        assert [m.shared for m in deaf.received if isinstance(m, StartProgram)] == [LONG]
        deaf.exit(OK)

    _, finish = play(tmp_path, workers(3), runs_on, tls=True, meanwhile=meanwhile)
    assert finish.exit_code == 0


def test_a_follower_that_does_not_read_delays_nothing(tmp_path: Path) -> None:
    """Reports that it does not read are not built; tasks start and end as without it."""

    async def meanwhile(job: InProcessJob) -> None:
        await wait_until(lambda: job.report().state.value == "running")
        follower = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        follower.pause_reading()
        follower.send(Watch())
        await wait_until(lambda: len(job.master.subscribers._subscribers) == 1)
        until_then = time.monotonic() + 1.0
        while time.monotonic() < until_then:  # as many changes as can be
            job.master.subscribers.on_change()
            await asyncio.sleep(0)
        (connection,) = job.master.subscribers._subscribers
        assert connection.backlog < 8 << 20
        for executor in job.executors.values():
            executor.exit(OK)
        follower.abort()
        await follower.wait_closed()

    job, finish = play(tmp_path, workers(200), runs_on, tls=True, meanwhile=meanwhile)
    assert finish.exit_code == 0
    assert {task.state for task in job.report().tasks} == {TaskState.SUCCEEDED}
