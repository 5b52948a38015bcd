"""Plans as people write them."""

from __future__ import annotations

import pytest

from tests.support.faults import plan as fault
from tests.support.faults.plan_parser import parse_plan, parse_strike, write_strike
from tony.errors import ConfigError
from tony.model.ids import TaskId
from tony.model.states import JobState

WORKER = TaskId("worker", 1)
MASTER = fault.FaultTarget(part=fault.ProcessKind.MASTER)
EXECUTOR = fault.FaultTarget(part=fault.ProcessKind.EXECUTOR, task=WORKER)


def program(task: TaskId = WORKER) -> fault.FaultTarget:
    """Whom a task's name alone means."""
    return fault.FaultTarget(part=fault.ProcessKind.PROGRAM, task=task)


@pytest.mark.parametrize(
    ("text", "strike"),
    [
        (
            "kill worker:1 after event 17",
            fault.Strike(harm=fault.Kill(), target=program(), moment=fault.AfterEvent(seq=17)),
        ),
        (
            "stop the master when session 2 opens for 5s",
            fault.Strike(harm=fault.Stop(), target=MASTER, moment=fault.SessionOpens(session=2), lasts=5.0),
        ),
        (
            "partition worker:1 when worker:1 has started for 10s",
            fault.Strike(
                harm=fault.Partition(),
                target=EXECUTOR,
                moment=fault.TaskDid(task=WORKER, step=fault.TaskMilestone.STARTED),
                lasts=10.0,
            ),
        ),
        ("drop 0.1 of messages of worker:1", fault.Strike(harm=fault.Drop(share=0.1), target=EXECUTOR)),
        (
            "drop heartbeats of worker:1",
            fault.Strike(harm=fault.Drop(traffic=fault.Traffic.HEARTBEATS), target=EXECUTOR),
        ),
        (
            "delay 25% of commands of executor worker:1 by 500ms for 1m",
            fault.Strike(
                harm=fault.Delay(seconds=0.5, share=0.25, traffic=fault.Traffic.COMMANDS), target=EXECUTOR, lasts=60.0
            ),
        ),
        (
            "fill disk of master after event 5",
            fault.Strike(harm=fault.FillDisk(), target=MASTER, moment=fault.AfterEvent(seq=5)),
        ),
        (
            "slow executor of worker:1 to 10% when the job is running + 2s for 30s",
            fault.Strike(
                harm=fault.Slow(share=0.1),
                target=EXECUTOR,
                moment=fault.JobIs(state=JobState.RUNNING),
                later=2.0,
                lasts=30.0,
            ),
        ),
        (
            "kill any worker after 3s",
            fault.Strike(
                harm=fault.Kill(),
                target=fault.FaultTarget(part=fault.ProcessKind.PROGRAM, any_of="worker"),
                moment=fault.AfterTime(seconds=3.0),
            ),
        ),
        (
            "kill executor any task when worker:1 registered in session 2",
            fault.Strike(
                harm=fault.Kill(),
                target=fault.FaultTarget(part=fault.ProcessKind.EXECUTOR, any_of=""),
                moment=fault.TaskDid(task=WORKER, step=fault.TaskMilestone.REGISTERED, session=2),
            ),
        ),
        (
            "kill master before effects of event 9",
            fault.Strike(harm=fault.Kill(), target=MASTER, moment=fault.Within(seq=9, stage=fault.EventStage.LOGGED)),
        ),
        (
            "kill  master while   event 9 is logged",
            fault.Strike(harm=fault.Kill(), target=MASTER, moment=fault.Within(seq=9, stage=fault.EventStage.TORN)),
        ),
        (
            "kill fork server",
            fault.Strike(harm=fault.Kill(), target=fault.FaultTarget(part=fault.ProcessKind.FORK_SERVER)),
        ),
        ("stop worker:1 for ever", fault.Strike(harm=fault.Stop(), target=program())),
        (
            "kill supervisor",
            fault.Strike(harm=fault.Kill(), target=fault.FaultTarget(part=fault.ProcessKind.SUPERVISOR)),
        ),
    ],
)
def test_what_people_write(text: str, strike: fault.Strike) -> None:
    """The sentences of the docs, and what people would write for them."""
    assert strike == parse_strike(text)
    assert strike == parse_strike(write_strike(strike))


def test_a_plan_has_comments_a_seed_and_all_its_mistakes_at_once() -> None:
    """Lines are counted from 1; a semicolon is as good as a new line."""
    plan = parse_plan("# two\nseed 7\n\nkill worker:1; kill master # at once\n")
    assert (7, 2) == (plan.seed, len(plan.strikes))
    with pytest.raises(ConfigError) as told:
        parse_plan("kill master\nkill me\nstop\n", "bad.plan")
    assert ["bad.plan:2", "bad.plan:3"] == [problem.source for problem in told.value.problems]
