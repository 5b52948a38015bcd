"""Every kind of event can be said in a line."""

from __future__ import annotations

import pytest

from tony.cli.commands.events import EventTeller
from tony.core import events as ev
from tony.core.deadline import Deadline
from tony.history.event_log import LogEntry
from tony.jobs.event_text import describe
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.model.program_exit import ExitReason, ExitStatus

TASK = TaskId("worker", 1)
STATUS = ExitStatus(reason=ExitReason.EXITED, signal="SIGSEGV", duration=12.0)
KILLED = ExitStatus(
    reason=ExitReason.STOPPED,
    signal="SIGKILL",
    message="stopped; it did not end within 6 s of SIGTERM and was killed",
    duration=8.6,
)

CASES: list[tuple[ev.Event, str]] = [
    (
        ev.AttemptStarted(attempt=2, wall=0.0, settings="x", pid=7, host="h"),
        "AM attempt 2: pid 7 on h",
    ),
    (ev.ContainersFound(containers=("a", "b")), "2 containers of earlier AM attempts"),
    (ev.ContainersFound(containers=()), "none"),
    (ev.ReconcileClosed(), ""),
    (ev.Queued(reason="2g are missing"), "2g are missing"),
    (ev.Queued(reason=""), "no longer"),
    (ev.Unsatisfiable(role="ps", reason="too large"), "ps: too large"),
    (ev.Excluded(hosts=("h", "i")), "no new containers on h, i for a while: tasks failed there"),
    (ev.Excluded(hosts=()), "no host is excluded now"),
    (ev.Granted(container="c-1", role="ps", host="h"), "container c-1 on h allocated to ps"),
    (
        ev.Registered(task=TASK, container="c-1", incarnation="i", session=1, address="h:1", pid=9),
        "worker:1 in c-1 at h:1 for session 1",
    ),
    (ev.Started(task=TASK, session=1, try_=1, pid=10), "worker:1 runs, pid 10 (session 1, task attempt 1)"),
    (ev.FirstOutput(task=TASK, session=1, try_=1), "worker:1 printed its first line"),
    (
        ev.Exited(task=TASK, session=1, try_=1, status=STATUS, at=3.0),
        "worker:1 of session 1: killed by SIGSEGV after 12 s",
    ),
    (
        ev.Exited(task=TASK, session=1, try_=1, status=STATUS, at=3.0, exports={"A": "x", "B": None, "C": "y"}),
        "worker:1 of session 1: killed by SIGSEGV after 12 s; exports A, C; printed nothing for B",
    ),
    (
        ev.Exited(task=TASK, session=1, try_=1, status=KILLED, at=3.0),
        "worker:1 of session 1: stopped; it did not end within 6 s of SIGTERM and was killed; it ran for 8.6 s",
    ),
    (ev.ContainerEnded(container="c-1", cause="gone"), "c-1: gone"),
    (
        ev.ContainerEnded(
            container="c-1", cause="node lost", confirmation=ev.EndConfirmation.UNCONFIRMED, contact=1.0, lease=600.0
        ),
        "c-1: node lost; exit not confirmed",
    ),
    (ev.Silent(task=TASK, incarnation="i", silence=25.0, container="c-1"), "no heartbeat from worker:1 for 25 s"),
    (
        ev.Stalled(session=1, since=3.0, what="step", reason="worker:1 is in main at a.py:3", task=TASK),
        "no further step: worker:1 is in main at a.py:3",
    ),
    (ev.StallEnded(session=1), "the programs continue"),
    (ev.StragglerFound(session=1, try_=1, task=TASK, reason="2 s a step"), "worker:1: 2 s a step"),
    (ev.StragglerEnded(session=1, task=TASK), "worker:1 is as fast as the others again"),
    (ev.SessionOpened(session=2, reason="again"), "session 2: again"),
    (
        ev.FailureClassified(
            task=TASK, failure="worker:1 died", decision=ev.FailureResponse.RESTART, reason="restart 1 of 2"
        ),
        "worker:1 died -> restart (restart 1 of 2)",
    ),
    (
        ev.GangSizeSet(session=2, tasks={"worker": 3, "extra": 2}, absent={"worker": (0,)}),
        "session 2 has 3 of 4 tasks of worker (without worker:0), all 2 tasks of extra",
    ),
    (ev.KillRequested(actor=Actor("ann")), "ann requested kill"),
    (ev.KillRequested(actor=Actor("ann"), now=True), "ann requested kill without grace"),
    (ev.RestartRequested(actor=Actor("ann")), "ann requested restart"),
    (ev.StacksRequested(actor=Actor("ann"), task=TASK), "ann requested stacks of worker:1"),
    (
        ev.RemoteProgramRequested(actor=Actor("ann"), task=TASK, number=1, program="ls", argument_count=2),
        "ann requested ls with 2 arguments in worker:1",
    ),
    (ev.RemoteProgramRequested(actor=Actor("ann"), task=TASK, number=2), "ann requested a shell in worker:1"),
    (ev.LogLevelRequested(actor=Actor("ann"), level="debug"), "ann requested log level debug"),
    (ev.DeadlinePassed(deadline=Deadline.parse("job")), "job"),
    (
        ev.DeadlinePassed(deadline=Deadline.parse("gang-pause")),
        "gang-pause: the gang requests all missing containers again",
    ),
    (ev.ActionFailed(action="launch", cause="no", task=TASK), "launch worker:1: no"),
    (ev.ActionFailed(action="kill", cause="no", container="c-1"), "kill c-1: no"),
    (
        ev.DeadlinePassed(deadline=Deadline.parse("shrink-after")),
        "shrink-after: time is up; the gang starts without the missing tasks if enough are there",
    ),
    (
        ev.Snapshot(digest="0123456789abcdef"),
        "state digest 0123456789ab; a replay of this log must give the same",
    ),
]


@pytest.mark.parametrize(("event", "said"), CASES, ids=lambda value: value.kind if isinstance(value, ev.Event) else "")
def test_an_event_in_words(event: ev.Event, said: str) -> None:
    assert describe(event) == said


def test_no_kind_is_forgotten() -> None:
    """A new kind of event is described, too."""
    assert {type(event) for event, _ in CASES} == set(ev.EVENTS.values())


def test_the_end_of_a_container_names_its_task() -> None:
    """The log names only the container; who lived in it was said before."""
    teller = EventTeller()
    known = [case for case, _ in CASES if isinstance(case, ev.Registered | ev.ContainerEnded)]
    events = [case for case in known if not getattr(case, "is_unconfirmed", False)]
    lines = [
        teller.format_line(LogEntry(seq=1, at=0.5, wall=0.0, attempt=1, event=event)) for event in (*events, events[-1])
    ]
    assert [line.split("  ")[-1] for line in lines[1:]] == ["worker:1 in c-1: gone", "c-1: gone"]
    assert "   +0.500  registered " in lines[0]
