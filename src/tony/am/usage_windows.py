"""The steps and the resource usage of each task since a moment, for comparisons with other tasks. Bounded memory."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping, Sequence

from tony.model.ids import TaskId

#: Series of which means are kept. Of GPUs `util` and `clock` are, the lowest of all.
_SERIES = ("cpu", "throttled", "steal", "cpu-wait", "iowait", "major-faults")
_GPU_SERIES = ("util", "clock")
_NAMES = (*_SERIES, *_GPU_SERIES)
#: Step times kept for each task.
_MAX_STEPS = 15


class UsageWindows:
    """What tasks reported since their windows were opened."""

    def __init__(self) -> None:
        self._steps: dict[TaskId, deque[float]] = {}
        self._last_steps: dict[TaskId, float] = {}
        #: Sums of all values, then their numbers.
        self._sums: dict[TaskId, array[float]] = {}

    def add_steps(self, task: TaskId, step: float, seconds: float) -> None:
        """Take the last step that a task has made, and the seconds that it needed for one."""
        self._steps.setdefault(task, deque(maxlen=_MAX_STEPS)).append(seconds)
        self._last_steps[task] = step

    def add_sample(self, task: TaskId, values: Mapping[str, float]) -> None:
        """Take a sample of a task; one of steps alone does not count."""
        if "cpu" not in values:
            return
        found = {name: values[name] for name in _SERIES if name in values}
        for name in _GPU_SERIES:
            of_gpus = [value for series, value in values.items() if series.endswith(f".{name}")]
            if of_gpus:
                found[name] = min(of_gpus)
        sums = self._sums.get(task)
        if sums is None:
            sums = self._sums[task] = array("d", bytes(16 * len(_NAMES)))
        for place, name in enumerate(_NAMES):
            if name in found:
                sums[place] += found[name]
                sums[len(_NAMES) + place] += 1

    def find_last_step(self, task: TaskId) -> float | None:
        """Return the last step of a task, in this window or before; None if it has made none."""
        return self._last_steps.get(task)

    def find_step_seconds(self, task: TaskId) -> Sequence[float]:
        """Return the step times of a task in its window."""
        return tuple(self._steps.get(task, ()))

    def find_means(self, task: TaskId) -> dict[str, float]:
        """Return the means of a task's series in its window."""
        sums = self._sums.get(task)
        if sums is None:
            return {}
        counts = sums[len(_NAMES) :]
        means = {name: sums[place] / counts[place] for place, name in enumerate(_NAMES) if counts[place]}
        return {"throttled": 0.0, **means}  # it is not measured where no limit is known

    def forget(self, task: TaskId) -> None:
        """Drop everything that is known of a task."""
        self.reset(task)
        self._last_steps.pop(task, None)

    def reset(self, task: TaskId) -> None:
        """Open the next window of a task."""
        self._steps.pop(task, None)
        self._sums.pop(task, None)
