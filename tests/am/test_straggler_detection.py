"""Which tasks are slow, and why; in healthy runs, however noisy, none is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.facts import mentions
from tony.am.straggler_detection import WINDOWS_UNTIL_NORMAL, WINDOWS_UNTIL_SLOW, StragglerHistory, TaskWindow
from tony.model.ids import TaskId

#: Healthy runs, and their windows: an hour each.
RUNS = 100
WINDOWS = 120
#: Seconds of a window, and after which a report may arrive.
LENGTH, LAG = 30.0, 2.0
#: Steps of a window that are kept.
KEPT = 15


def window(index: int, seconds: float, step: float = 100.0, **usage: float) -> TaskWindow:
    named = {name.replace("_", "-"): value for name, value in usage.items()}
    return TaskWindow(task=TaskId("worker", index), step=step, step_seconds=(seconds,) * 6, usage=named)


class Role:
    """The windows of one role, and the tasks that count as slow."""

    def __init__(self) -> None:
        self.history = StragglerHistory()
        self.slow: dict[TaskId, str] = {}

    def add(self, *tasks: TaskWindow) -> dict[TaskId, str]:
        found, ended = self.history.add_window(tasks, self.slow, LAG)
        for task in ended:
            del self.slow[task]
        self.slow |= found
        return self.slow

    def repeat(self, count: int, *tasks: TaskWindow) -> list[str]:
        for _ in range(count):
            self.add(*tasks)
        return [f"{task}: {reason}" for task, reason in self.slow.items()]


def test_a_task_with_long_steps_is_slow_after_some_windows() -> None:
    role = Role()
    tasks = [window(0, 0.5), window(1, 2.0, step=25.0), window(2, 0.5), window(3, 0.55)]
    assert role.repeat(WINDOWS_UNTIL_SLOW - 1, *tasks) == []
    (found,) = role.repeat(1, *tasks)
    assert mentions(found, "worker:1", "2 s a step", "4 times", "of worker", "0.5 s", "do not show why")


def test_it_is_as_fast_as_the_others_again() -> None:
    role = Role()
    assert role.repeat(WINDOWS_UNTIL_SLOW, window(0, 0.5), window(1, 1.0))
    assert role.repeat(1, window(0, 0.5), window(1, 0.5))
    assert role.repeat(WINDOWS_UNTIL_NORMAL, window(0, 0.5), window(1, 0.7)), "not yet fast enough"
    assert not role.repeat(WINDOWS_UNTIL_NORMAL, window(0, 0.5), window(1, 0.5))


def test_a_window_in_between_begins_the_count_anew() -> None:
    role = Role()
    for _ in range(3):
        assert not role.repeat(WINDOWS_UNTIL_SLOW - 1, window(0, 0.5), window(1, 2.0))
        assert not role.repeat(1, window(0, 0.5), window(1, 0.5))


@pytest.mark.parametrize(
    ("slow", "usual", "words"),
    [
        ({"throttled": 0.62}, {"throttled": 0.0}, ("CPU limit", "62 %", "0 %")),
        ({"steal": 0.3}, {"steal": 0.01}, ("hypervisor", "30 %")),
        ({"cpu_wait": 0.5}, {"cpu_wait": 0.02}, ("processor", "50 %")),
        ({"iowait": 0.4}, {"iowait": 0.0}, ("disks", "40 %")),
        ({"major_faults": 900.0}, {"major_faults": 1.0}, ("page faults", "900/s")),
        ({"clock": 0.9e9, "util": 1.0}, {"clock": 1.7e9, "util": 1.0}, ("900 MHz", "1.70 GHz")),
        ({"cpu": 0.98}, {"cpu": 0.1}, ("0.98 cores", "0.1 cores")),
    ],
)
def test_measurements_name_the_slow_task_where_all_wait_for_it(
    slow: Mapping[str, float], usual: Mapping[str, float], words: Sequence[str]
) -> None:
    """In synchronous training step times are equal."""
    role = Role()
    tasks = [window(0, 2.0, **usual), window(1, 2.0, **slow), window(2, 2.0, step=99.0, **usual)]
    (found,) = role.repeat(WINDOWS_UNTIL_SLOW, *tasks)
    assert mentions(found, "worker:1", "wait for it", *words)


def test_what_concerns_all_tasks_names_none() -> None:
    role = Role()
    assert role.repeat(10, *(window(index, 2.0, throttled=0.7, steal=0.4) for index in range(4))) == []


def test_a_task_at_another_step_is_not_waited_for() -> None:
    """It uses more CPU, and makes its steps as fast as the others: nothing is wrong with it."""
    role = Role()
    assert role.repeat(10, window(0, 2.0, cpu=0.1), window(1, 2.0, step=300.0, cpu=1.0)) == []


def test_a_task_that_evaluates_is_not_compared() -> None:
    role = Role()
    evaluating = TaskWindow(task=TaskId("worker", 1), step=3.0, step_seconds=(300.0,), usage={})
    assert role.repeat(10, window(0, 0.5), evaluating, window(2, 0.5)) == []


# --- simulated runs -----------------------------------------------------------------------------------------------


@dataclass
class Run:
    """A simulated run of one role. Its tasks are independent, or make each step together."""

    chance: random.Random

    def __post_init__(self) -> None:
        chance = self.chance
        self.count = chance.randint(2, 10)
        self.is_synchronous = chance.random() < 0.5
        self.usual, self.spread = 10 ** chance.uniform(-1, 1), chance.uniform(0.02, 0.8)
        self.speeds = [chance.uniform(0.9, 1.15) for _ in range(self.count)]
        self.cores = chance.uniform(0.1, 2.0)
        self.throttled = chance.choice([0.0, 0.0, chance.uniform(0.0, 0.9)])
        self.steps = [0.0] * self.count
        self.burst = [0] * self.count

    def take_window(self, slow: int | None = None, factor: float = 1.0) -> list[TaskWindow]:
        """Return one window. A task may be slow by a factor: its steps, or its CPU limit if all wait for it."""
        chance = self.chance
        together = self._draw_steps(1.0 if slow is None else factor)
        self.steps = [max(self.steps) + LENGTH / self.usual] * self.count if self.is_synchronous else self.steps
        made = []
        for index in range(self.count):
            self.burst[index] = self.burst[index] - 1 if self.burst[index] > 0 else 2 * (chance.random() < 0.02)
            speed = self.speeds[index] * (2.5 if self.burst[index] else 1.0)
            seconds = (
                [each * chance.uniform(0.98, 1.02) for each in together]
                if self.is_synchronous
                else self._draw_steps(speed * (factor if index == slow else 1.0))
            )
            if not self.is_synchronous:
                self.steps[index] += LENGTH / self.usual / speed
            if chance.random() < 0.1:
                seconds[chance.randrange(len(seconds))] = chance.uniform(10, 500)  # an evaluation or a checkpoint
            step = self.steps[index] - chance.choice([0, 0, 1])
            usage = self._draw_usage(index, is_held_up=self.is_synchronous and index == slow)
            made.append(TaskWindow(task=TaskId("worker", index), step=step, step_seconds=seconds, usage=usage))
        return made

    def _draw_steps(self, speed: float) -> list[float]:
        count = min(KEPT, max(6, int(LENGTH / max(1.0, self.usual))))
        each_report = max(1, int(1.0 / self.usual))
        return [
            sum(self.usual * speed * self.chance.lognormvariate(0, self.spread) for _ in range(each_report))
            / each_report
            for _ in range(count)
        ]

    def _draw_usage(self, index: int, *, is_held_up: bool) -> dict[str, float]:
        chance = self.chance
        more = 1.5 if index == 0 else 1.0  # the first one writes logs
        throttled = self.throttled * chance.uniform(0.8, 1.2) + (0.5 if self.burst[index] else 0.0)
        return {
            "cpu": self.cores * more * chance.uniform(0.7, 1.3),
            "throttled": 0.7 if is_held_up else min(1.0, throttled),
            "cpu-wait": chance.uniform(0.0, 0.2),
            "steal": chance.choice([0.0, 0.02, 0.15 * chance.random()]) + 0.3 * (chance.random() < 0.05),
            "iowait": chance.uniform(0.0, 0.1),
        }


def test_no_task_of_a_healthy_run_is_slow() -> None:
    for seed in range(RUNS):
        run, role = Run(random.Random(seed)), Role()
        for number in range(WINDOWS):
            assert not role.add(*run.take_window()), f"seed {seed}, window {number}"


def test_a_slow_task_of_a_noisy_run_is_found() -> None:
    """Within eight minutes, although others are slow for a moment, too; and no other one."""
    for seed in range(RUNS):
        run, role = Run(random.Random(seed)), Role()
        run.throttled, run.spread = 0.0, min(run.spread, 0.3)
        slow = seed % run.count
        for _ in range(16):
            found = role.add(*run.take_window(slow, 2.5))
            if found:
                break
        assert [task.index for task in found] == [slow], f"seed {seed}"
