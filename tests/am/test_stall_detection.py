"""When programs count as stalled; healthy ones, however noisy, do not."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from tony.am.stall_detection import (
    FEWEST_STEP_PAUSES,
    ActivityRecord,
    LinePauses,
    StepPauses,
    TaskSigns,
    find_lone_stall,
    find_stall,
)
from tony.am.step_stalls import find_usual_interval
from tony.model.ids import TaskId

TASK = TaskId("worker", 0)
TIMEOUT = 300.0
#: Seconds between two checks in a simulated run, and simulated runs of each kind.
TICK = 5.0
RUNS = 25


def steps(at: float, median: float | None = 1.0, longest: float = 2.0, *, complete: bool = False) -> StepPauses:
    return StepPauses(step=9, at=at, median=median, longest=longest, is_complete=complete)


def signs(
    of: StepPauses | None, busy_at: float | None = None, lines: LinePauses | None = None, task: TaskId = TASK
) -> TaskSigns:
    return TaskSigns(task=task, started_at=0.0, busy_at=busy_at, steps=of, lines=lines)


def test_idle_programs_without_steps_are_stalled_after_a_tenth_of_the_timeout() -> None:
    late = [signs(steps(100.0)), signs(steps(99.0))]
    assert find_stall(late, 129.0, TIMEOUT) is None
    found = find_stall(late, 131.0, TIMEOUT)
    assert found
    assert (found.since, found.what) == (100.0, "step")


def test_busy_programs_are_stalled_much_later() -> None:
    """They may evaluate; or wait for others on a GPU."""
    assert find_stall([signs(steps(100.0), busy_at=690.0)], 699.0, TIMEOUT) is None
    assert find_stall([signs(steps(100.0), busy_at=690.0)], 701.0, TIMEOUT)


def test_idle_programs_are_stalled_after_the_timeout_while_their_usual_pauses_are_unknown() -> None:
    """The limit holds as it is set; it is longer only for programs that compute, or have paused for longer before."""
    few = steps(100.0, median=None, longest=0.0)
    assert find_stall([signs(few)], 399.0, TIMEOUT) is None
    assert find_stall([signs(few)], 401.0, TIMEOUT)
    assert find_stall([signs(few, busy_at=390.0)], 401.0, TIMEOUT) is None
    assert find_stall([signs(steps(100.0, median=None, longest=200.0))], 401.0, TIMEOUT) is None


def test_one_that_makes_steps_is_enough() -> None:
    assert find_stall([signs(steps(100.0)), signs(steps(990.0))], 1000.0, TIMEOUT) is None


def test_a_single_task_is_stalled_while_others_make_steps() -> None:
    other = signs(steps(990.0))
    late = signs(steps(900.0), task=TaskId("worker", 3))
    found = find_lone_stall([other, late, signs(None)], 1000.0, TIMEOUT)
    assert found
    assert (found.since, found.what, found.task) == (900.0, "step", late.task)
    assert find_lone_stall([other, signs(steps(975.0))], 1000.0, TIMEOUT) is None
    assert find_lone_stall([late], 1000.0, TIMEOUT) is None
    slow = signs(steps(901.0, median=40.0))
    assert find_lone_stall([slow, late], 1000.0, TIMEOUT) is None, "it waits for the late one, most likely"


def test_a_single_task_that_computes_is_stalled_much_later() -> None:
    other = signs(steps(1000.0))
    assert find_lone_stall([other, signs(steps(500.0), busy_at=990.0)], 1000.0, TIMEOUT) is None
    assert find_lone_stall([other, signs(steps(300.0), busy_at=990.0)], 1000.0, TIMEOUT)


def test_several_idle_tasks_without_any_output_need_proof() -> None:
    """They may wait for requests; a single one always may."""
    found = find_stall([signs(None, busy_at=100.0), signs(None)], 401.0, TIMEOUT)
    assert found
    assert (found.what, found.needs_proof) == ("output", True)
    assert find_stall([signs(None, busy_at=100.0)], 401.0, TIMEOUT) is None
    assert find_stall([signs(None, busy_at=150.0), signs(None)], 401.0, TIMEOUT) is None


@pytest.mark.parametrize(
    "task",
    [
        signs(steps(100.0, complete=True)),
        signs(steps(100.0, longest=600.0)),
        signs(steps(100.0, median=200.0)),
        signs(None),
    ],
)
def test_complete_slow_and_unknown_programs_are_not_stalled(task: TaskSigns) -> None:
    assert find_stall([task], 1000.0, TIMEOUT) is None


def printed(count: int, every: float) -> LinePauses:
    lines = LinePauses()
    for number in range(count + 1):
        lines.note_line(number * every)
    return lines


def test_programs_that_printed_regularly_and_are_idle_are_stalled() -> None:
    regular = signs(None, busy_at=150.0, lines=printed(100, 1.0))
    assert find_stall([regular], 449.0, TIMEOUT) is None
    found = find_stall([regular, signs(None)], 451.0, TIMEOUT)
    assert found
    assert (found.since, found.what) == (100.0, "output")
    assert find_stall([regular, signs(None, busy_at=300.0)], 451.0, TIMEOUT) is None


def test_a_server_that_printed_only_at_its_start_is_not_stalled() -> None:
    assert find_stall([signs(None, lines=printed(100, 0.5))], 1e6, TIMEOUT) is None
    assert find_stall([signs(None, lines=printed(3, 60.0))], 1e6, TIMEOUT) is None


def test_a_task_is_busy_if_any_of_its_processors_is() -> None:
    activity = ActivityRecord()
    activity.note_sample(TASK, 5.0, {"step": 3.0})
    assert activity.find_measured(TASK) is None
    activity.note_sample(TASK, 6.0, {"cpu": 0.01, "gpu0.util": 0.9})
    activity.note_sample(TASK, 9.0, {"cpu": 0.01, "gpu0.util": 0.0, "disk-write": 10.0})
    assert (activity.find_measured(TASK), activity.find_busy(TASK)) == (9.0, 6.0)


# --- healthy runs -------------------------------------------------------------------------------------------------


def uniform(chance: random.Random) -> Callable[[], float]:
    usual = 10 ** chance.uniform(-1, 1.3)
    return lambda: chance.uniform(0.3, 1.7) * usual


def lognormal(chance: random.Random) -> Callable[[], float]:
    usual, spread = 10 ** chance.uniform(-1, 1.3), chance.uniform(0.1, 0.8)
    return lambda: usual * chance.lognormvariate(0, spread)


def run_steps(chance: random.Random, pause: Callable[[], float], seconds: float) -> Iterator[tuple[float, bool]]:
    """Yield when each step is reported, and whether the program computed since the one before.

    Usual steps may leave the processors idle, as those that wait for data do. Evaluations compute, checkpoints write.
    """
    is_busy = chance.random() < 0.5
    evaluate_every, save_every = chance.randint(20, 200), chance.randint(20, 200)
    at, number = chance.uniform(1, 300), 0
    while at < seconds:
        yield at, is_busy
        number += 1
        at += pause()
        if number % evaluate_every == 0:
            at += chance.uniform(10, 500)
            yield at, True
        if number % save_every == 0:
            at += chance.uniform(1, 200)
            yield at, True


@pytest.mark.parametrize("kind", [uniform, lognormal])
@pytest.mark.parametrize("prints", [False, True])
def test_no_healthy_run_is_stalled(kind: Callable[[random.Random], Callable[[], float]], prints: bool) -> None:
    """A hundred runs in all, of two hours each, whose programs report steps or print lines."""
    for seed in range(RUNS):
        chance = random.Random(f"{kind.__name__} {prints} {seed}")
        known, lines, longest = deque[float](maxlen=9), LinePauses(), 0.0
        last: float | None = None
        busy_at: float | None = None
        now = 0.0
        for at, is_busy in run_steps(chance, kind(chance), 7200.0):
            while now < at:
                of = None
                if last is not None and not prints:
                    of = StepPauses(
                        step=1, at=last, median=find_usual_interval(known, FEWEST_STEP_PAUSES), longest=longest
                    )
                if is_busy:
                    busy_at = now
                task = signs(of, busy_at, lines if prints else None)
                assert find_stall([task], now, TIMEOUT) is None, f"seed {seed} at {now:.0f} s"
                now += TICK
            if prints:
                lines.note_line(at)
            elif last is not None:
                known.append(at - last)
                longest = max(longest, at - last)
            last = at


def test_no_task_of_a_healthy_run_is_stalled_while_others_make_steps() -> None:
    """A hundred runs of up to eight independent tasks, an hour each."""
    for seed in range(4 * RUNS):
        chance = random.Random(seed)
        kind = chance.choice([uniform, lognormal])
        runs = [_Steps(chance, kind(chance)) for _ in range(chance.randint(2, 8))]
        now = 0.0
        while now < 3600.0:
            now += 3 * TICK
            tasks = [run.advance(now, TaskId("worker", number)) for number, run in enumerate(runs)]
            assert find_lone_stall(tasks, now, TIMEOUT) is None, f"seed {seed} at {now:.0f} s"


class _Steps:
    """A simulated task, of which the signs of any later time can be taken."""

    def __init__(self, chance: random.Random, pause: Callable[[], float]) -> None:
        self._run = run_steps(chance, pause, 1e9)
        self._next = next(self._run)
        self._pauses, self._longest = deque[float](maxlen=9), 0.0
        self._last: float | None = None
        self._busy_at: float | None = None

    def advance(self, now: float, task: TaskId) -> TaskSigns:
        while self._next[0] <= now:
            at = self._next[0]
            if self._last is not None:
                self._pauses.append(at - self._last)
                self._longest = max(self._longest, at - self._last)
            self._last = at
            self._next = next(self._run)
        if self._next[1]:
            self._busy_at = now
        median = find_usual_interval(self._pauses, FEWEST_STEP_PAUSES)
        of = None if self._last is None else StepPauses(step=1, at=self._last, median=median, longest=self._longest)
        return signs(of, self._busy_at, task=task)
