"""A slow task is one event and one notification, with what its metrics show; its end is another event."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.sample_states import standing
from tests.core.specs import workers
from tests.facts import mentions
from tony.am.metrics_store import MetricsStore
from tony.am.straggler_watch import StragglerWatch
from tony.core import events as ev
from tony.core.step_context import StepContext
from tony.core.steps.stalls import on_straggler_ended, on_straggler_found
from tony.model.ids import TaskId
from tony.model.states import JobState
from tony.protocol.executor_messages import Sample


class Watched:
    """A job of three running tasks, with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.state = standing(workers(3), worker="running running running")
        self.state.job = JobState.RUNNING
        self.metrics = MetricsStore(self.state, lambda: self.now, folder / "m", late=False)
        self.events: list[ev.Event] = []
        self.notices: list[str] = []
        self.watch = StragglerWatch(self.state, self.metrics, self._feed, lambda: self.now, self.notices.append)

    def _feed(self, event: ev.Event) -> None:
        self.events.append(event)
        ctx = StepContext(self.state, self.now)
        if isinstance(event, ev.StragglerFound):
            on_straggler_found(ctx, event)
        elif isinstance(event, ev.StragglerEnded):
            on_straggler_ended(ctx, event)

    def run(self, seconds: int, step: Callable[[int], float], throttled: float = 0.0) -> None:
        """Sample every task each second; `step` returns its last step, by its index; the last task is throttled."""
        for _ in range(seconds):
            self.now += 1.0
            for task in self.state.tasks.values():
                share = throttled if task.id.index == 2 else 0.0
                values = {"cpu": 0.5, "throttled": share, "step": float(int(step(task.id.index)))}
                known = self.metrics.find_step_pauses(task)
                ago = self.now - known.at if known and known.step == values["step"] else 0.0
                self.metrics.ingest_sample(
                    task.id, Sample(session=task.session, try_=task.try_, ago=0.0, values=values, step_ago=ago)
                )
            self.watch._next_check_at = 0.0
            self.watch.check()


@pytest.fixture
def job(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_slow_task_is_named_once_with_what_slows_it(job: Watched) -> None:
    job.run(400, lambda index: job.now / (3 if index == 2 else 1), throttled=0.7)
    (event,) = job.events
    assert isinstance(event, ev.StragglerFound)
    assert event.task == TaskId("worker", 2)
    assert mentions(event.reason, "3 s a step", "3 times", "CPU limit", "70 %")
    assert len(job.notices) == 1
    before = job.now / 3
    job.run(200, lambda index: job.now - (400 - before) * (index == 2))
    assert [type(each) for each in job.events[1:]] == [ev.StragglerEnded]


def test_a_very_slow_task_is_named_although_the_others_make_many_steps_meanwhile(job: Watched) -> None:
    job.run(600, lambda index: job.now / (25 if index == 2 else 1))
    (event,) = job.events
    assert isinstance(event, ev.StragglerFound)
    assert mentions(event.reason, "25 s a step", "25 times")


def test_a_task_without_steps_does_not_hide_a_slow_one(job: Watched) -> None:
    job.run(1200, lambda index: (1, job.now, job.now / 3)[index])
    assert [getattr(event, "task", None) for event in job.events] == [TaskId("worker", 2)]


def test_a_task_that_starts_again_is_compared_anew(tmp_path: Path) -> None:
    first, second = Watched(tmp_path / "first"), Watched(tmp_path / "second")
    while not first.events:
        first.run(1, lambda index: first.now / (3 if index == 2 else 1), throttled=0.7)
    second.run(int(first.now) - 1, lambda index: second.now / (3 if index == 2 else 1), throttled=0.7)
    second.state.tasks[TaskId("worker", 2)].try_ += 1
    second.run(10, lambda index: second.now / (3 if index == 2 else 1), throttled=0.7)
    assert second.events == []


def test_a_task_that_all_wait_for_is_named_by_what_slows_it(job: Watched) -> None:
    job.run(300, lambda index: job.now / 2, throttled=0.6)
    (event,) = job.events
    assert isinstance(event, ev.StragglerFound)
    assert event.task == TaskId("worker", 2)


def test_equal_tasks_are_not_slow(job: Watched) -> None:
    job.run(400, lambda index: job.now / 2)
    assert not job.events


def test_a_job_without_a_stall_timeout_is_not_watched(job: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    object.__setattr__(job.state.spec, "stall_timeout", None)
    job.run(400, lambda index: job.now / (3 if index == 2 else 1))
    assert not job.events
