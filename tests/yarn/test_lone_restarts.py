"""One task alone starts again, and the others never notice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.e2e.lab import kill
from tests.yarn.lab import YarnLab, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER, *RUNTIME)]

#: Writes down each of its starts, and what it was told; waits until the gate opens.
PROGRAM = """
import json, os, time
out = os.environ["OUT"]
told = {key: os.environ.get(key) for key in ("SESSION_ID", "PLACE", "TF_CONFIG", "TB_PORT")}
line = json.dumps({"pid": os.getpid(), **told}).encode() + b"\\n"
name = os.environ["JOB_NAME"] + "-" + os.environ["TASK_INDEX"]
os.write(os.open(f"{out}/{os.environ['ABOUT']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), line)
while not os.path.exists(out + "/gate"):
    time.sleep(0.05)
"""
HEAD = """
max_restarts = 2
backoff = "100ms"
[container_env]
PLACE = "$CONTAINER_ID"
"""
FREE = """
[roles.worker]
instances = 2
[roles.lone]
restart = "task"
"""
#: Whose peers know its address.
KNOWN = """
[roles.worker]
instances = 2
restart = "task"
[roles.ps]
kind = "untracked"
"""


def starts(lab: YarnLab, name: str) -> list[dict[str, Any]]:
    """What each start of a task's program has written."""
    return [json.loads(line) for line in lab.wrote(name).splitlines()]


def wait_starts(lab: YarnLab, job: str, count: int, about: str, task: str) -> list[dict[str, Any]]:
    """Waits for so many starts of a task, of which the last is known to run; answers what they have written."""
    name = f"{about}.{task.replace(':', '-')}"
    until(lambda: len(starts(lab, name)) == count, f"{count} starts of {task}")
    until(lambda: lab.tasks(job)[task]["pid"] == starts(lab, name)[-1]["pid"], "that is known")
    return starts(lab, name)


def test_one_task_starts_again_alone(lab: YarnLab) -> None:
    """kill -9 of its program: same container, same address. Of its executor: another container, if no other task has
    its address."""
    known = lab.detach(lab.roles(PROGRAM, KNOWN, f'framework = "tensorflow"\n{HEAD}', ABOUT="known"))
    free = lab.detach(lab.roles(PROGRAM, FREE, HEAD, ABOUT="free"))
    every = {(known, "known"): ("worker:0", "worker:1", "ps:0"), (free, "free"): ("worker:0", "worker:1", "lone:0")}
    victims = {(known, "known"): "worker:1", (free, "free"): "lone:0"}
    for (job, about), tasks in every.items():
        for task in tasks:
            wait_starts(lab, job, 1, about, task)
    executors = {job: lab.tasks(job)[task]["executor_pid"] for (job, _), task in victims.items()}
    for (job, about), task in victims.items():
        kill(lab.tasks(job)[task]["pid"])
        first, second = wait_starts(lab, job, 2, about, task)
        assert first | {"pid": 0} == second | {"pid": 0}
        after = lab.tasks(job)[task]
        assert (after["session"], after["try"], after["executor_pid"]) == (1, 2, executors[job])
        assert "restart 1 of 2" in after["note"]
    kill(executors[free])
    *_, before, now = wait_starts(lab, free, 3, "free", "lone:0")
    assert before["PLACE"] != now["PLACE"]
    (lab.out / "gate").touch()
    for (job, about), tasks in every.items():
        status = lab.wait(job)
        assert (status["state"], status["session"]) == ("succeeded", 1)
        others = [task for task in tasks if task != victims[job, about]]
        assert [len(starts(lab, f"{about}.{task.replace(':', '-')}")) for task in others] == [1, 1]
