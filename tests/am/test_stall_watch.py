"""Stalls are events, once until a program continues, and name the odd task from the stack traces of all."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.core.sample_states import standing
from tests.core.specs import workers
from tony.am.metrics_store import MetricsStore
from tony.am.stack_relay import StackRelay
from tony.am.stall_watch import StallWatch
from tony.core import events as ev
from tony.model.ids import TaskId
from tony.model.states import JobState
from tony.protocol.executor_messages import DumpStacks, Sample
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Stacks

STACK = 'Current thread 0x01 (most recent call first):\n  File "/w/train.py", line {} in main\n'

WAITING = STACK.format(9).replace(
    "):\n", '):\n  File "/usr/lib/python3/dist-packages/torch/distributed/c10d.py", line 1 in barrier\n'
)


class Watched:
    """A job of three running tasks, with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.state = standing(workers(3), worker="running running running")
        self.state.job = JobState.RUNNING
        self.metrics = MetricsStore(self.state, lambda: self.now, folder / "m", late=False)
        self.requests: list[tuple[TaskId, str]] = []
        self.relay = StackRelay(self._send, self.state.tasks)
        self.events: list[ev.Event] = []
        self.notices: list[str] = []
        self.printed_at: float | None = None
        self.dumps: list[float] = []
        self.watch = StallWatch(
            self.state,
            self.metrics,
            self.relay,
            self.events.append,
            lambda: self.now,
            lambda task: self.printed_at,
            lambda task: "",
            self.notices.append,
        )

    def _send(self, task: TaskId, message: Message) -> bool:
        assert isinstance(message, DumpStacks)
        self.requests.append((task, message.request))
        return True

    def run(self, seconds: int, step: Callable[[int], int], *, with_steps: bool = True, cpu: float = 0.0) -> None:
        """Sample every task each second; `step` returns its last step, by its index."""
        for _ in range(seconds):
            self.now += 1.0
            for task in self.state.tasks.values():
                values = {"cpu": cpu, "step": float(step(task.id.index))}
                reported = self.metrics.find_step_age(task.id) or 0.0
                known = self.metrics.find_step_pauses(task)
                ago = reported if known and known.step == values["step"] else 0.0
                if not with_steps:
                    del values["step"]
                message = Sample(session=task.session, try_=task.try_, ago=0.0, values=values, step_ago=ago)
                self.metrics.ingest_sample(task.id, message)
            self.watch._next_check_at = 0.0
            self.watch.check()

    def run_and_answer(
        self, seconds: int, stacks: Callable[[int], str], step: int | None = None, cpu: float = 0
    ) -> None:
        """Run, and answer each request at once with the stack traces of the task, by its index."""
        for _ in range(seconds):
            self.run(1, lambda index: step or 0, with_steps=step is not None, cpu=cpu)
            requests, self.requests = self.requests, []
            self.dumps += [self.now] if requests else []
            for task, request in requests:
                self.relay.handle_stacks(task, Stacks(task=str(task), request=request, text=stacks(task.index)))

    def answer(self, others: str = STACK.format(9)) -> None:
        """Answer all open requests, all but that for `worker:1` with `others`."""
        requests, self.requests = self.requests, []
        for task, request in requests:
            text = STACK.format(3) if task.index == 1 else others
            self.relay.handle_stacks(task, Stacks(task=str(task), request=request, text=text))


@pytest.fixture
def job(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_stall_is_one_event_until_a_program_continues(job: Watched) -> None:
    job.run(60, lambda index: int(job.now))
    assert not job.requests
    job.run(40, lambda index: 60)
    assert len(job.requests) == 3
    assert not job.events
    job.answer()
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    assert (event.task, event.frame, event.what) == (TaskId("worker", 1), "main at train.py:3", "step")
    assert event.reason == "worker:1 (last step 60) is in main at train.py:3; the other 2 are in main at train.py:9"
    assert len(job.notices) == 1
    job.state.stall = event
    job.run(100, lambda index: 60)
    assert job.events == [event]
    job.run(1, lambda index: 61)
    assert job.events[1:] == [ev.StallEnded(session=job.state.session)]


def test_one_that_continues_while_stack_traces_are_collected_is_not_stalled(job: Watched) -> None:
    job.run(60, lambda index: int(job.now))
    job.run(40, lambda index: 60)
    job.run(1, lambda index: 61)
    job.answer()
    assert not job.events


def test_without_new_metrics_nothing_is_known(job: Watched) -> None:
    job.run(60, lambda index: int(job.now))
    job.now += 1000.0
    job.watch.check()
    assert not job.requests


def test_a_single_task_that_makes_no_steps_is_named_until_it_continues(job: Watched) -> None:
    """Only its own stack traces are requested; what the others do is no end of it."""
    job.run(60, lambda index: int(job.now))
    job.run(40, lambda index: 60 if index == 1 else int(job.now))
    assert [task for task, _ in job.requests] == [TaskId("worker", 1)]
    job.answer()
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    assert (event.task, event.alone, event.frame) == (TaskId("worker", 1), True, "main at train.py:3")
    assert "2 other tasks" in event.reason
    job.state.stall = event
    job.run(50, lambda index: 60 if index == 1 else int(job.now))
    assert job.events == [event]
    job.run(1, lambda index: 61 if index == 1 else int(job.now))
    assert job.events[1:] == [ev.StallEnded(session=job.state.session)]


def test_a_single_task_that_waits_for_the_others_is_not_stalled(job: Watched) -> None:
    """It has made its steps before them."""
    job.run(60, lambda index: int(job.now))
    job.run(40, lambda index: 60 if index == 0 else int(job.now))
    assert [task for task, _ in job.requests] == [TaskId("worker", 0)]
    job.answer(WAITING)
    job.run(100, lambda index: 60 if index == 0 else int(job.now))
    assert not job.requests
    assert not job.events


def test_a_stall_of_all_follows_that_of_one(job: Watched) -> None:
    job.run(60, lambda index: int(job.now))
    job.run(40, lambda index: 60 if index == 1 else int(job.now))
    job.answer()
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    job.state.stall = event
    job.run(40, lambda index: 60 if index == 1 else 100)
    job.answer()
    assert [getattr(each, "alone", None) for each in job.events] == [True, False]


def test_idle_tasks_that_report_nothing_are_stalled_if_they_wait_for_each_other(job: Watched) -> None:
    """Else they are left alone, and asked again later."""
    job.run_and_answer(900, lambda index: STACK.format(9))
    assert not job.events
    while not job.events and job.now < 1500:
        job.run_and_answer(1, lambda index: STACK.format(3) if index == 1 else WAITING)
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    assert (event.task, event.what, event.frame) == (TaskId("worker", 1), "output", "main at train.py:3")
    job.state.stall = event
    job.run(60, lambda index: 0, with_steps=False)
    assert job.events == [event]
    job.run(60, lambda index: 0, with_steps=False, cpu=1.0)
    assert job.events[1] == ev.StallEnded(session=job.state.session)


PARKED = "main thread in sleep (7 waits before, 8 after); other threads in epoll_wait\n" + STACK.format(3)
PARKED_STILL = PARKED.replace("7 waits before, 8", "8 waits before, 9")
READING = "main thread in recvfrom (7 waits before, 7 after)\n" + STACK.format(3)


def test_a_task_that_sleeps_while_others_wait_for_it_is_named_early(job: Watched) -> None:
    """Its stack traces are requested twice: it must have been asleep all the time in between."""
    job.run_and_answer(16, lambda index: PARKED if index == 1 else WAITING)
    assert not job.events
    job.run_and_answer(31, lambda index: PARKED_STILL if index == 1 else WAITING)
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    assert (event.task, event.what, event.alone) == (TaskId("worker", 1), "output", False)
    assert job.now < 60


def test_output_ends_an_early_stall_at_once(job: Watched) -> None:
    job.run_and_answer(16, lambda index: PARKED if index == 1 else WAITING)
    job.run_and_answer(30, lambda index: PARKED_STILL if index == 1 else WAITING)
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    job.state.stall = event
    job.run(5, lambda index: 0, with_steps=False)
    assert job.events == [event]
    job.printed_at = job.now
    job.run(1, lambda index: 0, with_steps=False)
    assert job.events[1:] == [ev.StallEnded(session=job.state.session)]
    job.state.stall = None
    job.run_and_answer(59, lambda index: PARKED if index == 1 else WAITING)
    assert len(job.dumps) == 2, "a task that naps is not asked as often again"


def test_tasks_that_continue_between_two_dumps_are_asked_ever_more_seldom(job: Watched) -> None:
    while job.now < 600:
        job.run_and_answer(40, lambda index: PARKED if index == 1 else WAITING)
        job.run_and_answer(5, lambda index: WAITING, cpu=1.0)
    assert not job.events
    pauses = [after - before for before, after in pairwise(job.dumps)]
    assert len(job.dumps) <= 5
    assert pauses == sorted(pauses)


def test_it_is_named_as_early_after_few_steps(job: Watched) -> None:
    job.run_and_answer(2, lambda index: WAITING, step=1, cpu=1.0)
    job.run_and_answer(20, lambda index: PARKED if index == 1 else WAITING, step=2)
    job.run_and_answer(35, lambda index: PARKED_STILL if index == 1 else WAITING, step=2)
    (event,) = job.events
    assert isinstance(event, ev.Stalled)
    assert (event.task, event.what) == (TaskId("worker", 1), "step")


@pytest.mark.parametrize(
    "stacks",
    [
        pytest.param([PARKED, WAITING, WAITING], id="it wakes up from time to time"),
        pytest.param([READING, WAITING, WAITING], id="it reads its input"),
        pytest.param([PARKED_STILL, READING, WAITING], id="another one reads its input"),
        pytest.param([WAITING, WAITING, WAITING], id="all wait for each other"),
        pytest.param([PARKED, PARKED, PARKED_STILL], id="none waits for others"),
    ],
)
def test_a_healthy_gang_is_not_stalled_early(job: Watched, stacks: list[str]) -> None:
    job.run_and_answer(290, lambda index: stacks[index])
    assert not job.events


def test_no_healthy_gang_is_stalled_early(tmp_path: Path) -> None:
    """Tasks that load at their own pace, idle or not, then wait for the others, again and again; fifty runs."""
    for seed in range(50):
        chance = random.Random(seed)
        job = Watched(tmp_path / str(seed))
        until, waits = [0.0, 0.0, 0.0], [0, 0, 0]
        nap = chance.choice([1, 5, 10, 20, 29])  # seconds that a task sleeps before it looks again for its input

        def stacks(index: int) -> str:
            if until[index] <= job.now:  # noqa: B023
                return WAITING
            if (seed + index) % 2:  # noqa: B023
                return READING
            count = waits[index] + int(job.now / nap)  # noqa: B023
            return PARKED.replace("7 waits before, 8", f"{2 * count} waits before, {2 * count}")

        while job.now < 500:
            is_together = max(until) <= job.now
            if is_together:
                until = [job.now + chance.uniform(0, 200) * (chance.random() < 0.7) for _ in until]
                waits = [each + 1 for each in waits]
            job.run_and_answer(1, stacks, cpu=float(is_together or chance.random() < 0.02))
        assert not job.events, f"seed {seed}"
