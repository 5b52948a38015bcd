"""Plans as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.support.faults import plan as fault
from tests.support.faults.plan_parser import parse_plan, parse_strike, write_plan, write_strike
from tests.support.faults.plan_strategies import TASKS, drawn_plans, plans
from tests.support.faults.random_plan import random_plan
from tony.errors import ConfigError
from tony.model.ids import TaskId
from tony.model.states import JobState

WORKER = TaskId("worker", 1)
MASTER = fault.FaultTarget(part=fault.ProcessKind.MASTER)
EXECUTOR = fault.FaultTarget(part=fault.ProcessKind.EXECUTOR, task=WORKER)


def program(task: TaskId = WORKER) -> fault.FaultTarget:
    """Whom a task's name alone means."""
    return fault.FaultTarget(part=fault.ProcessKind.PROGRAM, task=task)


@given(plans)
def test_what_was_written_reads_as_the_same_plan(plan: fault.FaultPlan) -> None:
    """Nothing of a plan is lost in its text, and the text is the same again."""
    text = write_plan(plan)
    assert plan == parse_plan(text)
    assert text == write_plan(parse_plan(text))


@given(drawn_plans)
def test_plans_by_lot_can_be_written_and_drawn_again(plan: fault.FaultPlan) -> None:
    """What chance made is as good as what people write, and the same for the same seed."""
    assert plan == parse_plan(write_plan(plan)) == random_plan(plan.seed, TASKS)


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("murder worker:1", "'murder' is not a fault; use one of kill, stop"),
        ("kill worker", "'worker' is not a target; use worker:1"),
        ("kill worker:1 after lunch", "'after lunch' is not a moment; use after event 17"),
        ("kill worker:1 after event 0", "count from 1"),
        ("kill worker:1 for 3s", "a kill cannot be undone"),
        ("stop worker:1 for long", "not a duration"),
        ("slow worker:1", "slow worker:1 to 10%"),
        ("slow worker:1 to 0%", "'0%' is not a share between 0 and 1; write 10% or 0.1"),
        ("drop most of messages of worker:1", "'most' is not a share"),
        ("drop worker:1", "name one of messages, heartbeats, reports, commands"),
        ("delay messages of worker:1", "needs a duration"),
        ("drop messages of worker:1 by 3s", "no other fault, needs a duration"),
        ("partition master", "name an executor"),
        ("drop messages of watchdog worker:1", "name an executor"),
        ("fill worker:1", "fill disk of master"),
        ("stop master before event 3 is logged", "only 'kill master' and 'fill disk of master'"),
        ("kill worker:1 amid the effects of event 3", "only 'kill master'"),
        ("kill master amid the effects of event 3 + 1s", "takes no delay"),
        ("kill master when the job is bored", "'bored' is not a job state; use one of queued"),
    ],
)
def test_mistakes_are_told_with_what_to_write(text: str, says: str) -> None:
    """A plan that cannot be read rehearses nothing: each message names the way out."""
    with pytest.raises(ValueError, match=r".") as told:
        parse_strike(text)
    assert says in str(told.value)


def test_a_plan_has_comments_a_seed_and_all_its_mistakes_at_once() -> None:
    """Lines are counted from 1; a semicolon is as good as a new line."""
    plan = parse_plan("# two\nseed 7\n\nkill worker:1; kill master # at once\n")
    assert (7, 2) == (plan.seed, len(plan.strikes))
    with pytest.raises(ConfigError) as told:
        parse_plan("kill master\nkill me\nstop\n", "bad.plan")
    assert ["bad.plan:2", "bad.plan:3"] == [problem.source for problem in told.value.problems]
