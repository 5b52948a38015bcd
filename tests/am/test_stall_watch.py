"""Stalls are events, once until a program continues, and name the odd task from the stack traces of all."""

from __future__ import annotations

from collections.abc import Callable
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
        self.watch = StallWatch(
            self.state,
            self.metrics,
            self.relay,
            self.events.append,
            lambda: self.now,
            lambda task: None,
            self.notices.append,
        )

    def _send(self, task: TaskId, message: Message) -> bool:
        assert isinstance(message, DumpStacks)
        self.requests.append((task, message.request))
        return True

    def run(self, seconds: int, step: Callable[[int], int]) -> None:
        """Sample every task each second; `step` returns its last step, by its index."""
        for _ in range(seconds):
            self.now += 1.0
            for task in self.state.tasks.values():
                values = {"cpu": 0.0, "step": float(step(task.id.index))}
                reported = self.metrics.find_step_age(task.id) or 0.0
                known = self.metrics.find_step_pauses(task)
                ago = reported if known and known.step == values["step"] else 0.0
                message = Sample(session=task.session, try_=task.try_, ago=0.0, values=values, step_ago=ago)
                self.metrics.ingest_sample(task.id, message)
            self.watch._next_check_at = 0.0
            self.watch.check()

    def answer(self) -> None:
        """Answer all open requests."""
        requests, self.requests = self.requests, []
        for task, request in requests:
            text = STACK.format(3 if task.index == 1 else 9)
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
