"""Which strike is due, told by events and times alone."""

from __future__ import annotations

from dataclasses import replace

from tests.support.faults.plan_parser import parse_plan, who, write_strike
from tests.support.faults.schedule import Conductor, Injection
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.core.state import State
from tony.model.exit_status import ExitReason, ExitStatus
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Role
from tony.model.states import JobState, TaskState

SPEC = JobSpec(command="true", roles={"worker": Role(instances=3), "ps": Role(instances=1)})
WORKER = TaskId("worker", 1)


def state(*living: TaskId, job: JobState = JobState.RUNNING) -> State:
    """A job in which these programs run."""
    found = State("job", SPEC)
    found.job = job
    for task in living:
        found.tasks[task].state = TaskState.RUNNING
        found.tasks[task].incarnation = "i"
    return found


def started(session: int = 1) -> ev.Event:
    """The program of worker:1 runs."""
    return ev.Started(task=WORKER, session=session, try_=1, pid=7)


def said(conductor: Conductor, now: float, around: State | None = None) -> list[str]:
    """What is due, in words."""
    blows = conductor.due(now, around or state())
    return [f"{'end of ' if blow.over else ''}{write_strike(blow.strike)}" for blow in blows]


def test_a_strike_falls_once_at_its_moment() -> None:
    """Not before, not again; a number that was jumped over counts as reached."""
    conductor = Conductor(parse_plan("kill worker:1 after event 3"))
    conductor.saw(2, 0.5, started(), state())
    assert said(conductor, 9.0) == []
    conductor.saw(4, 0.5, started(), state())
    assert said(conductor, 0.5) == ["kill worker:1 after event 3"]
    conductor.saw(5, 0.5, started(), state())
    assert said(conductor, 9.0) == []
    assert conductor.is_done


def test_every_kind_of_moment() -> None:
    """Each is known by its event, or by the clock."""
    plan = parse_plan("""
        kill ps:0
        kill ps:0 after 2s
        kill ps:0 when session 2 opens
        kill ps:0 when worker:1 started in session 2
        kill ps:0 when worker:1 exited
        kill ps:0 when the job is restarting
    """)
    conductor = Conductor(plan)
    seen = [said(conductor, 0.0)]
    ended = ev.Exited(task=WORKER, session=1, try_=1, at=1.0, status=ExitStatus(reason=ExitReason.EXITED, code=0))
    opened = ev.SessionOpened(session=2, reason="x")
    for seq, (event, job) in enumerate(
        [
            (started(), JobState.RUNNING),
            (ended, JobState.RUNNING),
            (ev.DeadlinePassed(deadline=Deadline.parse("job")), JobState.RESTARTING),
            (opened, JobState.STARTING),
            (started(2), JobState.RUNNING),
        ],
        start=1,
    ):
        conductor.saw(seq, 1.0, event, state(job=job))
        seen.append(said(conductor, 1.0))
    seen.append(said(conductor, 2.0))
    texts = [write_strike(strike) for strike in plan.strikes]
    assert seen == [[texts[0]], [], [texts[4]], [texts[5]], [texts[2]], [texts[3]], [texts[1]]]
    assert conductor.is_done


def test_what_lasts_ends_and_what_is_later_waits() -> None:
    """The end is counted from the strike itself, which may come late."""
    conductor = Conductor(parse_plan("stop master after event 1 + 2s for 5s"))
    conductor.saw(1, 1.0, started(), state())
    assert conductor.next_at == 3.0
    assert said(conductor, 2.9) == []
    assert said(conductor, 4.0) == ["stop master after event 1 + 2s for 5s"]
    assert conductor.next_at == 9.0
    assert said(conductor, 9.0) == ["end of stop master after event 1 + 2s for 5s"]
    assert conductor.next_at is None


def test_who_is_not_there_is_struck_later() -> None:
    """Once: the end that was planned for the vain try is forgotten."""
    conductor = Conductor(parse_plan("stop master for 5s"))
    (blow,) = conductor.due(0.0, state())
    conductor.again(blow, 1.0)
    assert said(conductor, 1.0) == ["stop master for 5s"]
    assert said(conductor, 5.9) == []
    assert said(conductor, 6.0) == ["end of stop master for 5s"]
    assert conductor.is_done


def test_chance_draws_among_the_living_by_the_seed() -> None:
    """The same seed, the same task; nobody who does not live; the end hits whom the strike hit."""
    living = [TaskId("worker", 0), TaskId("worker", 2)]

    def drawn(seed: int) -> list[Injection]:
        conductor = Conductor(replace(parse_plan("stop any worker for 1s"), seed=seed))
        return [*conductor.due(0.0, state(*living)), *conductor.due(1.0, state())]

    for seed in range(20):
        begin, end = drawn(seed)
        assert drawn(seed) == [begin, end]
        assert begin.target == end.target
        assert begin.target.task in living
    assert {drawn(seed)[0].target.task for seed in range(20)} == set(living)
    (nobody,) = Conductor(parse_plan("kill any ps")).due(0.0, state(*living))
    assert who(nobody.target) == "any ps"
