"""Plans on a real application master with played executors: same words, same ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.am.in_process_job import CEILING, PlayedJob, play, until
from tests.core.specs import OK, workers
from tests.support.faults.fake_cluster_run import carry_out
from tests.support.faults.plan import Strike
from tests.support.faults.plan_parser import parse_plan, write_strike
from tony.model.states import JobState, TaskState
from tony.protocol import executor_messages as msg

SPEC = replace(workers(3), max_restarts=3, heartbeat_interval=0.05, heartbeat_timeout=2.0)


@pytest.mark.parametrize(
    ("plan", "session", "deaths"),
    [
        ("kill worker:1 when worker:1 started", 2, 0),
        ("seed 4;kill executor any worker when the job is running", 2, 0),
        ("kill master when worker:2 started; kill master when worker:2 started + 50ms", 1, 2),
        ("partition worker:0 when worker:0 started for 100ms", 1, 0),
        ("partition worker:0 when worker:0 started", 2, 0),
        ("drop 0.5 of messages of worker:0; kill worker:1 when worker:1 started + 50ms", 2, 0),
    ],
)
def test_what_a_plan_does(tmp_path: Path, plan: str, session: int, deaths: int) -> None:
    """The job succeeds in this session, after so many deaths of its master; its log replays."""
    wanted = parse_plan(plan)
    struck: list[Strike] = []

    async def meanwhile(job: PlayedJob) -> None:
        beating = asyncio.ensure_future(_beat(job))
        striking = asyncio.ensure_future(carry_out(wanted, job, job.job.folder, job.job.record, struck.append))
        await until(lambda: len(struck) == len(wanted.strikes))
        await until(lambda: _runs(job, session) and job.attempt == 1 + deaths)
        while not job.master.app.state.job.ended:
            for executor in list(job.executors.values()):
                if executor.runs and executor.part.session <= session:
                    executor.exit(OK)
            await asyncio.sleep(0.005)
        beating.cancel()
        await asyncio.wait_for(striking, CEILING)

    job, finish = play(tmp_path, SPEC, lambda part, message: None, meanwhile=meanwhile)
    assert (finish.state, job.master.app.state.session, job.attempt) == (JobState.SUCCEEDED, session, 1 + deaths)
    assert sorted(map(write_strike, struck)) == sorted(map(write_strike, wanted.strikes))
    assert job.replayed().mismatch is None


def _runs(job: PlayedJob, session: int) -> bool:
    state = job.master.app.state
    running = all(task.state is TaskState.RUNNING for task in state.tasks.values())
    return state.session == session and running and all(e.runs for e in job.executors.values() if not e.ended)


async def _beat(job: PlayedJob) -> None:
    """Whoever can be heard says that they live."""
    while True:
        for executor in list(job.executors.values()):
            executor.send(msg.Heartbeat())
        await asyncio.sleep(0.05)
